#include "runtime/text/scanners.hpp"

#include <array>
#include <string>

#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

constexpr GcSet k_letters_or_numbers = k_letters | k_numbers;
constexpr GcSet k_letters_or_marks = k_letters | k_marks;
constexpr GcSet k_signs = k_punctuation | k_symbols;
// Letters as the first and as the later ones of a cased word.
constexpr GcSet k_upper = gc_set(Gc::Lu, Gc::Lt, Gc::Lm, Gc::Lo) | k_marks;
constexpr GcSet k_lower = gc_set(Gc::Ll, Gc::Lm, Gc::Lo) | k_marks;
constexpr size_t k_none = SIZE_MAX;

bool is_line_end(char32_t c) { return c == '\r' || c == '\n'; }

/// The text and the classes of its characters. Ends are places behind what matched.
class Characters {
 public:
  explicit Characters(std::string_view text) : text_(text), table_(UnicodeTable::get()) {}

  size_t size() const { return text_.size(); }
  /// REQUIRES: at < size().
  char32_t take(size_t& at) const { return next_character(text_, at); }
  bool is_in(char32_t c, GcSet set) const { return table_.is_in(c, set); }
  bool is_space(char32_t c) const { return table_.is_space(c); }
  bool is_byte(size_t at, char c) const { return at < text_.size() && text_[at] == c; }

  /// Returns the end of the longest run from `at` of at most `max` characters of `set`.
  size_t run(size_t at, GcSet set, size_t max = SIZE_MAX) const {
    for (size_t next = at; max > 0 && next < text_.size(); --max, at = next)
      if (!table_.is_in(take(next), set)) break;
    return at;
  }
  size_t line_ends(size_t at) const {
    while (at < text_.size() && is_line_end(static_cast<uint8_t>(text_[at]))) ++at;
    return at;
  }
  /// The end of [^\s\p{L}\p{N}]+ from `at`.
  size_t other(size_t at) const {
    for (size_t next = at; next < text_.size(); at = next) {
      const char32_t c = take(next);
      if (table_.is_in(c, k_letters_or_numbers) || table_.is_space(c)) break;
    }
    return at;
  }

  /// The end of \s*[\r\n]+|\s+(?!\S)|\s+ from `at`, or k_none where no white space stands. Without
  /// `has_line_rule` the first of the three is left out.
  size_t white_space(size_t at, bool has_line_rule) const {
    size_t end = at, last = at, line_end = k_none;
    while (end < text_.size()) {
      size_t next = end;
      const char32_t c = take(next);
      if (!table_.is_space(c)) break;
      if (is_line_end(c)) line_end = next;
      last = end;
      end = next;
    }
    if (end == at) return k_none;
    if (has_line_rule && line_end != k_none) return line_end;
    // The last space goes to the word behind it, unless it is the only one or the text's last.
    return end == text_.size() || last == at ? end : last;
  }

  /// 's 't 're 've 'm 'll 'd from `at`; in any case, and ſ for s, if `ignores_case`.
  size_t contraction(size_t at, bool ignores_case) const {
    if (!is_byte(at, '\'')) return k_none;
    const auto letter = [&](size_t i) -> char {
      if (i >= text_.size()) return '\0';
      const char c = text_[i];
      return ignores_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char first = letter(at + 1), second = first == '\0' ? '\0' : letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    if (ignores_case && text_.substr(at + 1).starts_with("\xC5\xBF")) return at + 3;
    return k_none;
  }

 private:
  std::string_view text_;
  const UnicodeTable& table_;
};

/// Qwen 2 and Llama 3, which differ in how many digits stay together.
template <size_t digits_max>
bool scan_qwen(std::string_view text, size_t from, Span& match) {
  const Characters x(text);
  if (from >= x.size()) return false;
  match.begin = from;
  const auto found = [&](size_t end) { return match.end = end, true; };
  if (const size_t end = x.contraction(from, true); end != k_none) return found(end);
  size_t next = from;
  const char32_t c = x.take(next);
  if (x.is_in(c, k_letters)) return found(x.run(next, k_letters));
  if (x.is_in(c, k_numbers)) return found(x.run(next, k_numbers, digits_max - 1));
  if (!is_line_end(c))
    if (const size_t end = x.run(next, k_letters); end > next) return found(end);
  const size_t begin = c == ' ' ? next : from;
  if (const size_t end = x.other(begin); end > begin) return found(x.line_ends(end));
  return found(x.white_space(from, true));
}

bool scan_gpt2(std::string_view text, size_t from, Span& match) {
  const Characters x(text);
  if (from >= x.size()) return false;
  match.begin = from;
  const auto found = [&](size_t end) { return match.end = end, true; };
  if (const size_t end = x.contraction(from, false); end != k_none) return found(end);
  const size_t begin = x.is_byte(from, ' ') ? from + 1 : from;
  if (const size_t end = x.run(begin, k_letters); end > begin) return found(end);
  if (const size_t end = x.run(begin, k_numbers); end > begin) return found(end);
  if (const size_t end = x.other(begin); end > begin) return found(end);
  return found(x.white_space(from, false));
}

/// Runs `match_at` at each place until it matches.
template <class MatchAt>
bool scan_from(const Characters& x, size_t from, Span& match, MatchAt match_at) {
  while (from < x.size()) {
    const size_t end = match_at(from);
    if (end != k_none) return match = {from, end}, true;
    x.take(from);
  }
  return false;
}

template <size_t digits_max>
bool scan_digits(std::string_view text, size_t from, Span& match) {
  const Characters x(text);
  return scan_from(x, from, match, [&](size_t at) {
    const size_t end = x.run(at, k_numbers, digits_max);
    return end > at ? end : k_none;
  });
}

bool scan_ideographs(std::string_view text, size_t from, Span& match) {
  const Characters x(text);
  return scan_from(x, from, match, [&](size_t at) {
    size_t end = at;
    for (size_t next = at; next < x.size(); end = next) {
      const char32_t c = x.take(next);
      const bool is_in = (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
      if (!is_in) break;
    }
    return end > at ? end : k_none;
  });
}

bool is_ascii_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

bool scan_deepseek(std::string_view text, size_t from, Span& match) {
  const Characters x(text);
  return scan_from(x, from, match, [&](size_t at) {
    size_t next = at;
    const char32_t c = x.take(next);
    if (c < 0x80 && x.is_in(c, k_signs)) {
      size_t end = next;
      while (end < text.size() && is_ascii_letter(text[end])) ++end;
      if (end > next) return end;
    }
    if (!is_line_end(c) && !x.is_in(c, k_letters | k_signs))
      if (const size_t end = x.run(next, k_letters_or_marks); end > next) return end;
    if (const size_t end = x.run(at, k_letters_or_marks); end > at) return end;
    const size_t begin = c == ' ' ? next : at;
    if (const size_t end = x.run(begin, k_signs); end > begin) return x.line_ends(end);
    return x.white_space(at, true);
  });
}

/// [k_upper]*[k_lower]+ from `at`, or k_none.
size_t lower_word(const Characters& x, size_t at) {
  size_t last_lower = k_none;  // end of the last character of the run that is lower too
  for (size_t next = at; next < x.size();) {
    const char32_t c = x.take(next);
    if (!x.is_in(c, k_upper)) {
      if (x.is_in(c, k_lower)) return x.run(next, k_lower);
      break;
    }
    if (x.is_in(c, k_lower)) last_lower = next;
  }
  return last_lower;
}

/// [k_upper]+[k_lower]* from `at`, or k_none.
size_t upper_word(const Characters& x, size_t at) {
  const size_t end = x.run(at, k_upper);
  return end > at ? x.run(end, k_lower) : k_none;
}

bool scan_tekken(std::string_view text, size_t from, Span& match) {
  const Characters x(text);
  if (from >= x.size()) return false;
  match.begin = from;
  const auto found = [&](size_t end) { return match.end = end, true; };
  size_t next = from;
  const char32_t c = x.take(next);
  const bool has_lead = !is_line_end(c) && !x.is_in(c, k_letters_or_numbers);
  for (const auto word : {lower_word, upper_word}) {
    if (has_lead)
      if (const size_t end = word(x, next); end != k_none) return found(end);
    if (const size_t end = word(x, from); end != k_none) return found(end);
  }
  if (x.is_in(c, k_numbers)) return found(next);
  const size_t begin = c == ' ' ? next : from;
  if (size_t end = x.other(begin); end > begin) {
    while (end < text.size() && (is_line_end(static_cast<uint8_t>(text[end])) || text[end] == '/'))
      ++end;
    return found(end);
  }
  return found(x.white_space(from, true));
}

constexpr std::array<KnownPattern, 8> k_known_patterns = {{
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_qwen<1>},
    {"llama3",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_qwen<3>},
    {"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     scan_gpt2},
    {"deepseek_digits", R"(\p{N}{1,3})", scan_digits<3>},
    {"number", R"(\p{N})", scan_digits<1>},
    {"deepseek_ideographs", "[一-龥\u3040-ゟ゠-ヿ]+", scan_ideographs},
    {"deepseek",
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
     R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_deepseek},
    {"tekken",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_tekken},
}};

}  // namespace

std::span<const KnownPattern> known_patterns() { return k_known_patterns; }

Scanner find_scanner(std::string_view regex) {
  std::string text;
  for (const char c : regex) {
    if (c == '\r' || c == '\n')
      text += c == '\r' ? "\\r" : "\\n";
    else
      text += c;
  }
  for (const KnownPattern& known : k_known_patterns)
    if (known.regex == text) return known.scanner;
  return nullptr;
}

}  // namespace cohort::text

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "runtime/text/regex.hpp"

namespace cohort::text {
namespace {

constexpr uint32_t k_unbounded = UINT32_MAX;
constexpr uint32_t k_count_max = 1000;   // of {n,m}
constexpr size_t k_program_max = 20000;  // instructions
constexpr int k_group_depth_max = 50;

struct NamedCategories {
  std::string_view name;
  GcSet set;
};
constexpr std::array<NamedCategories, 46> k_names = {{
    {"L", k_letters},
    {"Letter", k_letters},
    {"N", k_numbers},
    {"Number", k_numbers},
    {"M", k_marks},
    {"Mark", k_marks},
    {"P", k_punctuation},
    {"Punctuation", k_punctuation},
    {"S", k_symbols},
    {"Symbol", k_symbols},
    {"Z", gc_set(Gc::Zs, Gc::Zl, Gc::Zp)},
    {"C", gc_set(Gc::Cc, Gc::Cf, Gc::Cn, Gc::Co, Gc::Cs)},
    {"Lu", gc_set(Gc::Lu)},
    {"Ll", gc_set(Gc::Ll)},
    {"Lt", gc_set(Gc::Lt)},
    {"Lm", gc_set(Gc::Lm)},
    {"Lo", gc_set(Gc::Lo)},
    {"Mn", gc_set(Gc::Mn)},
    {"Mc", gc_set(Gc::Mc)},
    {"Me", gc_set(Gc::Me)},
    {"Nd", gc_set(Gc::Nd)},
    {"Nl", gc_set(Gc::Nl)},
    {"No", gc_set(Gc::No)},
    {"Pc", gc_set(Gc::Pc)},
    {"Pd", gc_set(Gc::Pd)},
    {"Ps", gc_set(Gc::Ps)},
    {"Pe", gc_set(Gc::Pe)},
    {"Pi", gc_set(Gc::Pi)},
    {"Pf", gc_set(Gc::Pf)},
    {"Po", gc_set(Gc::Po)},
    {"Sm", gc_set(Gc::Sm)},
    {"Sc", gc_set(Gc::Sc)},
    {"Sk", gc_set(Gc::Sk)},
    {"So", gc_set(Gc::So)},
    {"Zs", gc_set(Gc::Zs)},
    {"Zl", gc_set(Gc::Zl)},
    {"Zp", gc_set(Gc::Zp)},
    {"Cc", gc_set(Gc::Cc)},
    {"Cf", gc_set(Gc::Cf)},
    {"Cn", gc_set(Gc::Cn)},
    {"Co", gc_set(Gc::Co)},
    {"Cs", gc_set(Gc::Cs)},
    {"Any", ~GcSet{0}},
    {"Lowercase_Letter", gc_set(Gc::Ll)},
    {"Uppercase_Letter", gc_set(Gc::Lu)},
    {"Decimal_Number", gc_set(Gc::Nd)},
}};

/// The characters of the script Han, in order; tests compare them with the reference's.
constexpr std::array<std::pair<char32_t, char32_t>, 22> k_han = {{
    {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
    {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
    {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
    {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
    {0x30000, 0x3134A}, {0x31350, 0x323AF},
}};

void add_han(CharacterSet& set, bool is_negated) {
  char32_t behind = 0;
  for (const auto& [first, last] : k_han) {
    if (!is_negated) set.add_range(first, last);
    if (is_negated) set.add_range(behind, first - 1);
    behind = last + 1;
  }
  if (is_negated) set.add_range(behind, 0x10FFFF);
}

struct Quantifier {
  uint32_t min = 1, max = 1;
  enum class Kind : uint8_t { greedy, lazy, possessive } kind = Kind::greedy;
};

}  // namespace

/// Recursive descent over the pattern, depth-limited; a node's code is emitted as it is read, into
/// a fragment that its parent places. The first failure stays.
class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : pattern_(pattern) {}

  Expected<Regex> parse() {
    Fragment all = alternation();
    if (!error_ && at_ < pattern_.size()) fail("a ')' too many");
    if (error_) return *error_;
    append(all, {.op = Op::match});
    regex_.program_ = std::move(all.code);
    for (CharacterSet& set : regex_.sets_) set.finish();
    return std::move(regex_);
  }

 private:
  using Instruction = Regex::Instruction;
  using Op = Instruction::Op;
  /// Code whose jumps are relative to its own begin until it is placed.
  struct Fragment {
    std::vector<Instruction> code;
    bool may_be_empty = true;
    bool is_one_set = false;  // code is one `set`: a loop over it is one instruction
    char32_t literal = 0;     // or one character, for case folding's check of neighbours
  };

  void fail(std::string_view what, Errc code = Errc::config) {
    if (error_) return;
    error_ = Error{code, "regular expression \"" + std::string(pattern_.substr(0, 200)) +
                             "\", character " + std::to_string(at_) + ": " + std::string(what)};
    at_ = pattern_.size();
  }
  void refuse(std::string_view what) {
    fail(std::string(what) + " is not supported", Errc::unsupported);
  }

  bool is_end() const { return at_ >= pattern_.size(); }
  bool skip(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take() {
    if (is_end()) return fail("ends too early"), U'\0';
    return next_character(pattern_, at_);
  }

  void append(Fragment& to, Instruction x) { to.code.push_back(x); }
  /// Places `from` behind `to`.
  void append(Fragment& to, const Fragment& from) {
    if (to.code.size() + from.code.size() > k_program_max) return fail("too large");
    const auto shift = static_cast<uint32_t>(to.code.size());
    for (Instruction x : from.code) {
      if (x.op == Op::split || x.op == Op::jump || x.op == Op::look || x.op == Op::not_look ||
          x.op == Op::atomic)
        x.a += shift;
      if (x.op == Op::split) x.b += shift;
      to.code.push_back(x);
    }
  }

  Fragment alternation() {
    std::vector<Fragment> ways;
    ways.push_back(sequence());
    while (!error_ && skip("|")) ways.push_back(sequence());
    Fragment all = std::move(ways.back());
    for (size_t i = ways.size() - 1; i-- > 0;) {  // split(first, rest)
      Fragment both;
      const auto size = static_cast<uint32_t>(ways[i].code.size());
      append(both, {.op = Op::split, .a = 1, .b = size + 2});
      append(both, ways[i]);
      append(both, {.op = Op::jump, .a = size + 2 + static_cast<uint32_t>(all.code.size())});
      append(both, all);
      both.may_be_empty = ways[i].may_be_empty || all.may_be_empty;
      if (error_) return both;
      all = std::move(both);
    }
    return all;
  }

  Fragment sequence() {
    Fragment all;
    char32_t before = 0;
    while (!error_ && !is_end() && pattern_[at_] != '|' && pattern_[at_] != ')') {
      Fragment item = quantified();
      check_fold(before, item.literal);
      before = item.literal;
      append(all, item);
      all.may_be_empty = all.may_be_empty && item.may_be_empty;
      all.is_one_set = false;
    }
    return all;
  }

  /// Case folding takes some pairs of letters for one character (ß, ﬁ): that is not built.
  void check_fold(char32_t first, char32_t second) {
    if (!ignores_case_) return;
    constexpr std::array<std::string_view, 5> k_pairs = {"ss", "st", "ff", "fi", "fl"};
    for (const std::string_view pair : k_pairs)
      if (first == static_cast<char32_t>(pair[0]) && second == static_cast<char32_t>(pair[1]))
        refuse("\"" + std::string(pair) + "\" in case-insensitive text");
  }

  Fragment quantified() {
    Fragment item = atom();
    while (!error_ && !is_end()) {
      const std::optional<Quantifier> quantifier = read_quantifier();
      if (!quantifier) break;
      item = repeated(std::move(item), *quantifier);
    }
    return item;
  }

  std::optional<Quantifier> read_quantifier() {
    Quantifier x;
    bool is_counted = false;
    if (skip("*")) {
      x = {0, k_unbounded};
    } else if (skip("+")) {
      x = {1, k_unbounded};
    } else if (skip("?")) {
      x = {0, 1};
    } else if (pattern_[at_] == '{') {
      if (!read_counts(x)) return std::nullopt;
      is_counted = true;
    } else {
      return std::nullopt;
    }
    if (skip("?")) {
      x.kind = Quantifier::Kind::lazy;
    } else if (!is_counted && skip("+")) {
      x.kind = Quantifier::Kind::possessive;
    }
    return x;
  }

  bool read_counts(Quantifier& x) {
    ++at_;
    const auto number = [&]() -> std::optional<uint32_t> {
      uint32_t value = 0;
      const char* begin = pattern_.data() + at_;
      const auto [end, code] = std::from_chars(begin, pattern_.data() + pattern_.size(), value);
      if (code != std::errc() || value > k_count_max) return std::nullopt;
      at_ += static_cast<size_t>(end - begin);
      return value;
    };
    const std::optional<uint32_t> min = number();
    std::optional<uint32_t> max = min;
    if (skip(",")) {
      max = number();
      if (!max) max = k_unbounded;
    }
    if ((!min && (!max || *max == k_unbounded)) || !skip("}")) {
      fail("a count must be {n}, {n,}, {,m} or {n,m}, at most 1000; write \\{ for a brace");
      return false;
    }
    x = {min.value_or(0), *max};
    if (x.min > x.max) fail("a count's first number is the larger");
    return !error_;
  }

  Fragment repeated(Fragment item, const Quantifier& x) {
    if (item.is_one_set) return set_loop(item, x);
    if (item.may_be_empty && x.max == k_unbounded) refuse("a loop whose body may be empty");
    Fragment all;
    const auto size = static_cast<uint32_t>(item.code.size());
    for (uint32_t i = 0; i < x.min && !error_; ++i) append(all, item);
    const bool is_lazy = x.kind == Quantifier::Kind::lazy;
    const auto split = [&](uint32_t body, uint32_t behind) {
      append(all, is_lazy ? Instruction{.op = Op::split, .a = behind, .b = body}
                          : Instruction{.op = Op::split, .a = body, .b = behind});
    };
    if (x.max == k_unbounded) {
      const auto at = static_cast<uint32_t>(all.code.size());
      split(at + 1, at + size + 2);
      append(all, item);
      append(all, {.op = Op::jump, .a = at});
    } else {
      const auto begin = static_cast<uint32_t>(all.code.size());
      const uint32_t end = begin + (x.max - x.min) * (size + 1);
      for (uint32_t i = x.min; i < x.max && !error_; ++i) {
        const auto at = static_cast<uint32_t>(all.code.size());
        split(at + 1, end);
        append(all, item);
      }
    }
    all.may_be_empty = x.min == 0 || item.may_be_empty;
    return x.kind == Quantifier::Kind::possessive ? wrapped(Op::atomic, Op::atomic_end, all) : all;
  }

  Fragment set_loop(const Fragment& item, const Quantifier& x) {
    Fragment loop;
    const bool is_lazy = x.kind == Quantifier::Kind::lazy;
    append(loop, {.op = is_lazy ? Op::lazy_loop : Op::loop,
                  .a = item.code[0].a,
                  .b = 0,
                  .min = x.min,
                  .max = x.max});
    loop.may_be_empty = x.min == 0;
    return x.kind == Quantifier::Kind::possessive ? wrapped(Op::atomic, Op::atomic_end, loop)
                                                  : loop;
  }

  Fragment wrapped(Op begin, Op end, const Fragment& body) {
    Fragment all;
    append(all, {.op = begin, .a = static_cast<uint32_t>(body.code.size()) + 2});
    append(all, body);
    append(all, {.op = end});
    all.may_be_empty = begin != Op::atomic || body.may_be_empty;
    return all;
  }

  Fragment atom() {
    if (skip("(")) return group();
    if (skip("[")) return of_set(character_class());
    if (skip("\\")) return escape();
    if (skip("^")) return assertion(Op::line_begin);
    if (skip("$")) return assertion(Op::line_end);
    if (skip(".")) {
      CharacterSet set;
      set.add_range('\n', '\n');
      set.negate();
      return of_set(std::move(set));
    }
    const char32_t c = take();
    if (c == '*' || c == '+' || c == '?') fail("nothing to repeat");
    return literal(c);
  }

  Fragment assertion(Op op) {
    Fragment item;
    append(item, {.op = op});
    return item;
  }

  Fragment of_set(CharacterSet set) {
    Fragment item;
    regex_.sets_.push_back(std::move(set));
    append(item, {.op = Op::set, .a = static_cast<uint32_t>(regex_.sets_.size()) - 1});
    item.may_be_empty = false;
    item.is_one_set = true;
    return item;
  }

  void fold(CharacterSet& set) {
    if (ignores_case_ && !set.add_other_case())
      refuse("anything but ASCII characters and \\s in case-insensitive text");
  }

  Fragment literal(char32_t c) {
    CharacterSet set;
    set.add_range(c, c);
    fold(set);
    Fragment item = of_set(std::move(set));
    item.literal = to_lower_ascii(c);
    return item;
  }
  static char32_t to_lower_ascii(char32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

  Fragment group() {
    if (++depth_ > k_group_depth_max) return fail("groups are nested too deep"), Fragment();
    const bool outer = ignores_case_;
    Op begin = Op::match, end = Op::match;
    if (skip("?")) {
      if (skip("i:")) {
        ignores_case_ = true;
      } else if (skip("=")) {
        begin = Op::look, end = Op::look_end;
      } else if (skip("!")) {
        begin = Op::not_look, end = Op::not_look_end;
      } else if (skip(">")) {
        begin = Op::atomic, end = Op::atomic_end;
      } else if (!skip(":")) {
        refuse("this kind of group (known: (?:  (?i:  (?=  (?!  (?> )");
      }
    }
    Fragment body = alternation();
    if (!error_ && !skip(")")) fail("a ')' is missing");
    ignores_case_ = outer;
    --depth_;
    body.is_one_set = false;
    body.literal = 0;
    return begin == Op::match || error_ ? body : wrapped(begin, end, body);
  }

  /// Outside a class, and only there, Oniguruma takes the six numbers of Latin-1 for letters.
  static CharacterSet word_set() {
    CharacterSet set;
    set.add_kind(CharacterSet::Kind::word);
    set.add_range(0xB2, 0xB3);
    set.add_range(0xB9, 0xB9);
    set.add_range(0xBC, 0xBE);
    return set;
  }

  Fragment escape() {
    if (skip("A")) return assertion(Op::text_begin);
    if (skip("z")) return assertion(Op::text_end);
    CharacterSet set;
    const char letter = at_ < pattern_.size() ? pattern_[at_] : '\0';
    if (letter == 'w' || letter == 'W') {
      ++at_;
      set = word_set();
      if (letter == 'W') set.negate();
      if (ignores_case_) refuse("\\w in case-insensitive text");
      return of_set(std::move(set));
    }
    if (letter == 'b' || letter == 'B') {
      ++at_;
      Fragment border = of_set(word_set());
      border.code[0].op = letter == 'b' ? Op::border : Op::not_border;
      border.is_one_set = false;
      border.may_be_empty = true;
      return border;
    }
    if (add_class(set)) {
      fold(set);
      return of_set(std::move(set));
    }
    return error_ ? Fragment() : literal(escaped_character());
  }

  /// Reads what stands behind a backslash, if it names a set.
  bool add_class(CharacterSet& set) {
    using Kind = CharacterSet::Kind;
    if (skip("s")) return set.add_kind(Kind::space), true;
    if (skip("S")) return set.add_kind(Kind::not_space), true;
    if (skip("w")) return set.add_kind(Kind::word), true;
    if (skip("W")) return set.add_kind(Kind::not_word), true;
    if (skip("d")) return set.add_categories(gc_set(Gc::Nd), false), true;
    if (skip("D")) return set.add_categories(gc_set(Gc::Nd), true), true;
    if (skip("h"))
      return set.add_range('0', '9'), set.add_range('A', 'F'), set.add_range('a', 'f'), true;
    const bool is_negated = skip("P{");
    if (!is_negated && !skip("p{")) return false;
    const bool is_negated_inside = skip("^");
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) return fail("a '}' is missing"), false;
    const std::string_view name = pattern_.substr(at_, end - at_);
    if (name == "Han") {
      at_ = end + 1;
      return add_han(set, is_negated != is_negated_inside), true;
    }
    const auto* found = std::ranges::find(k_names, name, &NamedCategories::name);
    if (found == k_names.end())
      return refuse("\\p{" + std::string(name.substr(0, 40)) +
                    "} (known: general categories and Han)"),
             false;
    at_ = end + 1;
    set.add_categories(found->set, is_negated != is_negated_inside);
    return true;
  }

  char32_t escaped_character() {
    const char32_t c = take();
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'e':
        return 0x1B;
      case 'x':
        return skip("{") ? hexadecimal(1, 8, "}") : hexadecimal(1, 2, "");
      case 'u':
        return hexadecimal(4, 4, "");
      default:
        break;
    }
    const bool is_name = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (is_name) refuse("\\" + to_utf8(c));
    return c;
  }

  char32_t hexadecimal(size_t min, size_t max, std::string_view closing) {
    uint32_t value = 0;
    const std::string_view digits = pattern_.substr(at_, max);
    const auto [end, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    const auto size = static_cast<size_t>(end - digits.data());
    const bool is_scalar = value < 0x110000 && (value < 0xD800 || value > 0xDFFF);
    if (code != std::errc() || size < min || !is_scalar ||
        (closing.empty() && value > 0x7F && max == 2))
      return fail("no code point"), U'\0';
    at_ += size;
    if (!skip(closing)) return fail("a '}' is missing"), U'\0';
    return value;
  }

  CharacterSet character_class() {
    CharacterSet set;
    const bool is_negated = skip("^");
    for (bool is_first = true; !error_; is_first = false) {
      if (is_end()) return fail("a ']' is missing"), set;
      if (!is_first && skip("]")) break;
      if (is_first && pattern_[at_] == ']')
        return fail("an empty class; write \\] for a bracket"), set;
      if (pattern_[at_] == '[') return refuse("a class in a class"), set;
      if (pattern_.substr(at_).starts_with("&&")) {
        if (is_first) return refuse("&& with nothing before it"), set;
        intersect(set);
        continue;
      }
      class_item(set);
    }
    // The other cases are those of what is listed, so they are added before it is turned round.
    fold(set);
    if (is_negated) set.negate();
    return set;
  }

  /// Reads "&&[..]", behind which the class ends or another one follows.
  void intersect(CharacterSet& set) {
    if (!skip("&&[")) return refuse("&& without a class behind it");
    if (++depth_ > k_group_depth_max) return fail("classes are nested too deep");
    set.intersect(character_class());
    --depth_;
    const std::string_view rest = pattern_.substr(at_);
    if (!rest.empty() && rest[0] != ']' && !rest.starts_with("&&"))
      refuse("more than a class behind &&");
  }

  void class_item(CharacterSet& set) {
    char32_t first = 0;
    if (skip("\\")) {
      if (add_class(set) || error_) return;
      first = escaped_character();
    } else {
      first = take();
    }
    char32_t last = first;
    const bool is_range =
        at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']';
    if (is_range) {
      ++at_;
      last = skip("\\") ? escaped_character() : take();
      if (last == '[') refuse("a class in a class");
      if (last < first) fail("a range's first character is the larger");
    }
    set.add_range(first, last);
  }

  std::string_view pattern_;
  size_t at_ = 0;
  int depth_ = 0;
  bool ignores_case_ = false;
  std::optional<Error> error_;
  Regex regex_;
};

Expected<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > k_pattern_bytes_max)
    return Error{Errc::unsupported, "a regular expression of more than " +
                                        std::to_string(k_pattern_bytes_max) + " bytes"};
  if (!is_valid_utf8(pattern)) return Error{Errc::config, "a regular expression that is not UTF-8"};
  return RegexParser(pattern).parse();
}

}  // namespace cohort::text

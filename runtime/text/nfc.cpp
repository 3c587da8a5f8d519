#include "runtime/text/nfc.hpp"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <iterator>
#include <memory>
#include <unordered_map>

#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

struct CombiningRun {
  char32_t first;
  uint8_t combining_class;
};
constexpr CombiningRun k_combining_runs[] = {
#define COHORT_NFC_COMBINING
#include "runtime/text/nfc_tables.inl"
#undef COHORT_NFC_COMBINING
};

struct Decomposition {
  char32_t composed, first, second;
  bool composes;
};
constexpr Decomposition k_decompositions[] = {
#define COHORT_NFC_DECOMPOSED
#include "runtime/text/nfc_tables.inl"
#undef COHORT_NFC_DECOMPOSED
};

// Hangul syllables compose by arithmetic (Unicode, 3.12).
constexpr char32_t k_syllables = 0xAC00, k_leads = 0x1100, k_vowels = 0x1161, k_tails = 0x11A7;
constexpr char32_t k_lead_count = 19, k_vowel_count = 21, k_tail_count = 28;
constexpr char32_t k_syllable_count = k_lead_count * k_vowel_count * k_tail_count;

uint8_t combining_class(char32_t c) {
  const auto* after = std::ranges::upper_bound(k_combining_runs, c, {},
                                               [](const CombiningRun& x) { return x.first; });
  return after == std::begin(k_combining_runs) ? uint8_t{0} : std::prev(after)->combining_class;
}

struct NfcTable {
  /// Characters that NFC may change, move or join with what stands before them.
  std::unique_ptr<std::bitset<0x110000>> is_active = std::make_unique<std::bitset<0x110000>>();
  std::unordered_map<uint64_t, char32_t> compositions;  // first << 32 | second

  NfcTable() {
    for (size_t i = 0; i + 1 < std::size(k_combining_runs); ++i)
      if (k_combining_runs[i].combining_class != 0)
        for (char32_t c = k_combining_runs[i].first; c < k_combining_runs[i + 1].first; ++c)
          is_active->set(c);
    for (const Decomposition& x : k_decompositions) {
      if (!x.composes) {
        is_active->set(x.composed);
        continue;
      }
      compositions[uint64_t{x.first} << 32 | x.second] = x.composed;
      is_active->set(x.second);
    }
    for (char32_t i = 0; i < k_vowel_count; ++i) is_active->set(k_vowels + i);
    for (char32_t i = 1; i < k_tail_count; ++i) is_active->set(k_tails + i);
  }
  static const NfcTable& get() {
    static const NfcTable table;
    return table;
  }
};

struct Mark {
  char32_t c;
  uint8_t combining_class;
};

void decompose(char32_t c, std::vector<Mark>& out) {
  if (c >= k_syllables && c < k_syllables + k_syllable_count) {
    const char32_t index = c - k_syllables;
    out.push_back({k_leads + index / (k_vowel_count * k_tail_count), 0});
    out.push_back({k_vowels + index % (k_vowel_count * k_tail_count) / k_tail_count, 0});
    if (index % k_tail_count != 0) out.push_back({k_tails + index % k_tail_count, 0});
    return;
  }
  const auto* found = std::ranges::lower_bound(k_decompositions, c, {},
                                               [](const Decomposition& x) { return x.composed; });
  if (found == std::end(k_decompositions) || found->composed != c) {
    out.push_back({c, combining_class(c)});
    return;
  }
  // At most 4 deep: only the first part of a decomposition decomposes again.
  decompose(found->first, out);
  if (found->second != 0) decompose(found->second, out);
}

/// Returns the composition of two characters, or 0.
char32_t composed(char32_t first, char32_t second) {
  if (first >= k_leads && first < k_leads + k_lead_count && second >= k_vowels &&
      second < k_vowels + k_vowel_count)
    return k_syllables + ((first - k_leads) * k_vowel_count + (second - k_vowels)) * k_tail_count;
  if (first >= k_syllables && first < k_syllables + k_syllable_count &&
      (first - k_syllables) % k_tail_count == 0 && second > k_tails &&
      second < k_tails + k_tail_count)
    return first + (second - k_tails);
  const auto& compositions = NfcTable::get().compositions;
  const auto found = compositions.find(uint64_t{first} << 32 | second);
  return found == compositions.end() ? 0 : found->second;
}

/// Reorders and composes in place (Unicode, 3.11).
void compose(std::vector<Mark>& marks) {
  for (size_t i = 0; i < marks.size();) {
    if (marks[i].combining_class == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < marks.size() && marks[end].combining_class != 0) ++end;
    std::stable_sort(
        marks.begin() + static_cast<std::ptrdiff_t>(i),
        marks.begin() + static_cast<std::ptrdiff_t>(end),
        [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    i = end;
  }
  constexpr size_t k_none = SIZE_MAX;
  size_t starter = k_none, size = 0;
  for (const Mark mark : marks) {
    if (starter != k_none) {
      // Blocked if a mark of the same or a higher class, or a starter, stands between.
      const bool is_next = size == starter + 1;
      const bool is_open = is_next || marks[size - 1].combining_class < mark.combining_class;
      const char32_t joined = is_open ? composed(marks[starter].c, mark.c) : 0;
      if (joined != 0) {
        marks[starter].c = joined;
        continue;
      }
    }
    if (mark.combining_class == 0) starter = size;
    marks[size++] = mark;
  }
  marks.resize(size);
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  // Below U+0300, whose lead byte is 0xCC, nothing is active.
  if (std::ranges::none_of(text, [](char x) { return static_cast<uint8_t>(x) >= 0xCC; }))
    return true;
  const auto& is_active = *NfcTable::get().is_active;
  for (size_t at = 0; at < text.size();)
    if (is_active[next_character(text, at)]) return false;
  return true;
}

std::string to_nfc(std::string_view text, std::vector<Span>* origins) {
  const auto& is_active = *NfcTable::get().is_active;
  std::string out;
  out.reserve(text.size());
  std::vector<Mark> marks;
  size_t stretch = 0;  // begin of the last inactive character: what follows it may join it
  const auto copy = [&](size_t begin, size_t end) {
    out += text.substr(begin, end - begin);
    if (origins == nullptr) return;
    for (size_t i = begin; i < end; i += utf8_size(text[i]))
      origins->insert(origins->end(), utf8_size(text[i]), {i, i + utf8_size(text[i])});
  };
  size_t copied = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!is_active[next_character(text, at)]) {
      stretch = begin;
      continue;
    }
    const size_t first = std::max(stretch, copied);
    copy(copied, first);
    marks.clear();
    size_t end = first;
    for (size_t i = first; i < text.size(); end = i) {
      const char32_t c = next_character(text, i);
      if (i > at && !is_active[c]) break;
      decompose(c, marks);
    }
    compose(marks);
    const size_t before = out.size();
    for (const Mark& mark : marks) append_utf8(out, mark.c);
    if (origins != nullptr) origins->insert(origins->end(), out.size() - before, {first, end});
    at = copied = stretch = end;
  }
  copy(copied, text.size());
  return out;
}

}  // namespace cohort::text

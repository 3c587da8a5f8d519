#pragma once
/// Unicode normalisation form C as Hugging Face's NFC normalizer computes it: that of Unicode 9,
/// so marks that came later are not reordered (tools/golden/make_unicode_tables.py). Pure,
/// thread-safe.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::text {

/// A range of bytes.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Span&) const = default;
};

/// Returns true if to_nfc() would change nothing, by a look at each character alone; false may be
/// wrong. REQUIRES: valid UTF-8.
bool is_surely_nfc(std::string_view text);

/// Returns the normal form; `origins`, unless null, gets for each byte of it the range of `text`
/// that it comes from. O(n log n). REQUIRES: valid UTF-8.
std::string to_nfc(std::string_view text, std::vector<Span>* origins);

}  // namespace cohort::text

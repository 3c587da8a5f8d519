#pragma once
/// The values of one page, one after another, in any encoding that is read. Keeps views of the
/// page's and the dictionary's bytes, and copies none but what DELTA_BYTE_ARRAY puts together.
/// Owner: one thread.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/columnar/bit_runs.hpp"
#include "runtime/columnar/footer.hpp"

namespace cohort::columnar {

enum class Encoding : int32_t {
  plain = 0,
  plain_dictionary = 2,
  runs = 3,
  bit_packed = 4,
  delta = 5,
  delta_lengths = 6,
  delta_bytes = 7,
  dictionary = 8,
};
std::string name_of(Encoding encoding);

/// A value: `bits` of a number (integers sign-extended, floats as they are), or `text`.
struct Value {
  uint64_t bits = 0;
  std::string_view text = {};
};
using Dictionary = std::vector<Value>;

class PageValues {
 public:
  PageValues() = default;
  /// `dictionary`: of the column chunk; null: it has none. Returns Errc::unsupported naming an
  /// encoding that is not read, Errc::corrupt for one that does not fit the type.
  static Expected<PageValues> create(Physical type, Encoding encoding, std::string_view bytes,
                                     const Dictionary* dictionary);
  /// The value is valid until the next call. False: the bytes end or are damaged.
  bool next(Value& value);

 private:
  bool next_plain(Value& value);
  bool next_suffix(Value& value);
  bool take_bytes(size_t size, std::string_view& bytes);
  Expected<void> begin_lengths(DeltaReader& lengths);

  Physical type_ = Physical::bytes;
  Encoding encoding_ = Encoding::plain;
  std::string_view bytes_;  // of values that are not numbers of a stream
  size_t at_ = 0;
  uint64_t bit_ = 0;  // of the next plain boolean
  const Dictionary* dictionary_ = nullptr;
  RunReader runs_;
  DeltaReader numbers_;   // values, or lengths of texts
  DeltaReader prefixes_;  // of DELTA_BYTE_ARRAY
  std::string text_;      // its last value
};

/// The values of a dictionary page. Returns Errc::corrupt if `count` are not there.
Expected<Dictionary> read_dictionary(Physical type, std::string_view bytes, int64_t count);

}  // namespace cohort::columnar

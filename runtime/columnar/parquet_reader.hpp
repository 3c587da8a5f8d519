#pragma once
/// Parquet files, row by row, as JSON text. Read are: data pages v1 and v2; encodings PLAIN,
/// dictionary, RLE, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY; codecs none,
/// snappy, gzip, zstd; lists, maps with text keys, and structs of any nesting; booleans, integers,
/// floats, doubles, text. Anything else is refused by name. Bound: a page and a dictionary for each
/// column of one row group, and one row; memory grows with the bytes that are there, not with what
/// a header says. Owner: one thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/columnar/footer.hpp"

namespace cohort::columnar {

struct ParquetLimits {
  size_t page_bytes_max = size_t{1} << 30;  // decompressed
  size_t row_bytes_max = size_t{1} << 28;   // as JSON
};

class ParquetReader {
 public:
  /// `file`: all bytes of the file; they outlive the reader. Returns Errc::corrupt,
  /// Errc::unsupported naming the column and what of it is not read.
  static Expected<ParquetReader> open(std::string_view file, const ParquetLimits& limits = {});
  ParquetReader(ParquetReader&&) noexcept;
  ParquetReader& operator=(ParquetReader&&) noexcept;
  ~ParquetReader();

  int64_t row_count() const;
  /// Puts the next row, a JSON object on one line, in the place of `row`. False: there is none.
  /// Returns Errc::corrupt, Errc::unsupported or Errc::capacity naming row group, column and page.
  Expected<bool> next(std::string& row);

 private:
  struct State;
  explicit ParquetReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cohort::columnar

// Any bytes as a parquet file. Rows that come out are JSON objects, and the limits hold.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/columnar/footer.hpp"
#include "runtime/columnar/parquet_reader.hpp"

using namespace cohort;
using namespace cohort::columnar;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr ParquetLimits k_limits{.page_bytes_max = 4 << 20, .row_bytes_max = 1 << 20};
  constexpr int k_rows_max = 2000;  // a page of nulls may hold billions
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  (void)row_count_of(file);
  auto reader = ParquetReader::open(file, k_limits);
  if (!reader) {
    COHORT_CHECK(!reader.error().detail.empty(), "an error says something");
    return 0;
  }
  std::string row;
  for (int i = 0; i < k_rows_max; ++i) {
    const auto has_row = reader->next(row);
    if (!has_row) {
      COHORT_CHECK(has_row.error().detail.starts_with("row group "), "an error says where");
      break;
    }
    if (!*has_row) break;
    COHORT_CHECK(row.front() == '{' && nlohmann::json::accept(row), "a row is a JSON object");
    COHORT_CHECK(row.size() < (4U << 20), "a row is bounded");
  }
  return 0;
}

// Files that pyarrow wrote (tools/golden/make_parquet.py), with the rows that pyarrow reads back.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/columnar/bit_runs.hpp"
#include "runtime/columnar/footer.hpp"
#include "runtime/columnar/mapped_file.hpp"
#include "runtime/columnar/parquet_reader.hpp"

namespace cohort::columnar {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

fs::path data_folder() {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  return fs::path(source == nullptr ? "." : source) / "tests/data/parquet";
}

std::string bytes_of(const std::string& name) {
  auto file = MappedFile::open((data_folder() / (name + ".parquet")).string());
  EXPECT_TRUE(file.has_value()) << name;
  return file ? std::string(file->bytes()) : std::string();
}

/// Rows until the end, or the error.
Expected<std::vector<std::string>> rows_of(std::string_view file,
                                           const ParquetLimits& limits = {}) {
  auto reader = ParquetReader::open(file, limits);
  if (!reader) return reader.error();
  std::vector<std::string> rows;
  for (std::string row;;) {
    COHORT_ASSIGN(const bool has_row, reader->next(row));
    if (!has_row) return rows;
    rows.push_back(row);
  }
}

std::string error_of(const std::string& file, const ParquetLimits& limits = {}) {
  const auto rows = rows_of(file, limits);
  return rows ? "accepted" : rows.error().to_string();
}

class Parquet : public testing::TestWithParam<std::string> {};

TEST_P(Parquet, RowsAreThoseThatPyarrowReads) {
  const auto rows = rows_of(bytes_of(GetParam()));
  ASSERT_TRUE(rows.has_value()) << rows.error().to_string();
  std::ifstream expected(data_folder() / (GetParam().substr(0, GetParam().find('_')) + ".jsonl"));
  ASSERT_TRUE(expected.good());
  size_t count = 0;
  for (std::string line; std::getline(expected, line); ++count) {
    ASSERT_LT(count, rows->size());
    EXPECT_EQ(Json::parse((*rows)[count]), Json::parse(line)) << "row " << count;
  }
  EXPECT_EQ(count, rows->size());
  EXPECT_EQ(ParquetReader::open(bytes_of(GetParam()))->row_count(), static_cast<int64_t>(count));
}

INSTANTIATE_TEST_SUITE_P(Forms, Parquet,
                         testing::Values("gsm8k", "gsm8k_small_pages", "many_delta",
                                         "many_dictionary", "mixed_delta", "mixed_none_v1",
                                         "mixed_none_v2", "mixed_snappy_v1", "mixed_snappy_v2",
                                         "mixed_gzip_v1", "mixed_gzip_v2", "mixed_zstd_v1",
                                         "mixed_zstd_v2", "none", "old"),
                         [](const auto& test) { return test.param; });

TEST(ParquetReader, KeysStandAsInTheFile) {
  const auto rows = rows_of(bytes_of("gsm8k"));
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->at(1).substr(0, 62),
            R"({"data_source":"openai/gsm8k","prompt":[{"content":"A shelf ha)");
}

TEST(ParquetReader, RefusesByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"brotli",
       "unsupported: row group 0: column text, page 0: codec BROTLI is not read; write the file "
       "with zstd, snappy, gzip or none"},
      {"lz4",
       "unsupported: row group 0: column text, page 0: codec LZ4_RAW is not read; write the file "
       "with zstd, snappy, gzip or none"},
      {"timestamp",
       "unsupported: column at: type TIMESTAMP; drop it, or write it as text or numbers"},
      {"decimal",
       "unsupported: column price: type DECIMAL; drop it, or write it as text or numbers"},
      {"split",
       "unsupported: row group 0: column x, page 0: encoding BYTE_STREAM_SPLIT is not read; write "
       "the file with pyarrow's or pandas' defaults"},
      {"bytes",
       "unsupported: row group 0: column image: its bytes are no UTF-8 text; only text is read"},
      {"map",
       "unsupported: column m.key_value.key: a map's key that is no text; drop it, or write it as "
       "text or numbers"},
  };
  for (const auto& [name, text] : cases) EXPECT_EQ(error_of(bytes_of("refused_" + name)), text);
}

TEST(ParquetReader, DamagedFilesAreErrors) {
  const std::string file = bytes_of("gsm8k_small_pages");
  EXPECT_EQ(error_of(""),
            "corrupt: no whole parquet file: its last bytes are not those of a footer");
  EXPECT_EQ(error_of(file.substr(0, file.size() - 1)),
            "corrupt: no whole parquet file: its last bytes are not those of a footer");
  std::string lying = file;
  lying[file.size() - 6] = '\x7f';
  EXPECT_NE(error_of(lying).find("corrupt: the parquet footer says "), std::string::npos);
  std::string flipped = file;
  flipped[100] = static_cast<char>(flipped[100] ^ 1);
  EXPECT_EQ(error_of(flipped),
            "corrupt: row group 0: column data_source, page 1: its checksum is wrong");
  EXPECT_EQ(error_of("PARE" + file),
            "unsupported: the parquet file is encrypted; write it "
            "without encryption");
}

/// Every prefix keeps the footer, so that each page ends early once.
TEST(ParquetReader, BytesThatAreMissingAreNeverRead) {
  const std::string file = bytes_of("mixed_none_v1");
  const std::string_view footer = *footer_bytes(file);
  const std::string tail = file.substr(static_cast<size_t>(footer.data() - file.data()));
  const size_t body = file.size() - tail.size();
  for (size_t keep = 4; keep < body; keep += 37)
    EXPECT_NE(error_of(file.substr(0, keep) + tail), "accepted") << keep;
}

TEST(ParquetReader, LimitsHold) {
  const std::string file = bytes_of("gsm8k");
  EXPECT_NE(error_of(file, {.page_bytes_max = 100}).find("bytes, of at most 100"),
            std::string::npos);
  EXPECT_NE(error_of(file, {.row_bytes_max = 100}).find("the row has over 100 bytes"),
            std::string::npos);
}

TEST(RunReader, RunsAndPackedNumbers) {
  // 5 times 3 (header 10), then 8 numbers of 2 bits: 0 1 2 3 3 2 1 0
  RunReader runs(std::string_view("\x0a\x03\x03\xe4\x1b", 5), 2);
  const std::vector<uint32_t> expected = {3, 3, 3, 3, 3, 0, 1, 2, 3, 3, 2, 1, 0};
  uint32_t value = 0;
  for (const uint32_t x : expected) {
    ASSERT_TRUE(runs.next(value));
    EXPECT_EQ(value, x);
  }
  EXPECT_FALSE(runs.next(value));
}

TEST(DeltaReader, TheFormatsExamples) {
  // 1 2 3 4 5: block 128, 4 miniblocks, 5 numbers, first 1 (zigzag 2), min delta 1, widths 0
  const std::string_view bytes("\x80\x01\x04\x05\x02\x02\0\0\0\0", 10);
  DeltaReader numbers(bytes);
  EXPECT_EQ(numbers.size_bytes(), bytes.size());
  int64_t value = 0;
  for (int64_t x = 1; x <= 5; ++x) {
    ASSERT_TRUE(numbers.next(value));
    EXPECT_EQ(value, x);
  }
  EXPECT_FALSE(numbers.next(value));
  EXPECT_TRUE(DeltaReader(std::string_view("\x80\x01\x00\x05\x02", 5)).is_bad());  // no miniblock
}

TEST(RowCount, StandsInTheFooter) {
  // FileMetaData: version 1, an empty schema, num_rows 7473 (zigzag 14946), stop
  const std::string footer("\x15\x02\x19\x0c\x16\xe2\x74\x00", 8);
  EXPECT_EQ(row_count_of(footer), 7473);
  EXPECT_EQ(row_count_of(footer.substr(0, 5)), std::nullopt);
  EXPECT_EQ(row_count_of("x"), std::nullopt);
}

}  // namespace
}  // namespace cohort::columnar

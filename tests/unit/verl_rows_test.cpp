// How many rows a data file says it has.
#include "runtime/config/verl/verl_rows.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/child_process.hpp"

namespace cohort::config {
namespace {

TEST(VerlRows, ParquetSaysItsRowsInTheFooter) {
  // FileMetaData: version 1, an empty schema, num_rows 7473 (zigzag 14946), stop
  const std::string footer("\x15\x02\x19\x0c\x16\xe2\x74\x00", 8);
  const test::TempFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() / name, std::ios::binary) << text;
    return (folder.path() / name).string();
  };
  std::string file = "PAR1" + footer + std::string("\x08\0\0\0PAR1", 8);
  EXPECT_EQ(*count_rows(write("a.parquet", file)), 7473);
  file.back() = '2';
  EXPECT_EQ(count_rows(write("b.parquet", file)).error().code, Errc::corrupt);
  EXPECT_EQ(count_rows(write("c.parquet", "")).error().code, Errc::corrupt);
  EXPECT_EQ(count_rows(write("d.csv", "a")).error().code, Errc::corrupt);
  EXPECT_EQ(count_rows("/nowhere.parquet").error().code, Errc::not_found);
}

}  // namespace
}  // namespace cohort::config

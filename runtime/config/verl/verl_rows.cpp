#include "runtime/config/verl/verl_rows.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/columnar/footer.hpp"
#include "runtime/columnar/mapped_file.hpp"

namespace cohort::config {
namespace {

namespace fs = std::filesystem;

Expected<int64_t> parquet_file_rows(const std::string& path, const std::string& file) {
  auto mapped = columnar::MappedFile::open(file);
  if (!mapped) return mapped.error().with_context(path);
  auto footer = columnar::footer_bytes(mapped->bytes());
  if (!footer) return footer.error().with_context(path);
  const std::optional<int64_t> rows = columnar::row_count_of(*footer);
  if (!rows) return Error{Errc::corrupt, fmt::format("{}: its parquet footer is damaged", path)};
  return *rows;
}

}  // namespace

std::string home_expanded(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

Expected<int64_t> count_rows(const std::string& path) {
  std::string file = home_expanded(path);
  std::error_code failure;
  if (!fs::is_regular_file(file, failure))
    return Error{Errc::not_found, fmt::format("{}: no such file", path)};
  if (file.ends_with(".parquet")) return parquet_file_rows(path, file);
  std::ifstream in(file, std::ios::binary);
  if (!in) return Error{Errc::io, fmt::format("{}: {}", path, std::strerror(errno))};
  if (!file.ends_with(".jsonl") && !file.ends_with(".json"))
    return Error{Errc::corrupt, fmt::format("{}: expected .parquet, .jsonl or .json", path)};
  int64_t rows = 0;
  std::string line;
  while (std::getline(in, line)) {
    size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    if (line[first] != '{')
      return Error{Errc::corrupt,
                   fmt::format("{}: line {} is no object: one row per line", path, rows + 1)};
    ++rows;
  }
  return rows;
}

std::optional<KnownRows> known_rows(const std::string& path) {
  struct Row {
    std::string_view folder;
    std::string_view file;
    std::string_view dataset;
    int64_t rows;
  };
  // openai/gsm8k, config main
  static constexpr std::array<Row, 2> k_rows = {{{"gsm8k", "train", "openai/gsm8k train", 7473},
                                                 {"gsm8k", "test", "openai/gsm8k test", 1319}}};
  fs::path file(path);
  for (const Row& row : k_rows) {
    if (file.stem() == row.file && file.parent_path().filename() == row.folder)
      return KnownRows{std::string(row.dataset), row.rows};
  }
  return std::nullopt;
}

}  // namespace cohort::config

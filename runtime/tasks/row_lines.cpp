#include "runtime/tasks/row_lines.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "runtime/base/text.hpp"
#include "runtime/columnar/footer.hpp"
#include "runtime/columnar/mapped_file.hpp"
#include "runtime/columnar/parquet_reader.hpp"

namespace cohort::tasks {
namespace {

constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";

Expected<std::ifstream> open_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return Error{Errc::not_found, fmt::format("data file {}: is a folder", path)};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Error{Errc::not_found, fmt::format("data file {}: {}", path, std::strerror(errno))};
  return file;
}

bool begins_as_parquet(std::ifstream& file) {
  char head[4] = {};
  file.read(head, sizeof head);
  const bool is_parquet =
      file.gcount() == 4 && columnar::is_parquet(std::string_view(head, sizeof head));
  file.clear();
  file.seekg(0);
  return is_parquet;
}

Expected<void> read_parquet(const std::string& path, const TakeRow& take) {
  const auto at_file = [&](const Error& error) {
    return error.with_context(fmt::format("data file {}", path));
  };
  auto file = columnar::MappedFile::open(path);
  if (!file) return at_file(file.error());
  auto reader = columnar::ParquetReader::open(file->bytes());
  if (!reader) return at_file(reader.error());
  std::string row;
  for (uint64_t number = 1;; ++number) {
    std::string where = fmt::format("{}:{}", path, number);
    auto has_row = reader->next(row);
    if (!has_row) return has_row.error().with_context(where);
    if (!*has_row) return {};
    COHORT_TRY(take(row, std::move(where)));
  }
}

Expected<void> read_lines(const std::string& path, std::ifstream& file, const TakeRow& take) {
  uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    std::string_view text = line;
    if (++number == 1 && text.starts_with(k_byte_order_mark))
      text.remove_prefix(k_byte_order_mark.size());
    if (!trim(text).empty()) COHORT_TRY(take(text, fmt::format("{}:{}", path, number)));
  }
  if (file.bad()) return Error{Errc::io, fmt::format("data file {}: cannot be read", path)};
  return {};
}

}  // namespace

Expected<void> for_each_row(const std::string& path, const TakeRow& take) {
  COHORT_ASSIGN(std::ifstream file, open_file(path));
  return begins_as_parquet(file) ? read_parquet(path, take) : read_lines(path, file, take);
}

}  // namespace cohort::tasks

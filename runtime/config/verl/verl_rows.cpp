#include "runtime/config/verl/verl_rows.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace cohort::config {
namespace {

namespace fs = std::filesystem;

/// Thrift's compact protocol, as far as finding one i64 needs it: values are skipped by type.
class Compact {
 public:
  explicit Compact(std::string_view bytes) : bytes_(bytes) {}

  /// The i64 `wanted` of the struct that starts here.
  std::optional<int64_t> i64_field(int64_t wanted) {
    int64_t id = 0;
    while (true) {
      auto [type, field] = header(id);
      id = field;
      if (is_bad_ || type == k_stop) return std::nullopt;
      if (id == wanted && type == k_i64) {
        int64_t value = zigzag();
        return is_bad_ ? std::nullopt : std::optional(value);
      }
      skip(type, 0, true);
    }
  }

 private:
  static constexpr int k_stop = 0;
  static constexpr int k_i64 = 6;
  static constexpr int k_depth_max = 32;  // a schema of a deeper nesting is none we wrote or read

  uint8_t byte() {
    if (at_ >= bytes_.size()) {
      is_bad_ = true;
      return 0;
    }
    return static_cast<uint8_t>(bytes_[at_++]);
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t part = byte();
      value |= uint64_t{part & 0x7Fu} << shift;
      if ((part & 0x80) == 0) return value;
    }
    is_bad_ = true;
    return 0;
  }

  int64_t zigzag() {
    uint64_t value = varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }

  void advance(uint64_t count) {
    if (count > bytes_.size() - at_)
      is_bad_ = true;
    else
      at_ += static_cast<size_t>(count);
  }

  struct Header {
    int type;
    int64_t id;
  };

  Header header(int64_t previous) {
    uint8_t head = byte();
    int type = head & 0x0F;
    if (type == k_stop) return {type, previous};
    int delta = head >> 4;
    int64_t id = delta != 0 ? previous + delta : zigzag();
    if (id < 0 || id > 32767) is_bad_ = true;  // ids are i16
    return {type, id};
  }

  void skip_list(int depth) {
    uint8_t head = byte();
    uint64_t count = head >> 4;
    if (count == 15) count = varint();
    if (count > bytes_.size() - at_) is_bad_ = true;  // an element has at least a byte
    for (uint64_t i = 0; i < count && !is_bad_; ++i) skip(head & 0x0F, depth + 1);
  }

  void skip_map(int depth) {
    uint64_t count = varint();
    if (count == 0) return;
    uint8_t types = byte();
    if (count > bytes_.size() - at_) is_bad_ = true;
    for (uint64_t i = 0; i < count && !is_bad_; ++i) {
      skip(types >> 4, depth + 1);
      skip(types & 0x0F, depth + 1);
    }
  }

  void skip_struct(int depth) {
    int64_t id = 0;
    while (!is_bad_) {
      auto [type, field] = header(id);
      id = field;
      if (type == k_stop) return;
      skip(type, depth + 1, true);
    }
  }

  /// A boolean is in the header of its field, but a byte of its own inside a list or map.
  void skip(int type, int depth, bool is_field = false) {
    if (depth > k_depth_max) is_bad_ = true;
    if (is_bad_) return;
    switch (type) {
      case 1:
      case 2:
        return is_field ? void() : advance(1);
      case 3:
        return advance(1);
      case 4:
      case 5:
      case 6:
        varint();
        return;
      case 7:
        return advance(8);
      case 8:
        return advance(varint());
      case 9:
      case 10:
        return skip_list(depth);
      case 11:
        return skip_map(depth);
      case 12:
        return skip_struct(depth);
      default:
        is_bad_ = true;
    }
  }

  std::string_view bytes_;
  size_t at_ = 0;
  bool is_bad_ = false;
};

std::string expanded(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

Expected<int64_t> parquet_file_rows(const std::string& path, std::ifstream& in) {
  static constexpr uint32_t k_footer_bytes_max = uint32_t{64} << 20;
  std::array<char, 8> tail{};
  in.seekg(-8, std::ios::end);
  in.read(tail.data(), tail.size());
  uint32_t size = 0;
  for (size_t i = 4; i-- > 0;) size = size << 8 | static_cast<uint8_t>(tail[i]);
  if (!in || std::memcmp(tail.data() + 4, "PAR1", 4) != 0 || size > k_footer_bytes_max)
    return Error{Errc::corrupt, fmt::format("{}: no parquet file: it has no footer", path)};
  std::string footer(size, '\0');
  in.seekg(-8 - static_cast<std::streamoff>(size), std::ios::end);
  in.read(footer.data(), static_cast<std::streamsize>(size));
  std::optional<int64_t> rows = in ? parquet_rows(footer) : std::nullopt;
  if (!rows) return Error{Errc::corrupt, fmt::format("{}: its parquet footer is damaged", path)};
  return *rows;
}

}  // namespace

std::optional<int64_t> parquet_rows(std::string_view footer) {
  std::optional<int64_t> rows = Compact(footer).i64_field(3);  // FileMetaData.num_rows
  return rows && *rows >= 0 ? rows : std::nullopt;
}

Expected<int64_t> count_rows(const std::string& path) {
  std::string file = expanded(path);
  std::error_code failure;
  if (!fs::is_regular_file(file, failure))
    return Error{Errc::not_found, fmt::format("{}: no such file", path)};
  std::ifstream in(file, std::ios::binary);
  if (!in) return Error{Errc::io, fmt::format("{}: {}", path, std::strerror(errno))};
  if (file.ends_with(".parquet")) return parquet_file_rows(path, in);
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

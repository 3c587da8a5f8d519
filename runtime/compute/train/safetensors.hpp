#pragma once
/// The safetensors file format (Hugging Face): u64 header length, JSON header {name: {dtype, shape,
/// data_offsets}}, then the tensors' bytes, little-endian. Reading maps the file; nothing is
/// trusted: every length, shape and offset is checked before a byte is handed out, and tensors must
/// cover the data exactly. Value types; a SafetensorsFile may be read from several threads.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::compute {

inline constexpr uint64_t k_safetensors_header_max = uint64_t{100}
                                                     << 20;  // [bytes] as the reference reader

/// One tensor: to be written (bytes are the caller's), or read (bytes are in the mapped file,
/// 1-byte aligned).
struct NamedTensor {
  std::string name;
  std::string dtype;  // "F32", "BF16", …
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes `tensors` in order to a new file and syncs it to disk.
/// Returns Errc::io with path and cause; Errc::invalid_argument if bytes do not fit dtype and
/// shape.
Expected<void> write_safetensors(const std::filesystem::path& path,
                                 std::span<const NamedTensor> tensors,
                                 const std::map<std::string, std::string>& metadata);

/// The same with bytes that come one tensor after the other: only names, types and shapes are known
/// at first. Owner: one thread.
class SafetensorsWriter {
 public:
  /// Begins a new or truncated file; the bytes of `tensors` are not looked at.
  static Expected<SafetensorsWriter> create(const std::filesystem::path& path,
                                            std::span<const NamedTensor> tensors,
                                            const std::map<std::string, std::string>& metadata);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();
  /// Appends bytes in the order of the tensors.
  Expected<void> append(std::span<const std::byte> bytes);
  /// Syncs to disk. Returns Errc::invalid_argument if bytes are missing or too many.
  Expected<void> finish();

 private:
  SafetensorsWriter(std::filesystem::path path, int fd, uint64_t bytes_left)
      : path_(std::move(path)), fd_(fd), bytes_left_(bytes_left) {}
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t bytes_left_ = 0;
};

class SafetensorsFile {
 public:
  /// Returns Errc::not_found, Errc::io, or Errc::corrupt naming path, tensor and what does not
  /// hold.
  static Expected<SafetensorsFile> open(const std::filesystem::path& path);
  /// Returns the tensors in file order.
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  /// Returns the tensor called `name`, or nullptr.
  const NamedTensor* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::shared_ptr<const std::byte> mapping_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

/// Parses the JSON header for `data_bytes` bytes of tensors (bytes of the tensors are set relative
/// to `data`). Exposed for tests; `where` starts each message.
struct SafetensorsHeader {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;
};
Expected<SafetensorsHeader> parse_safetensors_header(std::string_view json,
                                                     std::span<const std::byte> data,
                                                     const std::string& where);

/// Copies `tensor` (F32 or BF16) to f32. Returns Errc::invalid_argument for another dtype or count.
Expected<void> copy_to_f32(const NamedTensor& tensor, std::span<float> to);

}  // namespace cohort::compute

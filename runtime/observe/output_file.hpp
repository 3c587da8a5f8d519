#pragma once
/// Owned file descriptors with errors that name the path. Internal to runtime/observe.
/// Owner: the writer that holds it; not thread-safe.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/error.hpp"

namespace cohort::observe {

class File {
 public:
  enum class Mode : uint8_t {
    append_or_create,  // every write goes to the end
    replace,           // emptied if it exists
    create_new         // Errc::io if it exists
  };
  File() = default;
  /// Opens `path`, creating the folders above it. Returns Errc::io "path: what: errno's text".
  static Expected<File> open(std::filesystem::path path, Mode mode);
  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept;
  ~File() { close_quietly(); }

  bool is_open() const { return fd_ >= 0; }
  /// Writes all of `bytes`; one write(2) unless the system cuts it short.
  Expected<void> write(std::string_view bytes);
  Expected<uint64_t> size_bytes() const;
  Expected<void> truncate(uint64_t size_bytes);
  Expected<void> sync();
  /// Closes and returns close(2)'s error.
  Expected<void> close();
  const std::filesystem::path& path() const { return path_; }

 private:
  void close_quietly();
  Error error(std::string_view what) const;
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Returns the bytes of `path`, or Errc::io (Errc::not_found if it does not exist).
Expected<std::string> read_file(const std::filesystem::path& path);

}  // namespace cohort::observe

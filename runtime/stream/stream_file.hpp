#pragma once
/// The few system calls of a stream, each failure as an Error that names path, bytes and errno's
/// text. A File owns its descriptor; pread and pwrite carry their offset, so that readers in other
/// threads may share one. No other state.
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::stream {

enum class OpenMode { read, append, create };  // create: must not exist yet

class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  /// Returns Errc::not_found if there is no such file, Errc::io otherwise, and at once for what is
  /// neither a file nor a folder (a FIFO, a device).
  static Expected<File> open(const std::filesystem::path& path, OpenMode mode);

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }
  Expected<uint64_t> size() const;
  /// Reads until `bytes` is full or the file ends; returns the bytes read.
  Expected<size_t> read(uint64_t offset, std::span<std::byte> bytes) const;
  /// Writes all parts at `offset` with as few calls as the kernel allows (one, on a healthy disk).
  /// On Errc::io any part may have reached the file: the caller cuts it back.
  Expected<void> write(uint64_t offset, std::span<const iovec> parts) const;
  /// Reserves blocks up to `size_bytes` without changing the size. Where the file system cannot, it
  /// checks that so much is free. Returns Errc::io with needed and available bytes.
  Expected<void> reserve(uint64_t size_bytes) const;
  /// Sets the size, which also gives reserved blocks above it back.
  Expected<void> truncate(uint64_t size_bytes) const;
  Expected<void> sync() const;  // fdatasync
  /// Lets the disk begin with a range that a later sync() will wait for. A hint: never fails.
  void start_writeback(uint64_t offset, uint64_t size_bytes) const;

 private:
  Error error(const char* what, int code) const;
  int fd_ = -1;
  std::filesystem::path path_;
};

/// Keeps other writers out of a folder until it is destroyed or the process dies.
class FolderLock {
 public:
  FolderLock() = default;
  /// Returns Errc::closed if another process holds it.
  static Expected<FolderLock> take(const std::filesystem::path& folder);

 private:
  File folder_;
};

/// fsync of a folder: makes the names of new files in it durable.
Expected<void> sync_folder(const std::filesystem::path& folder);

/// Returns the bytes that an ordinary user may still write on the file system of `path`.
std::optional<uint64_t> available_bytes(const std::filesystem::path& path);

/// Writes a whole file under a temporary name, then renames it: readers see old or new, never half.
Expected<void> replace_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

// -- names in a stream folder -------------------------------------------------
std::filesystem::path segment_path(const std::filesystem::path& folder, uint32_t segment);
std::filesystem::path index_path(const std::filesystem::path& folder, uint32_t segment);
/// Returns RUN/stream if RUN is a run folder, RUN if it is a stream folder, else Errc::not_found.
Expected<std::filesystem::path> folder_of(const std::filesystem::path& run);
/// Returns the numbers of the segment files in `folder`, ascending. Errc::not_found if it is no
/// folder.
Expected<std::vector<uint32_t>> list_segments(const std::filesystem::path& folder);

}  // namespace cohort::stream

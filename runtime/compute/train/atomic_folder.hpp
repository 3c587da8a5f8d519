#pragma once
/// All-or-nothing output: a folder is filled under a temporary name beside its target and renamed
/// when every byte is on disk. A killed process leaves the old folder, or the new one, and at most
/// a "<target>.tmp-<pid>" that the next commit of the same target removes.
#include <cstddef>
#include <filesystem>
#include <span>

#include "runtime/base/error.hpp"

namespace cohort::compute {

/// Errc::io: path, what was done, and errno's text.
Error io_error(const std::filesystem::path& path, const char* what);
/// Writes all bytes to an open file of `path`.
Expected<void> write_all(int fd, std::span<const std::byte> bytes,
                         const std::filesystem::path& path);
/// Writes a new or truncated file and syncs it.
Expected<void> write_synced(const std::filesystem::path& path, std::span<const std::byte> bytes);

class AtomicFolder {
 public:
  /// Creates the temporary folder (and missing parents of `target`).
  static Expected<AtomicFolder> create(const std::filesystem::path& target);
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  /// Removes the temporary folder unless it was committed.
  ~AtomicFolder();

  const std::filesystem::path& path() const { return temporary_; }
  /// Syncs the folder, puts it in the target's place (an existing target is exchanged and removed)
  /// and syncs the parent. The files must be synced already (write_synced).
  Expected<void> commit();
  /// The same where the target must be absent or empty: Errc::io otherwise, and nothing is removed.
  Expected<void> commit_new();

 private:
  AtomicFolder(std::filesystem::path target, std::filesystem::path temporary);
  std::filesystem::path target_, temporary_;
};

}  // namespace cohort::compute

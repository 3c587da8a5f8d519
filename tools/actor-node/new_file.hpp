#pragma once
/// A file that is written beside its target and put in its place when it is whole. One thread.
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort {

/// Returns Errc::io with the path, what was done, and errno's text.
Error file_error(const std::filesystem::path& path, std::string_view what);

/// Gone with the object unless it has been put in place.
class NewFile {
 public:
  /// Writes and syncs `text`. Errc::io: nothing is left.
  static Expected<NewFile> write(std::filesystem::path target, const std::string& text);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  Expected<void> put_in_place();

 private:
  explicit NewFile(std::filesystem::path target);
  std::filesystem::path target_, path_;
};

}  // namespace cohort

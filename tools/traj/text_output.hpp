#pragma once
/// Where a command of traj writes a text: a file, which gets its name when it is whole, stdout, or
/// a pipe or device that is there. One thread.
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/error.hpp"

namespace cohort::traj {

class TextOutput {
 public:
  /// `path`: "-" is stdout. Errc::io with path and errno's text.
  static Expected<TextOutput> open(const std::string& path);
  TextOutput(TextOutput&& other) noexcept;
  TextOutput& operator=(TextOutput&&) = delete;
  /// Without finish() nothing is left of a file.
  ~TextOutput();

  bool is_stdout() const { return file_ == stdout; }
  Expected<void> write(std::string_view text);
  /// Gives the file its name.
  Expected<void> finish();

 private:
  explicit TextOutput(std::string path) : path_(std::move(path)) {}
  Error error(std::string_view what) const;
  std::string path_;
  std::string unfinished_;     // empty: the file has its name, or there is none
  std::FILE* file_ = nullptr;  // null: it is finished, or moved away
};

}  // namespace cohort::traj

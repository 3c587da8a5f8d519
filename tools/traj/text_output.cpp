#include "tools/traj/text_output.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace cohort::traj {

TextOutput::TextOutput(TextOutput&& other) noexcept
    : path_(std::move(other.path_)),
      unfinished_(std::exchange(other.unfinished_, {})),
      file_(std::exchange(other.file_, nullptr)) {}

TextOutput::~TextOutput() {
  if (file_ != nullptr && !is_stdout()) std::fclose(file_);
  if (!unfinished_.empty()) std::remove(unfinished_.c_str());
}

Expected<TextOutput> TextOutput::open(const std::string& path) {
  TextOutput output(path);
  if (path == "-") {
    output.file_ = stdout;
    return output;
  }
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status))
    output.unfinished_ = path + ".unfinished";
  const std::string& opened = output.unfinished_.empty() ? path : output.unfinished_;
  output.file_ = std::fopen(opened.c_str(), "we");
  if (output.file_ == nullptr) {
    output.unfinished_.clear();
    return output.error("cannot be written");
  }
  return output;
}

Error TextOutput::error(std::string_view what) const {
  return {Errc::io, fmt::format("{}: {}: {}", path_, what, std::strerror(errno))};
}

Expected<void> TextOutput::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) return error("write");
  return {};
}

Expected<void> TextOutput::finish() {
  if (std::fflush(file_) != 0) return error("write");
  if (is_stdout()) return {};
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return error("close");
  if (unfinished_.empty()) return {};
  if (std::rename(unfinished_.c_str(), path_.c_str()) != 0) return error("rename");
  unfinished_.clear();
  return {};
}

}  // namespace cohort::traj

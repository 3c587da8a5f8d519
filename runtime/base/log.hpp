#pragma once
/// Process log: one file per process, warnings and errors also to stderr. Thread-safe.
/// Text: lower case, no full stop, "context: cause".
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::log {

enum class Level { debug, info, warn, error };

/// Sends log lines to `path` (appended); stderr gets lines at `console_level` and above.
/// Returns Errc::io if the file cannot be opened.
Expected<void> open(const std::string& path, Level console_level);
void write(Level level, std::string_view text);
void flush();

template <class... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::debug, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::info, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::warn, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::error, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace cohort::log

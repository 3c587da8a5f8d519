#pragma once
/// A file as text, whole or by its lines. Any thread.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort {

/// Returns the bytes of a regular file. Returns Errc::not_found where there is none, Errc::io where
/// it cannot be read, and Errc::config where it has more than `bytes_max`; each names the path.
Expected<std::string> read_file(const std::filesystem::path& path, uintmax_t bytes_max);

/// Takes a line and its number, from 1.
using TakeLine = std::function<Expected<void>(std::string_view line, uint64_t number)>;

/// Calls `take` for each line of a file or pipe that is not blank; its error ends the reading.
/// Returns Errc::not_found where there is no such file, and Errc::io where it is a folder or cannot
/// be read to its end; both name the path.
Expected<void> for_each_line(const std::filesystem::path& path, const TakeLine& take);

}  // namespace cohort

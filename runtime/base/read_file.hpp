#pragma once
/// A small file as text. Any thread.
#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/base/error.hpp"

namespace cohort {

/// Returns the bytes of a regular file. Returns Errc::not_found where there is none, Errc::io where
/// it cannot be read, and Errc::config where it has more than `bytes_max`; each names the path.
Expected<std::string> read_file(const std::filesystem::path& path, uintmax_t bytes_max);

}  // namespace cohort

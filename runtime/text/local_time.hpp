#pragma once
/// A date as a user writes it. Pure.
#include <ctime>
#include <string>

#include "runtime/base/error.hpp"

namespace cohort::text {

/// Reads "YYYY-MM-DD", "YYYY-MM-DD HH:MM" or "YYYY-MM-DD HH:MM:SS", with T or a blank between.
/// Returns Errc::invalid_argument for anything else.
Expected<std::tm> local_time_of(const std::string& text);

}  // namespace cohort::text

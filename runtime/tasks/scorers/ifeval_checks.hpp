#pragma once
/// The constraints of the public IFEval data set, each as a check of one response. Pure; any
/// thread.
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

/// Returns whether `response` follows constraint `id` ("length_constraints:number_words") with the
/// row's `arguments` (an object). Returns Errc::invalid_argument if an argument is missing or of
/// another kind, Errc::unsupported for an id, or a language, that cannot be checked here.
Expected<bool> follows(std::string_view id, const nlohmann::json& arguments,
                       std::string_view response);

}  // namespace cohort::tasks

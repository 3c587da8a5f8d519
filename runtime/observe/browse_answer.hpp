#pragma once
/// Answers the addresses whose pages a RunSource reads: /steps, /step, /group, /trajectory, /token,
/// /compare and /logs. Pure but for the RunSource.
#include <optional>
#include <string_view>

#include "runtime/observe/browse_data.hpp"
#include "runtime/observe/http.hpp"

namespace cohort::observe {

/// Returns nothing if the path is none of these. `source` is null as long as the run has no folder.
/// A page of a live run is looked at again.
std::optional<HttpReply> browse_answer(const HttpRequest& request, RunSource* source, bool is_live,
                                       std::string_view nonce);

}  // namespace cohort::observe

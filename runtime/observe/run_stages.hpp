#pragma once
/// What a run does now: the stages of a step, and the objects on its cards. Pure. Internal to
/// runtime/observe.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/observe/dashboard_data.hpp"

namespace cohort::observe {

/// A stage, the phases that it works in, and the roles that do it.
struct RunStage {
  std::string_view title;
  std::vector<std::string_view> phases;  // of time/<phase>_s; the first is the one that is named
  std::vector<std::string_view> roles;
  std::vector<std::pair<std::string_view, std::string_view>> numbers;  // metric, label
};

/// In the order in which a trajectory passes them.
const std::vector<RunStage>& run_stages();
bool has_role(const RunStage& stage, const CardView& card);
/// Whether the run goes on and is in a phase of the stage.
bool works_now(const RunStage& stage, const RunView& run);

/// Returns the bytes of each residency object by card, as far as its moves are known.
std::map<uint32_t, std::map<std::string, uint64_t>> objects_on_cards(const RunView& run);

}  // namespace cohort::observe

#pragma once
/// The pages of the trajectory browser: run → step → group → trajectory → token. Pure. OBS-4 and
/// OBS-5 (report.hpp) hold: texts of trajectories are escaped, the page names no other server. A
/// page lists at most k_page_lines; the rest is behind its links.
#include <string>
#include <string_view>

#include "runtime/observe/browse_data.hpp"

namespace cohort::observe {

inline constexpr size_t k_page_lines = 100, k_page_tokens = 256;
inline constexpr size_t k_coloured_tokens = 4096;  // of the answers of a trajectory

/// The address of a page, for links: "group?step=3&kind=train&group=1".
std::string browse_link(std::string_view path, const BrowseAddress& to);

std::string steps_page(const StepList& list, size_t page, bool is_live, std::string_view nonce);
std::string step_page(const StepView& view, const BrowseAddress& at, bool is_live,
                      std::string_view nonce);
std::string group_page(const StepView& view, const BrowseAddress& at, std::string_view nonce);
std::string trajectory_page(const TrajectoryPage& shown, const BrowseAddress& at,
                            std::string_view nonce);
/// `shown` has the page of tokens with `at.token`.
std::string one_token_page(const TrajectoryPage& shown, const BrowseAddress& at,
                           std::string_view nonce);
/// The page of something that is being read, and looked at again soon; with an error, why it cannot
/// be shown. `active` as ShellOptions has it.
std::string waiting_page(std::string_view what, std::string_view error, std::string_view active,
                         std::string_view nonce);

}  // namespace cohort::observe

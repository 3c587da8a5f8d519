#pragma once
/// Two more pages of a run: its curves over those of other runs, with the keys in which their
/// configs differ, and the ends of its log files. Pure. OBS-4 and OBS-5 (report.hpp) hold.
#include <string>
#include <string_view>

#include "runtime/observe/browse_data.hpp"

namespace cohort::observe {

std::string compare_page(const Comparison& compared, bool is_live, std::string_view nonce);
std::string logs_page(const LogView& log, bool is_live, std::string_view nonce);

}  // namespace cohort::observe

#pragma once
/// What /status.json and /flow.json say, read back: a program draws of them what the pages draw of
/// the run itself. Pure.
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/observe/browse_data.hpp"
#include "runtime/observe/dashboard_data.hpp"

namespace cohort::observe {

/// Reads status_json()'s text, which came at `now`. Fields that another version lacks keep their
/// defaults. Errc::corrupt if it is no such text.
Expected<DashboardData> read_status_json(std::string_view text, double now);
/// Reads flow_json()'s text; null if the text is (nobody has looked yet). Errc::corrupt.
Expected<std::shared_ptr<const FlowView>> read_flow_json(std::string_view text);

}  // namespace cohort::observe

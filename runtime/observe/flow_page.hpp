#pragma once
/// Two pages of a run that goes on: what each card does and holds, and how data flows between the
/// roles; the second for programs too. Pure.
#include <string>
#include <string_view>

#include "runtime/observe/browse_data.hpp"
#include "runtime/observe/dashboard_data.hpp"

namespace cohort::observe {

/// The last steps as report.html draws them: phases per card, bytes per object.
std::string timeline_page(const RunView& run, std::string_view nonce);

/// The roles, what the links between them hold and pass on, and who waits for whom. `flow` is null
/// if nobody has read it.
std::string flow_page(const DashboardData& data, const FlowView* flow, double now,
                      std::string_view nonce);

/// The text of /flow.json: sentence, waits and links.
std::string flow_json(const FlowView& flow);

}  // namespace cohort::observe

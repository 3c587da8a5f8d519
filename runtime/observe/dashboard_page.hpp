#pragma once
/// The pages of the dashboard: one self-contained page, the parts of it that change, and the same
/// for programs. Pure: same arguments, same bytes. OBS-4 and OBS-5 (report.hpp) hold here too:
/// outside text is escaped, and the page names no address but its own server's.
#include <string>
#include <string_view>

#include "runtime/observe/dashboard_data.hpp"

namespace cohort::observe {

/// The options of one fetch of the page.
struct PageOptions {
  double now = 0;
  uint64_t known_rows = k_no_rows;  // rows that the client has drawn: charts come only if others
  bool can_stop = false;            // the page has the form that stops the run
  static constexpr uint64_t k_no_rows = ~uint64_t{0};
};

/// Returns the page. Script and style carry `nonce`, which the reply's policy names.
std::string dashboard_page(const DashboardData& data, const PageOptions& options,
                           std::string_view nonce);

/// Returns the parts that change, each a <section> with an id.
std::string dashboard_parts(const DashboardData& data, const PageOptions& options);

/// Returns the text of `actor-node status --json`, with a run its progress and last row as well.
std::string status_json(const DashboardData& data, double now);

}  // namespace cohort::observe

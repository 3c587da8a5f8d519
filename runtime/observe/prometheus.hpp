#pragma once
/// /metrics of the dashboard: Prometheus' text format 0.0.4. Names are docs/dashboard.md's. Pure.
///   PROM-1 whatever the run's metrics, tags and errors are called, the text is of the format: each
///          family once, its samples together, names of [a-zA-Z0-9_], label values escaped.
#include <string>
#include <string_view>

#include "runtime/observe/dashboard_data.hpp"

namespace cohort::observe {

inline constexpr std::string_view k_prometheus_type = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the reply to a scrape at `now`. Same arguments, same bytes.
std::string prometheus_text(const DashboardData& data, double now);

/// Returns the family of a metric of metrics.jsonl: "time/generate_s" is
/// cohort_step_time_generate_seconds.
std::string prometheus_name(std::string_view metric);

}  // namespace cohort::observe

#include "actors/run/run_telemetry.hpp"

#include <fmt/format.h>

#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/plugin/http/http_pool.hpp"

namespace cohort::actors {
namespace {

int64_t to_us(double seconds) { return static_cast<int64_t>(1e6 * seconds); }

Expected<std::shared_ptr<plugin::HttpPool>> open_pool(const config::TelemetrySection& section,
                                                      std::string_view path) {
  std::string url = section.otlp_endpoint;
  while (url.ends_with('/')) url.pop_back();
  plugin::HttpPoolOptions options;
  auto parsed = plugin::parse_http_url(url + std::string(path));
  if (!parsed) return Error{Errc::config, "telemetry.otlp_endpoint: " + parsed.error().to_string()};
  options.url = *parsed;
  options.headers.assign(section.otlp_headers.begin(), section.otlp_headers.end());
  return std::make_shared<plugin::HttpPool>(std::move(options));
}

}  // namespace

Expected<std::unique_ptr<RunTelemetry>> RunTelemetry::open(const config::TelemetrySection& section,
                                                           observe::OtlpResource resource,
                                                           observe::Console& console,
                                                           observe::Board* board) {
  COHORT_ASSIGN(auto traces, open_pool(section, "/v1/traces"));
  COHORT_ASSIGN(auto metrics, open_pool(section, "/v1/metrics"));
  observe::OtlpOptions options;
  options.resource = resource;
  options.interval_s = section.interval_s;
  options.post = [traces, metrics](std::string_view path,
                                   const std::string& body) -> Expected<int> {
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                              std::chrono::duration<double>(k_post_s));
    COHORT_ASSIGN(plugin::HttpReply reply,
                  (path == "/v1/traces" ? traces : metrics)->post(body, deadline));
    return reply.status;
  };
  // The exporter's thread calls this: console, board and log take calls of any thread.
  options.notice = [&console, board](bool is_failing, const std::string& text) {
    const auto level = is_failing ? observe::EventLevel::warning : observe::EventLevel::info;
    console.event(level, text);
    if (board != nullptr) board->add_event({0, 0, "telemetry", text});
    log::info("{}", text);
  };
  std::unique_ptr<RunTelemetry> telemetry(new RunTelemetry());
  telemetry->resource_ = std::move(resource);
  telemetry->exporter_ = std::make_unique<observe::OtlpExporter>(std::move(options));
  return telemetry;
}

uint64_t RunTelemetry::step_id(uint64_t step) const {
  return observe::otlp_span_id(resource_, fmt::format("step {}", step));
}

void RunTelemetry::phase(uint64_t step, uint32_t card, const std::string& name, double start_s,
                         double end_s) {
  observe::OtlpSpan span;
  span.id = observe::otlp_span_id(resource_, fmt::format("phase {}", phases_++));
  span.parent = step_id(step);
  span.name = name;
  span.start_us = resource_.start_us + to_us(start_s);
  span.end_us = resource_.start_us + to_us(end_s);
  span.attributes = {{"cohort.step", static_cast<int64_t>(step)},
                     {"cohort.card", static_cast<int64_t>(card)}};
  exporter_->add(std::move(span));
}

void RunTelemetry::row(const observe::MetricRow& row, uint64_t trajectories) {
  const int64_t now = wall_time_us();
  exporter_->add(row, trajectories, now);
  observe::OtlpSpan span;
  span.id = step_id(row.step());
  span.parent = observe::otlp_span_id(resource_, "run");
  span.name = "step";
  span.start_us = now - to_us(row.number("time/step_s").value_or(0));
  span.end_us = now;
  span.attributes = {{"cohort.step", static_cast<int64_t>(row.step())}};
  exporter_->add(std::move(span));
}

void RunTelemetry::close() {
  observe::OtlpSpan span;
  span.id = observe::otlp_span_id(resource_, "run");
  span.name = "run";
  span.start_us = resource_.start_us;
  span.end_us = wall_time_us();
  span.attributes = {{"cohort.run.id", resource_.run_id}};
  exporter_->add(std::move(span));
  exporter_->close();
}

}  // namespace cohort::actors

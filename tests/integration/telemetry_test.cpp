// What a run's log sends to an OpenTelemetry collector, and what a collector that fails costs.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "actors/run/run_log.hpp"
#include "actors/run/run_telemetry.hpp"
#include "runtime/base/clock.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/http_stand_in.hpp"

namespace cohort::actors {
namespace {

using nlohmann::json;
using plugin::support::TestServer;

class Telemetry : public ::testing::Test {
 protected:
  void open(const std::string& endpoint) {
    RunLogOptions options;
    options.run_folder = folder_.path();
    options.run_name = "lake";
    options.console = &console_;
    options.board = &board_;
    options.telemetry.otlp_endpoint = endpoint;
    options.telemetry.otlp_headers = {{"x-team", "blue"}};
    options.telemetry.interval_s = 0.02;
    auto log = RunLog::open(std::move(options));
    ASSERT_TRUE(log) << log.error().to_string();
    log_ = std::move(*log);
  }
  void write_steps(uint64_t from, uint64_t to) {
    for (uint64_t step = from; step <= to; ++step) {
      log_->compute(step, 1, "generate", 0.1, 0.2);
      log_->compute(step, 0, "update", 0.2, 0.3);
      observe::MetricRow row(step);
      row.set("reward/mean", 0.25 * static_cast<double>(step));
      row.set("loss", observe::k_not_measured);  // NaN: no point
      row.set("note", "text");
      row.set("tokens", 100);
      row.set("time/step_s", 0.5);
      ASSERT_TRUE(log_->row(row, 8 * step));
    }
  }
  size_t notices() const {
    size_t count = 0;
    const observe::DashboardData data = board_.data();
    for (const observe::EventView& event : data.run->events) count += event.kind == "telemetry";
    return count;
  }
  template <class F>
  void wait_until(F is_true) {
    const double end = now_seconds() + 60;
    while (!is_true() && now_seconds() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(is_true());
  }

  test::TempFolder folder_;
  observe::Console console_{observe::ConsoleOptions{observe::ConsoleMode::quiet}};
  observe::Board board_;
  std::unique_ptr<RunLog> log_;
};

bool is_hex(const std::string& text, size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == std::string::npos &&
         text.find_first_not_of('0') != std::string::npos;
}

std::string without_path(const std::string& url) { return url.substr(0, url.rfind('/')); }

struct Received {
  std::map<std::string, json> spans;  // by id
  std::map<std::string, json> last;   // metric, by name
  std::multiset<std::string> names;   // of spans
  size_t points = 0;                  // of reward/mean
};

void read_traces(const json& body, Received& out) {
  for (const json& run : body.at("resourceSpans"))
    for (const json& scope : run.at("scopeSpans"))
      for (const json& span : scope.at("spans")) {
        EXPECT_TRUE(is_hex(span.at("traceId"), 32)) << span;
        EXPECT_TRUE(is_hex(span.at("spanId"), 16)) << span;
        const std::string start = span.at("startTimeUnixNano"), end = span.at("endTimeUnixNano");
        EXPECT_LE(std::stoll(start), std::stoll(end));
        EXPECT_TRUE(out.spans.emplace(span.at("spanId"), span).second) << "twice: " << span;
        out.names.insert(span.at("name"));
      }
}

void read_metrics_body(const json& body, Received& out) {
  for (const json& run : body.at("resourceMetrics"))
    for (const json& scope : run.at("scopeMetrics"))
      for (const json& metric : scope.at("metrics")) {
        const std::string name = metric.at("name");
        EXPECT_EQ(metric.contains("gauge") + metric.contains("sum"), 1) << metric;
        out.last[name] = metric;
        if (name == "cohort.reward/mean") out.points += metric["gauge"]["dataPoints"].size();
      }
}

Received read(TestServer& server) {
  Received out;
  for (const httplib::Request& request : server.requests()) {
    EXPECT_EQ(request.get_header_value("Content-Type"), "application/json");
    EXPECT_EQ(request.get_header_value("x-team"), "blue");
    const json body = json::parse(request.body);
    if (request.path == "/v1/traces")
      read_traces(body, out);
    else if (request.path == "/v1/metrics")
      read_metrics_body(body, out);
    else
      ADD_FAILURE() << request.path;
  }
  return out;
}

std::string sum_of(const Received& received, const std::string& name) {
  return received.last.at(name).at("sum").at("dataPoints").at(0).at("asInt");
}

TEST_F(Telemetry, ACollectorGetsEverySpanAndNumberOnce) {
  TestServer server([](const auto&, auto& reply) { reply.set_content("{}", "application/json"); });
  open(server.url(""));
  write_steps(1, 3);
  log_->event(observe::EventLevel::warning, 3, "slow", "slow");
  ASSERT_TRUE(log_->close());
  const Received got = read(server);
  EXPECT_EQ(got.names,
            (std::multiset<std::string>{"generate", "generate", "generate", "run", "step", "step",
                                        "step", "update", "update", "update"}));
  for (const auto& [id, span] : got.spans) {  // every parent came, and the run is the root
    EXPECT_EQ(span["traceId"], got.spans.begin()->second["traceId"]);
    EXPECT_EQ(span.contains("parentSpanId"), span["name"] != "run");
    if (!span.contains("parentSpanId")) continue;
    ASSERT_TRUE(got.spans.contains(span["parentSpanId"])) << span;
    EXPECT_EQ(got.spans.at(span["parentSpanId"])["name"], span["name"] == "step" ? "run" : "step");
  }
  EXPECT_EQ(got.points, 3U);
  EXPECT_FALSE(got.last.contains("cohort.loss"));
  EXPECT_FALSE(got.last.contains("cohort.note"));
  EXPECT_EQ(sum_of(got, "cohort.steps"), "3");
  EXPECT_EQ(sum_of(got, "cohort.trajectories"), "24");
  EXPECT_EQ(sum_of(got, "cohort.tokens"), "300");
  EXPECT_EQ(sum_of(got, "cohort.telemetry.dropped_spans"), "0");
  EXPECT_EQ(got.last.at("cohort.events")["sum"]["dataPoints"][0]["attributes"][0]["value"],
            json({{"stringValue", "slow"}}));
  EXPECT_EQ(notices(), 0U);
}

TEST_F(Telemetry, WhatABusyCollectorRefusesComesLaterWithTwoNotices) {
  std::atomic<bool> is_busy{true};
  std::atomic<size_t> refused{0};
  TestServer server([&](const auto&, auto& reply) {
    reply.status = is_busy ? 503 : 200;
    refused += is_busy ? 1 : 0;
  });
  open(server.url(""));
  write_steps(1, 2);
  wait_until([&] { return refused >= 5; });
  EXPECT_EQ(notices(), 1U);
  is_busy = false;
  wait_until([&] { return notices() == 2; });
  write_steps(3, 3);
  ASSERT_TRUE(log_->close());
  std::set<std::string> steps;
  for (const httplib::Request& request : server.requests())
    for (const json& run : json::parse(request.body).value("resourceSpans", json::array()))
      for (const json& span : run["scopeSpans"][0]["spans"])
        if (span["name"] == "step") steps.insert(span["spanId"]);
  EXPECT_EQ(steps.size(), 3U);
  EXPECT_EQ(notices(), 2U);
}

TEST_F(Telemetry, ACollectorThatNeverAnswersHoldsNothingUp) {
  plugin::support::BoundSocket silent;
  ASSERT_EQ(::listen(silent.file(), 16), 0);
  open(without_path(silent.url()));
  const double start = now_seconds();
  write_steps(1, 200);
  EXPECT_LT(now_seconds() - start, RunTelemetry::k_post_s);  // shorter than one request
  wait_until([&] { return notices() == 1; });
  const double end = now_seconds();
  ASSERT_TRUE(log_->close());
  EXPECT_LT(now_seconds() - end, 3 * RunTelemetry::k_post_s + 1);
  EXPECT_EQ(notices(), 1U);
}

TEST_F(Telemetry, ACollectorThatIsNotThereOrHangsUpGetsOneNotice) {
  plugin::support::BoundSocket closed;  // nobody listens
  open(without_path(closed.url()));
  write_steps(1, 20);
  wait_until([&] { return notices() == 1; });
  write_steps(21, 40);
  ASSERT_TRUE(log_->close());
  EXPECT_EQ(notices(), 1U);
}

TEST_F(Telemetry, AnEndpointThatIsNoUrlIsRefused) {
  RunLogOptions options;
  options.run_folder = folder_.path();
  options.console = &console_;
  options.telemetry.otlp_endpoint = "collector:4318";
  auto log = RunLog::open(std::move(options));
  ASSERT_FALSE(log);
  EXPECT_NE(log.error().to_string().find("telemetry.otlp_endpoint"), std::string::npos);
}

TEST(OtlpQueue, AFullQueueLosesItsOldestAndCounts) {
  observe::OtlpOptions options;
  options.interval_s = 0.01;
  std::atomic<uint64_t> sent{0};
  options.post = [&](std::string_view path, const std::string& body) -> Expected<int> {
    if (path == "/v1/traces")
      sent += json::parse(body)["resourceSpans"][0]["scopeSpans"][0]["spans"].size();
    return 400;  // for good
  };
  options.notice = [](bool, const std::string&) {};
  options.resource = {"run", "name", 1};
  observe::OtlpExporter exporter(std::move(options));
  const uint64_t all = 3 * observe::k_otlp_spans_max;
  for (uint64_t i = 0; i < all; ++i) exporter.add(observe::OtlpSpan{i + 1, 0, "x", 1, 2});
  exporter.close();
  EXPECT_EQ(exporter.counters().dropped_spans, all);  // none was taken: each counts once
  EXPECT_LE(sent, all);
}

// The exporter is closed while it sends: what has come since that send began goes as well.
TEST(OtlpQueue, WhatComesDuringASendIsSentAtTheEnd) {
  observe::OtlpOptions options;
  options.interval_s = 0.001;
  std::promise<void> is_sending, may_end;
  std::atomic<uint64_t> sent{0};
  bool is_first = true;
  options.post = [&](std::string_view path, const std::string& body) -> Expected<int> {
    if (path != "/v1/traces") return 200;
    if (std::exchange(is_first, false)) {
      is_sending.set_value();
      may_end.get_future().wait();
    }
    sent += json::parse(body)["resourceSpans"][0]["scopeSpans"][0]["spans"].size();
    return 200;
  };
  options.notice = [](bool, const std::string&) {};
  options.resource = {"run", "name", 1};
  observe::OtlpExporter exporter(std::move(options));
  exporter.add(observe::OtlpSpan{1, 0, "x", 1, 2});
  is_sending.get_future().wait();
  exporter.add(observe::OtlpSpan{2, 0, "x", 1, 2});
  std::thread closing([&] { exporter.close(); });
  uint64_t rows = 0;  // a closed exporter takes none
  do exporter.add(observe::MetricRow(++rows), 0, 1);
  while (exporter.counters().steps == rows);
  may_end.set_value();
  closing.join();
  EXPECT_EQ(sent, 2U);
  EXPECT_EQ(exporter.counters().dropped_spans, 0U);
}

}  // namespace
}  // namespace cohort::actors

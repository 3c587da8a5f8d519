// OTLP/HTTP JSON of a run, and the queue before a collector that takes, refuses or hangs.
#include "runtime/observe/otlp.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/base/clock.hpp"

namespace cohort::observe {
namespace {

using nlohmann::json;
const OtlpResource k_run{"run-1", "lake", 1'700'000'000'000'000};

template <class F>
void wait_until(F is_true) {
  const double end = now_seconds() + 60;
  while (!is_true() && now_seconds() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(is_true());
}

TEST(OtlpText, SpansHaveHexIdsAndTimesAsText) {
  OtlpSpan span{0x1f, 0, "run", 1'700'000'000'000'001, 1'700'000'000'000'002};
  OtlpSpan child{0x2f, 0x1f, "bad \xff", 5, 4};  // ends before it begins: as long as nothing
  child.attributes = {{"cohort.step", int64_t{9007199254740993}}, {"text", std::string("x")}};
  const std::vector<OtlpSpan> spans = {span, child};
  const json body = json::parse(otlp_traces(k_run, spans));
  const json& list = body["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["spanId"], "000000000000001f");
  EXPECT_EQ(list[0]["traceId"].get<std::string>().size(), 32U);
  EXPECT_FALSE(list[0].contains("parentSpanId"));
  EXPECT_EQ(list[0]["startTimeUnixNano"], "1700000000000001000");
  EXPECT_EQ(list[1]["parentSpanId"], "000000000000001f");
  EXPECT_EQ(list[1]["traceId"], list[0]["traceId"]);
  EXPECT_EQ(list[1]["endTimeUnixNano"], list[1]["startTimeUnixNano"]);
  EXPECT_EQ(list[1]["name"], "bad \xEF\xBF\xBD");
  EXPECT_EQ(list[1]["attributes"][0]["value"]["intValue"], "9007199254740993");
  EXPECT_EQ(list[1]["attributes"][1]["value"]["stringValue"], "x");
}

TEST(OtlpText, FiniteNumbersAreGaugesAndCountersAreCumulative) {
  MetricRow first(1), second(2);
  first.set("reward/mean", 0.25);
  first.set("loss", std::nan(""));
  first.set("note", "text");
  second.set("reward/mean", 0.5);
  OtlpCounters counters;
  counters.trajectories = 16;
  counters.events = {{"lost", 2}};
  const std::vector<OtlpRow> rows = {{first, 10}, {second, 20}};
  std::map<std::string, json> metrics;
  const json body = json::parse(otlp_metrics(k_run, rows, counters, 30));
  for (const json& metric : body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"])
    metrics[metric["name"]] = metric;
  EXPECT_EQ(metrics["cohort.reward/mean"]["gauge"]["dataPoints"],
            json::parse(R"([{"timeUnixNano":"10000","asDouble":0.25},
                            {"timeUnixNano":"20000","asDouble":0.5}])"));
  EXPECT_FALSE(metrics.contains("cohort.loss"));
  EXPECT_FALSE(metrics.contains("cohort.note"));
  const json& sum = metrics["cohort.trajectories"]["sum"];
  EXPECT_EQ(sum["aggregationTemporality"], 2);
  EXPECT_EQ(sum["isMonotonic"], true);
  EXPECT_EQ(sum["dataPoints"][0]["asInt"], "16");
  EXPECT_EQ(metrics["cohort.events"]["sum"]["dataPoints"][0]["attributes"][0]["key"], "kind");
}

TEST(OtlpText, AnIdIsOfItsRunAndName) {
  OtlpResource again = k_run;
  EXPECT_EQ(otlp_span_id(k_run, "step 1"), otlp_span_id(again, "step 1"));
  EXPECT_NE(otlp_span_id(k_run, "step 1"), otlp_span_id(k_run, "step 2"));
  again.start_us += 1;  // it goes on after a stop
  EXPECT_NE(otlp_span_id(k_run, "step 1"), otlp_span_id(again, "step 1"));
}

class Exporter : public ::testing::Test {
 protected:
  OtlpOptions options() {
    OtlpOptions out;
    out.resource = k_run;
    out.interval_s = 0.005;
    out.notice = [this](bool is_failing, const std::string& text) {
      std::lock_guard lock(mutex_);
      notices_.push_back((is_failing ? "fails: " : "back: ") + text);
    };
    out.post = [this](std::string_view path, const std::string& body) -> Expected<int> {
      ++posts_;
      const int status = status_;
      if (status == 0) return Error{Errc::closed, "no connection"};
      if (status == 200 && path == "/v1/traces") {
        const json parsed = json::parse(body);
        for (const json& span : parsed["resourceSpans"][0]["scopeSpans"][0]["spans"])
          ++taken_[span["spanId"]];
      }
      return status;
    };
    return out;
  }
  std::vector<std::string> notices() {
    std::lock_guard lock(mutex_);
    return notices_;
  }
  static OtlpSpan span(uint64_t id) { return {id, 0, "x", 1, 2}; }

  std::atomic<int> status_{200};
  std::atomic<size_t> posts_{0};
  std::map<std::string, int> taken_;  // the exporter's thread's until close()
  std::mutex mutex_;
  std::vector<std::string> notices_;
};

TEST_F(Exporter, WhatIsRefusedForAWhileComesOnceAndTwoNoticesAreGiven) {
  for (int status : {0, 503, 429}) {
    taken_.clear();
    notices_.clear();
    posts_ = 0;
    status_ = status;
    OtlpExporter exporter(options());
    for (uint64_t i = 1; i <= 100; ++i) exporter.add(span(i));
    wait_until([&] { return posts_ >= 5; });
    EXPECT_EQ(notices().size(), 1U);
    status_ = 200;
    wait_until([&] { return notices().size() == 2; });
    exporter.close();
    EXPECT_EQ(taken_.size(), 100U);
    for (const auto& [id, times] : taken_) EXPECT_EQ(times, 1) << id;
    EXPECT_EQ(exporter.counters().dropped_spans, 0U);
    EXPECT_GE(exporter.counters().failed_posts, 4U);
    EXPECT_TRUE(notices()[0].starts_with("fails: ") && notices()[1].starts_with("back: "));
  }
}

TEST_F(Exporter, WhatIsRefusedForGoodIsDroppedAndCounted) {
  status_ = 400;
  OtlpExporter exporter(options());
  const uint64_t all = 3 * k_otlp_spans_max;
  for (uint64_t i = 1; i <= all; ++i) exporter.add(span(i));
  exporter.close();
  EXPECT_EQ(exporter.counters().dropped_spans, all);
  EXPECT_LE(notices().size(), 1U);
}

TEST_F(Exporter, AddingWaitsForNoPostThatHangs) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = false;
  std::atomic<bool> is_hanging{false};
  OtlpOptions wanted = options();
  wanted.post = [&](std::string_view, const std::string&) -> Expected<int> {
    is_hanging = true;
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_open; });
    return Error{Errc::timeout, "no answer"};
  };
  OtlpExporter exporter(std::move(wanted));
  exporter.add(span(1));
  wait_until([&] { return is_hanging.load(); });
  // Returns while the post hangs, or this test never ends.
  for (uint64_t i = 2; i <= k_otlp_spans_max + 11; ++i) exporter.add(span(i));
  for (uint64_t step = 1; step <= k_otlp_rows_max + 7; ++step)
    exporter.add(MetricRow(step), step, 1);
  EXPECT_EQ(exporter.counters().dropped_spans, 10U);
  EXPECT_EQ(exporter.counters().dropped_rows, 7U);
  EXPECT_EQ(exporter.counters().trajectories, k_otlp_rows_max + 7);
  {
    std::lock_guard lock(mutex);
    is_open = true;
  }
  changed.notify_all();
  exporter.close();
  EXPECT_EQ(exporter.counters().dropped_spans, k_otlp_spans_max + 11);
}

}  // namespace
}  // namespace cohort::observe

/// The bytes of our trace against those that Perfetto's trace processor was seen to read: after a
/// change run tools/golden/make_perfetto_golden.py, which says how.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "runtime/observe/trace.hpp"
#include "tests/support/observe_files.hpp"

namespace cohort::observe {
namespace {

using nlohmann::json;
constexpr int64_t k_start_us = 1700000000000000;

/// Spans of a run that generates beside training: some overlap on their track.
void write_step(TraceWriter& writer, int64_t step) {
  const int64_t start = k_start_us + 1000 * step;
  const TrackId placement = writer.track("card 0", "placement");
  const TraceArg bytes[] = {{"bytes", 4096.0}, {"why", "a \"quoted\" \xc3\xa9"}};
  writer.span(placement, "onload inside", "publish", start + 100, start + 200);
  writer.span(placement, "phase", "publish", start, start + 900, bytes);
  writer.span(placement, "at once", "publish", start + 950, start + 950);
  // Step n + 1 begins before step n has ended.
  const TrackId played = writer.span(writer.track("rollouts", "rollout 0"),
                                     "step " + std::to_string(step), "leases", start, start + 2500);
  const TrackId generated =
      writer.span(writer.track("card 1", "compute"), "generate", "compute", start, start + 1400);
  EXPECT_EQ(generated.process, writer.track("card 1", "compute").process);
  const TrackId updated =
      writer.span(writer.track("card 0", "compute"), "update", "compute", start + 10, start + 500);
  writer.flow("trajectories", played, start, updated, start + 20);
}

std::string written_trace() {
  sample::TemporaryFolder folder;
  for (const int64_t first : {0, 3}) {  // the second time is a resume
    auto writer = TraceWriter::open(folder / "trace.json", first > 0);
    EXPECT_TRUE(writer.has_value()) << writer.error().to_string();
    for (int64_t step = first; step < first + 3; ++step) write_step(**writer, step);
    EXPECT_TRUE((*writer)->close().has_value());
  }
  return sample::read_all(folder / "trace.json");
}

TEST(TraceGolden, BytesAreThoseThatWereRead) {
  sample::expect_golden("trace.json", written_trace());
}

TEST(TraceGolden, PerfettoSawEverySpanAndEveryFlow) {
  const auto folder = std::filesystem::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/golden/data";
  const json seen = json::parse(sample::read_all(folder / "perfetto_read.json"));
  EXPECT_TRUE(seen.at("losses").empty()) << seen.at("losses").dump();
  using Span = std::tuple<std::string, int64_t, int64_t>;  // name, start, microseconds
  std::multiset<Span> written, read;
  std::map<uint64_t, int> flows;
  for (const json& event : json::parse(written_trace())) {
    if (event.at("ph") == "X") written.emplace(event.at("name"), event.at("ts"), event.at("dur"));
    if (event.at("ph") == "s") ++flows[event.at("id").get<uint64_t>()];
  }
  for (const json& span : seen.at("spans"))
    read.emplace(span.at("name"), span.at("start_us"), span.at("us"));
  EXPECT_EQ(read, written);
  EXPECT_EQ(flows.size(), 6U) << "a resumed run's have numbers of their own";
  EXPECT_EQ(seen.at("flows").size(), flows.size());
}

TEST(TraceGolden, WhatNestsStaysOnItsRow) {
  const auto folder = std::filesystem::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/golden/data";
  const json seen = json::parse(sample::read_all(folder / "perfetto_read.json"));
  std::map<std::string, std::set<std::string>> rows;
  for (const json& span : seen.at("spans")) {
    rows[span.at("process")].insert(span.at("thread"));
    const int depth = span.at("name") == "onload inside" ? 1 : 0;
    EXPECT_EQ(span.at("depth"), depth) << span.dump();
  }
  EXPECT_EQ(rows["card 0"], (std::set<std::string>{"placement", "compute"}));
  EXPECT_EQ(rows["card 1"], (std::set<std::string>{"compute", "compute (2)"}));
  EXPECT_EQ(rows["rollouts"],
            (std::set<std::string>{"rollout 0", "rollout 0 (2)", "rollout 0 (3)"}));
}

}  // namespace
}  // namespace cohort::observe

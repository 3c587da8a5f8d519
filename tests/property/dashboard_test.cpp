// THIN-1 and PROM-1 over random histories and names.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/base/rng.hpp"
#include "runtime/observe/board.hpp"
#include "runtime/observe/dashboard_page.hpp"
#include "runtime/observe/prometheus.hpp"
#include "runtime/observe/thinned.hpp"
#include "tests/support/html_check.hpp"
#include "tests/support/prometheus_text.hpp"

namespace cohort::observe {
namespace {

uint64_t property_seed(uint64_t fallback) {
  const char* text = std::getenv("COHORT_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
  std::printf("COHORT_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

TEST(Thinned, KeepsTheFirstTheLastAndEveryStrideth) {
  Rng rng(property_seed(11));
  for (int round = 0; round < 200; ++round) {
    const size_t max = 4 + rng.next_u64() % 60;
    const uint64_t count = 1 + rng.next_u64() % 1000;
    Thinned<uint64_t> kept(max);
    for (uint64_t i = 0; i < count; ++i) {
      kept.push(i);
      const auto& values = kept.values();
      ASSERT_LE(values.size(), max);
      ASSERT_EQ(values.back(), i);
      for (size_t k = 0; k + 1 < values.size(); ++k) ASSERT_EQ(values[k], k * kept.stride());
      ASSERT_LT((values.size() - 1) * kept.stride(), i + kept.stride() + 1);
      ASSERT_GE(values.size(), std::min<size_t>(i + 1, max / 2));
    }
  }
}

/// A name or text of bytes that mean something to one of the formats, or nothing to any.
std::string hostile(Rng& rng) {
  constexpr std::string_view k_bytes = "aZ9_/.:{}\"\\\n\r\t <>&'#=,-\x01\x7f\xc3\xa9\xff\xed";
  std::string text;
  for (uint64_t size = rng.next_u64() % 12; size > 0; --size)
    text += k_bytes[rng.next_u64() % k_bytes.size()];
  return text;
}

TEST(Prometheus, WhateverThingsAreCalledTheTextIsOfTheFormat) {
  Rng rng(property_seed(12));
  for (int round = 0; round < 300; ++round) {
    Board board;
    RunView run;
    run.name = hostile(rng);
    run.cards = {{0, hostile(rng), 1, 2, 3}, {1, hostile(rng), 1, 2, 3}};
    board.begin_run(run);
    board.set_folder(hostile(rng), "", {}, {});
    MetricRow row(1);
    for (int i = 0; i < 20; ++i)
      if (std::string name = hostile(rng); name != "step") row.set(name, rng.uniform());
    row.set("time/" + hostile(rng) + "_s", rng.uniform());
    board.add_row(row, 1, 1);
    for (int i = 0; i < 5; ++i) board.add_event({1, 1, hostile(rng), hostile(rng)});
    ClusterView cluster;
    cluster.version = hostile(rng);
    for (uint32_t node = 0; node < 3; ++node)
      cluster.nodes.push_back(
          {node, hostile(rng), hostile(rng), hostile(rng), 1, 0, 0.5, false, {hostile(rng)}, 0});
    board.set_cluster(cluster);
    const auto read = test::read_prometheus(prometheus_text(board.data(), 2));
    ASSERT_EQ(read.fault, "");
    size_t steps = 0;
    for (const auto& [name, value] : read.samples) steps += name.starts_with("cohort_step_");
    EXPECT_EQ(steps, row.metrics().size());
    ASSERT_EQ(sample::tag_fault(dashboard_page(board.data(), {.now = 2}, "n")), "");
    ASSERT_FALSE(
        nlohmann::json::parse(status_json(board.data(), 2), nullptr, false).is_discarded());
  }
}

}  // namespace
}  // namespace cohort::observe

// FLOW-1, FLOW-2, FLOW-4 over four processes and tcp: a slice of bench/e2e/flow_soak. Everything is
// leased at once, the trainer takes its time: what it has not taken stays where it was made.
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/e2e/flow_rig.hpp"
#include "tests/support/child_process.hpp"

namespace cohort::bench {
namespace {

using Bytes = std::array<uint64_t, k_flow_processes>;

FlowOptions small_flow(const test::TempFolder& folder) {
  FlowOptions options;
  options.warm_up_steps = 0;
  options.steps_ahead = 4;
  options.stream = (folder.path() / "stream").string();
  return options;
}

TEST(Flow, ASlowTrainerSlowsEverybodyAndMemoryStaysFlat) {  // FLOW-4
  test::TempFolder folder;
  FlowOptions options = small_flow(folder);
  options.steps = 2;  // 512 trajectories: 27 MB leave the rollout, 44 MB reach the trainer
  options.credit_bytes = size_t{2} << 20;
  options.record_delay_s = 0.015;
  options.sample_s = 0.1;
  Bytes first{}, most{};
  options.on_sample = [&](double seconds, const Bytes& now) {
    if (seconds < 2) {
      first = now;
      return;
    }
    for (size_t i = 0; i < now.size(); ++i) most[i] = std::max(most[i], now[i]);
  };
  auto result = flow(options);
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_LT(result->rate(), 70);
  EXPECT_EQ(check_stream(options).value(), 512U);      // FLOW-1, FLOW-2
  for (size_t i = 0; i + 1 < k_flow_processes; ++i) {  // the trainer keeps the step
    ASSERT_GT(first[i], 0U);
    EXPECT_LT(most[i], first[i] + (size_t{4} << 20)) << k_flow_names[i];
  }
}

TEST(Flow, OddFramesAndStepsArriveWhole) {  // FLOW-1
  test::TempFolder folder;
  FlowOptions options = small_flow(folder);
  options.steps = 9;
  options.groups = 5;
  options.group_size = 3;
  options.frame_trajectories = 7;
  options.tokens = 1001;
  ASSERT_TRUE(flow(options));
  EXPECT_EQ(check_stream(options).value(), 135U);
}

}  // namespace
}  // namespace cohort::bench

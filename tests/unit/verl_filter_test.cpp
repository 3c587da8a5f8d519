// verl's filter_groups, as this version runs it.
#include <gtest/gtest.h>

#include "tests/support/verl_command.hpp"

namespace cohort::config {
namespace {

using test::quickstart;
using test::warning_of;

RunConfig filtered(std::vector<std::string> more) {
  more.insert(more.begin(), "algorithm.filter_groups.enable=True");
  auto run = load_verl(quickstart(more));
  EXPECT_TRUE(run) << (run ? "" : run.error().detail);
  return run ? *run : RunConfig{};
}

const std::string k_filter = "algorithm.filter_groups.";

TEST(VerlFilter, IsDynamicSampling) {
  for (const auto& [name, metric] :
       {std::pair{"acc", FilterMetric::acc}, std::pair{"score", FilterMetric::score},
        std::pair{"seq_reward", FilterMetric::reward},
        std::pair{"seq_final_reward", FilterMetric::reward}}) {
    const DynamicSampling x =
        filtered({k_filter + "metric=" + name, k_filter + "max_num_gen_batches=3"})
            .dynamic_sampling;
    EXPECT_EQ(x.filter.type, GroupFilter::std_filter);
    EXPECT_EQ(x.metric, metric) << name;
    EXPECT_EQ(x.max_num_gen_batches, 3);
  }
}

TEST(VerlFilter, SaysWhereItDiffers) {
  const RunConfig open = filtered({k_filter + "metric=acc", "+data.gen_batch_size=384"});
  EXPECT_EQ(open.dynamic_sampling.max_num_gen_batches, 10);
  EXPECT_EQ(warning_of(open, k_filter + "max_num_gen_batches"),
            "0 is no bound in verl; here a step trains on what there is after 10 batches");
  EXPECT_NE(warning_of(open, "data.gen_batch_size").find("has no effect"), std::string::npos);
  const RunConfig bound = filtered({k_filter + "metric=acc", k_filter + "max_num_gen_batches=4"});
  EXPECT_EQ(warning_of(bound, k_filter + "max_num_gen_batches"),
            "after 4 batches the step trains on what there is; verl ends the run");
}

}  // namespace
}  // namespace cohort::config

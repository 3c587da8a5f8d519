// The reshard planner on one core: DeepSeek-V3, TP4 PP8 EP32 -> TP2 EP256, and a 70B model from
// ZeRO stage 3; one JSON line per case with the plan's bytes beside its time.
//   reshard_plan_bench [--repeats=7]
// Time is the processor's, of plan_reshard() alone, after one run to warm up.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "runtime/base/check.hpp"
#include "tests/support/reshard_measures.hpp"
#include "tests/support/reshard_models.hpp"

namespace {

using namespace cohort;

struct Case {
  std::string name;
  plan::ModelTensors model;
  plan::ShardLayout from, to;
  plan::ReshardOptions options;
};

Case deepseek(uint32_t replicas, plan::ReshardMode mode) {
  Case x{fmt::format("deepseek_v3_{}_cards_{}", 256 * replicas, plan::to_string(mode)),
         test::deepseek_v3(),
         test::recipe_train(replicas),
         test::make_layout("infer", 2, 1, 128 * replicas, 256),
         {}};
  x.options.mode = mode;
  x.options.bucket_bytes = uint64_t{1} << 30;
  x.options.ranks_per_node = 16;
  x.options.tables_only = mode != plan::ReshardMode::p2p;
  return x;
}

Case zero3(uint32_t cards) {
  Case x{fmt::format("dense_70b_zero3_{}_cards_p2p", cards),
         test::dense_decoder(80, 8192, 64, 8, 28672, 128256),
         test::make_layout("train", 1, 1, cards, 1),
         test::make_layout("infer", 8, 1, cards / 8, 1),
         {}};
  x.from.zero_stage = 3;
  x.options.bucket_bytes = uint64_t{1} << 30;
  return x;
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

void measure(const Case& x, int repeats) {
  std::vector<double> seconds, deviation;
  plan::ReshardPlan last;
  for (int i = 0; i <= repeats; ++i) {
    std::clock_t begin = std::clock();
    auto plan = plan::plan_reshard(x.model, x.from, x.to, x.options);
    if (i > 0) seconds.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    COHORT_CHECK(plan.has_value(), plan.error().to_string());
    last = std::move(*plan);
  }
  double middle = median(seconds);
  for (double each : seconds) deviation.push_back(std::abs(each - middle));
  uint64_t send = 0, receive = 0, bound = 0;
  for (const plan::RankBytes& row : last.ranks) {
    send = std::max(send, row.send);
    receive = std::max(receive, row.receive);
    bound = std::max(bound, row.lower_bound);
  }
  const bool is_p2p = last.options.mode == plan::ReshardMode::p2p;
  fmt::print(
      "{{\"bench\":\"reshard_plan\",\"case\":\"{}\",\"n\":{},\"median_s\":{:.4f},\"mad_s\":{:.4f},"
      "\"transfers\":{},\"rounds\":{},\"receive_max_bytes\":{},\"lower_bound_max_bytes\":{},"
      "\"send_max_bytes\":{},\"send_bound_bytes\":{},\"critical_bytes\":{}}}\n",
      x.name, repeats, middle, median(deviation), last.transfers.size(), last.rounds, receive,
      bound, send, is_p2p ? test::send_bound(last) : 0, test::critical_bytes(last));
}

}  // namespace

int main(int argc, char** argv) {
  int repeats = 7;
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--repeats=", 10) == 0)
      repeats = std::max(1, std::atoi(argv[i] + 10));
  using Mode = plan::ReshardMode;
  for (uint32_t replicas : {1u, 4u}) {
    for (Mode mode : {Mode::all_gather, Mode::tp_then_pp, Mode::directed, Mode::p2p})
      measure(deepseek(replicas, mode), repeats);
  }
  for (uint32_t cards : {64u, 256u}) measure(zero3(cards), repeats);
}

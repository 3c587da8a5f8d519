/// The numbers of DeepSeek-V3's reshard on the A3 recipe's layouts, worked out by hand from the
/// shapes: 84 MiB per expert and layer, 58 such layers, 256 experts.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "tests/support/reshard_measures.hpp"
#include "tests/support/reshard_models.hpp"

namespace cohort::plan {
namespace {

constexpr double k_gib = 1024.0 * 1024.0 * 1024.0;
double gib(uint64_t bytes) { return static_cast<double>(bytes) / k_gib; }

ReshardPlan planned(const ModelTensors& model, const ShardLayout& from, const ShardLayout& to,
                    const ReshardOptions& options) {
  auto plan = plan_reshard(model, from, to, options);
  if (!plan) ADD_FAILURE() << plan.error().to_string();
  assert_invariants(*plan);
  return *plan;
}

struct Spread {
  double min, mean, max;
};
Spread received(const ReshardPlan& plan) {
  auto [least, most] = std::ranges::minmax_element(plan.ranks, {}, &RankBytes::receive);
  return {gib(least->receive), gib(plan.receive_total()) / static_cast<double>(plan.ranks.size()),
          gib(most->receive)};
}

const StepBytes& step(const ReshardPlan& plan, std::string_view name) {
  return *std::ranges::find(plan.steps, name, &StepBytes::name);
}

ReshardOptions mode(ReshardMode mode) {
  ReshardOptions options;
  options.mode = mode;
  return options;
}

class Toy : public testing::Test {  // EP4 PP2 -> EP8 PP1 on eight cards
 protected:
  ModelTensors model = deepseek_experts();
  ShardLayout from = make_layout("train", 1, 2, 4, 4), to = make_layout("infer", 1, 1, 8, 8);
  using M = ReshardMode;
  static ModelTensors deepseek_experts() { return test::deepseek_experts(); }
  static ShardLayout make_layout(const char* name, uint32_t tp, uint32_t pp, uint32_t dp,
                                 uint32_t ep) {
    return test::make_layout(name, tp, pp, dp, ep);
  }
};

TEST(ReshardShapes, DeepSeekV3) {
  EXPECT_EQ(model_bytes(test::deepseek_v3()), 671'026'419'200u * 2);
  EXPECT_DOUBLE_EQ(gib(model_bytes(test::deepseek_experts())), 1218.0);
  EXPECT_NEAR(gib(model_bytes(test::deepseek_dense())), 31.88, 0.01);
}

TEST_F(Toy, AllGather) {
  ReshardPlan plan = planned(model, from, to, mode(M::all_gather));
  for (const RankBytes& x : plan.ranks) EXPECT_DOUBLE_EQ(gib(x.receive), 1065.75);
  EXPECT_DOUBLE_EQ(gib(step(plan, "pp_broadcast").receive_max), 152.25);
  EXPECT_DOUBLE_EQ(gib(step(plan, "ep_gather").receive_max), 913.5);
  EXPECT_DOUBLE_EQ(gib(plan.ranks[0].resident_before), 152.25);
}

TEST_F(Toy, DirectedSendsAsTheRecipeDoes) {
  ReshardPlan plan = planned(model, from, to, mode(M::directed));
  EXPECT_DOUBLE_EQ(received(plan).min, 152.25);
  EXPECT_DOUBLE_EQ(received(plan).max, 304.5);
  std::set<std::pair<uint32_t, uint32_t>> sent;  // of the exchange, without a card's own
  uint8_t exchange = static_cast<uint8_t>(&step(plan, "ep_exchange") - plan.steps.data());
  for (const ReshardTransfer& x : plan.transfers)
    if (x.step == exchange && x.from != x.to) sent.emplace(x.from, x.to);
  // The source of receiver r in its EP group is coordinate r / 2: card 0 sends to 1, 1 to 2 and 3,
  // 6 to 4 and 5, 7 to 6; 2, 3, 4 and 5 send nothing.
  EXPECT_EQ(sent, (std::set<std::pair<uint32_t, uint32_t>>{
                      {0, 1}, {1, 2}, {1, 3}, {6, 4}, {6, 5}, {7, 6}}));
}

TEST_F(Toy, PointToPointNatural) {
  ReshardOptions options;
  options.permute_experts = false;
  Spread x = received(planned(model, from, to, options));
  EXPECT_DOUBLE_EQ(x.min, 76.125);
  EXPECT_DOUBLE_EQ(x.mean, (2 * 76.125 + 6 * 152.25) / 8);  // 133.2
  EXPECT_DOUBLE_EQ(x.max, 152.25);
}

TEST_F(Toy, PointToPointPermuted) {
  ReshardPlan plan = planned(model, from, to, {});
  for (const RankBytes& x : plan.ranks) {
    EXPECT_DOUBLE_EQ(gib(x.receive), 76.125);
    EXPECT_DOUBLE_EQ(gib(x.send), 76.125);
  }
  EXPECT_TRUE(test::is_expert_traffic_in_pp_groups(plan));
  EXPECT_EQ(test::expert_pairs(plan).size(), 8u);
  ASSERT_EQ(plan.to.expert_slots.size(), 1u);
  for (uint32_t expert = 0; expert < 256; ++expert) {
    uint32_t block = expert / 32, stage = block % 2, coordinate = block / 2;  // block 2c + s
    EXPECT_EQ(plan.to.expert_slots[0][expert], 4 * stage + coordinate);
  }
}

class Dies : public testing::Test {  // TP4 PP8 EP32 -> TP2 EP256 on 256 dies
 protected:
  ModelTensors experts = test::deepseek_experts(61, 3);
  ShardLayout from = test::recipe_train(), to = test::make_layout("infer", 2, 1, 128, 256);
};

TEST_F(Dies, PermutedExpertsStayInPipelineGroups) {
  ReshardPlan plan = planned(experts, from, to, {});
  Spread x = received(plan);
  EXPECT_NEAR(x.min, 4.10, 0.005);
  EXPECT_NEAR(x.mean, 4.16, 0.005);
  EXPECT_NEAR(x.max, 4.43, 0.005);
  EXPECT_EQ(plan.receive_total(), uint64_t{256 * 58 - 32 * (4 + 7 + 8 * 5 + 7)} * (84 << 20));
  EXPECT_EQ(test::expert_pairs(plan).size(), 1792u);
  EXPECT_TRUE(test::is_expert_traffic_in_pp_groups(plan));
  for (uint32_t expert = 0; expert < 256; ++expert)  // stage s, coordinate c takes 8c + s
    EXPECT_EQ(plan.to.expert_slots[0][expert], 32 * (expert % 8) + expert / 8);
}

TEST_F(Dies, NaturalExperts) {
  ReshardOptions options;
  options.permute_experts = false;
  Spread x = received(planned(experts, from, to, options));
  EXPECT_NEAR(x.min, 4.10, 0.005);
  EXPECT_NEAR(x.mean, 4.74, 0.005);
  EXPECT_NEAR(x.max, 4.76, 0.005);
}

TEST_F(Dies, RecipeAndBaselineBytes) {
  ReshardOptions options = mode(ReshardMode::directed);
  options.tables_only = true;
  ReshardPlan directed = planned(experts, from, to, options);
  EXPECT_NEAR(gib(step(directed, "pp_broadcast").receive_max), 35.4, 0.05);
  EXPECT_NEAR(gib(step(directed, "ep_exchange").receive_max), 4.76, 0.005);
  options.mode = ReshardMode::all_gather;
  ReshardPlan gathered = planned(experts, from, to, options);
  EXPECT_NEAR(gib(step(gathered, "ep_gather").receive_max), 1180, 0.5);
}

TEST_F(Dies, StagingOfOneLayersW13) {
  experts.tensors.resize(1);
  ReshardOptions options;
  options.tables_only = true;
  auto w13 = [&](ReshardMode m) {
    options.mode = m;
    const auto ranks = planned(experts, from, to, options).ranks;
    return gib(std::ranges::max(ranks, {}, &RankBytes::staging_peak).staging_peak);
  };
  constexpr double k_share = 0.4375;  // of another stage's layer, which the PP broadcast brings
  EXPECT_DOUBLE_EQ(w13(ReshardMode::all_gather), 14.0 + k_share);
  EXPECT_DOUBLE_EQ(w13(ReshardMode::directed), 0.0546875 + k_share);
  EXPECT_LE(w13(ReshardMode::p2p), 0.0546875);
  to = test::make_layout("infer", 2, 1, 128, 128);  // two instances of EP128
  EXPECT_DOUBLE_EQ(w13(ReshardMode::directed), 0.109375 + k_share);
}

TEST_F(Dies, TheRestOfTheModel) {
  ReshardPlan plan = planned(test::deepseek_dense(), from, to, {});
  EXPECT_NEAR(gib(plan.ranks[0].resident_after), 16.9, 0.05);
  auto least = std::ranges::min(plan.ranks, {}, &RankBytes::lower_bound);
  EXPECT_GE(gib(least.lower_bound), 14.8);
  EXPECT_LE(gib(plan.ranks[0].kept), 2.1);
}

TEST_F(Dies, WholeModelAgainstTheRecipe) {
  ReshardOptions options;
  ReshardPlan ours = planned(test::deepseek_v3(), from, to, options);
  options.mode = ReshardMode::directed;
  options.tables_only = true;
  ReshardPlan recipe = planned(test::deepseek_v3(), from, to, options);
  std::printf("receive max GiB: recipe %.2f, p2p %.2f; send max %.2f, bound %.2f; critical %.2f\n",
              received(recipe).max, received(ours).max,
              gib(std::ranges::max(ours.ranks, {}, &RankBytes::send).send),
              gib(test::send_bound(ours)), gib(test::critical_bytes(ours)));
  EXPECT_NEAR(received(recipe).max, 70, 2);
  EXPECT_LT(received(ours).max, 24);
  EXPECT_LT(gib(std::ranges::max(ours.ranks, {}, &RankBytes::send).send),
            1.01 * gib(test::send_bound(ours)));
  options = {};
  options.ranks_per_node = 16;
  options.bucket_bytes = uint64_t{256} << 20;
  ReshardPlan direct = planned(test::deepseek_v3(), from, to, options);
  EXPECT_LT(gib(test::critical_bytes(direct)), 1.02 * gib(test::send_bound(direct)));
}

TEST_F(Dies, GatheringOverTensorParallelFirstHalvesTheFirstStep) {
  ModelTensors model = test::deepseek_dense();
  std::erase_if(model.tensors, [](const TensorSpec& x) {
    return !x.tp_first || x.kind != TensorSpec::Kind::split;
  });
  model.layers = 64;
  for (TensorSpec& x : model.tensors) x.first_layer = 0, x.end_layer = 64;
  from.layers_per_stage.clear();
  ReshardOptions options = mode(ReshardMode::all_gather);
  options.tables_only = true;
  ReshardPlan old_way = planned(model, from, to, options);
  options.mode = ReshardMode::tp_then_pp;
  ReshardPlan new_way = planned(model, from, to, options);
  // Gross bytes of the first step, own part included: n m / t, then n m / p, with p 8 and t 4.
  uint64_t before = step(old_way, "pp_broadcast").receive_max / 7 * 8;
  uint64_t after = step(new_way, "tp_gather").receive_max / 3 * 4;
  EXPECT_EQ(before, 2 * after);
  EXPECT_EQ(old_way.receive_total(), new_way.receive_total());
}

TEST(ReshardScale, ThousandCardsInUnderTwoSeconds) {
  std::clock_t begin = std::clock();
  ReshardOptions options;
  options.bucket_bytes = uint64_t{1} << 30;
  auto plan = plan_reshard(test::deepseek_v3(), test::recipe_train(4),
                           test::make_layout("infer", 2, 1, 512, 256), options);
  double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(plan) << plan.error().to_string();
  assert_invariants(*plan);
  std::printf("1,024 cards: %.3f s of processor time, %zu transfers, %u rounds\n", seconds,
              plan->transfers.size(), plan->rounds);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds, 2.0);
#endif
}

}  // namespace
}  // namespace cohort::plan

// The engine's tensors under the plan's names: every element of a layout is in exactly one part.
#include "actors/roles/weight_parts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "runtime/compute/model/lora_layout.hpp"
#include "runtime/compute/model/model_tp.hpp"
#include "runtime/plan/reshard/model_families.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/reshard_models.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::actors {
namespace {

std::vector<compute::ModelConfig> models() {
  compute::ModelConfig model = tests::tiny_model();
  model.vocab_size = 20;
  std::vector<compute::ModelConfig> all = tests::expert_models(model);
  for (bool is_tied : {true, false})
    for (bool has_bias : {true, false}) {
      model.tie_word_embeddings = is_tied;
      model.attention_bias = has_bias;
      model.family = has_bias ? "qwen2" : "llama";
      all.push_back(model);
    }
  return all;
}

/// Every element of `part`, the layout of a rank of `tp`, is in one part of the plan.
void expect_covered(const plan::ModelTensors& tensors, const compute::ParameterLayout& part, int tp,
                    bool has_experts) {
  plan::ShardLayout layout;
  layout.tp = static_cast<uint32_t>(tp);
  layout.expert_tp = has_experts ? layout.tp : 1;
  layout.ranks = test::consecutive_cards(layout.tp);
  ASSERT_TRUE(plan::check_layout(tensors, layout).has_value());
  const plan::Shards shards(tensors, layout);
  std::vector<std::byte> flat(static_cast<size_t>(part.total_elements) * sizeof(float));
  for (uint32_t rank = 0; rank < layout.tp; ++rank) {
    publish::PartTable table(shards, CardId{rank});
    auto resolved = table.resolve(target_of(part, sizeof(float), flat));
    ASSERT_TRUE(resolved) << resolved.error().detail;
    std::map<const std::byte*, uint64_t> spans;
    for (const auto& each : table.parts()) spans[table.at(each.name)] = each.bytes;
    uint64_t covered = 0;
    const std::byte* end = flat.data();
    for (auto [begin, bytes] : spans) {
      EXPECT_GE(begin, end) << "parts overlap";
      end = begin + bytes;
      covered += bytes;
    }
    EXPECT_EQ(covered, static_cast<uint64_t>(compute::parameter_count(part)) * sizeof(float));
  }
}

TEST(WeightParts, CoverEveryTensorOfEveryRankOnce) {
  for (const compute::ModelConfig& model : models())
    for (int tp : {1, 2, 4})
      expect_covered(plan::reshard_tensors_of(model, sizeof(float)),
                     compute::layout_of(compute::tp_config(model, tp).value()), tp,
                     model.moe.has_value());
}

TEST(WeightParts, CoverEveryMatrixOfAnAdapterOnce) {  // LORA-1
  for (const compute::ModelConfig& model : models()) {
    if (model.mla) continue;
    const auto lora = model::resolve_lora(model, {3, 6, false, {"all-linear"}}).value();
    for (int tp : {1, 2, 4})
      expect_covered(plan::reshard_tensors_of(model, sizeof(float), lora),
                     compute::lora_layout_of(compute::tp_config(model, tp).value(), lora).flat, tp,
                     model.moe.has_value());
  }
}

class Offers : public ::testing::TestWithParam<size_t> {};

TEST_P(Offers, OfATrainEngineAreTheTensorsOfThatName) {
  compute::TrainEngineOptions options = tests::tiny_options();
  options.model = models()[GetParam()];
  tests::TrainRig rig(options);
  const plan::ModelTensors tensors = plan::reshard_tensors_of(options.model, sizeof(float));
  const publish::Source source = source_of(*rig.engine);
  const std::vector<std::byte> flat = tests::flat_weights(*rig.engine);
  std::vector<std::byte> copy(flat.size());
  const publish::Target target = target_of(rig.engine->layout(), sizeof(float), copy);
  for (uint32_t family = 0; family < tensors.tensors.size(); ++family) {
    const plan::Interval layers = plan::family_layers(tensors.tensors[family]);
    for (uint64_t layer = layers.begin; layer < layers.end; ++layer)
      for (uint32_t expert = 0; expert < plan::family_experts(tensors.tensors[family]); ++expert) {
        const publish::PartName part{family, layer, expert};
        ASSERT_EQ(source(part).size(), target(part).size());
        std::ranges::copy(source(part), target(part).begin());
      }
  }
  EXPECT_EQ(copy, flat);
}

INSTANTIATE_TEST_SUITE_P(Models, Offers, ::testing::Range(size_t{0}, size_t{4}));

/// EP-1 is plan::ShardLayout's order.
void expect_ranks_offer_their_experts(const std::optional<model::LoraShape>& lora) {
  compute::TrainEngineOptions options = tests::tiny_options();
  options.model = tests::moe_model();
  options.lora = lora;
  const plan::ModelTensors tensors = plan::reshard_tensors_of(options.model, sizeof(float), lora);
  plan::ShardLayout layout;
  layout.dp = 4;
  layout.ep = 2;
  layout.ranks = test::consecutive_cards(layout.dp);
  const plan::Shards shards(tensors, layout);
  tests::TrainRig whole(options);
  const publish::Source all = source_of(*whole.engine);
  auto rendezvous = compute::Rendezvous::in_process();
  tests::on_threads(4, [&](int rank) {
    auto group = compute::Collectives::join(tests::group_options(rank, 4, "g", rendezvous)).value();
    compute::TrainEngineOptions mine = options;
    mine.zero.group = group.get();
    mine.zero.expert_ways = 2;
    tests::TrainRig rig(mine);
    const publish::Source source = source_of(*rig.engine);
    publish::PartTable table(shards, CardId{static_cast<uint32_t>(rank)});
    const auto resolved = table.resolve(source, 1);
    ASSERT_TRUE(resolved) << resolved.error().detail;
    uint64_t bytes = 0;
    for (const auto& part : table.parts()) {
      EXPECT_TRUE(std::ranges::equal(source(part.name), all(part.name)));
      bytes += part.bytes;
    }
    EXPECT_EQ(bytes, static_cast<uint64_t>(compute::parameter_count(rig.engine->layout())) *
                         sizeof(float));
  });
}

TEST(WeightParts, ARankWithItsExpertsOffersThePlansParts) {
  expect_ranks_offer_their_experts(std::nullopt);
  const model::LoraShape lora{3, 6, false, {"all-linear"}};
  expect_ranks_offer_their_experts(model::resolve_lora(tests::moe_model(), lora).value());
}

}  // namespace
}  // namespace cohort::actors

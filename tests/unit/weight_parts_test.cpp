// The engine's tensors under the plan's names: every element of a layout is in exactly one part.
#include "actors/roles/weight_parts.hpp"

#include <gtest/gtest.h>

#include <map>

#include "runtime/compute/model/model_tp.hpp"
#include "runtime/plan/reshard/model_families.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"
#include "tests/support/reshard_models.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::actors {
namespace {

TEST(WeightParts, CoverEveryTensorOfEveryRankOnce) {
  for (bool is_tied : {true, false})
    for (bool has_bias : {true, false})
      for (int tp : {1, 2, 4}) {
        compute::ModelConfig model = tests::tiny_model();
        model.vocab_size = 20;
        model.tie_word_embeddings = is_tied;
        model.attention_bias = has_bias;
        if (!has_bias) model.family = "llama";
        const plan::ModelTensors tensors = plan::reshard_tensors_of(model, sizeof(float));
        plan::ShardLayout layout;
        layout.tp = static_cast<uint32_t>(tp);
        layout.ranks = test::consecutive_cards(layout.tp);
        const plan::Shards shards(tensors, layout);
        const compute::ParameterLayout part =
            compute::layout_of(compute::tp_config(model, tp).value());
        std::vector<std::byte> flat(static_cast<size_t>(part.total_elements) * sizeof(float));
        for (uint32_t rank = 0; rank < layout.tp; ++rank) {
          publish::PartTable table(shards, CardId{rank});
          auto resolved = table.resolve(target_of(tensors, part, sizeof(float), flat));
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
}

TEST(WeightParts, ATrainEngineOffersTheTensorsOfThatName) {
  compute::TrainEngineOptions options = tests::tiny_options();
  tests::TrainRig rig(options);
  const plan::ModelTensors tensors = plan::reshard_tensors_of(options.model, sizeof(float));
  const publish::Source source = source_of(tensors, *rig.engine);
  const std::vector<std::byte> flat = tests::flat_weights(*rig.engine);
  std::vector<std::byte> copy(flat.size());
  const publish::Target target = target_of(tensors, rig.engine->layout(), sizeof(float), copy);
  for (uint32_t family = 0; family < tensors.tensors.size(); ++family) {
    const plan::Interval layers = plan::family_layers(tensors.tensors[family]);
    for (uint64_t layer = layers.begin; layer < layers.end; ++layer) {
      const publish::PartName part{family, layer, 0};
      ASSERT_EQ(source(part).size(), target(part).size());
      std::ranges::copy(source(part), target(part).begin());
    }
  }
  EXPECT_EQ(copy, flat);
}

}  // namespace
}  // namespace cohort::actors

// TP-1: a rank's part of every tensor is the one that the reshard planner gives it, element by
// element; sizes that do not divide are refused by name.
#include "runtime/compute/model/model_tp.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "runtime/plan/reshard/model_families.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/reshard_models.hpp"
#include "tests/support/tp_cut.hpp"

namespace cohort::compute {
namespace {

ModelConfig model(int64_t kv_heads, bool is_tied) {
  ModelConfig c;
  c.vocab_size = 24;
  c.hidden_size = 20;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 8;
  c.num_key_value_heads = kv_heads;
  c.head_dim = 6;
  c.intermediate_size = 28;
  c.max_position = 64;
  c.attention_bias = is_tied;
  c.tie_word_embeddings = is_tied;
  return c;
}

/// Numbers of the elements that the planner gives position `rank`, in the order of the buffer.
/// Elements are numbered through the whole model, without padding.
std::vector<float> planned_part(const ModelConfig& c, int rank, int size) {
  const plan::ModelTensors tensors = plan::reshard_tensors_of(c, sizeof(float));
  plan::ShardLayout layout;
  layout.name = "infer";
  layout.tp = static_cast<uint32_t>(size);
  layout.expert_tp = c.moe ? layout.tp : 1;
  layout.ranks = test::consecutive_cards(layout.tp);
  plan::check_layout(tensors, layout).value();
  const plan::Shards shards(tensors, layout);
  const auto place = shards.place(static_cast<uint32_t>(rank));
  std::vector<float> part;
  uint64_t base = 0;
  const auto visit = [&](const plan::TensorSpec& spec) {
    const plan::Interval cut = spec.kind == plan::TensorSpec::Kind::replicated
                                   ? plan::Interval{0, spec.split}
                                   : shards.slice(spec, shards.slice_of(spec, place));
    for (uint64_t o = 0; o < spec.outer; ++o)
      for (uint64_t s = cut.begin; s < cut.end; ++s)
        for (uint64_t i = 0; i < spec.inner; ++i)
          part.push_back(static_cast<float>(base + (o * spec.split + s) * spec.inner + i));
    base += spec.outer * spec.split * spec.inner;
  };
  using Where = plan::TensorSpec::Where;
  for (const auto& spec : tensors.tensors)
    if (spec.where == Where::first_stage || spec.where == Where::both_ends) visit(spec);
  for (uint32_t layer = 0; layer < tensors.layers; ++layer)
    for (const auto& spec : tensors.tensors)
      if (spec.where == Where::layers && spec.first_layer <= layer && layer < spec.end_layer)
        for (uint32_t expert = 0; expert < plan::family_experts(spec); ++expert) visit(spec);
  for (const auto& spec : tensors.tensors)
    if (spec.where == Where::last_stage) visit(spec);
  return part;
}

std::vector<float> cut_part(const ModelConfig& c, int rank, int size) {
  const ParameterLayout all = layout_of(c);
  std::vector<float> flat(static_cast<size_t>(all.total_elements), -1.F);
  float number = 0;
  for (const ParameterSpec& spec : all.specs)
    for (int64_t i = 0; i < spec.count; ++i) flat[static_cast<size_t>(spec.offset + i)] = number++;
  const ParameterLayout own = layout_of(tp_config(c, size).value());
  std::vector<float> part(static_cast<size_t>(own.total_elements), -1.F);
  tests::cut_flat(c, {rank, size}, sizeof(float), std::as_bytes(std::span(flat)),
                  std::as_writable_bytes(std::span(part)));
  std::vector<float> tight;
  for (const ParameterSpec& spec : own.specs)
    tight.insert(tight.end(), part.begin() + spec.offset, part.begin() + spec.offset + spec.count);
  EXPECT_EQ(std::count(part.begin(), part.end(), -1.F), 0);  // LAYOUT-3
  return tight;
}

TEST(TensorParallelModel, TheCutIsThePlanners) {
  for (int64_t kv_heads : {8, 4, 2, 1})
    for (bool is_tied : {true, false})
      for (int size : {1, 2, 4})
        for (int rank = 0; rank < size; ++rank)
          EXPECT_EQ(cut_part(model(kv_heads, is_tied), rank, size),
                    planned_part(model(kv_heads, is_tied), rank, size))
              << kv_heads << " kv heads, rank " << rank << " of " << size;
}

TEST(TensorParallelModel, ExpertsAreCutByTheirWidthAndLatentAttentionByHeads) {
  for (const ModelConfig& c : tests::expert_models(model(4, true)))
    for (int size : {1, 2, 4})
      for (int rank = 0; rank < size; ++rank)
        EXPECT_EQ(cut_part(c, rank, size), planned_part(c, rank, size))
            << c.family << ", rank " << rank << " of " << size;
}

TEST(TensorParallelModel, ASizeThatDoesNotDivideIsNamed) {
  const auto text = [](const ModelConfig& c, int size) {
    const auto part = tp_config(c, size);
    return part ? "" : part.error().detail;
  };
  EXPECT_NE(text(model(2, true), 3).find("num_attention_heads = 8"), std::string::npos);
  EXPECT_NE(text(model(2, true), 8).find("intermediate_size = 28"), std::string::npos);
  EXPECT_NE(text(model(2, true), 0).find("size = 0"), std::string::npos);
  ModelConfig odd = model(2, true);
  odd.vocab_size = 25;
  EXPECT_NE(text(odd, 2).find("vocab_size = 25"), std::string::npos);
  odd = model(6, true);
  odd.num_attention_heads = 12;
  EXPECT_NE(text(odd, 4).find("num_key_value_heads = 6"), std::string::npos);
  EXPECT_EQ(tp_config(model(2, true), 1).value(), model(2, true));
  ModelConfig experts = tests::expert_models(model(4, true))[1];
  experts.moe->moe_intermediate_size = 9;
  EXPECT_NE(text(experts, 2).find("moe_intermediate_size = 9"), std::string::npos);
  experts.moe->moe_intermediate_size = 8;
  experts.moe->shared_intermediate_size = 9;
  EXPECT_NE(text(experts, 2).find("the shared experts = 9"), std::string::npos);
}

}  // namespace
}  // namespace cohort::compute

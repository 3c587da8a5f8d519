#include <gtest/gtest.h>

#include <array>

#include "runtime/plan/estimate/memory_model.hpp"

namespace cohort::plan::plan_memory_test {
namespace {

using model::check_shape;
using model::find_model;
using model::parameter_count;

/// Qwen2.5-0.5B: its model card says 0.49 B parameters, 0.36 B without embedding.
ModelShape qwen_half_billion() {
  return {.vocab_size = 151936,
          .hidden_size = 896,
          .num_hidden_layers = 24,
          .num_attention_heads = 14,
          .num_key_value_heads = 2,
          .head_dim = 64,
          .intermediate_size = 4864,
          .attention_bias = true,
          .tie_word_embeddings = true};
}

ModelShape tiny() {
  return {.vocab_size = 10,
          .hidden_size = 4,
          .num_hidden_layers = 1,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .head_dim = 2,
          .intermediate_size = 8,
          .attention_bias = true,
          .tie_word_embeddings = false};
}

TEST(MemoryModel, CountsAPublishedModel) {
  EXPECT_EQ(parameter_count(qwen_half_billion()), 494032768u);
  EXPECT_EQ(kv_bytes_per_token(qwen_half_billion(), 2), 2u * 24 * 2 * 64 * 2);
}

TEST(MemoryModel, CountsByHandAndPadsEachGroup) {
  // embedding 40, norms 4+4, q 16, k 8, v 8, o 16, gate/up/down 32 each, biases 4+2+2, norm 4, head
  // 40
  EXPECT_EQ(parameter_count(tiny()), 244u);
  EXPECT_EQ(flat_element_count(tiny()), 48u + 32 + 32 + 16 + 64 + 32 + 16 + 16 + 48);
}

TEST(MemoryModel, TrainBytesFollowTheOptimizerAndTheShards) {
  uint64_t n = flat_element_count(tiny());
  auto bytes = train_bytes(tiny(), {});
  EXPECT_EQ(bytes.at(Object::train_params), 4 * n);
  EXPECT_EQ(bytes.at(Object::grads), 4 * n);
  EXPECT_EQ(bytes.at(Object::optimizer), 8 * n);
  auto mixed = train_bytes(tiny(), {.param_bytes = 2, .has_master = true, .zero_stage = 1});
  EXPECT_EQ(mixed.at(Object::train_params), 2 * n);
  EXPECT_EQ(mixed.at(Object::grads), 4 * n);
  EXPECT_EQ(mixed.at(Object::optimizer), 12 * n);
}

TEST(MemoryModel, ZeroCutsEachTensorAndTheMasterGoesWithTheOptimizer) {
  const uint64_t n = flat_element_count(tiny());
  auto at_stage = [](uint32_t stage, uint64_t param_bytes, uint64_t shards) {
    TrainMemory memory = builtin_train_memory(param_bytes);
    memory.shards = shards;
    memory.zero_stage = stage;
    return memory;
  };
  // halves of 40, 4, 16, 8, 8, 4, 2, 2, 16, 4, 64 (gate with up), 32, 4, 40: 122, rounded up
  constexpr uint64_t k_half = 128;
  auto bytes = [&](uint32_t stage, uint64_t param_bytes) {
    auto x = train_bytes(tiny(), at_stage(stage, param_bytes, 2));
    return std::array<uint64_t, 3>{x.at(Object::train_params), x.at(Object::grads),
                                   x.at(Object::optimizer)};
  };
  EXPECT_EQ(bytes(0, 4), (std::array<uint64_t, 3>{4 * n, 4 * n, 8 * n}));
  EXPECT_EQ(bytes(1, 4), (std::array<uint64_t, 3>{4 * n, 4 * n, 8 * k_half}));
  EXPECT_EQ(bytes(2, 4), (std::array<uint64_t, 3>{4 * n, 4 * k_half, 8 * k_half}));
  EXPECT_EQ(bytes(3, 4), (std::array<uint64_t, 3>{4 * k_half, 4 * k_half, 8 * k_half}));
  EXPECT_EQ(bytes(0, 2), (std::array<uint64_t, 3>{6 * n, 4 * n, 8 * n}));
  EXPECT_EQ(bytes(1, 2), (std::array<uint64_t, 3>{2 * n, 4 * n, 12 * k_half}));
  // three cards: 14 + 2 + 6 + 3 + 3 + 2 + 1 + 1 + 6 + 2 + 22 + 11 + 2 + 14 = 89
  EXPECT_EQ(train_bytes(tiny(), at_stage(2, 4, 3)).at(Object::grads), 4u * 96);
  TrainMemory swapped = at_stage(1, 2, 2);
  swapped.swap_optimizer = true;
  EXPECT_EQ(train_bytes(tiny(), swapped).at(Object::optimizer), 12u * 16);  // 128 / 16, rounded up
  EXPECT_EQ(train_host_bytes(tiny(), swapped).at(Object::optimizer), 12 * k_half);
  // the largest unit is a layer: 2 + 8 + 4 + 4 + 2 + 1 + 1 + 8 + 2 + 32 + 16 of each rank
  EXPECT_EQ(train_buffers(tiny(), at_stage(2, 4, 2)), (TrainBuffers{2 * 2 * 80 * 4, 0}));
  EXPECT_EQ(train_buffers(tiny(), at_stage(3, 2, 1)).gathered,
            2u * (16 + 32 + 16 + 16 + 16 + 64 + 32));
}

TEST(MemoryModel, CacheRoundsUpToBlocks) {
  InferMemory memory{.kv_tokens = 17};
  uint64_t per_token = kv_bytes_per_token(tiny(), 4);
  EXPECT_EQ(infer_bytes(tiny(), memory).at(Object::kv_cache), 32 * per_token);
}

TEST(MemoryModel, CriticHasAValueHeadInPlaceOfTheOutputHead) {
  uint64_t n = flat_element_count(tiny()) - 48 + 16;
  EXPECT_EQ(critic_bytes(tiny(), {}).at(Object::critic_params), 4 * n);
  EXPECT_EQ(reference_bytes(tiny(), 2).at(Object::ref_params), 2 * flat_element_count(tiny()));
}

TEST(MemoryModel, BuiltInEngineHoldsTheMasterWithItsParameters) {
  uint64_t n = flat_element_count(tiny());
  auto half = train_bytes(tiny(), builtin_train_memory(2));
  EXPECT_EQ(half.at(Object::train_params), 6 * n);
  EXPECT_EQ(half.at(Object::grads), 4 * n);
  EXPECT_EQ(half.at(Object::optimizer), 8 * n);
  EXPECT_EQ(train_bytes(tiny(), builtin_train_memory(4)).at(Object::train_params), 4 * n);
}

TEST(MemoryModel, PanelsOfThirtyTwoColumnsByHand) {
  // embedding and head 32*4 each; norms 3 * 32; qkv 32*4, its bias 32; o 32*4; gate and up in one
  // panel 32*4, down 32*8
  EXPECT_EQ(panel_word_count(tiny(), 32, 4), 2u * 128 + 96 + 128 + 32 + 128 + 128 + 256);
  InferMemory memory = builtin_infer_memory(4);
  EXPECT_EQ(infer_bytes(tiny(), memory).at(Object::infer_params), 4u * 1024);
  // a key of 2 floats, a value of 2 padded to 16
  EXPECT_EQ(kv_bytes_per_token(tiny(), memory), (2u + 16) * 4);
  // in bf16 a word is two of a column's numbers; norms and the bias stay f32
  EXPECT_EQ(panel_word_count(tiny(), 32, 2), 2u * 64 + 96 + 64 + 32 + 64 + 64 + 128);
  memory = builtin_infer_memory(2);
  EXPECT_EQ(infer_bytes(tiny(), memory).at(Object::infer_params), 4u * 576);
  EXPECT_EQ(kv_bytes_per_token(tiny(), memory), (2u + 16) * 2);
}

TEST(MemoryModel, LatentCacheKeepsOneVectorPerLayer) {  // arXiv 2412.19437: 512 + 64
  EXPECT_EQ(kv_bytes_per_token(*find_model("DeepSeek-V3"), 2), 61u * 576 * 2);
  EXPECT_EQ(kv_bytes_on_card(*find_model("DeepSeek-V3"), {.tp = 2}, 2), 61u * 576 * 2);
}

TEST(MemoryModel, EngineStatesPerElement) {
  auto sum = [](Engine engine, uint64_t bytes) {
    StateBytes x = state_of(engine, bytes);
    return std::array<uint64_t, 3>{x.params, x.grads, x.optimizer};
  };
  EXPECT_EQ(sum(Engine::deepspeed, 2), (std::array<uint64_t, 3>{2, 2, 12}));  // ZeRO's 16 bytes
  EXPECT_EQ(sum(Engine::megatron, 2), (std::array<uint64_t, 3>{2, 4, 12}));
  EXPECT_EQ(sum(Engine::fsdp, 2), (std::array<uint64_t, 3>{4, 4, 8}));
  EXPECT_EQ(sum(Engine::builtin, 2), (std::array<uint64_t, 3>{6, 4, 8}));
  EXPECT_EQ(sum(Engine::builtin, 4), (std::array<uint64_t, 3>{4, 4, 8}));
}

TEST(MemoryModel, CutsThatCannotBeNameTheNearest) {
  ModelShape qwen = qwen_half_billion();
  auto error = [](const ModelShape& shape, const ShardCut& cut) {
    auto done = check_cut(shape, cut, "actor_infer");
    return done ? "accepted" : done.error().detail;
  };
  EXPECT_EQ(error(qwen, {.tp = 4}),
            "actor_infer: tensor parallel 4 does not divide num_attention_heads 14: 14 = 3*4 + 2; "
            "nearest that work: 2, 14");
  EXPECT_EQ(error(qwen, {.tp = 7}),
            "actor_infer: tensor parallel 7 neither divides nor is a multiple of "
            "num_key_value_heads 2; nearest that work: 2, 14");
  EXPECT_EQ(error(qwen, {.tp = 2}), "accepted");
  EXPECT_EQ(error(qwen, {.pp = 25}), "actor_infer: pipeline parallel 25 for 24 layers; at most 24");
  EXPECT_EQ(error(qwen, {.ep = 2}),
            "actor_infer: expert parallel 2 for a model without experts; set it to 1");
  EXPECT_EQ(error(*find_model("Qwen3-30B-A3B"), {.ep = 24}),
            "actor_infer: expert parallel 24 does not divide num_experts 128; nearest that work: "
            "16, 32");
  EXPECT_NE(error(qwen, {.pp = 2, .layers_per_stage = {12, 13}}).find("together 25 layers"),
            std::string::npos);
}

TEST(MemoryModel, ShapesThatCannotBeAreNamed) {
  EXPECT_TRUE(check_shape(qwen_half_billion()));
  ModelShape shape = tiny();
  shape.num_hidden_layers = 0;
  EXPECT_EQ(check_shape(shape).error().detail, "model: num_hidden_layers is 0");
  shape = tiny();
  shape.num_attention_heads = 3;
  shape.num_key_value_heads = 2;
  EXPECT_EQ(check_shape(shape).error().detail,
            "model: num_attention_heads 3 is not a multiple of num_key_value_heads 2");
  shape = tiny();
  shape.num_hidden_layers = 1 << 24;
  shape.hidden_size = 1 << 24;
  shape.intermediate_size = 1 << 24;
  EXPECT_FALSE(check_shape(shape));
}

}  // namespace
}  // namespace cohort::plan::plan_memory_test

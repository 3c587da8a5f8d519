// The planner's bytes against what the built-in engines take, to the byte.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/generate/built_in_engine.hpp"
#include "runtime/compute/kernels/decode_kernels.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/compute/model/model_tp.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/compute/train/zero_layout.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/plan/estimate/memory_model.hpp"
#include "tests/support/family_models.hpp"

namespace cohort {
namespace {

compute::ModelConfig config_of(int64_t vocab, int64_t hidden, int64_t layers, int64_t heads,
                               int64_t kv_heads, int64_t head_dim, int64_t intermediate) {
  compute::ModelConfig out;
  out.vocab_size = vocab;
  out.hidden_size = hidden;
  out.num_hidden_layers = layers;
  out.num_attention_heads = heads;
  out.num_key_value_heads = kv_heads;
  out.head_dim = head_dim;
  out.intermediate_size = intermediate;
  out.max_position = 64;
  return out;
}

/// Shapes with and without padding, and Qwen2.5-0.5B's; each with both biases and both heads.
std::vector<compute::ModelConfig> models() {
  std::vector<compute::ModelConfig> out;
  for (compute::ModelConfig x :
       {config_of(19, 32, 2, 4, 2, 16, 40), config_of(10, 6, 3, 3, 1, 2, 7),
        config_of(60, 64, 2, 4, 2, 16, 192), config_of(101, 30, 1, 5, 5, 6, 50),
        config_of(151936, 896, 24, 14, 2, 64, 4864)})
    for (bool bias : {false, true})
      for (bool tied : {false, true}) {
        x.attention_bias = bias;
        x.family = bias ? "qwen2" : "llama";  // Qwen2 has biases whatever the file says
        x.tie_word_embeddings = tied;
        out.push_back(x);
      }
  for (const compute::ModelConfig& x : tests::expert_models(config_of(19, 32, 3, 4, 2, 10, 40)))
    out.push_back(x);
  return out;
}

TEST(MemoryAgreement, FlatElementsAreThoseOfTheLayout) {
  for (const compute::ModelConfig& x : models()) {
    compute::ParameterLayout layout = compute::layout_of(x);
    EXPECT_EQ(plan::flat_element_count(x), static_cast<uint64_t>(layout.total_elements));
    EXPECT_EQ(model::parameter_count(x), static_cast<uint64_t>(compute::parameter_count(layout)));
  }
}

TEST(MemoryAgreement, ATensorParallelPartHasOneShape) {
  std::vector<compute::ModelConfig> all = tests::expert_models(config_of(60, 64, 2, 4, 2, 16, 192));
  all.push_back(config_of(60, 64, 2, 4, 2, 16, 192));
  for (const compute::ModelConfig& whole : all)
    for (int tp : {1, 2, 4})
      EXPECT_EQ((compute::ModelConfig{model::tp_part(whole, tp), whole.dtype}),
                compute::tp_config(whole, tp).value());
}

TEST(MemoryAgreement, HfConfigIsReadAlike) {
  for (const compute::ModelConfig& x : models()) {
    auto shape = model::read_hf_config(model::write_hf_config({.shape = x}), "");
    ASSERT_TRUE(shape) << shape.error().detail;
    EXPECT_EQ(shape->shape, static_cast<const model::ModelShape&>(x));
  }
}

TEST(MemoryAgreement, TrainingObjectsInBothTypes) {
  for (compute::ModelConfig x : {models()[1], models()[6], models()[20], models()[22]})
    for (auto dtype : {tensor::Dtype::f32, tensor::Dtype::bf16}) {
      x.dtype = dtype;
      compute::CardMemory card(CardId{0}, uint64_t{64} << 20);
      compute::TrainEngineOptions options;
      options.model = x;
      options.card = &card;
      auto engine = compute::TrainEngine::create(options).value();
      auto bytes = plan::train_bytes(x, plan::builtin_train_memory(tensor::size_of(dtype)));
      EXPECT_EQ(engine->object_bytes(compute::TrainObject::train_params),
                bytes.at(plan::Object::train_params));
      EXPECT_EQ(engine->object_bytes(compute::TrainObject::grads), bytes.at(plan::Object::grads));
      EXPECT_EQ(engine->object_bytes(compute::TrainObject::optimizer),
                bytes.at(plan::Object::optimizer));
      uint64_t sum = 0;
      for (auto object : {compute::TrainObject::train_params, compute::TrainObject::grads,
                          compute::TrainObject::optimizer})
        ASSERT_TRUE(engine->onload(object));
      for (auto [object, size] : bytes) sum += size;
      EXPECT_EQ(card.bytes_in_use(), sum);
    }
}

TEST(MemoryAgreement, TrainingObjectsOfEveryStage) {  // without a group: the card's share alone
  for (compute::ModelConfig x :
       {models()[1], models()[6], models()[13], models()[21], models()[22]})
    for (auto dtype : {tensor::Dtype::f32, tensor::Dtype::bf16})
      for (uint32_t stage : {0u, 1u, 2u, 3u})
        for (int way : {0, 1, 2, 3}) {  // nothing, offload_optimizer, swap, offload_params
          x.dtype = dtype;
          compute::CardMemory card(CardId{0}, uint64_t{64} << 20);
          compute::TrainEngineOptions options;
          options.model = x;
          options.card = &card;
          options.zero.stage = static_cast<int>(stage);
          options.zero.offload_optimizer = way == 1;
          options.zero.swap_optimizer = way == 2;
          options.zero.offload_params = way == 3;
          plan::TrainMemory memory = plan::builtin_train_memory(tensor::size_of(dtype));
          memory.zero_stage = stage;
          memory.offload_optimizer = way == 1;
          memory.swap_optimizer = way == 2;
          memory.offload_params = way == 3;
          auto engine = compute::TrainEngine::create(options).value();
          auto bytes = plan::train_bytes(x, memory);
          const std::pair<compute::TrainObject, plan::Object> objects[] = {
              {compute::TrainObject::train_params, plan::Object::train_params},
              {compute::TrainObject::grads, plan::Object::grads},
              {compute::TrainObject::optimizer, plan::Object::optimizer}};
          uint64_t sum = 0;
          for (auto [mine, planned] : objects) {
            EXPECT_EQ(engine->object_bytes(mine), bytes.at(planned)) << stage << " " << way;
            ASSERT_TRUE(engine->onload(mine));
            EXPECT_TRUE(engine->is_on_card(mine));
            sum += bytes.at(planned);
          }
          EXPECT_EQ(card.bytes_in_use(), sum) << stage << " " << way;
          for (auto [mine, planned] : objects) ASSERT_TRUE(engine->offload(mine));
          EXPECT_EQ(card.bytes_in_use(), 0u) << stage << " " << way;
        }
}

/// Ranks exchange by unit, and dense layers and those with experts are units of other sizes.
TEST(MemoryAgreement, BuffersAreThoseOfTheLargestUnit) {
  for (const compute::ModelConfig& x : tests::expert_models(config_of(19, 32, 3, 4, 2, 10, 40)))
    for (int ranks : {1, 2, 3}) {
      const compute::ZeroLayout zero(compute::layout_of(x), ranks);
      plan::TrainMemory memory = plan::builtin_train_memory(sizeof(float));
      memory.shards = static_cast<uint64_t>(ranks);
      memory.zero_stage = 3;
      const plan::TrainBuffers buffers = plan::train_buffers(x, memory);
      const int64_t part = ranks > 1 ? zero.largest_unit_part() : 0;
      EXPECT_EQ(buffers.exchange, sizeof(float) * static_cast<uint64_t>(2 * ranks * part))
          << x.family << " " << ranks;
      const std::vector<compute::ZeroUnit>& units = zero.units();
      int64_t largest = units.back().elements();
      if (x.tie_word_embeddings) largest += units.front().elements();
      for (const compute::ZeroUnit& unit : units) largest = std::max(largest, unit.elements());
      EXPECT_EQ(buffers.gathered, sizeof(float) * static_cast<uint64_t>(largest))
          << x.family << " " << ranks;
    }
}

/// What a latent is worth: 8 + 4 values of a token in place of 2 x 4 heads x (12, 6).
TEST(MemoryAgreement, ATokenOfLatentAttentionIsItsLatentAndOneKey) {
  const compute::ModelConfig latent = tests::expert_models(config_of(19, 32, 3, 4, 2, 10, 40))[2];
  EXPECT_EQ(plan::kv_bytes_per_token(latent, plan::builtin_infer_memory(2)), 3u * (8 + 4) * 2);
  EXPECT_EQ(plan::kv_bytes_per_token(latent, plan::builtin_infer_memory(4)), 3u * (8 + 4) * 4);
  // On every card of a tensor-parallel group.
  EXPECT_EQ(plan::kv_bytes_per_token(model::tp_part(latent, 2), plan::builtin_infer_memory(2)),
            3u * (8 + 4) * 2);
}

TEST(MemoryAgreement, GenerationObjectsInBothTypes) {
  for (compute::ModelConfig x : models()) {
    if (x.vocab_size > 1000 || x.head_dim % 2 != 0) continue;
    for (auto dtype : {tensor::Dtype::f32, tensor::Dtype::bf16}) {
      x.dtype = dtype;
      compute::CardMemory card(CardId{0}, uint64_t{64} << 20);
      compute::BuiltInOptions options;
      options.model = x;
      options.card = &card;
      auto engine = compute::open_built_in(options).value();
      plan::InferMemory memory = plan::builtin_infer_memory(tensor::size_of(dtype));
      if (memory.panel_columns > 0)
        memory.panel_columns = static_cast<uint64_t>(compute::cpu::decode_kernels().panel);
      memory.kv_tokens = 160;
      auto bytes = plan::infer_bytes(x, memory);
      EXPECT_EQ(engine->capacity().param_bytes, bytes.at(plan::Object::infer_params));
      EXPECT_EQ(engine->capacity().kv_token_bytes, plan::kv_bytes_per_token(x, memory));
      ASSERT_TRUE(engine->onload_params());
      ASSERT_TRUE(engine->init_cache(bytes.at(plan::Object::kv_cache)));
      EXPECT_EQ(card.bytes_in_use(),
                bytes.at(plan::Object::infer_params) + bytes.at(plan::Object::kv_cache));
    }
  }
}

/// Products of many shapes leave no more than 128 compiled ones behind.
TEST(MemoryBound, OneDnnKeepsFewCompiledProducts) {
  if (std::getenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY") != nullptr ||
      std::getenv("DNNL_PRIMITIVE_CACHE_CAPACITY") != nullptr)
    GTEST_SKIP() << "the environment says how many";
  compute::use_single_threaded_math();
  auto* get =
      reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, "dnnl_get_primitive_cache_capacity"));
  if (get == nullptr) GTEST_SKIP() << "this libtorch shows no oneDNN";
  int capacity = 0;
  EXPECT_EQ(get(&capacity), 0);
  EXPECT_EQ(capacity, 128);
}

}  // namespace
}  // namespace cohort

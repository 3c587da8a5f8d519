#include <gtest/gtest.h>

#include "runtime/plan/memory_model.hpp"
#include "runtime/plan/packing.hpp"

namespace cohort::plan {
namespace {

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

TEST(MemoryModel, CountsByHandAndPadsEachTensor) {
  // embedding 40, norms 4+4, q 16, k 8, v 8, o 16, gate/up/down 32 each, biases 4+2+2, norm 4, head
  // 40
  EXPECT_EQ(parameter_count(tiny()), 244u);
  EXPECT_EQ(flat_element_count(tiny()), 48u + 32 + 16 * 4 + 32 * 3 + 16 * 3 + 16 + 48);
}

TEST(MemoryModel, TrainBytesFollowTheOptimizerAndTheShards) {
  uint64_t n = flat_element_count(tiny());
  auto bytes = train_bytes(tiny(), {});
  EXPECT_EQ(bytes.at(Object::train_params), 4 * n);
  EXPECT_EQ(bytes.at(Object::grads), 4 * n);
  EXPECT_EQ(bytes.at(Object::optimizer), 8 * n);
  auto mixed = train_bytes(tiny(), {.param_bytes = 2, .grad_copies = 2, .has_master = true});
  EXPECT_EQ(mixed.at(Object::train_params), 2 * n);
  EXPECT_EQ(mixed.at(Object::grads), 8 * n);
  EXPECT_EQ(mixed.at(Object::optimizer), 12 * n);
  EXPECT_EQ(train_bytes(tiny(), {.optimizer = OptimizerKind::sgd}).at(Object::optimizer), 0u);
  EXPECT_EQ(train_bytes(tiny(), {.shards = 2}).at(Object::grads), 4 * (n / 2 + 15) / 64 * 64);
}

TEST(MemoryModel, CacheRoundsUpToBlocksAndBack) {
  InferMemory memory{.kv_tokens = 17};
  uint64_t per_token = kv_bytes_per_token(tiny(), 4);
  EXPECT_EQ(infer_bytes(tiny(), memory).at(Object::kv_cache), 32 * per_token);
  EXPECT_EQ(kv_tokens_within(tiny(), memory, 33 * per_token), 32u);
  EXPECT_EQ(kv_tokens_within(tiny(), memory, 15 * per_token), 0u);
}

TEST(MemoryModel, CriticHasAValueHeadInPlaceOfTheOutputHead) {
  uint64_t n = flat_element_count(tiny()) - 48 + 16;
  EXPECT_EQ(critic_bytes(tiny(), {}).at(Object::critic_params), 4 * n);
  EXPECT_EQ(reference_bytes(tiny(), 2).at(Object::ref_params), 2 * flat_element_count(tiny()));
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
  shape.num_hidden_layers = uint64_t{1} << 32;
  shape.hidden_size = uint64_t{1} << 24;
  shape.intermediate_size = uint64_t{1} << 31;
  EXPECT_FALSE(check_shape(shape));
}

TEST(Packing, FillsEvenlyForTwoThreads) {
  std::vector<uint32_t> lengths = {10, 20, 30, 40};
  auto batches = pack(lengths, {.max_tokens = 50, .threads = 2});
  ASSERT_TRUE(batches);
  ASSERT_EQ(batches->size(), 2u);
  EXPECT_EQ((*batches)[0], (MicroBatch{{0, 3}, 50, 0}));
  EXPECT_EQ((*batches)[1], (MicroBatch{{1, 2}, 50, 1}));
  EXPECT_DOUBLE_EQ(imbalance(*batches, 2), 1.0);
}

TEST(Packing, KeepsTheSequenceBound) {
  std::vector<uint32_t> lengths(7, 5);
  PackOptions options{.max_tokens = 1000, .max_sequences = 2, .threads = 1};
  auto batches = pack(lengths, options);
  ASSERT_TRUE(batches);
  EXPECT_EQ(batches->size(), 4u);
  assert_invariants(*batches, lengths, options);
}

TEST(Packing, RefusesWhatCannotBePacked) {
  std::vector<uint32_t> lengths = {10, 51};
  auto refused = pack(lengths, {.max_tokens = 50});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::capacity);
  EXPECT_EQ(
      refused.error().detail,
      "packing: sequence 1 of 51 tokens exceeds the micro-batch bound of 50 tokens; raise the "
      "bound to at least that");
  EXPECT_EQ(pack(lengths, {.max_tokens = 0}).error().code, Errc::invalid_argument);
  EXPECT_EQ(pack(lengths, {.max_tokens = 60, .threads = 0}).error().code, Errc::invalid_argument);
  lengths[0] = 0;
  EXPECT_EQ(pack(lengths, {.max_tokens = 60}).error().code, Errc::invalid_argument);
}

TEST(Packing, NothingGivesNothing) {
  auto batches = pack({}, {.max_tokens = 50});
  ASSERT_TRUE(batches);
  EXPECT_TRUE(batches->empty());
  EXPECT_DOUBLE_EQ(imbalance(*batches, 2), 1.0);
}

}  // namespace
}  // namespace cohort::plan

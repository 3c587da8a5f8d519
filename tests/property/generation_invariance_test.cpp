// GEN-1: a trajectory's tokens and log-prob bits do not depend on the batch, the lane, the chunking
// of the prefill, evictions or a cache that was freed in between.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/compute/train/bf16.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/generation_rig.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::tests {
namespace {

using compute::TurnOutput;

bool same_bits(const TurnOutput& a, const TurnOutput& b) {
  return a.tokens == b.tokens && a.stop == b.stop && a.logp.size() == b.logp.size() &&
         std::memcmp(a.logp.data(), b.logp.data(), a.logp.size() * sizeof(float)) == 0;
}

constexpr uint32_t k_turns = 3;
constexpr uint64_t k_subject = 1000;

std::vector<TurnOutput> alone(const std::vector<float>& weights) {
  GenerationRig rig;
  rig.serve(weights);
  return play_all(rig, {k_subject}, k_turns).at(k_subject);
}

void expect_equal(const std::vector<TurnOutput>& expected, const std::vector<TurnOutput>& found,
                  const char* what) {
  ASSERT_EQ(expected.size(), found.size()) << what;
  for (size_t turn = 0; turn < expected.size(); ++turn)
    EXPECT_TRUE(same_bits(expected[turn], found[turn])) << what << ", turn " << turn;
}

std::vector<uint64_t> crowd(uint64_t first) {
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 63; ++i) ids.push_back(first + i);
  ids.insert(ids.begin() + 31, k_subject);
  return ids;
}

TEST(GenerationInvariance, AloneAndAmong63OthersGiveTheSameBits) {
  const auto weights = random_weights(generation_model());
  const auto expected = alone(weights);
  EXPECT_FALSE(expected.front().tokens.empty());
  struct Row {
    const char* what;
    uint32_t lanes;
    uint32_t max_running;
    int64_t batch_tokens;
    int64_t cache_blocks;
  };
  const Row rows[] = {
      {"one lane", 1, 64, 256, 1024},       {"two lanes", 2, 64, 256, 1024},
      {"chunks of 7 rows", 1, 64, 7, 1024}, {"one row at a time", 1, 64, 1, 1024},
      {"large batch", 1, 64, 1000, 1024},   {"three lanes, small cache", 3, 64, 64, 160}};
  for (const Row& row : rows) {
    RigOptions options;
    options.lanes = row.lanes;
    options.max_running = row.max_running;
    options.batch_tokens = row.batch_tokens;
    options.cache_blocks = row.cache_blocks;
    GenerationRig rig(options);
    rig.serve(weights);
    expect_equal(expected, play_all(rig, crowd(5000 + row.lanes), k_turns).at(k_subject), row.what);
  }
}

/// The weights as an engine of `dtype` gets them.
std::vector<std::byte> published(const std::vector<float>& flat, tensor::Dtype dtype) {
  const auto bytes = std::as_bytes(std::span(flat));
  if (dtype == tensor::Dtype::f32) return {bytes.begin(), bytes.end()};
  std::vector<uint16_t> half;
  for (float value : flat) half.push_back(compute::to_bf16(value));
  const auto halves = std::as_bytes(std::span(half));
  return {halves.begin(), halves.end()};
}

void serve_published(GenerationRig& rig, const std::vector<float>& flat) {
  rig.engine->onload_params().value();
  std::ranges::copy(published(flat, rig.model.dtype),
                    rig.engine->begin_weights(1).value().bytes.begin());
  rig.engine->commit_weights(1).value();
  rig.engine->init_cache(rig.cache_bytes).value();
  rig.start();
}

/// Routed experts and latent attention, in both dtypes: the ATen runner's exact rows.
TEST(GenerationInvariance, ExpertsAndLatentsKeepTheirBitsInAnyBatch) {
  for (compute::ModelConfig model : expert_models(generation_model()))
    for (auto dtype : {tensor::Dtype::f32, tensor::Dtype::bf16}) {
      const auto weights = random_weights(model);
      RigOptions options;
      options.model = model;
      options.model.dtype = dtype;
      GenerationRig lonely(options);
      serve_published(lonely, weights);
      const auto expected = play_all(lonely, {k_subject}, k_turns).at(k_subject);
      EXPECT_FALSE(expected.front().tokens.empty());
      std::vector<uint64_t> others = {k_subject};
      for (uint64_t id = 1; id < 24; ++id) others.push_back(id);
      struct Row {
        const char* what;
        uint32_t lanes;
        int64_t batch_tokens, cache_blocks;
      };
      for (const Row& row : {Row{"two lanes", 2, 256, 1024}, Row{"chunks of 7 rows", 1, 7, 1024},
                             Row{"small cache", 1, 64, 60}}) {
        options.lanes = row.lanes;
        options.batch_tokens = row.batch_tokens;
        options.cache_blocks = row.cache_blocks;
        GenerationRig rig(options);
        serve_published(rig, weights);
        expect_equal(expected, play_all(rig, others, k_turns).at(k_subject),
                     (model.family + ", " + row.what).c_str());
      }
    }
}

TEST(GenerationInvariance, EvictedTrajectoriesComeBackWithTheSameBits) {
  const auto weights = random_weights(generation_model());
  const auto ids = crowd(7000);
  GenerationRig roomy;
  roomy.serve(weights);
  const auto expected = play_all(roomy, ids, k_turns);
  RigOptions options;
  options.cache_blocks = 150;  // the crowd wants about 64 * 5
  GenerationRig tight(options);
  tight.serve(weights);
  const auto found = play_all(tight, ids, k_turns);
  EXPECT_GT(tight.engine->stats().total.evictions, 0U);
  for (uint64_t id : ids) expect_equal(expected.at(id), found.at(id), "evicted");
}

TEST(GenerationInvariance, AFreedCacheIsComputedAgainWithTheSameBits) {
  const auto weights = random_weights(generation_model());
  const auto expected = alone(weights);
  GenerationRig rig;
  rig.serve(weights);
  for (uint32_t turn = 0; turn < k_turns; ++turn) {
    EXPECT_TRUE(same_bits(expected[turn], rig.play(random_turn(k_subject, turn))));
    rig.engine->free_cache().value();
    rig.engine->offload_params().value();
    rig.engine->onload_params().value();
    rig.engine->init_cache(rig.cache_bytes).value();
  }
}

/// Plays one trajectory and returns its tokens, mask and log-probs as a training sample has them.
struct Played {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;
  std::vector<float> logp;
};

Played play_columns(GenerationRig& rig, uint64_t id, uint32_t turns) {
  Played played;
  for (uint32_t turn = 0; turn < turns; ++turn) {
    compute::TurnRequest request = random_turn(id, turn);
    played.tokens.insert(played.tokens.end(), request.append_tokens.begin(),
                         request.append_tokens.end());
    const TurnOutput out = rig.play(std::move(request));
    played.tokens.insert(played.tokens.end(), out.tokens.begin(), out.tokens.end());
    played.logp.resize(played.tokens.size() - out.tokens.size(), 0.F);
    played.mask.resize(played.logp.size(), 0);
    played.logp.insert(played.logp.end(), out.logp.begin(), out.logp.end());
    played.mask.resize(played.tokens.size(), 1);
  }
  return played;
}

void expect_training_agrees(const compute::ModelConfig& model,
                            const std::vector<float>& weights = {}) {
  compute::CardMemory card(CardId{3}, 64 << 20);
  compute::TrainEngineOptions options;
  options.model = model;
  options.model.initializer_range = 0.15;  // larger than any run uses: far from uniform
  options.seed = 5;
  options.card = &card;
  auto train = compute::TrainEngine::create(options).value();
  train->onload(compute::TrainObject::train_params).value();
  if (!weights.empty()) train->load_weights(0, std::as_bytes(std::span(weights))).value();
  RigOptions served;
  served.model = model;
  GenerationRig rig(served);
  rig.engine->onload_params().value();
  std::ranges::copy(tests::flat_weights(*train),
                    rig.engine->begin_weights(1).value().bytes.begin());
  rig.engine->commit_weights(1).value();
  rig.engine->init_cache(rig.cache_bytes).value();
  rig.start();
  for (uint64_t id = 1; id <= 8; ++id) {
    const Played played = play_columns(rig, id, 4);
    compute::TrainSample sample;
    sample.tokens = played.tokens;
    sample.response_mask = played.mask;
    std::vector<std::vector<float>> expected;
    train->log_probs(std::span(&sample, 1), expected).value();
    ASSERT_EQ(expected[0].size(), played.logp.size());
    for (size_t t = 0; t < played.logp.size(); ++t)  // both are 0 where nothing was sampled
      EXPECT_NEAR(expected[0][t], played.logp[t], weights.empty() ? 1e-5 : 3e-5)
          << model.family << " " << id << " " << t;
  }
}

/// Nine query heads over three of keys and values, no bias, an untied head.
compute::ModelConfig llama_model() {
  compute::ModelConfig model = generation_model();
  model.family = "llama";
  model.attention_bias = false;
  model.tie_word_embeddings = false;
  model.hidden_size = 36;
  model.num_attention_heads = 9;
  model.num_key_value_heads = 3;
  model.head_dim = 8;
  model.rms_norm_eps = 1e-5;
  return model;
}

TEST(GenerationAgreement, LogProbsAreThoseOfTheTrainingForward) {
  expect_training_agrees(generation_model());
  expect_training_agrees(llama_model());
  for (const compute::ModelConfig& model : engine_models(generation_model()))
    expect_training_agrees(model, random_weights(model));
  for (const compute::ModelConfig& model : expert_models(generation_model()))
    expect_training_agrees(model, random_weights(model));
}

void expect_aten_agrees(compute::ModelConfig model, double tolerance) {
  const auto weights = random_weights(model);
  RigOptions options;
  options.model = model;
  GenerationRig kernels(options);
  kernels.serve(weights);
  options.runner = compute::RunnerKind::aten;
  options.batch_tokens = 11;
  GenerationRig aten(options);
  aten.serve(weights);
  for (uint64_t id = 1; id <= 4; ++id) {
    compute::TurnRequest request = random_turn(id, 0);
    request.sampling = {.greedy = true};
    const TurnOutput a = kernels.play(request);
    const TurnOutput b = aten.play(request);
    ASSERT_EQ(a.tokens, b.tokens);
    for (size_t i = 0; i < a.logp.size(); ++i) EXPECT_NEAR(a.logp[i], b.logp[i], tolerance);
  }
}

TEST(GenerationAgreement, AtenRunnerAndKernelsComputeTheSame) {
  expect_aten_agrees(generation_model(), 2e-5);
  compute::ModelConfig untied = generation_model();
  untied.tie_word_embeddings = false;
  untied.attention_bias = false;
  untied.num_key_value_heads = 1;
  expect_aten_agrees(untied, 2e-5);
  expect_aten_agrees(llama_model(), 2e-5);
  for (const compute::ModelConfig& model : engine_models(generation_model()))
    expect_aten_agrees(model, 3e-5);
}

/// Rounded weights, f32 arithmetic: what differs from f32 weights of the same values is the cache.
TEST(GenerationAgreement, Bf16ExpertsAndLatentsAreClose) {
  for (compute::ModelConfig model : expert_models(generation_model())) {
    std::vector<float> weights = random_weights(model);
    for (float& value : weights) value = compute::from_bf16(compute::to_bf16(value));
    RigOptions options;
    options.model = model;
    GenerationRig exact(options);
    exact.serve(weights);
    options.model.dtype = tensor::Dtype::bf16;
    GenerationRig rig(options);
    serve_published(rig, weights);
    EXPECT_EQ(2 * rig.engine->capacity().kv_token_bytes, exact.engine->capacity().kv_token_bytes);
    for (uint64_t id = 1; id <= 4; ++id) {
      auto request = turn_request(id, 0, 20, 1);
      request.sampling.greedy = true;
      const TurnOutput a = exact.play(request), b = rig.play(request);
      ASSERT_EQ(b.tokens.size(), 1U);
      EXPECT_NEAR(a.logp[0], b.logp[0], 0.05) << model.family;
    }
  }
}

TEST(GenerationAgreement, Bf16RunsOnTheAtenRunner) {
  compute::ModelConfig model = generation_model();
  const auto wide = random_weights(model);
  GenerationRig exact;
  exact.serve(wide);
  model.dtype = tensor::Dtype::bf16;
  std::vector<uint16_t> half(wide.size());
  for (size_t i = 0; i < wide.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &wide[i], sizeof bits);
    half[i] = static_cast<uint16_t>((bits + 0x8000U) >> 16);
  }
  RigOptions options;
  options.model = model;
  GenerationRig rig(options);
  rig.engine->onload_params().value();
  const auto bytes = std::as_bytes(std::span(half));
  std::ranges::copy(bytes, rig.engine->begin_weights(1).value().bytes.begin());
  rig.engine->commit_weights(1).value();
  rig.engine->init_cache(rig.cache_bytes).value();
  rig.start();
  auto request = turn_request(1, 0, 20, 1);
  request.sampling.greedy = true;
  const TurnOutput a = exact.play(request);
  const TurnOutput b = rig.play(request);
  ASSERT_EQ(b.tokens.size(), 1U);
  EXPECT_NEAR(a.logp[0], b.logp[0], 0.1);
}

}  // namespace
}  // namespace cohort::tests

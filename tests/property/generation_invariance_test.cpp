// GEN-1: a trajectory's tokens and log-prob bits do not depend on the batch, the lane, the chunking
// of the prefill, evictions or a cache that was freed in between.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "runtime/compute/generate/packed_weights.hpp"
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

std::vector<TurnOutput> alone(const std::vector<float>& weights,
                              const compute::ModelConfig& model) {
  RigOptions options;
  options.model = model;
  GenerationRig rig(options);
  rig.serve(weights);
  return play_all(rig, {k_subject}, k_turns).at(k_subject);
}

void expect_equal(const std::vector<TurnOutput>& expected, const std::vector<TurnOutput>& found,
                  const std::string& what) {
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

/// How an engine cuts its work.
struct Cut {
  const char* what;
  uint32_t lanes;
  uint32_t threads_per_lane;
  int64_t batch_tokens;
  int64_t cache_blocks;
};

/// Plays the subject alone, and in every cut among `others`.
void expect_the_same_in_any_crowd(const compute::ModelConfig& model,
                                  const std::vector<uint64_t>& others, std::span<const Cut> cuts) {
  const auto weights = random_weights(model);
  const auto expected = alone(weights, model);
  EXPECT_FALSE(expected.front().tokens.empty());
  for (const Cut& cut : cuts) {
    RigOptions options;
    options.model = model;
    options.lanes = cut.lanes;
    options.threads_per_lane = cut.threads_per_lane;
    options.batch_tokens = cut.batch_tokens;
    options.cache_blocks = cut.cache_blocks;
    GenerationRig rig(options);
    rig.serve(weights);
    expect_equal(expected, play_all(rig, others, k_turns).at(k_subject),
                 model.family + ", " + cut.what);
  }
}

TEST(GenerationInvariance, AloneAndAmong63OthersGiveTheSameBits) {
  const Cut cuts[] = {
      {"one lane", 1, 1, 256, 1024},       {"two lanes", 2, 1, 256, 1024},
      {"chunks of 7 rows", 1, 1, 7, 1024}, {"one row at a time", 1, 1, 1, 1024},
      {"large batch", 1, 1, 1000, 1024},   {"three lanes, small cache", 3, 1, 64, 160},
      {"two threads", 1, 2, 256, 1024},    {"two threads, one row", 1, 2, 1, 1024},
      {"five threads", 1, 5, 19, 1024},    {"two lanes of two", 2, 2, 256, 1024}};
  for (auto dtype : {tensor::Dtype::f32, tensor::Dtype::bf16}) {
    compute::ModelConfig model = generation_model();
    model.dtype = dtype;
    expect_the_same_in_any_crowd(model, crowd(5000), cuts);
  }
}

/// Routed experts and latent attention, in both dtypes: the ATen runner's exact rows.
TEST(GenerationInvariance, ExpertsAndLatentsKeepTheirBitsInAnyBatch) {
  const Cut cuts[] = {{"two lanes", 2, 1, 256, 1024},
                      {"chunks of 7 rows", 1, 1, 7, 1024},
                      {"small cache", 1, 1, 64, 60}};
  std::vector<uint64_t> others = {k_subject};
  for (uint64_t id = 1; id < 24; ++id) others.push_back(id);
  for (compute::ModelConfig model : expert_models(generation_model()))
    for (auto dtype : {tensor::Dtype::f32, tensor::Dtype::bf16}) {
      model.dtype = dtype;
      expect_the_same_in_any_crowd(model, others, cuts);
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

void expect_the_same_after_a_freed_cache(tensor::Dtype dtype) {
  RigOptions options;
  options.model.dtype = dtype;
  const auto weights = random_weights(options.model);
  const auto expected = alone(weights, options.model);
  GenerationRig rig(options);
  rig.serve(weights);
  for (uint32_t turn = 0; turn < k_turns; ++turn) {
    EXPECT_TRUE(same_bits(expected[turn], rig.play(random_turn(k_subject, turn))));
    rig.engine->free_cache().value();
    rig.engine->offload_params().value();
    rig.engine->onload_params().value();
    rig.engine->init_cache(rig.cache_bytes).value();
  }
}

TEST(GenerationInvariance, AFreedCacheIsComputedAgainWithTheSameBits) {
  expect_the_same_after_a_freed_cache(tensor::Dtype::f32);
  expect_the_same_after_a_freed_cache(tensor::Dtype::bf16);
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

TEST(GenerationAgreement, LogProbsAreThoseOfTheTrainingForward) {
  expect_training_agrees(generation_model());
  expect_training_agrees(llama_of(generation_model()));
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
  expect_aten_agrees(llama_of(generation_model()), 2e-5);
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
    rig.serve(weights);
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

/// Largest difference of log-probs to `exact` over the tokens up to the first that differs; both
/// are given the same prompts.
double log_prob_error(GenerationRig& exact, GenerationRig& rounded) {
  double most = 0;
  for (uint64_t id = 1; id <= 6; ++id) {
    compute::TurnRequest request = turn_request(id, 0, 24, 6);
    request.sampling.greedy = true;
    const TurnOutput a = exact.play(request), b = rounded.play(request);
    EXPECT_EQ(b.tokens.size(), 6U);
    for (size_t i = 0; i < a.tokens.size() && a.tokens[i] == b.tokens[i]; ++i)
      most = std::max(most, std::abs(double{a.logp[i]} - double{b.logp[i]}));
  }
  return most;
}

/// bf16 rounds where ATen rounds, and nowhere else: sums, residuals and norms stay f32, so it is
/// nearer to f32 arithmetic on the same rounded weights than ATen's bf16 is.
TEST(GenerationAgreement, Bf16KernelsAreNearerToF32OnTheSameWeightsThanAten) {
  for (compute::ModelConfig model : {generation_model(), llama_of(generation_model())}) {
    std::vector<float> weights = random_weights(model);
    for (float& weight : weights) weight = compute::from_bf16(compute::to_bf16(weight));
    RigOptions options;
    options.model = model;
    GenerationRig exact(options);
    exact.serve(weights);
    options.model.dtype = tensor::Dtype::bf16;
    GenerationRig packed(options);
    packed.serve(weights);
    options.runner = compute::RunnerKind::aten;
    GenerationRig aten(options);
    aten.serve(weights);
    const double error = log_prob_error(exact, packed);
    EXPECT_GT(error, 0.0);  // it rounds
    EXPECT_LT(error, 0.06);
    EXPECT_LT(error, log_prob_error(exact, aten) * 1.5);
  }
}

TEST(GenerationAgreement, AWeightThatIsPackedAndStoredKeepsItsBits) {
  for (auto dtype : {tensor::Dtype::f32, tensor::Dtype::bf16})
    for (compute::ModelConfig model : engine_models(generation_model())) {
      model.dtype = dtype;
      const compute::ParameterLayout layout = compute::layout_of(model);
      const size_t element = tensor::size_of(dtype);
      std::vector<std::byte> flat(static_cast<size_t>(layout.total_elements) * element);
      Rng rng(3);
      for (const compute::ParameterSpec& spec : layout.specs)  // any bits: NaN and the like too
        for (size_t i = 0; i < static_cast<size_t>(spec.count) * element; ++i)
          flat[static_cast<size_t>(spec.offset) * element + i] =
              static_cast<std::byte>(rng.below(256));
      for (int64_t panel : {16, 32})
        for (uint32_t threads : {1U, 3U}) {
          const compute::PackedWeights plan(model, panel);
          ASSERT_EQ(plan.flat_bytes(), flat.size());
          std::vector<std::byte> card(plan.card_bytes(), std::byte{0}), back(flat.size());
          std::ranges::fill(back, std::byte{0x5A});
          plan.pack(flat, card.data(), threads);
          plan.unpack(card.data(), back, threads);
          EXPECT_TRUE(flat == back) << model.family << " " << element << " " << panel;
        }
    }
}

}  // namespace
}  // namespace cohort::tests

// Invariants of the training engine: TRAIN-1 (threads, splits), TRAIN-2, PLACE-4, packing,
// checkpoints.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "runtime/compute/model/policy_graph.hpp"
#include "runtime/compute/train/micro_batch.hpp"
#include "runtime/compute/train/safetensors.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using tests::cross_entropy;
using tests::policy_gradient;
using tests::random_samples;
using tests::SampleSet;
using tests::tiny_model;
using tests::tiny_options;
using tests::TrainRig;

std::vector<float> weights_of(const TrainEngine& engine) {
  const std::vector<std::byte> bytes = tests::flat_weights(engine);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(TrainEngine, ThreadsDoNotChangeTheBits) {  // TRAIN-1
  SampleSet data = random_samples(60, 1);
  std::vector<uint64_t> hashes;
  for (int threads : {1, 2, 3}) {
    TrainEngineOptions options = tiny_options();
    options.threads = threads;
    TrainRig rig(options);
    rig.onload_all();
    for (int i = 0; i < 3; ++i) {
      StepReport report = rig.engine->step(data.samples, policy_gradient, 1e-2).value();
      EXPECT_GT(report.micro_batches, 4u);
      EXPECT_EQ(report.param_hash, rig.engine->param_hash());
    }
    hashes.push_back(rig.engine->param_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

/// Parameters after three steps of bf16 over several micro-batches.
uint64_t bf16_hash(const ModelConfig& model, int threads, const SampleSet& data) {
  TrainEngineOptions options = tiny_options();
  options.model = model;
  options.model.dtype = tensor::Dtype::bf16;
  options.threads = threads;
  TrainRig rig(options);
  rig.onload_all();
  for (int i = 0; i < 3; ++i) {
    const StepReport report = rig.engine->step(data.samples, policy_gradient, 1e-2).value();
    EXPECT_TRUE(report.is_finite);
    EXPECT_GT(report.micro_batches, 1U);
    EXPECT_LT(report.micro_batches, 12U);
    EXPECT_EQ(report.param_hash, rig.engine->param_hash()) << model.name;
  }
  return rig.engine->param_hash();
}

// TRAIN-1. With more threads than micro-batches these come in turns, and gradients are added where
// they are summed (train_engine_turns.cpp).
TEST(TrainEngine, MicroBatchesInTurnsGiveTheBitsOfMicroBatchesSideBySide) {
  const SampleSet data = random_samples(24, 1);
  std::vector<ModelConfig> models = tests::engine_models(tiny_model());
  for (const ModelConfig& model : tests::expert_models(tiny_model())) models.push_back(model);
  for (const ModelConfig& model : models)
    EXPECT_EQ(bf16_hash(model, 1, data), bf16_hash(model, 12, data)) << model.name;
}

// TRAIN-1: so many that the threads share norm, AdamW and hash.
TEST(TrainEngine, ManyParametersHaveTheirHashAndBitsWithAnyThreads) {
  const SampleSet data = random_samples(4, 1);
  std::vector<std::optional<uint64_t>> hashes;
  for (const tensor::Dtype dtype : {tensor::Dtype::f32, tensor::Dtype::bf16})
    for (const int threads : {1, 3}) {
      TrainEngineOptions options = tiny_options();
      options.model.dtype = dtype;
      options.model.vocab_size = 5'000'000 / options.model.hidden_size;
      options.threads = threads;
      TrainRig rig(options, uint64_t{256} << 20);
      rig.onload_all();
      const StepReport report = rig.engine->step(data.samples, policy_gradient, 1e-2).value();
      EXPECT_EQ(report.param_hash, rig.engine->param_hash());
      hashes.push_back(report.param_hash);
    }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[2], hashes[3]);
}

TEST(TrainEngine, TheSplitChangesNothingBeyondRounding) {
  SampleSet data = random_samples(40, 2);
  std::vector<std::vector<float>> weights;
  for (int64_t rows : {1, 100, 1 << 20}) {
    TrainEngineOptions options = tiny_options();
    options.micro_batch_tokens = rows;
    options.optimizer.eps = 1;  // keeps AdamW from blowing a zero gradient's rounding up to +-1
    TrainRig rig(options);
    rig.onload_all();
    for (int i = 0; i < 3; ++i) rig.engine->step(data.samples, policy_gradient, 1e-1).value();
    weights.push_back(weights_of(*rig.engine));
  }
  for (size_t i = 0; i < weights[0].size(); ++i) {
    ASSERT_NEAR(weights[0][i], weights[2][i], 1e-6) << i;
    ASSERT_NEAR(weights[1][i], weights[2][i], 1e-6) << i;
  }
}

TEST(TrainEngine, PackedEqualsOneByOne) {
  SampleSet data = random_samples(20, 3);
  TrainRig rig(tiny_options());
  ASSERT_TRUE(rig.engine->onload(TrainObject::train_params).has_value());
  std::vector<std::vector<float>> packed, alone;
  ASSERT_TRUE(rig.engine->log_probs(data.samples, packed).has_value());
  for (size_t i = 0; i < data.samples.size(); ++i) {
    ASSERT_TRUE(rig.engine->log_probs(std::span(&data.samples[i], 1), alone).has_value());
    for (size_t t = 0; t < packed[i].size(); ++t) {
      ASSERT_NEAR(packed[i][t], alone[0][t], 1e-6);
      ASSERT_EQ(packed[i][t] != 0, data.mask[i][t] != 0);
    }
  }
}

void expect_kernels_agree_with_f64(const ModelConfig& config) {
  const ParameterLayout layout = layout_of(config);
  SampleSet data = random_samples(6, 4);
  const std::vector<int64_t> rows = input_rows(data.samples);
  const PackedBatch batch = pack(data.samples, rows, {0, data.samples.size()});
  const ops::RopeTable rope = ops::rope_table(64, config.rotary_dim(), config.rope);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  at::Tensor flat = at::randn({layout.total_elements}, generator, at::dtype(at::kDouble)) * 0.2;
  std::vector<std::vector<at::Tensor>> gradients;
  std::vector<at::Tensor> logp;
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    PolicyWeights weights = view_weights(flat.to(type), layout, true);
    MicroOutputs out = policy_log_probs(weights, config, rope, batch, 100);
    std::vector<at::Tensor> leaves;
    for (const auto& leaf : weights.leaves) leaves.push_back(leaf.tensor);
    at::Tensor total = (out.logp * at::arange(out.logp.size(0), out.logp.options())).mean();
    gradients.push_back(torch::autograd::grad({total + out.entropy.sum()}, leaves));
    logp.push_back(out.logp.detach().to(at::kDouble));
  }
  EXPECT_TRUE(at::allclose(logp[0], logp[1], 1e-4, 1e-5));
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    const double scale = 1 + gradients[1][i].abs().max().item<double>();
    EXPECT_LT((gradients[0][i] - gradients[1][i]).abs().max().item<double>(), 1e-4 * scale) << i;
  }
}

TEST(TrainEngine, KernelsAgreeWithTheF64Composition) {
  expect_kernels_agree_with_f64(tiny_model());
  expect_kernels_agree_with_f64(tests::llama_of(tests::tiny_model()));
  for (const ModelConfig& config : tests::engine_models(tiny_model()))
    expect_kernels_agree_with_f64(config);
}

void expect_finite_differences(const ModelConfig& config) {
  const ParameterLayout layout = layout_of(config);
  SampleSet data = random_samples(3, 5);
  const PackedBatch batch = pack(data.samples, input_rows(data.samples), {0, 3});
  const ops::RopeTable rope = ops::rope_table(64, config.rotary_dim(), config.rope);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(2);
  at::Tensor flat = at::randn({layout.total_elements}, generator, at::dtype(at::kDouble)) * 0.2;
  auto value = [&](const PolicyWeights& weights) {
    MicroOutputs out = policy_log_probs(weights, config, rope, batch, 64);
    return out.logp.sum() + 0.5 * out.entropy.sum();
  };
  PolicyWeights weights = view_weights(flat, layout, true);
  std::vector<at::Tensor> leaves;
  for (const auto& leaf : weights.leaves) leaves.push_back(leaf.tensor);
  // A router's bias only chooses: it has no gradient.
  const auto gradients =
      torch::autograd::grad({value(weights)}, leaves, {}, c10::nullopt, false, true);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < leaves.size(); ++i) {  // one random direction per tensor
    if (!gradients[i].defined()) continue;
    at::Tensor direction = at::randn(leaves[i].sizes(), generator, at::dtype(at::kDouble));
    constexpr double k_step = 1e-5;
    leaves[i].add_(direction, k_step);  // leaves are views of flat
    const double above = value(weights).item<double>();
    leaves[i].add_(direction, -2 * k_step);
    const double below = value(weights).item<double>();
    leaves[i].add_(direction, k_step);
    const double slope = (direction * gradients[i]).sum().item<double>();
    EXPECT_NEAR((above - below) / (2 * k_step), slope, 1e-5 * (1 + std::abs(slope))) << i;
  }
}

TEST(TrainEngine, GradientsMatchFiniteDifferences) {
  ModelConfig untied = tiny_model();
  untied.tie_word_embeddings = false;
  expect_finite_differences(untied);
  expect_finite_differences(tests::llama_of(tests::tiny_model()));
  for (const ModelConfig& config : tests::engine_models(tiny_model()))
    expect_finite_differences(config);
  for (const ModelConfig& config : tests::expert_models(tiny_model()))
    expect_finite_differences(config);
}

TEST(TrainEngine, OverfitsAHandfulOfSequences) {
  SampleSet data = random_samples(4, 6);
  TrainRig rig(tiny_options());
  rig.onload_all();
  double loss = 0;
  for (int i = 0; i < 200; ++i) loss = rig.engine->step(data.samples, cross_entropy, 5e-3)->loss;
  EXPECT_LT(loss, 0.02);
  EXPECT_EQ(rig.engine->optimizer_steps(), 200u);
}

TEST(TrainEngine, AValueHeadLearnsReturns) {
  SampleSet data = random_samples(4, 6);
  const auto squared = [](const StepCounts& counts) -> LossFunction {
    return [tokens = counts.tokens](const MicroBatch& batch, const MicroOutputs& out) {
      return MicroLoss{(out.logp - batch.advantages).square().sum() / tokens};
    };
  };
  std::vector<uint64_t> hashes;
  for (bool is_by_unit : {false, true}) {
    TrainEngineOptions options = tiny_options();
    options.head = model::HeadKind::value;
    options.zero.offload_params = is_by_unit;
    TrainRig rig(options);
    rig.onload_all();
    EXPECT_EQ(rig.engine->layout().specs.back().name, "score.weight");
    const double before = rig.engine->step(data.samples, squared, 5e-3)->loss;
    double after = 0;
    for (int i = 0; i < 200; ++i) after = rig.engine->step(data.samples, squared, 5e-3)->loss;
    EXPECT_LT(after, before / 10);
    std::vector<std::vector<float>> values;
    ASSERT_TRUE(rig.engine->log_probs(data.samples, values).has_value());
    double sum = 0, tokens = 0;
    for (size_t i = 0; i < values.size(); ++i)
      for (size_t t = 0; t < values[i].size(); ++t) {
        if (data.mask[i][t] == 0) continue;
        sum += std::pow(static_cast<double>(values[i][t] - data.advantages[i][t]), 2);
        ++tokens;
      }
    EXPECT_LT(sum / tokens, before / 10) << "log_probs() gives the values that the loss saw";
    hashes.push_back(rig.engine->param_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(TrainEngine, Bf16LearnsToo) {
  SampleSet data = random_samples(4, 7);
  TrainEngineOptions options = tiny_options();
  options.model.dtype = tensor::Dtype::bf16;
  TrainRig rig(options);
  rig.onload_all();
  EXPECT_EQ(rig.engine->weight_bytes(),
            2 * static_cast<uint64_t>(rig.engine->layout().total_elements));
  const double before = rig.engine->step(data.samples, cross_entropy, 5e-3)->loss;
  double after = 0;
  for (int i = 0; i < 30; ++i) after = rig.engine->step(data.samples, cross_entropy, 5e-3)->loss;
  EXPECT_LT(after, before / 2);
}

TEST(TrainEngine, ANanLossChangesNothingAndSaysSo) {  // TRAIN-2
  SampleSet data = random_samples(4, 8);
  TrainRig rig(tiny_options());
  rig.onload_all();
  const uint64_t before = rig.engine->param_hash();
  auto poisoned = [](const StepCounts& counts) -> LossFunction {
    return [inner = cross_entropy(counts)](const MicroBatch& batch, const MicroOutputs& out) {
      MicroLoss loss = inner(batch, out);
      loss.total = loss.total * NAN;
      return loss;
    };
  };
  auto result = rig.engine->step(data.samples, poisoned, 1e-2);
  ASSERT_TRUE(result) << result.error().detail;
  EXPECT_FALSE(result->is_finite);
  EXPECT_EQ(rig.engine->param_hash(), before);
  TrainRig calm(tiny_options());
  calm.onload_all();
  calm.engine->step(data.samples, cross_entropy, 1e-2).value();
  EXPECT_TRUE(rig.engine->step(data.samples, cross_entropy, 1e-2).value().is_finite);
  EXPECT_EQ(rig.engine->param_hash(), calm.engine->param_hash());
}

TEST(TrainEngine, AThrowingLossIsAnError) {
  SampleSet data = random_samples(30, 9);
  TrainEngineOptions options = tiny_options();
  options.threads = 3;
  TrainRig rig(options);
  rig.onload_all();
  auto thrower = [](const StepCounts&) -> LossFunction {
    return [](const MicroBatch&, const MicroOutputs& out) {
      MicroLoss loss;
      loss.total = at::mm(out.logp, out.logp);  // not matrices: c10::Error
      return loss;
    };
  };
  EXPECT_EQ(rig.engine->step(data.samples, thrower, 1e-2).error().code, Errc::compute);
}

TEST(TrainEngine, RefusesToComputeOffTheCard) {  // PLACE-4
  SampleSet data = random_samples(2, 10);
  TrainRig rig(tiny_options());
  std::vector<std::vector<float>> out;
  EXPECT_EQ(rig.engine->log_probs(data.samples, out).error().code, Errc::placement);
  rig.onload_all();
  ASSERT_TRUE(rig.engine->offload(TrainObject::optimizer).has_value());
  auto result = rig.engine->step(data.samples, cross_entropy, 1e-2);
  EXPECT_EQ(result.error().code, Errc::placement);
  EXPECT_NE(result.error().detail.find("optimizer on card 3"), std::string::npos);
}

TEST(TrainEngine, OffloadFreesTheCardAndKeepsTheState) {
  SampleSet data = random_samples(8, 11);
  TrainRig stay(tiny_options()), move(tiny_options());
  stay.onload_all();
  for (int i = 0; i < 3; ++i) {
    move.onload_all();
    stay.engine->step(data.samples, cross_entropy, 1e-2).value();
    move.engine->step(data.samples, cross_entropy, 1e-2).value();
    for (auto object : {TrainObject::train_params, TrainObject::grads, TrainObject::optimizer})
      move.engine->offload(object).value();
    EXPECT_EQ(move.card.bytes_in_use(), 0u);
  }
  EXPECT_EQ(stay.engine->param_hash(), move.engine->param_hash());
}

TEST(TrainEngine, ACardTooSmallIsACapacityError) {
  TrainRig rig(tiny_options(), 1000);
  EXPECT_EQ(rig.engine->onload(TrainObject::train_params).error().code, Errc::capacity);
  EXPECT_FALSE(rig.engine->is_on_card(TrainObject::train_params));
}

TEST(TrainEngine, BadSamplesAreNamed) {
  TrainRig rig(tiny_options());
  rig.onload_all();
  SampleSet data = random_samples(3, 12);
  data.tokens[2][1] = 19;
  auto result = rig.engine->step(data.samples, cross_entropy, 1e-2);
  EXPECT_EQ(result.error().code, Errc::invalid_argument);
  EXPECT_NE(result.error().detail.find("sample 2: token 19 at 1"), std::string::npos);
  data = random_samples(3, 12);
  data.mask[1][0] = 1;
  EXPECT_NE(rig.engine->step(data.samples, cross_entropy, 1e-2).error().detail.find("sample 1"),
            std::string::npos);
}

TEST(TrainEngine, ShardsRebuildTheModelElsewhere) {
  TrainEngineOptions other = tiny_options();
  other.seed = 99;
  TrainRig from(tiny_options()), to(other);
  ASSERT_NE(from.engine->param_hash(), to.engine->param_hash());
  const std::vector<std::byte> flat = tests::flat_weights(*from.engine);
  const std::span<const std::byte> bytes = flat;
  ASSERT_EQ(bytes.size(), from.engine->weight_bytes());
  const size_t half = bytes.size() / 8 * 4;
  ASSERT_TRUE(to.engine->load_weights(half, bytes.subspan(half)).has_value());
  ASSERT_TRUE(to.engine->load_weights(0, bytes.first(half)).has_value());
  EXPECT_EQ(from.engine->param_hash(), to.engine->param_hash());
  const std::byte one[4] = {};
  EXPECT_EQ(to.engine->load_weights(bytes.size(), one).error().code, Errc::invalid_argument);
}

TEST(PlanMicroBatches, CoversEverySampleOnceInOrder) {  // PACK-1, PACK-2
  Rng rng(13);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> rows(rng.below(50));
    int64_t total = 0, longest = 0;
    for (int64_t& count : rows) {
      count = rng.below(4) == 0 ? 0 : static_cast<int64_t>(rng.below(300));
      total += count;
      longest = std::max(longest, count);
    }
    const auto bound = static_cast<int64_t>(1 + rng.below(3000));
    const auto spans = plan_micro_batches(rows, bound);
    size_t next = 0;
    for (const MicroSpan& span : spans) {
      EXPECT_EQ(span.begin, next);
      next = span.end;
      int64_t sum = 0;
      for (size_t i = span.begin; i < span.end; ++i) sum += rows[i];
      EXPECT_GT(sum, 0);
      EXPECT_LE(sum, bound + longest);
    }
    for (size_t i = next; i < rows.size(); ++i) EXPECT_EQ(rows[i], 0);
    EXPECT_EQ(spans.empty(), total == 0);
  }
}

TEST(PlanMicroBatches, WhatBelongsTogetherStaysTogether) {  // PACK-3
  Rng rng(17);
  for (int round = 0; round < 200; ++round) {
    const size_t together = 1 + rng.below(3);
    std::vector<int64_t> rows(together * rng.below(30));
    for (int64_t& count : rows) count = 1 + static_cast<int64_t>(rng.below(300));
    const auto spans = plan_micro_batches(rows, static_cast<int64_t>(1 + rng.below(900)), together);
    size_t next = 0;
    for (const MicroSpan& span : spans) {
      EXPECT_EQ(span.begin, next);
      EXPECT_EQ(span.end % together, 0u);
      next = span.end;
    }
    EXPECT_EQ(next, rows.size());
  }
}

class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints()
      : folder_(fs::temp_directory_path() / ("cohort_ckpt_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
  }
  ~Checkpoints() override { fs::remove_all(folder_); }
  void flip(const char* file, int64_t from_end) const {
    std::fstream stream(folder_ / file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekg(-from_end, std::ios::end);
    const auto byte = static_cast<char>(stream.get() ^ 4);
    stream.seekp(-from_end, std::ios::end);
    stream.put(byte);
  }
  fs::path folder_;
};

TEST_F(Checkpoints, AResumedRunHasTheSameBits) {
  SampleSet data = random_samples(10, 14);
  TrainEngineOptions other = tiny_options();
  other.seed = 77;
  TrainRig whole(tiny_options()), resumed(other);
  whole.onload_all();
  for (int i = 0; i < 2; ++i) whole.engine->step(data.samples, cross_entropy, 1e-2).value();
  ASSERT_TRUE(whole.engine->save(folder_).has_value());
  ASSERT_TRUE(resumed.engine->load(folder_).has_value());
  resumed.onload_all();
  EXPECT_EQ(resumed.engine->param_hash(), whole.engine->param_hash());
  for (TrainRig* rig : {&whole, &resumed}) {
    for (int i = 0; i < 2; ++i) rig->engine->step(data.samples, cross_entropy, 1e-2).value();
  }
  EXPECT_EQ(resumed.engine->param_hash(), whole.engine->param_hash());
  EXPECT_EQ(resumed.engine->optimizer_steps(), 4u);
  ASSERT_TRUE(whole.engine->save(folder_).has_value());  // replaces
  ASSERT_TRUE(resumed.engine->load(folder_).has_value());
}

TEST_F(Checkpoints, AFlippedByteIsFoundAndNothingChanges) {
  TrainRig rig(tiny_options());
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    ASSERT_TRUE(rig.engine->save(folder_).has_value());
    flip(file, 200);
    const uint64_t before = rig.engine->param_hash();
    auto result = rig.engine->load(folder_);
    ASSERT_FALSE(result) << file;
    EXPECT_EQ(result.error().code, Errc::corrupt) << result.error().detail;
    EXPECT_EQ(rig.engine->param_hash(), before);
  }
}

TEST_F(Checkpoints, AnotherShapeIsNamed) {
  TrainRig rig(tiny_options());
  ASSERT_TRUE(rig.engine->save(folder_).has_value());
  TrainEngineOptions wider = tiny_options();
  wider.model.intermediate_size = 48;
  TrainRig other(wider);
  auto result = other.engine->load_model(folder_);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().detail.find("model.layers.0.mlp.gate_proj.weight' has shape [40, 32], "
                                       "the model needs [48, 32]"),
            std::string::npos)
      << result.error().detail;
  TrainEngineOptions deeper = tiny_options();
  deeper.model.num_hidden_layers = 3;
  TrainRig third(deeper);
  EXPECT_NE(third.engine->load_model(folder_).error().detail.find("no tensor 'model.layers.2."),
            std::string::npos);
}

// A critic's start: of a language model its values begin at 0, of a classifier they go on.
TEST_F(Checkpoints, AValueModelStartsFromALanguageModelOrAClassifier) {
  SampleSet data = random_samples(4, 15);
  const auto squared = [](const StepCounts& counts) -> LossFunction {
    return [tokens = counts.tokens](const MicroBatch& batch, const MicroOutputs& out) {
      return MicroLoss{(out.logp - batch.advantages).square().sum() / tokens};
    };
  };
  TrainEngineOptions options = tiny_options();
  options.head = model::HeadKind::value;
  const auto values_of = [&](TrainRig& rig) {
    rig.onload_all();
    std::vector<std::vector<float>> values;
    EXPECT_TRUE(rig.engine->log_probs(data.samples, values));
    return values;
  };
  TrainRig language(tiny_options());
  ASSERT_TRUE(language.engine->save(folder_));
  TrainRig first(options);
  ASSERT_TRUE(first.engine->load_model(folder_));
  for (const std::vector<float>& row : values_of(first))
    for (float value : row) EXPECT_EQ(value, 0);
  first.engine->step(data.samples, squared, 1e-2).value();
  ASSERT_TRUE(first.engine->save(folder_));
  TrainRig second(options);
  ASSERT_TRUE(second.engine->load_model(folder_));
  const auto learned = values_of(first);
  EXPECT_EQ(values_of(second), learned);
  EXPECT_NE(learned.at(0), std::vector<float>(learned.at(0).size(), 0));
  EXPECT_NE(language.engine->load_model(folder_).error().detail.find("score.weight"),
            std::string::npos);
  // transformers' token classifiers have a bias beside the weight.
  for (const float bias : {0.0f, 0.5f}) {
    ASSERT_TRUE(first.engine->save(folder_));
    auto file = SafetensorsFile::open(folder_ / "model.safetensors").value();
    std::vector<NamedTensor> tensors = file.tensors();
    tensors.push_back({"score.bias", "F32", {1}, std::as_bytes(std::span(&bias, 1))});
    ASSERT_TRUE(write_safetensors(folder_ / "new", tensors, {}));
    fs::rename(folder_ / "new", folder_ / "model.safetensors");
    const auto loaded = second.engine->load_model(folder_);
    EXPECT_EQ(loaded.has_value(), bias == 0);
    if (!loaded) {
      EXPECT_NE(loaded.error().detail.find("'score.bias' is not one 0"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace cohort::compute

// An adapter over a frozen model: gradients, steps, checkpoints and merged weights
// (docs/lora.md). Golden numbers: tests/data/lora, made by peft (tools/golden/make_lora.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/compute/model/lora_base.hpp"
#include "runtime/compute/model/policy_graph.hpp"
#include "runtime/compute/train/micro_batch.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/model/lora_file.hpp"
#include "runtime/plan/estimate/memory_model.hpp"
#include "runtime/plan/reshard/model_families.hpp"
#include "runtime/plan/reshard/reshard.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/tp_cut.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using tests::cross_entropy;
using tests::policy_gradient;
using tests::random_samples;
using tests::SampleSet;
using tests::TrainRig;

const fs::path k_data = fs::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/data";

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A dense model, and one with routed experts, which TP 4 cuts, a shared one and its gate.
std::vector<ModelConfig> models() {
  return {tests::tiny_model(), tests::expert_models(tests::tiny_model())[1]};
}

TrainEngineOptions lora_options(tensor::Dtype dtype = tensor::Dtype::f32,
                                const ModelConfig& model = tests::tiny_model()) {
  TrainEngineOptions options = tests::tiny_options();
  options.model = model;
  options.model.dtype = dtype;
  options.lora = model::LoraShape{4, 8, false, {"all-linear"}};
  return options;
}

std::vector<std::vector<float>> log_probs_of(const TrainRig& rig, const SampleSet& data,
                                             AdapterUse use = AdapterUse::on) {
  std::vector<std::vector<float>> out;
  EXPECT_TRUE(rig.engine->log_probs(data.samples, out, use).has_value());
  return out;
}

/// Takes a few steps, so that B is not zero.
void train(TrainRig& rig, const SampleSet& data, int steps, double rate = 1e-2) {
  for (int i = 0; i < steps; ++i)
    ASSERT_TRUE(rig.engine->step(data.samples, policy_gradient, rate).value().is_finite);
}

/// An empty folder of its own.
fs::path fresh_folder(const std::string& name) {
  const fs::path folder =
      fs::temp_directory_path() / ("cohort_lora_" + name + "_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  return folder;
}

TEST(LoraTrain, ABOfZeroChangesNoBit) {  // LORA-2
  const SampleSet data = random_samples(12, 3);
  for (const ModelConfig& model : models())
    for (tensor::Dtype dtype : {tensor::Dtype::f32, tensor::Dtype::bf16}) {
      TrainEngineOptions full = lora_options(dtype, model);
      full.lora.reset();
      TrainRig base(full), adapted(lora_options(dtype, model));
      base.onload_all();
      adapted.onload_all();
      const auto expected = log_probs_of(base, data);
      EXPECT_EQ(log_probs_of(adapted, data), expected);
      train(adapted, data, 2);
      EXPECT_NE(log_probs_of(adapted, data), expected);
      EXPECT_EQ(log_probs_of(adapted, data, AdapterUse::off), expected);
    }
}

struct Golden {
  json numbers;
  ModelConfig config;
  model::LoraShape lora;
  fs::path base, adapter;
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<uint8_t>> masks;
  std::vector<TrainSample> samples;
};

Golden golden_of(const std::string& name) {
  Golden g;
  g.adapter = k_data / "lora" / name;
  g.numbers = json::parse(text_of(g.adapter / "golden.json"));
  g.base = k_data / "language_models" / g.numbers["base"].get<std::string>();
  g.config.model::ModelShape::operator=(
      model::read_hf_config(text_of(g.base / "config.json"), name).value().shape);
  g.lora =
      model::resolve_lora(
          g.config,
          model::parse_adapter_config(text_of(g.adapter / "adapter_config.json"), name).value())
          .value();
  for (const json& row : g.numbers["ids"]) {
    g.ids.push_back(row.get<std::vector<int32_t>>());
    g.masks.emplace_back(row.size(), 1).front() = 0;
  }
  for (size_t i = 0; i < g.ids.size(); ++i) g.samples.push_back({g.ids[i], g.masks[i], {}, {}, {}});
  return g;
}

/// The leaf that a matrix is in: routed experts share one.
size_t leaf_of(const PolicyWeights& weights, const ParameterSpec& spec) {
  const auto found = std::ranges::find_if(weights.leaves, [&](const PolicyWeights::Leaf& leaf) {
    return leaf.offset <= spec.offset && spec.offset < leaf.offset + leaf.tensor.numel();
  });
  return static_cast<size_t>(found - weights.leaves.begin());
}

class LoraGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(LoraGolden, GradientsAreThoseOfPeft) {
  const Golden g = golden_of(GetParam());
  const ParameterLayout layout = layout_of(g.config);
  const LoraLayout lora = lora_layout_of(g.config, g.lora);
  const WeightFolder weights = WeightFolder::open(g.base).value();
  const SafetensorsFile file =
      SafetensorsFile::open(g.adapter / "adapter_model.safetensors").value();
  at::Tensor flat = at::zeros({layout.total_elements}), own = at::zeros({lora.flat.total_elements});
  const auto place = [](const at::Tensor& in, const ParameterSpec& spec) {
    return std::span(in.data_ptr<float>() + spec.offset, static_cast<size_t>(spec.count));
  };
  for (const ParameterSpec& spec : layout.specs) weights.read(spec.name, 0, place(flat, spec));
  for (const ParameterSpec& spec : lora.flat.specs) {
    ASSERT_NE(file.find(spec.name), nullptr) << spec.name;
    ASSERT_TRUE(copy_to_f32(*file.find(spec.name), place(own, spec)).has_value());
  }
  EXPECT_EQ(file.tensors().size(), lora.flat.specs.size());
  const PackedBatch batch = pack(g.samples, input_rows(g.samples), {0, g.samples.size()});
  const ops::RopeTable rope = ops::rope_table(64, g.config.rotary_dim(), g.config.rope);
  PolicyWeights graph = view_weights(flat, layout, false);
  attach_adapters(own, lora, true, graph);
  const at::Tensor loss = -policy_log_probs(graph, g.config, rope, batch, 1 << 20).logp.mean();
  EXPECT_NEAR(loss.item<double>(), g.numbers["loss"].get<double>(), 1e-5);
  std::vector<at::Tensor> leaves;
  for (const auto& leaf : graph.leaves) leaves.push_back(leaf.tensor);
  const auto gradients = torch::autograd::grad({loss}, leaves);
  for (const ParameterSpec& spec : lora.flat.specs) {
    const size_t leaf = leaf_of(graph, spec);
    ASSERT_LT(leaf, leaves.size()) << spec.name;
    const at::Tensor own_gradient =
        gradients[leaf].flatten().narrow(0, spec.offset - graph.leaves[leaf].offset, spec.count);
    const double expected = g.numbers["gradient_norms"].at(spec.name).get<double>();
    EXPECT_NEAR(own_gradient.norm().item<double>(), expected, 1e-4 * expected) << spec.name;
  }
}

TEST_P(LoraGolden, AStepIsThatOfPeft) {
  const Golden g = golden_of(GetParam());
  TrainEngineOptions options;
  options.model = g.config;
  options.lora = g.lora;
  TrainRig rig(options);
  ASSERT_TRUE(rig.engine->load_model(g.base).has_value());
  auto loaded = rig.engine->load_adapter(g.adapter);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().detail;
  rig.onload_all();
  const double rate = g.numbers["learning_rate"].get<double>();
  const StepReport report = rig.engine->step(g.samples, cross_entropy, rate).value();
  EXPECT_NEAR(report.loss, g.numbers["loss"].get<double>(), 1e-5);
  const double norm = g.numbers["grad_norm"].get<double>();
  EXPECT_NEAR(report.grad_norm, norm, 1e-4 * norm);
  const StepReport after = rig.engine->step(g.samples, cross_entropy, 0).value();
  EXPECT_NEAR(after.loss, g.numbers["loss_after_step"].get<double>(), 1e-4);
}

/// Read and written again it is the same adapter, and so the same logits.
TEST_P(LoraGolden, AnAdapterIsWrittenAsItIsRead) {
  const Golden g = golden_of(GetParam());
  TrainEngineOptions options;
  options.model = g.config;
  options.lora = g.lora;
  TrainRig rig(options);
  ASSERT_TRUE(rig.engine->load_model(g.base).has_value());
  ASSERT_TRUE(rig.engine->load_adapter(g.adapter).has_value());
  const fs::path folder = fresh_folder(GetParam());
  ASSERT_TRUE(rig.engine->save(folder).has_value());
  const auto config =
      model::parse_adapter_config(text_of(folder / "adapter_config.json"), "saved").value();
  EXPECT_EQ(model::resolve_lora(g.config, config).value(), g.lora);
  const auto read = [](const fs::path& in) {
    return SafetensorsFile::open(in / "adapter_model.safetensors").value();
  };
  const SafetensorsFile before = read(g.adapter), after = read(folder);
  ASSERT_EQ(after.tensors().size(), before.tensors().size());
  for (const NamedTensor& tensor : before.tensors()) {
    const NamedTensor* found = after.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(found->bytes, tensor.bytes)) << tensor.name;
  }
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(All, LoraGolden,
                         ::testing::Values("qwen2_all", "qwen3_some", "qwen3_moe_attention",
                                           "qwen3_moe_experts", "qwen2_moe_experts"),
                         [](const auto& param) { return std::string(param.param); });

void expect_finite_differences(const ModelConfig& config, const model::LoraShape& lora) {
  const ParameterLayout layout = layout_of(config);
  const LoraLayout own = lora_layout_of(config, model::resolve_lora(config, lora).value());
  const SampleSet data = random_samples(3, 5);
  const PackedBatch batch = pack(data.samples, input_rows(data.samples), {0, 3});
  const ops::RopeTable rope = ops::rope_table(64, config.rotary_dim(), config.rope);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(2);
  const auto random = [&](int64_t count) {
    return at::randn({count}, generator, at::dtype(at::kDouble)) * 0.2;
  };
  const at::Tensor flat = random(layout.total_elements), adapter = random(own.flat.total_elements);
  PolicyWeights weights = view_weights(flat, layout, false);
  attach_adapters(adapter, own, true, weights);
  const auto value = [&] {
    const MicroOutputs out = policy_log_probs(weights, config, rope, batch, 64);
    return out.logp.sum() + 0.5 * out.entropy.sum();
  };
  std::vector<at::Tensor> leaves;
  for (const auto& leaf : weights.leaves) leaves.push_back(leaf.tensor);
  const auto gradients = torch::autograd::grad({value()}, leaves);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < leaves.size(); ++i) {  // one random direction per matrix
    const at::Tensor direction = at::randn(leaves[i].sizes(), generator, at::dtype(at::kDouble));
    constexpr double k_step = 1e-5;
    leaves[i].add_(direction, k_step);
    const double above = value().item<double>();
    leaves[i].add_(direction, -2 * k_step);
    const double below = value().item<double>();
    leaves[i].add_(direction, k_step);
    const double slope = (direction * gradients[i]).sum().item<double>();
    EXPECT_NEAR((above - below) / (2 * k_step), slope, 1e-5 * (1 + std::abs(slope)))
        << "from element " << weights.leaves[i].offset;
  }
}

TEST(LoraTrain, GradientsMatchFiniteDifferences) {
  expect_finite_differences(tests::tiny_model(), {3, 5, false, {"all-linear"}});
  expect_finite_differences(tests::llama_of(tests::tiny_model()), {2, 3, true, {"all-linear"}});
  expect_finite_differences(tests::tiny_model(), {3, 5, false, {"k_proj", "up_proj"}});
  expect_finite_differences(tests::tiny_model(), {3, 5, false, {"layers.1.self_attn.v_proj"}});
  expect_finite_differences(tests::moe_model(), {3, 5, false, {"all-linear"}});
  expect_finite_differences(models()[1], {2, 3, true, {"down_proj", "up_proj"}});
}

/// The bits do not depend on ranks, stage, swap or offload of the optimizer (TRAIN-3).
void expect_ranks_change_no_bit(const ModelConfig& model) {
  const SampleSet data = random_samples(14, 8);
  TrainRig alone(lora_options(tensor::Dtype::f32, model));
  alone.onload_all();
  train(alone, data, 3);
  const uint64_t expected = alone.engine->param_hash();
  for (int stage = 0; stage <= 2; ++stage) {
    auto rendezvous = Rendezvous::in_process();
    tests::on_threads(3, [&](int rank) {
      const auto group =
          Collectives::join(tests::group_options(rank, 3, "lora", rendezvous)).value();
      TrainEngineOptions options = lora_options(tensor::Dtype::f32, model);
      options.zero.group = group.get();
      options.zero.stage = stage;
      options.zero.offload_optimizer = stage == 1;
      options.zero.swap_optimizer = stage == 2;
      TrainRig rig(options);
      rig.onload_all();
      train(rig, data, 3);
      EXPECT_EQ(rig.engine->param_hash(), expected) << "rank " << rank << " stage " << stage;
    });
  }
}

TEST(LoraTrain, RanksAndZeroChangeNoBit) {
  for (const ModelConfig& model : models()) expect_ranks_change_no_bit(model);
}

TEST(LoraTrain, BytesOnACardAreThePlans) {
  for (const ModelConfig& model : models())
    for (tensor::Dtype dtype : {tensor::Dtype::f32, tensor::Dtype::bf16}) {
      const TrainEngineOptions options = lora_options(dtype, model);
      const TrainRig rig(options);
      plan::TrainMemory memory = plan::builtin_train_memory(tensor::size_of(dtype));
      memory.lora = model::resolve_lora(options.model, *options.lora).value();
      const auto planned = plan::train_bytes(options.model, memory);
      EXPECT_EQ(rig.engine->object_bytes(TrainObject::train_params),
                planned.at(plan::Object::train_params));
      EXPECT_EQ(rig.engine->object_bytes(TrainObject::grads), planned.at(plan::Object::grads));
      EXPECT_EQ(rig.engine->object_bytes(TrainObject::optimizer),
                planned.at(plan::Object::optimizer));
    }
}

/// What the plan of a publish brings to a rollout's card is the adapter of its part of the model.
TEST(LoraTrain, APublishBringsEachCardItsPart) {
  for (ModelConfig model : models()) {
    model.vocab_size = 20;
    const auto lora = model::resolve_lora(model, *lora_options().lora).value();
    const plan::ModelTensors tensors = plan::reshard_tensors_of(model, sizeof(float), lora);
    plan::ShardLayout from, to;
    from.dp = 2;
    from.ranks = {CardId{0}, CardId{1}};
    to.tp = 4;
    to.expert_tp = model.moe ? 4 : 1;
    for (uint32_t card = 2; card < 6; ++card) to.ranks.push_back(CardId{card});
    const plan::ReshardPlan plan = plan::plan_reshard(tensors, from, to, {}).value();
    const LoraLayout part = lora_layout_of(tp_config(model, 4).value(), lora);
    uint64_t bytes = 0;
    for (const ParameterSpec& spec : part.flat.specs)
      bytes += static_cast<uint64_t>(spec.count) * sizeof(float);
    const plan::Shards shards(plan.model, plan.to);
    for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(shards.bytes(rank), bytes) << rank;
  }
}

TEST(LoraTrain, WhatLeavesTheCardComesBack) {
  const SampleSet data = random_samples(6, 8);
  TrainRig rig(lora_options(tensor::Dtype::bf16));
  rig.onload_all();
  train(rig, data, 1);
  const auto before = log_probs_of(rig, data);
  EXPECT_EQ(rig.card.bytes_in_use(), rig.engine->object_bytes(TrainObject::train_params) +
                                         rig.engine->object_bytes(TrainObject::grads) +
                                         rig.engine->object_bytes(TrainObject::optimizer));
  for (TrainObject object : {TrainObject::train_params, TrainObject::grads, TrainObject::optimizer})
    ASSERT_TRUE(rig.engine->offload(object).has_value());
  EXPECT_EQ(rig.card.bytes_in_use(), 0U);
  rig.onload_all();
  EXPECT_EQ(log_probs_of(rig, data), before);
}

TEST(LoraTrain, AnAdapterIsDrawnThoughItsModelIsLoaded) {
  TrainEngineOptions options = lora_options();
  const uint64_t drawn = TrainRig(options).engine->param_hash();
  options.draws_weights = false;
  EXPECT_EQ(TrainRig(options).engine->param_hash(), drawn);
  options.seed = 6;
  EXPECT_NE(TrainRig(options).engine->param_hash(), drawn);
}

TEST(LoraTrain, RefusesWhatIsNotBuiltIn) {
  for (auto spoil : {+[](TrainEngineOptions& o) { o.zero.stage = 3; },
                     +[](TrainEngineOptions& o) { o.zero.offload_params = true; },
                     +[](TrainEngineOptions& o) { o.lora->targets = {"lm_head"}; },
                     +[](TrainEngineOptions& o) { o.lora->rank = 0; }}) {
    TrainEngineOptions options = lora_options();
    CardMemory card(CardId{0}, 1 << 20);
    options.card = &card;
    spoil(options);
    EXPECT_EQ(TrainEngine::create(options).error().code, Errc::invalid_argument);
  }
}

/// A checkpoint is a PEFT folder; a resumed run has the bits of one that was not stopped.
void expect_resume(const ModelConfig& model) {
  const SampleSet data = random_samples(9, 4);
  const fs::path folder = fresh_folder("resume");
  TrainRig whole(lora_options(tensor::Dtype::f32, model));
  whole.onload_all();
  train(whole, data, 2);
  ASSERT_TRUE(whole.engine->save(folder).has_value());
  train(whole, data, 2);
  EXPECT_TRUE(fs::exists(folder / "adapter_config.json"));
  EXPECT_TRUE(fs::exists(folder / "adapter_model.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "model.safetensors"));
  TrainRig resumed(lora_options(tensor::Dtype::f32, model));
  const auto loaded = resumed.engine->load(folder);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().detail;
  resumed.onload_all();
  EXPECT_EQ(resumed.engine->optimizer_steps(), 2U);
  train(resumed, data, 2);
  EXPECT_EQ(resumed.engine->param_hash(), whole.engine->param_hash());
  fs::remove_all(folder);
}

TEST(LoraCheckpoint, AResumedRunHasTheSameBits) {
  for (const ModelConfig& model : models()) expect_resume(model);
}

TEST(LoraCheckpoint, AnotherBaseOrAnotherScaleIsNamed) {
  const fs::path folder = fresh_folder("other");
  TrainRig rig(lora_options());
  ASSERT_TRUE(rig.engine->save(folder).has_value());
  TrainEngineOptions other = lora_options();
  other.seed = 6;
  const auto over = TrainRig(other).engine->load(folder);
  ASSERT_FALSE(over.has_value());
  EXPECT_NE(over.error().detail.find("another model"), std::string::npos) << over.error().detail;
  TrainEngineOptions scaled = lora_options();
  scaled.lora->alpha = 4;
  const auto wrong = TrainRig(scaled).engine->load(folder);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().detail.find("lora_alpha"), std::string::npos) << wrong.error().detail;
  TrainEngineOptions full = lora_options();
  full.lora.reset();
  EXPECT_FALSE(TrainRig(full).engine->load(folder).has_value());
  fs::remove_all(folder);
}

/// W + s B A gives what W and the adapter give apart, to f32's rounding; a folder read again gives
/// the same bits.
void expect_merged_equals_unmerged(const ModelConfig& model) {
  const SampleSet data = random_samples(10, 6);
  const fs::path folder = fresh_folder("base");
  const TrainEngineOptions options = lora_options(tensor::Dtype::f32, model);
  TrainEngineOptions full = options;
  full.lora.reset();
  TrainRig base(full);
  ASSERT_TRUE(base.engine->save(folder).has_value());
  TrainRig rig(options);
  ASSERT_TRUE(rig.engine->load_model(folder).has_value());
  rig.onload_all();
  train(rig, data, 4);
  const LoraBase merger = LoraBase::open(folder, full.model, *options.lora).value();
  const std::vector<std::byte> adapter = tests::flat_weights(*rig.engine);
  ASSERT_EQ(adapter.size(), merger.adapter_bytes());
  std::vector<std::byte> merged(base.engine->weight_bytes()), again(merged.size());
  merger.merge(adapter, merged);
  merger.merge(adapter, again);
  EXPECT_EQ(merged, again);
  ASSERT_TRUE(base.engine->load_weights(0, merged).has_value());
  base.onload_all();
  const auto apart = log_probs_of(rig, data), together = log_probs_of(base, data);
  for (size_t i = 0; i < apart.size(); ++i)
    for (size_t t = 0; t < apart[i].size(); ++t) EXPECT_NEAR(apart[i][t], together[i][t], 2e-5);
  merger.merge(std::vector<std::byte>(adapter.size()), merged);  // B of zero: the folder's weights
  EXPECT_EQ(merged, tests::flat_weights(*TrainRig(full).engine));
  fs::remove_all(folder);
}

TEST(LoraBase, MergedEqualsUnmerged) {
  for (const ModelConfig& model : models()) expect_merged_equals_unmerged(model);
}

/// A rank's part of the merged model is what it merges itself, of its parts of W, A and B.
void expect_ranks_merge_their_parts(const ModelConfig& model) {
  const fs::path folder = fresh_folder("part");
  TrainEngineOptions options = lora_options(tensor::Dtype::f32, model);
  options.lora.reset();
  options.model.vocab_size = 20;  // over 4 ranks
  ASSERT_TRUE(TrainRig(options).engine->save(folder).has_value());
  const model::LoraShape lora = *lora_options().lora;
  const LoraBase whole = LoraBase::open(folder, options.model, lora).value();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  const at::Tensor adapter = at::randn({whole.layout().flat.total_elements}, generator);
  const auto bytes_of = [](const at::Tensor& x) {
    return std::span(static_cast<const std::byte*>(x.data_ptr()),
                     static_cast<size_t>(x.numel()) * sizeof(float));
  };
  const auto merged_size = [](const ModelConfig& of) {
    return static_cast<size_t>(layout_of(of).total_elements) * sizeof(float);
  };
  std::vector<std::byte> merged(merged_size(options.model));
  whole.merge(bytes_of(adapter), merged);
  for (int rank = 0; rank < 4; ++rank) {  // over two key-value heads
    const TpRank tp{rank, 4};
    const LoraBase part = LoraBase::open(folder, options.model, lora, tp).value();
    at::Tensor own = at::zeros({part.layout().flat.total_elements});
    for (size_t i = 0; i < part.layout().flat.specs.size(); ++i) {
      const ParameterSpec &from = whole.layout().flat.specs[i], &to = part.layout().flat.specs[i];
      at::Tensor box = adapter.narrow(0, from.offset, from.count).view({from.shape[0], -1});
      for (int axis : {0, 1}) {
        const int64_t size = to.shape[static_cast<size_t>(axis)];
        const int64_t parts = from.shape[static_cast<size_t>(axis)] / size;
        box = box.narrow(axis, tp.rank * parts / tp.size * size, size);
      }
      own.narrow(0, to.offset, to.count).view({to.shape[0], -1}).copy_(box);
    }
    const ModelConfig config = tp_config(options.model, 4).value();
    std::vector<std::byte> found(merged_size(config)), expected(found.size());
    part.merge(bytes_of(own), found);
    tests::cut_flat(options.model, tp, sizeof(float), merged, expected);
    const auto floats = [](const std::vector<std::byte>& x) {
      return std::span(reinterpret_cast<const float*>(x.data()), x.size() / sizeof(float));
    };
    for (size_t i = 0; i < floats(found).size(); ++i)
      ASSERT_NEAR(floats(found)[i], floats(expected)[i], 1e-5) << "rank " << rank << " at " << i;
  }
  fs::remove_all(folder);
}

TEST(LoraBase, ARankMergesItsPart) {  // LORA-1, TP-1
  for (const ModelConfig& model : models()) expect_ranks_merge_their_parts(model);
}

}  // namespace
}  // namespace cohort::compute

// The engines on a card that is a device against the same on the host: loss and gradient norm
// within 1e-4, parameters close, checkpoints alike. On every machine with a device made of host
// tensors whose addresses nobody may follow (TorchOnHost), and on cuda where there is one;
// then the numbers are printed as rows of a table for docs/devices.md.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "runtime/compute/device/torch_device.hpp"
#include "runtime/compute/generate/built_in_engine.hpp"
#include "runtime/compute/train/flat_math.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/generation_rig.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/torch_on_host.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::compute {
namespace {

using tests::group_options;
using tests::on_threads;
using tests::policy_gradient;
using tests::random_samples;
using tests::SampleSet;
using tests::tiny_options;

constexpr double k_tolerance = 1e-4;
constexpr TrainObject k_objects[] = {TrainObject::train_params, TrainObject::grads,
                                     TrainObject::optimizer};

/// A card, which is `device` if there is one, with an engine on it.
struct Rig {
  Rig(TrainEngineOptions options, std::shared_ptr<Device> device)
      : card(CardId{1}, 64 << 20, std::move(device)) {
    options.card = &card;
    engine = TrainEngine::create(options).value();
  }
  Rig& onload_all() {
    for (TrainObject object : k_objects) engine->onload(object).value();
    return *this;
  }
  std::vector<float> master() const {
    std::vector<float> values;
    for (const ParameterShard& shard : engine->master_shards()) {
      const size_t at = values.size();
      values.resize(at + shard.bytes.size() / sizeof(float));
      std::memcpy(values.data() + at, shard.bytes.data(), shard.bytes.size());
    }
    return values;
  }
  CardMemory card;
  std::unique_ptr<TrainEngine> engine;
};

struct Case {
  std::string name;
  std::function<void(TrainEngineOptions&)> change;
  int ranks = 1;
};

std::vector<Case> cases() {
  const auto bf16 = [](TrainEngineOptions& o) { o.model.dtype = tensor::Dtype::bf16; };
  return {
      {"f32", [](TrainEngineOptions&) {}},
      {"bf16", bf16},
      {"f32, optimizer on the host",
       [](TrainEngineOptions& o) { o.zero.offload_optimizer = true; }},
      {"f32, optimizer swapped", [](TrainEngineOptions& o) { o.zero.swap_optimizer = true; }},
      {"f32, parameters on the host", [](TrainEngineOptions& o) { o.zero.offload_params = true; }},
      {"bf16, ZeRO 1, 2 ranks",
       [=](TrainEngineOptions& o) {
         bf16(o);
         o.zero.stage = 1;
       },
       2},
      {"f32, ZeRO 2, 2 ranks", [](TrainEngineOptions& o) { o.zero.stage = 2; }, 2},
      {"bf16, ZeRO 3, parameters and optimizer on the host, 2 ranks",
       [=](TrainEngineOptions& o) {
         bf16(o);
         o.zero.stage = 3;
         o.zero.offload_params = o.zero.offload_optimizer = true;
       },
       2},
      {"bf16, ZeRO 3, 2 ranks",
       [=](TrainEngineOptions& o) {
         bf16(o);
         o.zero.stage = 3;
       },
       2},
  };
}

/// What rank 0 saw of three steps.
struct Outcome {
  std::vector<StepReport> steps;
  std::vector<float> master, log_probs;
};

Outcome train(const Case& one, const std::shared_ptr<Device>& device) {
  const SampleSet data = random_samples(24, 7);
  const auto table = Rendezvous::in_process();
  Outcome outcome;
  on_threads(one.ranks, [&](int rank) {
    TrainEngineOptions options = tiny_options();
    one.change(options);
    std::unique_ptr<Collectives> group;
    if (one.ranks > 1) {
      GroupOptions joined = group_options(rank, one.ranks, "train", table);
      joined.backend = CollectiveBackend::memory;
      joined.device = device;
      group = Collectives::join(joined).value();
      options.zero.group = group.get();
    }
    Rig rig(options, device);
    rig.onload_all();
    if (device != nullptr) {
      EXPECT_GE(device->memory().value().in_use_bytes, rig.card.bytes_in_use());
    }
    for (int i = 0; i < 3; ++i) {
      const StepReport report = rig.engine->step(data.samples, policy_gradient, 1e-3).value();
      if (rank == 0) outcome.steps.push_back(report);
      for (TrainObject object : k_objects) rig.engine->offload(object).value();
      EXPECT_EQ(rig.card.bytes_in_use(), 0u);
      rig.onload_all();
    }
    std::vector<std::vector<float>> logp;
    rig.engine->log_probs(data.samples, logp).value();
    if (rank != 0) return;
    for (const auto& one_sample : logp)
      outcome.log_probs.insert(outcome.log_probs.end(), one_sample.begin(), one_sample.end());
    outcome.master = rig.master();
  });
  return outcome;
}

double relative(double a, double b) { return std::abs(a - b) / std::max(1e-12, std::abs(b)); }

void expect_close(const std::vector<float>& on_device, const std::vector<float>& on_host,
                  double tolerance, const char* what) {
  ASSERT_EQ(on_device.size(), on_host.size()) << what;
  ASSERT_FALSE(on_host.empty()) << what;
  for (size_t i = 0; i < on_host.size(); ++i)
    ASSERT_NEAR(on_device[i], on_host[i], tolerance) << what << " " << i;
}

/// bf16 rounds activations to 8 bits: another order of sums may give another neighbour.
double tolerance_of(const Case& one) { return one.name.starts_with("bf16") ? 2e-2 : k_tolerance; }

void compare(const Case& one, const std::shared_ptr<Device>& device, bool is_told) {
  SCOPED_TRACE(one.name);
  const Outcome host = train(one, nullptr), card = train(one, device);
  ASSERT_EQ(card.steps.size(), 3u);
  for (size_t i = 0; i < card.steps.size(); ++i) {
    const StepReport &a = card.steps[i], &b = host.steps[i];
    EXPECT_LT(relative(a.loss, b.loss), tolerance_of(one)) << "step " << i;
    EXPECT_LT(relative(a.grad_norm, b.grad_norm), tolerance_of(one)) << "step " << i;
    EXPECT_EQ(a.micro_batches, b.micro_batches);
    if (is_told)
      std::printf("| %s | step %zu | %.7f | %.7f | %.1e | %.7f | %.7f | %.1e |\n", one.name.c_str(),
                  i + 1, b.loss, a.loss, relative(a.loss, b.loss), b.grad_norm, a.grad_norm,
                  relative(a.grad_norm, b.grad_norm));
  }
  // AdamW moves each parameter by about the learning rate whatever its gradient: 3 steps of 1e-3
  expect_close(card.master, host.master, 2e-4, "parameters");
  expect_close(card.log_probs, host.log_probs, 10 * tolerance_of(one), "log-probabilities");
}

TEST(DeviceTrain, AsOnTheHost) {
  for (const Case& one : cases()) compare(one, tests::TorchOnHost::make(), false);
}

TEST(DeviceTrain, OnCudaAsOnTheHost) {
  auto device = open_device(DeviceKind::cuda, 0);
  if (!device) GTEST_SKIP() << device.error().detail;
  std::printf("| on %s | | loss, host | card | relative | grad norm, host | card | relative |\n",
              device.value()->info().name.c_str());
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (const Case& one : cases()) compare(one, *device, true);
}

TEST(DeviceTrain, AStepIsTheSameAgain) {
  const auto device = tests::TorchOnHost::make();
  const Case one = cases().front();
  EXPECT_EQ(train(one, device).master, train(one, device).master);
}

TEST(DeviceTrain, ACheckpointCrossesBetweenCardAndHost) {
  const test::TempFolder folder;
  const SampleSet data = random_samples(12, 3);
  Rig card(tiny_options(), tests::TorchOnHost::make());
  card.onload_all();
  card.engine->step(data.samples, policy_gradient, 1e-3).value();
  card.engine->save(folder.path() / "c").value();
  Rig host(tiny_options(), nullptr);
  host.onload_all();
  host.engine->load(folder.path() / "c").value();
  EXPECT_EQ(host.engine->param_hash(), card.engine->param_hash());
  EXPECT_EQ(host.master(), card.master());
  const StepReport next = host.engine->step(data.samples, policy_gradient, 1e-3).value();
  const StepReport on_card = card.engine->step(data.samples, policy_gradient, 1e-3).value();
  EXPECT_LT(relative(on_card.loss, next.loss), k_tolerance);
  Rig back(tiny_options(), tests::TorchOnHost::make());
  back.onload_all();
  back.engine->load(folder.path() / "c").value();
  EXPECT_EQ(back.engine->optimizer_steps(), 1u);
  EXPECT_LT(relative(back.engine->step(data.samples, policy_gradient, 1e-3).value().grad_norm,
                     on_card.grad_norm),
            1e-9);
}

/// The same greedy turns on the card and on the host; weights leave and come back in between.
void compare_generation(const std::shared_ptr<Device>& device) {
  const std::vector<float> weights = tests::random_weights(tests::generation_model());
  tests::RigOptions options;
  tests::GenerationRig host(options);
  options.device = device;
  tests::GenerationRig card(options);
  host.serve(weights);
  card.serve(weights);
  EXPECT_GE(device->memory().value().in_use_bytes, card.card.bytes_in_use()) << "in its blocks";
  for (uint64_t id = 1; id <= 4; ++id) {
    TurnRequest request;
    request.request_id = id;
    request.append_tokens = {3, 1, 4, static_cast<int32_t>(id)};
    request.max_new_tokens = 12;
    request.sampling.greedy = true;
    request.is_last = true;
    const TurnOutput a = card.play(request), b = host.play(request);
    EXPECT_EQ(a.stop, TurnStop::length);
    EXPECT_EQ(a.tokens, b.tokens) << id;
    ASSERT_EQ(a.logp.size(), b.logp.size());
    for (size_t i = 0; i < a.logp.size(); ++i) EXPECT_NEAR(a.logp[i], b.logp[i], k_tolerance);
    card.engine->offload_params().value();
    card.engine->onload_params().value();
  }
}

TEST(DeviceGeneration, AsOnTheHost) { compare_generation(tests::TorchOnHost::make()); }

TEST(DeviceGeneration, OnCudaAsOnTheHost) {
  auto device = open_device(DeviceKind::cuda, 0);
  if (!device) GTEST_SKIP() << device.error().detail;
  compare_generation(*device);
}

TEST(DeviceTrain, ACardKeepsItsBudgetAndItsDevicesAccount) {  // PLACE-2
  const auto device = tests::TorchOnHost::make();
  CardMemory card(CardId{1}, 1000, device);
  EXPECT_EQ(card.allocate("a", 1001).error().code, Errc::capacity);
  {
    const CardStorage storage = card.allocate("a", 600).value();
    EXPECT_TRUE(device->holds(storage.data()));
    EXPECT_EQ(device->memory().value().in_use_bytes, 600u);
    EXPECT_EQ(card.allocate("b", 401).error().code, Errc::capacity);
    EXPECT_EQ(card.bytes_in_use(), 600u);
  }
  EXPECT_EQ(card.bytes_in_use(), 0u);
  EXPECT_EQ(device->memory().value().in_use_bytes, 0u);
}

TEST(DeviceTrain, NormsHaveTheSameIntegersEverywhere) {  // NORM-1
  const auto device = tests::TorchOnHost::make();
  const FlatMath host, card(device.get());
  Rng rng(11);
  for (size_t count : {1u, 7u, 1000u, 5000001u}) {
    std::vector<float> values(count);
    for (float& value : values)
      value = static_cast<float>((rng.uniform() - 0.5) * std::pow(10.0, 8 * rng.uniform() - 6));
    const DeviceBlock block = device->allocate(count * sizeof(float)).value();
    card.copy(block.data(), values.data(), count * sizeof(float));
    const std::span<const float> there(reinterpret_cast<const float*>(block.data()), count);
    const uint32_t largest = host.largest_magnitude(values);
    EXPECT_EQ(card.largest_magnitude(there), largest);
    EXPECT_EQ(card.sum_of_squares(there, largest), host.sum_of_squares(values, largest)) << count;
  }
}

}  // namespace
}  // namespace cohort::compute

// A student that learns the distribution of a teacher on its card: what losses are given, that no
// cut of the step changes a bit (TRAIN-3), and that the teacher comes and goes with the parameters.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/ranks.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::compute {
namespace {

using tests::random_samples;
using tests::SampleSet;
using tests::TrainRig;

/// KL(teacher || student).
at::Tensor forward_kl(const at::Tensor& student, const at::Tensor& teacher) {
  const at::Tensor log_q = at::log_softmax(teacher, 1);
  return (log_q.exp() * (log_q - at::log_softmax(student, 1))).sum(1);
}

/// The mean divergence of a counted token.
LossFunction imitation(const StepCounts& counts) {
  return [tokens = counts.tokens](const MicroBatch&, const MicroOutputs& out) {
    MicroLoss loss;
    loss.total = out.divergence.sum() / tokens;
    loss.numbers.add("nll", -out.logp.sum().item<double>() / tokens);
    return loss;
  };
}

/// Smaller than its student, with more rows in its head.
ModelConfig teacher_model(tensor::Dtype dtype = tensor::Dtype::f32) {
  ModelConfig model = tests::tiny_model();
  model.dtype = dtype;
  model.vocab_size = 23;
  model.hidden_size = 16;
  model.num_hidden_layers = 1;
  model.initializer_range = 0.5;
  return model;
}

void teach(TrainRig& rig, const ModelConfig& model, uint64_t seed = 9) {
  TrainEngineOptions options = tests::tiny_options();
  options.model = model;
  options.seed = seed;
  options.role = "teacher";
  options.is_frozen = true;
  options.card = &rig.card;
  rig.engine->learn_from(TrainEngine::create(options).value(), forward_kl);
}

TEST(TaughtTrain, TheDivergenceFallsInEveryDtypeAndUnderAnAdapter) {
  const SampleSet data = random_samples(6, 4);
  for (const bool is_half : {false, true})
    for (const bool has_adapter : {false, true}) {
      TrainEngineOptions options = tests::tiny_options();
      if (is_half) options.model.dtype = tensor::Dtype::bf16;
      if (has_adapter) options.lora = model::LoraShape{8, 16, false, {"all-linear"}};
      TrainRig rig(options);
      teach(rig, teacher_model(options.model.dtype));
      rig.onload_all();
      const double first = rig.engine->step(data.samples, imitation, 1e-2).value().loss;
      double last = 0;
      for (int i = 0; i < 80; ++i)
        last = rig.engine->step(data.samples, imitation, 1e-2).value().loss;
      EXPECT_GT(first, 0.5);
      EXPECT_LT(last, (has_adapter ? 0.6 : 0.2) * first) << is_half << has_adapter;
    }
}

TEST(TaughtTrain, ATeacherWithTheStudentsWeightsTeachesNothing) {
  const SampleSet data = random_samples(6, 4);
  const TrainEngineOptions options = tests::tiny_options();
  TrainRig rig(options);
  teach(rig, options.model, options.seed);
  rig.onload_all();
  const StepReport report = rig.engine->step(data.samples, imitation, 1e-2).value();
  EXPECT_NEAR(report.loss, 0, 1e-6);
  EXPECT_NEAR(report.grad_norm, 0, 1e-5);
  EXPECT_GT(report.numbers.all().front().value, 1.0) << "the log-probabilities are the student's";
}

struct Outcome {
  uint64_t hash = 0;
  std::vector<double> losses;
  bool operator==(const Outcome&) const = default;
};

TEST(TaughtTrain, BitsDoNotDependOnRanksStageOrThreads) {  // TRAIN-3, TRAIN-1
  const SampleSet data = random_samples(30, 1);
  std::vector<Outcome> outcomes;
  for (const int ranks : {1, 2, 4})
    for (const int stage : {0, 1, 2, 3}) {
      std::vector<Outcome> of_rank(static_cast<size_t>(ranks));
      tests::on_group(ranks, CollectiveBackend::memory, [&](int rank, Collectives* group) {
        TrainEngineOptions options = tests::tiny_options();
        options.threads = 1 + (ranks + stage) % 2;
        options.zero.group = group;
        options.zero.stage = stage;
        TrainRig rig(options);
        teach(rig, teacher_model());
        rig.onload_all();
        Outcome& mine = of_rank[static_cast<size_t>(rank)];
        for (int i = 0; i < 3; ++i)
          mine.losses.push_back(rig.engine->step(data.samples, imitation, 1e-2).value().loss);
        mine.hash = rig.engine->param_hash();
      });
      outcomes.insert(outcomes.end(), of_rank.begin(), of_rank.end());
    }
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome == outcomes.front());
}

TEST(TaughtTrain, TheTeacherComesAndGoesWithTheParameters) {
  TrainRig alone(tests::tiny_options()), taught(tests::tiny_options());
  teach(taught, teacher_model());
  const auto params = TrainObject::train_params;
  EXPECT_GT(taught.engine->object_bytes(params), alone.engine->object_bytes(params));
  EXPECT_EQ(taught.engine->object_bytes(TrainObject::grads),
            alone.engine->object_bytes(TrainObject::grads));
  const Residency come = taught.engine->onload(params).value();
  EXPECT_EQ(come.bytes_on_card, taught.engine->object_bytes(params));
  EXPECT_EQ(taught.card.bytes_in_use(), come.bytes_on_card);
  taught.engine->offload(params).value();
  EXPECT_EQ(taught.card.bytes_in_use(), 0U);
}

TEST(TaughtTrain, ACardWithoutRoomForTheTeacherIsLeftEmpty) {
  TrainRig alone(tests::tiny_options());
  TrainRig rig(tests::tiny_options(), alone.engine->object_bytes(TrainObject::train_params) + 64);
  teach(rig, teacher_model());
  const auto refused = rig.engine->onload(TrainObject::train_params);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::capacity);
  EXPECT_NE(refused.error().detail.find("teacher"), std::string::npos) << refused.error().detail;
  EXPECT_EQ(rig.card.bytes_in_use(), 0U);
}

}  // namespace
}  // namespace cohort::compute

// Fifty supervised steps of a tiny model equal those of transformers (tools/golden/
// make_sft_reference.py), whatever the split of the batch, and on two cards.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "actors/roles/policy_update.hpp"
#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/config/load.hpp"
#include "runtime/model/hf_config.hpp"
#include "tests/support/ranks.hpp"

namespace cohort::actors {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path k_source = std::getenv("COHORT_SOURCE_DIR");
const fs::path k_model = k_source / "tests/data/language_models/qwen2";
constexpr int k_steps = 50;
constexpr int k_row_tokens_max = 26;

const json& reference() {
  static const json value =
      json::parse(std::ifstream(k_source / "tests/golden/data/sft_reference.json"));
  return value;
}

struct Split {
  int per_device = 8, accumulation = 1, cards = 1, zero = 0;
  std::string name() const {
    return fmt::format("{}x{} on {} cards, ZeRO {}", per_device, accumulation, cards, zero);
  }
};

config::RunConfig config_of(const Split& split) {
  const json& optimizer = reference()["optimizer"];
  const std::string text = fmt::format(
      R"(pipeline: sft
max_steps: {}
sequence_length: 64
pretrain: {}
platform: cpu
num_gpus_per_node: {}
max_grad_norm: {}
sft_train:
  model_args: {{dtype: fp32}}
  training_args: {{learning_rate: {}, weight_decay: {}, adam_beta1: {}, adam_beta2: {},
                  adam_epsilon: {}, lr_scheduler_type: linear,
                  per_device_train_batch_size: {}, gradient_accumulation_steps: {}}}
  data_args: {{file_name: rows.jsonl}}
  device_mapping: list(range(0,{}))
)",
      k_steps, k_model.string(), split.cards, optimizer["max_grad_norm"].dump(),
      optimizer["learning_rate"].dump(), optimizer["weight_decay"].dump(),
      optimizer["adam_beta1"].dump(), optimizer["adam_beta2"].dump(),
      optimizer["adam_epsilon"].dump(), split.per_device, split.accumulation, split.cards);
  auto config = config::load_text(text, "sft.yaml");
  if (!config) ADD_FAILURE() << config.error().detail;
  return *std::move(config);
}

std::vector<proto::Trajectory> batch_of(int step) {
  const json& rows = reference()["rows"];
  const auto size = reference()["batch"].get<size_t>();
  std::vector<proto::Trajectory> batch(size);
  for (size_t i = 0; i < size; ++i) {
    const json& row = rows[(size * static_cast<size_t>(step) + i) % rows.size()];
    batch[i].tokens = row["ids"].get<std::vector<int32_t>>();
    batch[i].response_mask = row["mask"].get<std::vector<uint8_t>>();
  }
  return batch;
}

struct Course {
  std::vector<double> loss, norm;
  std::vector<uint64_t> hashes;
};

double metric(const control::UpdateReport& report, std::string_view name) {
  for (const auto& [key, value] : report.metrics)
    if (key == name) return value;
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

Course train(const Split& split, compute::Collectives* group, uint32_t card_id) {
  const config::RunConfig config = config_of(split);
  EXPECT_EQ(config.derived.optimizer_batch, 8);
  const config::TrainingArgs& args = config.actor_train.training_args;
  compute::CardMemory card({card_id}, uint64_t{1} << 26);
  std::ifstream file(k_model / "config.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  compute::TrainEngineOptions options;
  options.model = compute::ModelConfig{model::read_hf_config(text, "qwen2").value().shape};
  options.optimizer = {args.adam_beta1, args.adam_beta2, args.adam_epsilon, args.weight_decay,
                       config.max_grad_norm};
  options.micro_batch_tokens = split.per_device * k_row_tokens_max;
  options.card = &card;
  options.zero.group = group;
  options.zero.stage = split.zero;
  auto engine = compute::TrainEngine::create(options).value();
  EXPECT_TRUE(engine->load_model(k_model));
  for (auto object : {compute::TrainObject::train_params, compute::TrainObject::grads,
                      compute::TrainObject::optimizer})
    EXPECT_TRUE(engine->onload(object));
  PolicyUpdater updater({config});
  Course course;
  for (int step = 0; step < k_steps; ++step) {
    control::UpdateRequest request;
    request.kind = TrajectoryKind::train;
    request.step = static_cast<uint64_t>(step) + 1;
    auto report = updater.update(*engine, request, batch_of(step));
    EXPECT_TRUE(report) << report.error().detail;
    if (!report) break;
    course.loss.push_back(metric(*report, "loss"));
    course.norm.push_back(metric(*report, "actor/grad_norm"));
    course.hashes.push_back(report->param_hash);
  }
  return course;
}

Course train(const Split& split) {
  if (split.cards == 1) return train(split, nullptr, 0);
  auto rendezvous = compute::Rendezvous::in_process();
  std::vector<Course> courses(static_cast<size_t>(split.cards));
  tests::on_threads(split.cards, [&](int rank) {
    auto options = tests::group_options(rank, split.cards, "sft", rendezvous);
    options.backend = compute::CollectiveBackend::memory;
    auto group = compute::Collectives::join(options);
    ASSERT_TRUE(group) << group.error().detail;
    courses[static_cast<size_t>(rank)] = train(split, group->get(), static_cast<uint32_t>(rank));
  });
  EXPECT_EQ(courses.front().hashes, courses.back().hashes);
  return courses.front();
}

TEST(SftReference, EverySplitGivesTheNumbersOfTransformers) {
  std::optional<Course> first;
  for (const Split& split :
       {Split{8, 1}, Split{4, 2}, Split{2, 4}, Split{1, 8}, Split{4, 1, 2, 0}, Split{2, 2, 2, 3}}) {
    const Course course = train(split);
    ASSERT_EQ(course.loss.size(), k_steps) << split.name();
    for (size_t step = 0; step < k_steps; ++step) {
      const double loss = reference()["loss"][step].get<double>();
      const double norm = reference()["grad_norm"][step].get<double>();
      EXPECT_NEAR(course.loss[step], loss, 1e-3 * loss) << split.name() << ", step " << step;
      EXPECT_NEAR(course.norm[step], norm, 1e-3 * norm) << split.name() << ", step " << step;
    }
    if (!first) first = course;
    for (size_t step = 0; step < k_steps; ++step) {  // two splits round differently
      EXPECT_NEAR(course.loss[step], first->loss[step], 1e-4 * first->loss[step]) << split.name();
      EXPECT_NEAR(course.norm[step], first->norm[step], 1e-4 * first->norm[step]) << split.name();
    }
  }
}

TEST(SftReference, TwoCardsGiveTheBitsOfOne) {  // TRAIN-3
  const Course one = train({4, 2, 1, 0});
  EXPECT_EQ(train({4, 1, 2, 0}).hashes, one.hashes);
  EXPECT_EQ(train({4, 1, 2, 3}).hashes, one.hashes);
}

TEST(SftReference, HeldOutRowsAreMeasuredAndChangeNothing) {
  const config::RunConfig config = config_of({});
  compute::CardMemory card({0}, uint64_t{1} << 26);
  std::ifstream file(k_model / "config.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  compute::TrainEngineOptions options;
  options.model = compute::ModelConfig{model::read_hf_config(text, "qwen2").value().shape};
  options.card = &card;
  auto engine = compute::TrainEngine::create(options).value();
  ASSERT_TRUE(engine->load_model(k_model));
  ASSERT_TRUE(engine->onload(compute::TrainObject::train_params));
  const uint64_t before = engine->param_hash();
  PolicyUpdater updater({config});
  control::UpdateRequest request;
  request.kind = TrajectoryKind::val;
  auto report = updater.update(*engine, request, batch_of(0));
  ASSERT_TRUE(report) << report.error().detail;
  EXPECT_NEAR(metric(*report, "val/loss"), reference()["loss"][0].get<double>(), 1e-4);
  EXPECT_EQ(engine->param_hash(), before);
}

}  // namespace
}  // namespace cohort::actors

// Sharded training with a card as a process: bits, checkpoints that move to other ranks and stages,
// and a rank that is killed in the middle of a step. The parent never computes: it forks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "runtime/base/clock.hpp"
#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/train/checkpoint_slices.hpp"
#include "tests/support/control_table.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using tests::ForkedRanks;
using tests::group_options;
using tests::policy_gradient;
using tests::random_samples;
using tests::SampleSet;
using tests::tiny_options;
using tests::TrainRig;

constexpr int k_steps = 5, k_saved = 2;

struct Layout {
  int ranks = 1, stage = 0;
  bool offload_optimizer = false;
  int expert_ways = 0;  // > 0: of a model with experts
};

/// One rank of a run: from `load` (or the seed) to step `last`, then saved to `save`.
struct Leg {
  Layout layout;
  int last = k_steps;
  fs::path load, save, result;
  int victim = -1;  // dies in its first micro-batch of the step after `last`
};

LossFactory dies_on_first_call() {
  return [](const StepCounts&) -> LossFunction {
    return [](const MicroBatch&, const MicroOutputs&) -> MicroLoss {
      ::kill(::getpid(), SIGKILL);
      return {};
    };
  };
}

int run_leg(const Leg& leg, int rank, uint16_t port) {
  std::unique_ptr<Collectives> group;
  std::shared_ptr<Rendezvous> rendezvous;
  if (leg.layout.ranks > 1) {
    rendezvous = tests::connect_table(port);
    group =
        Collectives::join(group_options(rank, leg.layout.ranks, "actor_train", rendezvous)).value();
  }
  TrainEngineOptions options = tiny_options();
  options.zero.group = group.get();
  options.zero.stage = leg.layout.stage;
  options.zero.offload_optimizer = leg.layout.offload_optimizer;
  if (leg.layout.expert_ways > 0) {
    options.model = tests::moe_model();
    options.zero.expert_ways = leg.layout.expert_ways;
  }
  TrainRig rig(options);
  TrainEngine& engine = *rig.engine;
  if (!leg.load.empty()) engine.load(leg.load).value();
  rig.onload_all();
  const SampleSet data = random_samples(60, 1);
  while (engine.optimizer_steps() < static_cast<uint64_t>(leg.last))
    engine.step(data.samples, policy_gradient, 1e-2).value();
  if (!leg.save.empty()) engine.save(leg.save).value();
  const uint64_t hash = engine.param_hash();
  if (rank == 0) std::ofstream(leg.result) << fmt::format("{:016x}", hash);
  if (leg.victim < 0) return 0;
  auto result = engine.step(
      data.samples, rank == leg.victim ? dies_on_first_call() : LossFactory(policy_gradient), 1e-2);
  if (result) return 1;
  const std::string named = fmt::format("rank {} (card {}) is gone", leg.victim, leg.victim);
  if (result.error().detail.find(named) != std::string::npos) return 0;
  std::fprintf(stderr, "rank %d: %s\n", rank, result.error().to_string().c_str());
  return 2;
}

/// Runs a leg in processes of its own and returns what rank 0 wrote.
std::string run(const Leg& leg) {
  tests::ForkedTable table;
  ForkedRanks ranks(leg.layout.ranks, [&](int rank) { return run_leg(leg, rank, table.port()); });
  for (int rank = 0; rank < leg.layout.ranks; ++rank)
    EXPECT_EQ(ranks.wait(rank), rank == leg.victim ? -SIGKILL : 0)
        << "rank " << rank << " of " << leg.layout.ranks << ", stage " << leg.layout.stage;
  return test::slurp(leg.result);
}

class ZeroProcesses : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  test::TempFolder folder_;
};

TEST_F(ZeroProcesses, FourProcessesHaveTheBitsOfOne) {  // TRAIN-3
  const std::string expected = run({{1, 0}, k_steps, {}, {}, at("hash")});
  ASSERT_EQ(expected.size(), 16u);
  for (int stage : {1, 2, 3}) EXPECT_EQ(run({{4, stage}, k_steps, {}, {}, at("hash")}), expected);
}

TEST_F(ZeroProcesses, ACheckpointMovesToOtherRanksAndStages) {  // CKPT-1
  const std::string expected = run({{1, 0}, k_steps, {}, {}, at("hash")});
  for (const auto& [from, to] : std::vector<std::pair<Layout, Layout>>{
           {{1, 0}, {4, 3}}, {{4, 3}, {2, 1}}, {{2, 1, true}, {3, 2}}, {{3, 2}, {1, 0}}}) {
    run({from, k_saved, {}, at("half"), at("hash")});
    EXPECT_EQ(run({to, k_steps, at("half"), {}, at("hash")}), expected)
        << from.ranks << "/" << from.stage << " -> " << to.ranks << "/" << to.stage;
  }
}

TEST_F(ZeroProcesses, AKilledRankIsNamedAndTheRunResumesWithTheSameBits) {
  const std::string expected = run({{1, 0}, k_steps, {}, {}, at("hash")});
  for (int stage : {1, 3}) {
    const double begin = now_seconds();
    run({{4, stage}, k_saved, {}, at("half"), at("half.hash"), 2});
    EXPECT_LT(now_seconds() - begin, 20);
    EXPECT_EQ(run({{4, stage}, k_steps, at("half"), {}, at("hash")}), expected);
  }
}

TEST_F(ZeroProcesses, ExpertsOverRanksHaveTheBitsOfOneAndOutliveAKill) {  // TRAIN-3, EP-4
  const std::string expected = run({{1, 0, false, 1}, k_steps, {}, {}, at("hash")});
  ASSERT_EQ(expected.size(), 16u);
  EXPECT_EQ(run({{2, 0, false, 2}, k_steps, {}, {}, at("hash")}), expected);
  run({{4, 1, false, 2}, k_saved, {}, at("half"), at("half.hash"), 2});
  EXPECT_EQ(run({{4, 1, false, 2}, k_steps, at("half"), {}, at("hash")}), expected);
  EXPECT_EQ(run({{1, 0, false, 1}, k_steps, at("half"), {}, at("hash")}), expected);
}

TEST_F(ZeroProcesses, TheModelOfACheckpointIsOneFileForOthers) {
  run({{4, 3}, k_saved, {}, at("half"), at("hash")});
  const auto file = SafetensorsFile::open(at("half") / "model.safetensors").value();
  const ParameterLayout layout = layout_of(tests::tiny_model());
  EXPECT_EQ(file.tensors().size(), layout.specs.size());
  for (const ParameterSpec& spec : layout.specs) {
    ASSERT_NE(file.find(spec.name), nullptr) << spec.name;
    EXPECT_EQ(file.find(spec.name)->shape, spec.shape);
  }
  const auto slices = SafetensorsFile::open(at("half") / slice_file(1, 4)).value();
  EXPECT_NE(slices.find("exp_avg.model.embed_tokens.weight[152:304]"), nullptr);
}

TEST_F(ZeroProcesses, ABrokenSliceIsNamedAndNothingChanges) {
  run({{4, 2}, k_saved, {}, at("good"), at("hash")});
  const std::string file = slice_file(3, 4);
  auto expect_error = [&](const char* what, const std::function<void(const fs::path&)>& spoil,
                          const std::vector<std::string>& parts) {
    fs::remove_all(at("bad"));
    fs::copy(at("good"), at("bad"));
    spoil(at("bad") / file);
    ForkedRanks one(1, [&](int) {
      TrainRig rig(tiny_options());
      const uint64_t before = rig.engine->param_hash();
      auto loaded = rig.engine->load(at("bad"));
      if (loaded) return 1;
      for (const std::string& part : parts)
        if (loaded.error().detail.find(part) == std::string::npos) {
          std::fprintf(stderr, "%s: %s\n", what, loaded.error().to_string().c_str());
          return 2;
        }
      return rig.engine->param_hash() == before ? 0 : 3;
    });
    EXPECT_EQ(one.wait(0), 0) << what;
  };
  const std::string first = "exp_avg.model.embed_tokens.weight[456:608]";
  expect_error("missing", [](const fs::path& path) { fs::remove(path); }, {file, first});
  expect_error("truncated",
               [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) - 4); },
               {file, "exp_avg_sq."});
  expect_error("flipped",
               [](const fs::path& path) {
                 std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
                 bytes.seekp(-1, std::ios::end);
                 bytes.put('\x55');
               },
               {file, first, "hash"});
}

TEST(Slices, NamesAndGaps) {  // CKPT-1
  EXPECT_EQ(slice_name("a.b", {3, 17}), "a.b[3:17]");
  const auto name = parse_slice_name("a[0:1].b[3:17]");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->tensor, "a[0:1].b");
  EXPECT_EQ(name->part, (TensorPart{3, 17}));
  for (const char* wrong :
       {"a", "a[3:17", "a[:17]", "a[17:3]", "a[3:3]", "a[-1:3]", "a[1:2]x", "[]"})
    EXPECT_FALSE(parse_slice_name(wrong).has_value()) << wrong;
  test::TempFolder folder;
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto write = [&](const std::string& file, int64_t begin, int64_t end) {
    const NamedTensor tensor{slice_name("w", {begin, end}),
                             "F32",
                             {end - begin},
                             std::as_bytes(std::span(values).subspan(
                                 static_cast<size_t>(begin), static_cast<size_t>(end - begin)))};
    write_safetensors(folder.path() / file, std::span(&tensor, 1), {}).value();
    return SafetensorsFile::open(folder.path() / file).value();
  };
  SliceTable table;
  table.add(write("c", 7, 10), "c").value();
  table.add(write("a", 0, 4), "a").value();
  auto gap = table.check("w", 10, {2, 9});
  EXPECT_NE(gap.error().detail.find("elements 4:9 of 'w' are in no file"), std::string::npos)
      << gap.error().detail;
  EXPECT_TRUE(table.check("w", 10, {1, 4}).has_value());
  table.add(write("b", 4, 7), "b").value();
  ASSERT_TRUE(table.check("w", 10, {2, 9}).has_value());
  std::vector<float> read(7);
  table.copy("w", {2, 9}, read);
  EXPECT_EQ(read, (std::vector<float>{2, 3, 4, 5, 6, 7, 8}));
  EXPECT_NE(table.check("w", 9, {2, 9}).error().detail.find("ends after the 9 elements"),
            std::string::npos);
  table.add(write("d", 5, 6), "d").value();
  EXPECT_NE(table.check("w", 10, {0, 10}).error().detail.find("overlaps"), std::string::npos);
  EXPECT_EQ(table.check("x", 10, {0, 1}).error().code, Errc::corrupt);
}

}  // namespace
}  // namespace cohort::compute

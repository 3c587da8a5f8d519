// Data-parallel replicas: four engines under the dispatcher give the trajectories that one gives,
// bit by bit (GEN-1), also when a replica dies and its groups are played again elsewhere.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <thread>

#include "runtime/plan/flow/dispatch.hpp"
#include "tests/support/generation_rig.hpp"

namespace cohort::tests {
namespace {

using compute::TurnOutput;
using Played = std::map<uint64_t, std::vector<TurnOutput>>;

constexpr uint32_t k_replicas = 4, k_group_size = 4, k_turns = 3;
constexpr uint64_t k_groups = 24;

uint64_t id_of(uint64_t group, uint32_t index) { return 1 + group * k_group_size + index; }

bool same_bits(const TurnOutput& a, const TurnOutput& b) {
  return a.tokens == b.tokens && a.stop == b.stop && a.logp.size() == b.logp.size() &&
         std::memcmp(a.logp.data(), b.logp.data(), a.logp.size() * sizeof(float)) == 0;
}

uint64_t sampled_tokens(const std::vector<TurnOutput>& turns) {
  uint64_t sum = 0;
  for (const TurnOutput& turn : turns) sum += turn.tokens.size();
  return sum;
}

/// Plays what the dispatcher hands out, wave by wave, all replicas at once; in wave `dies_in`
/// replica 1 is lost with all it holds.
class Replicas {
 public:
  Replicas(const std::vector<float>& weights, std::optional<int> dies_in)
      : dispatcher_({k_replicas, 3 * k_group_size * 40, 20, 10}), dies_in_(dies_in) {
    for (uint32_t r = 0; r < k_replicas; ++r) {
      RigOptions options;
      options.lanes = 1 + r % 2;  // replicas need not be alike
      options.batch_tokens = 16 + 50 * r;
      rigs_.push_back(std::make_unique<GenerationRig>(options));
      rigs_.back()->serve(weights);
    }
    for (uint64_t g = 0; g < k_groups; ++g)
      dispatcher_.add({g, g / 2, k_group_size, 20, 0}).value();
  }

  Played play() {
    for (int wave = 0; !dispatcher_.is_done(); ++wave) play_wave(wave);
    return std::move(played_);
  }
  std::vector<uint64_t> counts() const {  // trajectories by replica
    return counts_;
  }

 private:
  void play_wave(int wave) {
    const auto parts = dispatcher_.assign();
    ASSERT_FALSE(parts.empty());
    std::vector<Played> found(k_replicas);
    {
      std::vector<std::jthread> players;
      for (uint32_t r = 0; r < k_replicas; ++r)
        players.emplace_back([&, r] {
          std::vector<uint64_t> ids;
          for (const auto& part : parts)
            for (uint32_t index : part.indices)
              if (part.replica == r) ids.push_back(id_of(part.group, index));
          found[r] = play_all(*rigs_[r], ids, k_turns);
        });
    }
    if (wave == dies_in_) {
      EXPECT_FALSE(dispatcher_.lose(1).empty());
    }
    for (const auto& part : parts) {
      if (wave == dies_in_ && part.replica == 1) continue;  // nobody heard of its trajectories
      for (uint32_t index : part.indices) {
        auto& turns = found[part.replica].at(id_of(part.group, index));
        const auto end = dispatcher_.end(part.group, index, part.replica, sampled_tokens(turns));
        EXPECT_TRUE(end.is_first);
        ++counts_[part.replica];
        EXPECT_TRUE(played_.emplace(id_of(part.group, index), std::move(turns)).second);
      }
    }
  }

  plan::Dispatcher dispatcher_;
  std::optional<int> dies_in_;
  std::vector<std::unique_ptr<GenerationRig>> rigs_;
  Played played_;
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(k_replicas, 0);
};

void expect_equal(const Played& expected, const Played& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (const auto& [id, turns] : expected) {
    ASSERT_EQ(found.at(id).size(), turns.size());
    for (size_t turn = 0; turn < turns.size(); ++turn)
      EXPECT_TRUE(same_bits(turns[turn], found.at(id)[turn])) << "id " << id << " turn " << turn;
  }
}

TEST(Replicas, FourGiveTheTrajectoriesOfOne) {
  const auto weights = random_weights(generation_model());
  std::vector<uint64_t> ids;
  for (uint64_t g = 0; g < k_groups; ++g)
    for (uint32_t index = 0; index < k_group_size; ++index) ids.push_back(id_of(g, index));
  RigOptions roomy;
  roomy.max_running = 256;  // all of them keep their slot between turns
  GenerationRig one(roomy);
  one.serve(weights);
  const Played expected = play_all(one, ids, k_turns);

  Replicas four(weights, {});
  expect_equal(expected, four.play());
  for (uint64_t count : four.counts()) EXPECT_GT(count, 0U);

  Replicas three(weights, 1);
  expect_equal(expected, three.play());
}

}  // namespace
}  // namespace cohort::tests

// A card as a process: a tensor-parallel group of forked ranks computes the bits that threads do,
// and names a rank that is killed in the middle of a turn, follower or leader (COLL-2, TP-4).
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>

#include "tests/support/control_table.hpp"
#include "tests/support/tp_rig.hpp"

namespace cohort::tests {
namespace {

using compute::Rendezvous;
using compute::TurnOutput;
using Played = std::map<uint64_t, std::vector<TurnOutput>>;

const std::vector<uint64_t> k_ids = {1, 2, 3, 4, 5, 6, 7, 8};
constexpr uint32_t k_turns = 2;

RigOptions rig_options() {
  RigOptions options;
  options.model = tp_model(2);  // on four ranks every key-value head is there twice
  return options;
}

std::string text_of(const Played& played) {
  std::string text;
  for (const auto& [id, turns] : played)
    for (const TurnOutput& turn : turns) {
      for (int32_t token : turn.tokens) text += std::to_string(token) + " ";
      text.append(reinterpret_cast<const char*>(turn.logp.data()),
                  turn.logp.size() * sizeof(float));
      text += std::string(compute::to_string(turn.stop)) + "\n";
    }
  return text;
}

/// One forked rank: its engine serves until body() is done.
template <class Body>
int serve_as(int rank, int size, uint16_t port, RigOptions options, Body body) {
  auto rendezvous = connect_table(port);
  options.groups = join_groups(rank, size, options.lanes, rendezvous);
  GenerationRig rig(options);
  rig.serve(random_weights(options.model));
  // The leader's turns come when every rank has its weights and its cache.
  rendezvous->put("serves/" + std::to_string(rank), "yes").value();
  const auto all_serve = [&] {
    for (int other = 0; other < size; ++other)
      if (!rendezvous->get("serves/" + std::to_string(other)).value()) return false;
    return true;
  };
  if (!test::wait_until(all_serve, 20000)) return 90;
  return body(rig, *rendezvous);
}

bool wait_for_key(Rendezvous& rendezvous, const std::string& key) {
  return test::wait_until([&] { return rendezvous.get(key).value().has_value(); }, 30000);
}

TEST(TensorParallelRanks, ProcessesComputeTheBitsOfThreads) {
  for (int size : {2, 4}) {
    test::TempFolder folder;
    const std::string path = (folder.path() / "played").string();
    ForkedTable table;
    const uint16_t port = table.port();
    ForkedRanks ranks(size, [&](int rank) {
      return serve_as(rank, size, port, rig_options(),
                      [&](GenerationRig& rig, Rendezvous& rendezvous) {
                        if (rank > 0) return wait_for_key(rendezvous, "played") ? 0 : 91;
                        std::ofstream(path) << text_of(play_all(rig, k_ids, k_turns));
                        rig.engine->stop();
                        return rendezvous.put("played", "yes") ? 0 : 92;
                      });
    });
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << rank;
    TpRig threads(size, rig_options());
    threads.serve(random_weights(rig_options().model));
    EXPECT_EQ(test::slurp(path), text_of(play_all(threads.leader(), k_ids, k_turns)));
  }
}

/// Kills `victim` while turns are under way; every other rank must name it.
void expect_named(int victim) {
  constexpr int k_size = 4;
  const std::string name = "rank " + std::to_string(victim) + " (card " + std::to_string(victim);
  ForkedTable table;
  const uint16_t port = table.port();
  ForkedRanks ranks(k_size, [&](int rank) {
    std::atomic<bool> is_named = false, is_lost = false;
    RigOptions options = rig_options();
    options.on_group_lost = [&](const Error& error) {
      is_named = error.detail.find(name) != std::string::npos;
      if (!is_named) std::fprintf(stderr, "rank %d: %s\n", rank, error.to_string().c_str());
      is_lost = true;
    };
    return serve_as(rank, k_size, port, options, [&](GenerationRig& rig, Rendezvous& rendezvous) {
      for (uint64_t id = 1; rank == 0 && !is_lost; ++id) {
        if (!rig.engine->submit(turn_request(id, 0, 5, 100))) break;
        const TurnOutput out = rig.wait(id, 0);
        // GEN-2: a turn ends, whichever rank dies
        if (out.stop == compute::TurnStop::none) return 93;
        rig.engine->finish(id);
        if (id == 1) rendezvous.put("plays", "yes").value();
      }
      if (!test::wait_until([&] { return is_lost.load(); }, 30000)) return 94;
      return is_named ? 0 : 95;
    });
  });
  ASSERT_TRUE(wait_for_key(*connect_table(port), "plays"));
  ranks.kill(victim);
  for (int rank = 0; rank < k_size; ++rank)
    EXPECT_EQ(ranks.wait(rank), rank == victim ? -SIGKILL : 0) << rank;
}

TEST(TensorParallelRanks, AKilledFollowerIsNamedByAllOthers) { expect_named(2); }
TEST(TensorParallelRanks, AKilledLeaderIsNamedByAllFollowers) { expect_named(0); }

}  // namespace
}  // namespace cohort::tests

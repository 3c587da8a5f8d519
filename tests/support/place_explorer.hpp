#pragma once
/// Every reachable state of a plan: placement (place_world.hpp), one agent per role and card, and a
/// network that loses, repeats and reorders. Breadth first, states kept in a hash set.
///
/// A state is where placement stands, what is truly on the cards, which weights each agent has, and
/// the messages on their way. Ids of messages are kept as what they are compared for: an agent asks
/// whether a command is newer than its last one, the same, or older; placement asks whether an
/// answer is that of the command it waits for. Versions likewise: the current one, an older, none.
/// That makes the state space of an endless run finite: the exploration covers runs of any length,
/// in any order of phases that commands_for allows, with any number of faults, at most `max_copies`
/// of a message being on its way at once.
///
/// Dead messages (an old answer; a command whose answer would be old) change nothing when the
/// protocol is right. `max_dead` of them are kept on their way; the rest is taken as lost.
///
/// Checked: PLACE-1, 2, 3 and 5 on the true state of every reachable state, PLACE-4 whenever an
/// agent computes, and that each state gets on to the end of its phase, with the cards as the
/// ledger says, once messages arrive.
#include <cstdint>
#include <string>

#include "tests/support/place_world.hpp"

namespace cohort::test {

inline constexpr size_t k_agents_max = 16, k_objects_max = 3, k_messages_max = 6;

struct ExploreOptions {
  uint8_t max_copies = 2;
  uint8_t max_dead = 0;
  bool wants_truth = false;  // fill ExploreResult::truth
  std::string only = {};     // look only for violations that begin so
  Defects defects = {};
};

struct ExploreResult {
  uint64_t states = 0, transitions = 0, boundaries = 0;
  std::string violation;  // the first one found; empty if none
  uint64_t truth = 0;     // fingerprint of the set of (placement, true places, weights) reached
};

ExploreResult explore(const plan::PlacementPlan& plan, plan::OffloadPolicy policy,
                      const ExploreOptions& options);

}  // namespace cohort::test

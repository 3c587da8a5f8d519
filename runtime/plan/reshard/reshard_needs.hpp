#pragma once
/// Who needs which piece, and who holds it: the input of the p2p mode. Internal to
/// runtime/plan/reshard/reshard*. Pure.
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::plan {

/// Cards, by index, ascending.
using CardGroup = std::vector<uint32_t>;

struct Need {
  uint32_t piece = 0;                   // chunks not yet chosen
  uint32_t holders = 0, receivers = 0;  // groups
};

struct Needs {
  std::vector<ReshardPiece> pieces;
  std::vector<CardGroup> groups;
  std::vector<Need> needs;
};

/// Consecutive experts [begin, end); of a family without experts the one pseudo expert.
struct ExpertRun {
  uint32_t begin = 0, end = 1;
};
/// Returns the longest runs in which each replica of either layout has one slot.
std::vector<ExpertRun> expert_runs(const Shards& from, const Shards& to, uint32_t experts);

/// Returns the needs of all families: each element of each tensor that a card of the target layout
/// needs is in exactly one piece that names it a receiver; receivers may be holders too.
/// Returns Errc::capacity for more than k_max_transfers (piece, receiver) pairs.
Expected<Needs> find_needs(const ReshardBuilder& builder);

}  // namespace cohort::plan

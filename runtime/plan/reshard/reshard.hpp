#pragma once
/// The reshard planner: parameters from one layout to another, over any two sets of cards
/// (overlapping: timeshare; disjoint: separate). Pure: same input, same plan.
///
/// Modes. all_gather, the baseline: each tensor is broadcast over PP, gathered over TP (experts
/// over EP), and each card keeps its slice; cards outside the train layout receive the whole model
/// along a chain from the first train card. tp_then_pp and directed, the A3 recipe's: tensors
/// marked tp_first are gathered over TP inside their stage, then sent over PP; with directed,
/// experts are broadcast over PP and then each goes only to the card that serves it. p2p, ours:
/// each card receives what it needs and has not, once, from senders chosen so that the busiest
/// sends little; infer experts are placed where most of their bytes are already (permute_experts),
/// which keeps expert traffic inside PP groups when the layouts share cards.
///
/// RESHARD-1 after the transfers each card holds exactly its shards of the target layout.
/// RESHARD-2 a card receives at least its lower bound (needed minus resident); in p2p exactly that.
/// RESHARD-3 in a round a card stages at most bucket_bytes. RESHARD-4 a transfer reads only what
/// its sender holds at the start or received in an earlier round or an earlier hop of the same
/// round. Bounds: 2^25 transfers, else Errc::capacity (byte tables alone need none: tables_only).
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/reshard/reshard_layout.hpp"

namespace cohort::plan {

enum class ReshardMode : uint8_t { all_gather = 0, tp_then_pp = 1, directed = 2, p2p = 3 };

struct ReshardOptions {
  ReshardMode mode = ReshardMode::p2p;
  /// Bytes that a card may stage in a round. 0: one tensor of one layer (its experts) at a time.
  uint64_t bucket_bytes = 0;
  bool permute_experts = true;  // p2p, and the target names no expert_slots
  uint32_t ranks_per_node = 0;  // card / ranks_per_node = node; 0: one node
  bool tables_only = false;     // no pieces and transfers, only bytes
  bool operator==(const ReshardOptions&) const = default;
};

/// Bytes of one card. Staging is what lies outside the two layouts' own buffers during a round.
struct RankBytes {
  uint64_t resident_before = 0, resident_after = 0;  // shards of the two layouts
  uint64_t send = 0, receive = 0, lower_bound = 0, staging_peak = 0;
  uint64_t kept = 0;  // needed and already on the card: copied, not received
  bool operator==(const RankBytes&) const = default;
};

/// One kind of communication, in order: "dp_gather", "pp_broadcast", "tp_gather", "pp_exchange",
/// "ep_gather", "ep_exchange", "forward" (to cards outside the train layout), "p2p".
struct StepBytes {
  std::string name;
  uint64_t receive_total = 0, receive_max = 0;
  bool operator==(const StepBytes&) const = default;
};

/// The same part of several tensors of a family: layers [first_layer, end_layer), experts
/// [first_expert, end_expert) (one pseudo expert when not routed), [split_begin, split_end) of the
/// split dimension, and of that box, taken flat, elements [flat_begin, flat_end). The part is cut
/// into `chunks` equal ones; unit k = (layer * chunks + chunk) * experts + expert, from the first.
struct ReshardPiece {
  uint32_t family = 0;
  uint32_t first_layer = 0, end_layer = 1, first_expert = 0, end_expert = 1, chunks = 1;
  uint64_t split_begin = 0, split_end = 0, flat_begin = 0, flat_end = 0;
  uint64_t units() const {
    return uint64_t{end_layer - first_layer} * chunks * (end_expert - first_expert);
  }
  bool operator==(const ReshardPiece&) const = default;
};

struct ReshardTransfer {
  enum class Source : uint8_t { before = 0, staging = 1 };  // where the sender reads
  uint32_t piece = 0;
  uint32_t from = 0, to = 0;  // indices of ReshardPlan::cards; equal: a local copy
  uint32_t round = 0;
  uint64_t first_unit = 0, end_unit = 0;
  Source source = Source::before;
  uint8_t step = 0;  // index of ReshardPlan::steps; local copies: 0
  uint16_t hop = 0;  // order inside the round
  bool operator==(const ReshardTransfer&) const = default;
};

struct ReshardPlan {
  ReshardOptions options;  // as asked for
  ModelTensors model;
  ShardLayout from, to;          // with the expert slots chosen
  std::vector<CardId> cards;     // both layouts' cards, ascending
  std::vector<RankBytes> ranks;  // of cards
  std::vector<StepBytes> steps;
  std::vector<ReshardPiece> pieces;
  std::vector<ReshardTransfer> transfers;  // by round, hop, receiver; local copies first
  uint32_t rounds = 0;
  uint64_t receive_total() const;
  uint64_t lower_bound_total() const;
  bool operator==(const ReshardPlan&) const = default;
};

/// Returns the plan, or Errc::invalid_argument (check_layout; layouts that do not fit together),
/// or Errc::capacity (bucket_bytes below what one step needs; too many transfers).
Expected<ReshardPlan> plan_reshard(const ModelTensors& model, const ShardLayout& from,
                                   const ShardLayout& to, const ReshardOptions& options = {});

/// Returns the plan for as long as the cards of `absent` are away: that of a job that never had
/// their replicas (without_replicas; its errors). RESHARD-5 a card that stays holds what it holds
/// in `whole`.
Expected<ReshardPlan> plan_without(const ReshardPlan& whole, const std::set<CardId>& absent);

/// Aborts when the tables break RESHARD-2 or, if the plan has transfers, disagree with them or
/// break RESHARD-3.
void assert_invariants(const ReshardPlan& plan);

std::string_view to_string(ReshardMode mode);

}  // namespace cohort::plan

#pragma once
/// What the modes of the reshard planner share: cards by index, pieces' units, byte tables.
/// Internal to runtime/plan/reshard/reshard*. Pure; one plan per builder, not thread-safe.
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/reshard/reshard.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"

namespace cohort::plan {

inline constexpr uint32_t k_no_position = std::numeric_limits<uint32_t>::max();
inline constexpr uint64_t k_max_transfers = uint64_t{1} << 25;  // 1.5 GiB of them

/// Returns the elements of the piece's first `unit` units.
uint64_t elements_before(const ReshardPiece& piece, uint64_t unit);
/// Returns flat elements [begin, end) of chunk `chunk` of the piece's box.
Interval chunk_of(const ReshardPiece& piece, uint64_t chunk);
/// Returns the elements that both parts hold of one tensor of the family (one expert).
uint64_t shared_elements(const TensorSpec& spec, const Shards& a, const Shards::Place& at_a,
                         const Shards& b, const Shards::Place& at_b);
/// Returns the ranges of layers of the family whose owners are the same throughout, in both
/// layouts.
std::vector<Interval> layer_ranges(const TensorSpec& spec, const Shards& from, const Shards& to);

class ReshardBuilder {
 public:
  ReshardBuilder(ReshardPlan& plan, const Shards& from, const Shards& to,
                 const ReshardOptions& options);
  ReshardPlan& plan() { return *plan_; }
  const Shards& from() const { return *from_; }
  const Shards& to() const { return *to_; }
  const ReshardOptions& options() const { return options_; }
  uint32_t card_count() const { return static_cast<uint32_t>(plan_->cards.size()); }
  const TensorSpec& spec(uint32_t family) const { return plan_->model.tensors[family]; }
  uint32_t family_count() const { return static_cast<uint32_t>(plan_->model.tensors.size()); }

  /// Card index of a position; position of a card index, or k_no_position.
  uint32_t from_card(uint32_t position) const { return from_card_[position]; }
  uint32_t to_card(uint32_t position) const { return to_card_[position]; }
  uint32_t from_position(uint32_t card) const { return from_position_[card]; }
  uint32_t to_position(uint32_t card) const { return to_position_[card]; }
  uint32_t node(uint32_t card) const;

  uint64_t transfer_bytes(const ReshardTransfer& x) const;
  /// Returns the index of the step of that name, adding it when new.
  uint8_t step(const std::string& name);
  /// Adds `bytes` that go from card to card in a step.
  void count(uint8_t step, uint32_t from, uint32_t to, uint64_t bytes);
  /// Fills totals and maxima. Called once, last.
  void finish();

 private:
  void fill_cards();
  void fill_bounds();
  uint64_t kept_bytes(uint32_t from_position, uint32_t to_position) const;
  ReshardPlan* plan_;
  const Shards* from_;
  const Shards* to_;
  ReshardOptions options_;
  std::vector<uint32_t> from_card_, to_card_, from_position_, to_position_;
  std::vector<std::vector<uint64_t>> received_by_step_;
};

/// The modes. Each fills transfers, rounds, staging and byte tables of the builder's plan.
Expected<void> plan_p2p(ReshardBuilder& builder);
Expected<void> plan_gather(ReshardBuilder& builder);

/// Returns expert slots of `to` (one row per replica) under which most bytes are already where they
/// are needed; ties keep ascending experts on ascending positions. Empty: the natural slots are as
/// good.
std::vector<std::vector<uint32_t>> choose_expert_slots(const Shards& from, const Shards& to);

// Who needs which piece, and who holds it: the input of p2p, and of every mode's local copies.

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

// The order of transfers under a bound of staged bytes per receiver.

/// Cuts the plan's transfers at whole units into rounds in which no card receives more than
/// `bucket` bytes and no card sends more than its fair share, sorts them, and fills rounds and
/// staging_peak.
Expected<void> pack_rounds(ReshardBuilder& builder, uint64_t bucket);

/// Local copies first, then by round, hop and receiver.
void sort_transfers(ReshardPlan& plan);

}  // namespace cohort::plan

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
  /// Adds `bytes` of a family that go from card to card in a step.
  void count(uint32_t family, uint8_t step, uint32_t from, uint32_t to, uint64_t bytes);
  /// Fills totals, maxima, pairs. Called once, last.
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
  std::vector<std::vector<uint64_t>> received_by_step_, received_by_family_;
  std::vector<uint64_t> pairs_, expert_pairs_;  // sender << 32 | receiver, compacted at times
};

/// The modes. Each fills transfers, rounds, staging and byte tables of the builder's plan.
Expected<void> plan_p2p(ReshardBuilder& builder);
Expected<void> plan_gather(ReshardBuilder& builder);

/// Returns expert slots of `to` (one row per replica) under which most bytes are already where they
/// are needed; ties keep ascending experts on ascending positions. Empty: the natural slots are as
/// good.
std::vector<std::vector<uint32_t>> choose_expert_slots(const Shards& from, const Shards& to);

}  // namespace cohort::plan

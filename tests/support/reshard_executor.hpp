#pragma once
/// A reshard plan run in this process, byte for byte: what the executor of runtime/publish is
/// compared with.
#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/plan/reshard/reshard_apply.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"

namespace cohort::plan {

inline void pack(std::span<const CopyRun> runs, std::span<const std::byte> shard,
                 std::span<std::byte> packed) {
  for (const CopyRun& x : runs)
    for (uint64_t i = 0; i < x.count; ++i)
      std::memcpy(packed.data() + x.packed + i * x.packed_stride,
                  shard.data() + x.shard + i * x.shard_stride, x.bytes);
}

inline void unpack(std::span<const CopyRun> runs, std::span<const std::byte> packed,
                   std::span<std::byte> shard) {
  for (const CopyRun& x : runs)
    for (uint64_t i = 0; i < x.count; ++i)
      std::memcpy(shard.data() + x.shard + i * x.shard_stride,
                  packed.data() + x.packed + i * x.packed_stride, x.bytes);
}

/// Executes a plan: buffers before and after, and whole tensors for what a round stages.
class Executor {
 public:
  Executor(const ReshardCopies& copies, std::span<const std::vector<std::byte>> before)
      : copies_(&copies),
        shards_before_(copies.plan().model, copies.plan().from),
        shards_after_(copies.plan().model, copies.plan().to),
        before_(before),
        after_(before.size()) {
    for (uint32_t card = 0; card < after_.size(); ++card)
      after_[card].assign(copies.bytes_after(card), k_poison);
  }

  std::vector<std::vector<std::byte>> run() {
    uint32_t round = 0;
    for (const ReshardTransfer& x : copies_->plan().transfers) {
      if (x.round != round) staged_.clear();
      round = x.round;
      move(x);
    }
    return std::move(after_);
  }

 private:
  static constexpr std::byte k_poison{0xEE};
  using Key = std::tuple<uint32_t, uint32_t, uint64_t, uint32_t>;  // card, family, layer, expert

  void move(const ReshardTransfer& x) {
    std::vector<std::byte> wire(copies_->packed_bytes(x), k_poison);
    if (x.source == ReshardTransfer::Source::staging) {
      for (const auto& unit : copies_->units(x)) pack(unit.runs, image(x.from, x, unit), wire);
    } else {
      pack(runs(copies_->source_parts(x), x, x.from, true), before_[x.from], wire);
    }
    unpack(runs(copies_->target_parts(x), x, x.to, false), wire, after_[x.to]);
    if (copies_->plan().options.mode == ReshardMode::p2p || x.from == x.to) return;
    for (const auto& unit : copies_->units(x)) unpack(unit.runs, wire, image(x.to, x, unit));
  }

  /// In the card's whole buffer, before or after.
  std::vector<CopyRun> runs(const std::vector<ReshardCopies::Unit>& parts, const ReshardTransfer& x,
                            uint32_t card, bool is_before) const {
    const ReshardPlan& plan = copies_->plan();
    const auto& ranks = (is_before ? plan.from : plan.to).ranks;
    const auto position =
        static_cast<uint32_t>(std::ranges::find(ranks, plan.cards[card]) - ranks.begin());
    std::vector<CopyRun> result;
    for (const ReshardCopies::Unit& unit : parts)
      for (CopyRun run : unit.runs) {
        run.shard += (is_before ? shards_before_ : shards_after_)
                         .offset(position, plan.pieces[x.piece].family, unit.layer, unit.expert);
        result.push_back(run);
      }
    return result;
  }

  std::vector<std::byte>& image(uint32_t card, const ReshardTransfer& x,
                                const ReshardCopies::Unit& unit) {
    const ReshardPlan& plan = copies_->plan();
    uint32_t family = plan.pieces[x.piece].family;
    const TensorSpec& spec = plan.model.tensors[family];
    auto& bytes = staged_[{card, family, unit.layer, unit.expert}];
    if (bytes.empty())
      bytes.assign(spec.outer * spec.split * spec.inner * spec.element_bytes, k_poison);
    return bytes;
  }

  const ReshardCopies* copies_;
  Shards shards_before_, shards_after_;
  std::span<const std::vector<std::byte>> before_;
  std::vector<std::vector<std::byte>> after_;
  std::map<Key, std::vector<std::byte>> staged_;
};

/// before[card], by index of plan.cards, is empty for cards outside the old layout. Returns the
/// buffers after, empty outside the new layout. Bytes staged in a round are gone in the next.
/// Returns Errc::invalid_argument for a buffer of the wrong size, and for a plan of byte tables
/// only.
inline Expected<std::vector<std::vector<std::byte>>> apply_reshard(
    const ReshardPlan& plan, std::span<const std::vector<std::byte>> before) {
  ReshardCopies copies(plan);
  if (plan.transfers.empty() && !plan.model.tensors.empty() && model_bytes(plan.model) > 0)
    return Error{Errc::invalid_argument,
                 "reshard: the plan has byte tables only; plan again without tables_only"};
  for (uint32_t card = 0; card < plan.cards.size(); ++card) {
    uint64_t size = card < before.size() ? before[card].size() : 0;
    if (before.size() != plan.cards.size() || size != copies.bytes_before(card))
      return Error{Errc::invalid_argument,
                   "reshard: card " + std::to_string(plan.cards[card].value) + ": a buffer of " +
                       std::to_string(size) + " bytes, the layout says " +
                       std::to_string(copies.bytes_before(card))};
  }
  return Executor(copies, before).run();
}

}  // namespace cohort::plan

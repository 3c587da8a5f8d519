#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::plan {
namespace {

using Transfer = ReshardTransfer;

auto order_key(const Transfer& x) {
  return std::tuple{x.round, x.hop, x.from != x.to, x.to, x.piece, x.first_unit, x.from};
}

/// Of so many transfers that fit, the best is taken: enough to choose well, and linear in all.
constexpr size_t k_window = 128;

/// Builds round after round: each receiver takes from the sender that has most left to send, while
/// its bucket and that sender's share of the round have room.
class RoundPacker {
  __extension__ using Wide = unsigned __int128;

 public:
  RoundPacker(ReshardBuilder& builder, uint64_t bucket)
      : builder_(&builder),
        bucket_(bucket),
        waiting_(builder.card_count()),
        to_send_(builder.card_count(), 0),
        to_receive_(builder.card_count(), 0),
        sent_(builder.card_count(), 0),
        received_(builder.card_count(), 0) {}

  Expected<void> pack() {
    ReshardPlan& plan = builder_->plan();
    sort_out();
    std::vector<uint32_t> open;
    for (uint32_t card = 0; card < builder_->card_count(); ++card)
      if (to_receive_[card] > 0) open.push_back(card);
    while (!open.empty()) {
      // Who waits for most goes first; the sort is stable, so ties go by card.
      std::ranges::stable_sort(open, std::greater<>{},
                               [&](uint32_t card) { return to_receive_[card]; });
      for (uint32_t card : open) fill(card);
      for (uint32_t card : open)
        plan.ranks[card].staging_peak = std::max(plan.ranks[card].staging_peak, received_[card]);
      std::ranges::fill(sent_, 0);
      std::ranges::fill(received_, 0);
      std::erase_if(open, [&](uint32_t card) { return to_receive_[card] == 0; });
      ++plan.rounds;
      if (plan.transfers.size() > k_max_transfers)
        return Error{Errc::capacity, "reshard: bucket_bytes " + std::to_string(bucket_) +
                                         " cuts the plan into more than " +
                                         std::to_string(k_max_transfers) + " transfers; raise it"};
    }
    sort_transfers(plan);
    return {};
  }

 private:
  /// Local copies are done.
  void sort_out() {
    ReshardPlan& plan = builder_->plan();
    std::vector<Transfer> all = std::move(plan.transfers);
    plan.transfers.clear();
    for (const Transfer& x : all) {
      if (x.from == x.to) {
        plan.transfers.push_back(x);
        continue;
      }
      uint64_t bytes = builder_->transfer_bytes(x);
      to_send_[x.from] += bytes;
      to_receive_[x.to] += bytes;
      waiting_[x.to].items.push_back(x);
    }
    uint64_t send = std::ranges::max(to_send_), receive = std::ranges::max(to_receive_);
    // As many rounds for the busiest sender as for the busiest receiver.
    share_ = bucket_;
    if (send > receive) share_ = static_cast<uint64_t>(Wide{bucket_} * send / receive);
    for (Queue& queue : waiting_)
      std::ranges::sort(queue.items, {}, [&](const Transfer& x) { return turn(x); });
    for (const ReshardPiece& x : plan.pieces)
      unit_bytes_.push_back(((x.flat_end - x.flat_begin + x.chunks - 1) / x.chunks) *
                            builder_->spec(x.family).element_bytes);
  }

  /// What a receiver waits for; before `head` all is done.
  struct Queue {
    std::vector<Transfer> items;
    size_t head = 0;
  };
  static bool is_done(const Transfer& x) { return x.first_unit == x.end_unit; }

  void fill(uint32_t card) {
    Queue& queue = waiting_[card];
    std::vector<size_t> window;  // room only shrinks within a round: who has none is passed over
    size_t cursor = queue.head;
    while (received_[card] < bucket_) {
      std::erase_if(window, [&](size_t i) { return !has_room(queue.items[i]); });
      for (; window.size() < k_window && cursor < queue.items.size(); ++cursor)
        if (has_room(queue.items[cursor])) window.push_back(cursor);
      if (window.empty()) break;
      auto best = std::ranges::min_element(
          window, [&](size_t a, size_t b) { return is_before(queue.items[a], queue.items[b]); });
      take(queue.items[*best]);
      if (is_done(queue.items[*best])) window.erase(best);
    }
    size_t left = cursor;
    for (size_t i = cursor; i-- > queue.head;)
      if (!is_done(queue.items[i])) queue.items[--left] = queue.items[i];
    queue.head = left;
  }

  bool has_room(const Transfer& x) const {
    uint64_t unit = unit_bytes_[x.piece];
    return unit <= bucket_ - received_[x.to] && unit <= share_ - sent_[x.from];
  }

  /// The busier sender first; among equals those behind the receiver, so that not all ask the same.
  bool is_before(const Transfer& a, const Transfer& b) const {
    if (to_send_[a.from] != to_send_[b.from]) return to_send_[a.from] > to_send_[b.from];
    return turn(a) < turn(b);
  }

  std::tuple<uint32_t, uint32_t, uint64_t> turn(const Transfer& x) const {
    uint32_t cards = builder_->card_count();
    return {(x.from + cards - x.to) % cards, x.piece, x.first_unit};
  }

  /// Moves the first units of x, as many as fit, into this round.
  void take(Transfer& x) {
    ReshardPlan& plan = builder_->plan();
    const ReshardPiece& piece = plan.pieces[x.piece];
    uint64_t room = std::min(bucket_ - received_[x.to], share_ - sent_[x.from]);
    Transfer part = x;
    part.round = plan.rounds;
    part.end_unit = last_that_fits(piece, x.first_unit, x.end_unit,
                                   room / builder_->spec(piece.family).element_bytes);
    x.first_unit = part.end_unit;
    uint64_t bytes = builder_->transfer_bytes(part);
    sent_[part.from] += bytes;
    received_[part.to] += bytes;
    to_send_[part.from] -= bytes;
    to_receive_[part.to] -= bytes;
    plan.transfers.push_back(part);
  }

  static uint64_t last_that_fits(const ReshardPiece& piece, uint64_t first, uint64_t end,
                                 uint64_t elements) {
    uint64_t before = elements_before(piece, first), low = first, high = end;
    while (low < high) {
      uint64_t middle = low + (high - low + 1) / 2;
      if (elements_before(piece, middle) - before <= elements)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  ReshardBuilder* builder_;
  uint64_t bucket_;
  uint64_t share_ = 0;                // bytes that a card may send in a round
  std::vector<uint64_t> unit_bytes_;  // by piece: the largest unit
  std::vector<Queue> waiting_;        // by receiver
  std::vector<uint64_t> to_send_, to_receive_, sent_, received_;
};

}  // namespace

void sort_transfers(ReshardPlan& plan) { std::ranges::sort(plan.transfers, {}, order_key); }

Expected<void> pack_rounds(ReshardBuilder& builder, uint64_t bucket) {
  return RoundPacker(builder, bucket).pack();
}

}  // namespace cohort::plan

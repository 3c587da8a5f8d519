#include "runtime/publish/program.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/base/check.hpp"
#include "runtime/base/rng.hpp"

namespace cohort::publish {
namespace {

using plan::ReshardTransfer;
using From = ReshardTransfer::Source;

/// Fields, not bytes: structs have padding.
class Fingerprint {
 public:
  template <class... T>
  void add(T... values) {
    ((value_ = mix64(value_ ^ static_cast<uint64_t>(values))), ...);
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

uint64_t fingerprint_of(const plan::ReshardPlan& plan) {
  Fingerprint sum;
  sum.add(plan.options.mode, plan.model.layers, plan.model.tensors.size(), plan.transfers.size());
  for (const plan::TensorSpec& x : plan.model.tensors)
    sum.add(x.kind, x.where, x.first_layer, x.end_layer, x.outer, x.split, x.inner, x.parts,
            x.experts, x.element_bytes);
  for (const plan::ShardLayout* x : {&plan.from, &plan.to}) {
    sum.add(x->tp, x->pp, x->dp, x->ep, x->expert_tp, x->zero_stage);
    for (uint32_t layers : x->layers_per_stage) sum.add(layers);
    for (CardId card : x->ranks) sum.add(card.value);
    for (const auto& row : x->expert_slots)
      for (uint32_t slot : row) sum.add(slot);
  }
  for (const plan::ReshardPiece& x : plan.pieces)
    sum.add(x.family, x.first_layer, x.first_expert, x.chunks, x.split_begin, x.flat_begin);
  for (const ReshardTransfer& x : plan.transfers)
    sum.add(x.piece, x.from, x.to, x.round, x.first_unit, x.end_unit, x.source, x.hop);
  return sum.value();
}

/// One pass over the plan: every receiver's windows are filled, since senders must know them.
class ProgramBuilder {
 public:
  ProgramBuilder(const plan::ReshardCopies& copies, uint32_t card)
      : copies_(&copies), fills_(copies.plan().cards.size()) {
    program_.card = card;
  }

  Program build() {
    const plan::ReshardPlan& plan = copies_->plan();
    for (uint32_t i = 0; i < plan.transfers.size(); ++i) add(i, plan.transfers[i]);
    for (auto& [card, destination] : destinations_)
      program_.destinations.push_back(std::move(destination));
    for (auto& [card, sender] : senders_) program_.senders.push_back(std::move(sender));
    for (const Fill& x : fills_) program_.bucket_bytes = std::max(program_.bucket_bytes, x.most);
    program_.bucket_bytes = std::max(program_.bucket_bytes, plan.options.bucket_bytes);
    program_.fingerprint = fingerprint_of(plan);
    for (const Incoming& x : program_.receives)
      if (x.is_passed_on) program_.turns[x.turn].passed_on_bytes += x.bytes;
    fill_turn_senders();
    fill_groups();
    return std::move(program_);
  }

 private:
  /// What a receiver gets in the round at hand, and the most in any.
  struct Fill {
    uint32_t round = k_none, turn = k_none;
    uint64_t bytes = 0, most = 0;
  };

  void add(uint32_t index, const ReshardTransfer& x) {
    uint32_t card = program_.card;
    if (x.from == x.to) {
      if (x.from == card) program_.local_copies.push_back(index);
      return;
    }
    Fill& fill = fills_[x.to];
    if (fill.round != x.round) fill = {x.round, fill.turn + 1, 0, fill.most};
    uint64_t bytes = copies_->packed_bytes(x);
    fill.bytes += bytes;
    fill.most = std::max(fill.most, fill.bytes);
    if (x.from == card) add_send(index, x, bytes);
    if (x.to == card) add_receive(index, x, bytes);
  }

  void add_receive(uint32_t index, const ReshardTransfer& x, uint64_t bytes) {
    uint32_t turn = fills_[x.to].turn;
    auto receive = static_cast<uint32_t>(program_.receives.size());
    if (turn == program_.turns.size()) {
      program_.turns.push_back({x.round, 0, 0, 0, 0, {}});
      staged_.clear();
    }
    staged_.try_emplace({x.piece, x.first_unit, x.end_unit}, receive);
    program_.turns.back().receives_end = receive + 1;
    program_.turns.back().bytes += bytes;
    program_.receives.push_back({index, turn, bytes, false});
    hops_.push_back(x.hop);
    Sender& sender = senders_[x.from];
    sender.card = x.from;
    sender.receives.push_back(receive);
    sender.bytes += bytes;
  }

  void add_send(uint32_t index, const ReshardTransfer& x, uint64_t bytes) {
    auto next_group = static_cast<uint32_t>(groups_.size());
    auto group = groups_.try_emplace({x.piece, x.first_unit, x.end_unit, x.source}, next_group);
    Outgoing out{index, k_none, 0, k_none, group.first->second, bytes};
    if (x.source != From::before) out.receives_done = receives_before(x);
    if (x.source == From::staging) {
      bool is_this_round = !program_.turns.empty() && program_.turns.back().round == x.round;
      auto held = staged_.find({x.piece, x.first_unit, x.end_unit});
      COHORT_CHECK(is_this_round && held != staged_.end() && held->second < out.receives_done,
                   "RESHARD-4: a card passes on what it has not received in this round");
      out.staged = held->second;
      out.turn = static_cast<uint32_t>(program_.turns.size() - 1);
      ++program_.turns.back().staged_sends;
      program_.receives[out.staged].is_passed_on = true;
    }
    Destination& destination = destinations_[x.to];
    destination.card = x.to;
    destination.sends.push_back(out);
  }

  /// Own receives of earlier rounds, or of earlier hops of this one: all it may read (RESHARD-4).
  uint32_t receives_before(const ReshardTransfer& x) const {
    auto count = static_cast<uint32_t>(program_.receives.size());
    while (count > 0 && program_.turns.back().round == x.round && hops_[count - 1] >= x.hop &&
           program_.receives[count - 1].turn + 1 == program_.turns.size())
      --count;
    return count;
  }

  void fill_turn_senders() {
    for (uint32_t i = 0; i < program_.senders.size(); ++i)
      for (uint32_t receive : program_.senders[i].receives) {
        auto& list = program_.turns[program_.receives[receive].turn].senders;
        if (list.empty() || list.back() != i) list.push_back(i);
      }
  }

  void fill_groups() {
    program_.groups.resize(groups_.size());
    for (uint32_t i = 0; i < program_.destinations.size(); ++i) {
      const auto& sends = program_.destinations[i].sends;
      for (uint32_t k = 0; k < sends.size(); ++k) program_.groups[sends[k].group].push_back({i, k});
    }
  }

  const plan::ReshardCopies* copies_;
  Program program_;
  std::vector<Fill> fills_;     // by card
  std::vector<uint16_t> hops_;  // by receive
  std::map<uint32_t, Destination> destinations_;
  std::map<uint32_t, Sender> senders_;
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, uint32_t> staged_;  // of the turn at hand
  std::map<std::tuple<uint32_t, uint64_t, uint64_t, From>, uint32_t> groups_;
};

}  // namespace

Program make_program(const plan::ReshardCopies& copies, uint32_t card) {
  return ProgramBuilder(copies, card).build();
}

std::vector<uint32_t> peers_of(const Program& program) {
  std::vector<uint32_t> cards;
  for (const Destination& x : program.destinations) cards.push_back(x.card);
  for (const Sender& x : program.senders) cards.push_back(x.card);
  std::ranges::sort(cards);
  cards.erase(std::unique(cards.begin(), cards.end()), cards.end());
  return cards;
}

}  // namespace cohort::publish

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::plan {
namespace {

/// Experts that the same cards hold before.
struct ExpertClass {
  std::vector<uint32_t> slots;  // per replica of the old layout
  std::vector<uint32_t> experts;
};

std::vector<ExpertClass> expert_classes(const Shards& from, uint32_t experts) {
  std::map<std::vector<uint32_t>, std::vector<uint32_t>> by_slots;
  for (uint32_t expert = 0; expert < experts; ++expert) {
    std::vector<uint32_t> slots;
    for (uint32_t replica = 0; replica < from.layout().expert_replicas(); ++replica)
      slots.push_back(from.slot(replica, expert));
    by_slots[std::move(slots)].push_back(expert);
  }
  std::vector<ExpertClass> classes;
  for (auto& [slots, members] : by_slots) classes.push_back({slots, std::move(members)});
  std::ranges::sort(classes, {}, [](const ExpertClass& x) { return x.experts.front(); });
  return classes;
}

/// Bytes of one expert, over all layers and families, that the two positions share.
uint64_t expert_bytes_shared(const Shards& from, uint32_t before, const Shards& to,
                             uint32_t after) {
  Shards::Place a = from.place(before), b = to.place(after);
  uint64_t sum = 0;
  for (const TensorSpec& spec : from.model().tensors) {
    if (spec.experts == 0) continue;
    uint64_t layers = intersect(from.layers(spec, a.stage), to.layers(spec, b.stage)).size();
    if (layers > 0) sum += layers * spec.element_bytes * shared_elements(spec, from, a, to, b);
  }
  return sum;
}

struct Gain {
  uint64_t bytes = 0;  // per expert of the class put on the slot
  uint32_t expert_class = 0, slot = 0;
};

class SlotChooser {
 public:
  SlotChooser(const Shards& from, const Shards& to, uint32_t experts)
      : from_(&from), to_(&to), experts_(experts), classes_(expert_classes(from, experts)) {
    const auto& ranks = from.layout().ranks;
    for (uint32_t i = 0; i < ranks.size(); ++i) positions_.emplace_back(ranks[i], i);
    std::ranges::sort(positions_);
    for (uint32_t i = 0; i < classes_.size(); ++i)
      for (uint32_t replica = 0; replica < classes_[i].slots.size(); ++replica)
        by_slot_[{replica, classes_[i].slots[replica]}].push_back(i);
  }

  /// Returns the row of one replica: most gain first, each class into slots that still have room.
  std::vector<uint32_t> row(uint32_t replica, uint64_t& gained) const {
    std::vector<Gain> gains = gains_of(replica);
    uint32_t per_slot = experts_ / to_->layout().ep;
    std::vector<uint32_t> room(to_->layout().ep, per_slot), left;
    for (const ExpertClass& x : classes_) left.push_back(static_cast<uint32_t>(x.experts.size()));
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> taken;  // (class, slot) -> experts
    auto take = [&](uint32_t expert_class, uint32_t slot) {
      uint32_t count = std::min(left[expert_class], room[slot]);
      if (count > 0) taken[{expert_class, slot}] += count;
      left[expert_class] -= count;
      room[slot] -= count;
      return count;
    };
    for (const Gain& x : gains) take(x.expert_class, x.slot);
    uint32_t slot = 0;
    for (uint32_t i = 0; i < classes_.size(); ++i)
      while (left[i] > 0) {
        while (room[slot] == 0) ++slot;
        take(i, slot);
      }
    std::vector<uint32_t> row(experts_, 0), next(classes_.size(), 0);
    for (const auto& [key, count] : taken)
      for (uint32_t i = 0; i < count; ++i)
        row[classes_[key.first].experts[next[key.first]++]] = key.second;
    // Most first is best while a slot gains by one class (one card per slot, replicas alike); else
    // swaps may gain more.
    swap_while_better(row, gains);
    gained += gain_of(row, gains);
    return row;
  }

  /// Returns the gain of slots as they are in `to`.
  uint64_t gain_of_natural(uint32_t replica) const {
    std::vector<uint32_t> row;
    for (uint32_t expert = 0; expert < experts_; ++expert)
      row.push_back(to_->slot(replica, expert));
    return gain_of(row, gains_of(replica));
  }

 private:
  static constexpr int k_sweeps = 8;  // of swaps; two are enough for what the tests draw

  uint64_t gain_of(const std::vector<uint32_t>& row, const std::vector<Gain>& gains) const {
    uint64_t sum = 0;
    for (const Gain& x : gains)
      for (uint32_t expert : classes_[x.expert_class].experts)
        sum += row[expert] == x.slot ? x.bytes : 0;
    return sum;
  }

  void swap_while_better(std::vector<uint32_t>& row, const std::vector<Gain>& gains) const {
    uint32_t slots = to_->layout().ep;
    std::vector<uint64_t> table(classes_.size() * slots, 0);
    for (const Gain& x : gains) table[x.expert_class * slots + x.slot] = x.bytes;
    std::vector<uint32_t> class_of(experts_, 0);
    for (uint32_t i = 0; i < classes_.size(); ++i)
      for (uint32_t expert : classes_[i].experts) class_of[expert] = i;
    auto gain = [&](uint32_t expert, uint32_t slot) {
      return table[class_of[expert] * slots + slot];
    };
    bool is_better = true;
    for (int sweep = 0; is_better && sweep < k_sweeps; ++sweep) {
      is_better = false;
      for (uint32_t a = 0; a < experts_; ++a)
        for (uint32_t b = a + 1; b < experts_; ++b)
          if (gain(a, row[b]) + gain(b, row[a]) > gain(a, row[a]) + gain(b, row[b])) {
            std::swap(row[a], row[b]);
            is_better = true;
          }
    }
  }

  std::vector<Gain> gains_of(uint32_t replica) const {
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> bytes;  // (class, slot)
    const ShardLayout& layout = to_->layout();
    for (uint32_t stage = 0; stage < layout.pp; ++stage)
      for (uint32_t slot = 0; slot < layout.ep; ++slot)
        for (uint32_t etp = 0; etp < layout.expert_tp; ++etp) {
          uint32_t after = to_->expert_position(stage, etp, slot, replica);
          auto found = std::ranges::lower_bound(positions_, std::pair{layout.ranks[after], 0u});
          if (found == positions_.end() || found->first != layout.ranks[after]) continue;
          Shards::Place before = from_->place(found->second);
          auto classes = by_slot_.find({before.replica, before.ep});
          uint64_t shared = expert_bytes_shared(*from_, found->second, *to_, after);
          if (classes == by_slot_.end() || shared == 0) continue;
          for (uint32_t x : classes->second) bytes[{x, slot}] += shared;
        }
    std::vector<Gain> gains;
    for (const auto& [key, sum] : bytes) gains.push_back({sum, key.first, key.second});
    std::ranges::stable_sort(gains, std::greater<>{}, &Gain::bytes);
    return gains;
  }

  const Shards* from_;
  const Shards* to_;
  uint32_t experts_;
  std::vector<ExpertClass> classes_;
  std::vector<std::pair<CardId, uint32_t>> positions_;  // of the old layout, by card
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> by_slot_;  // (replica, slot)
};

}  // namespace

std::vector<std::vector<uint32_t>> choose_expert_slots(const Shards& from, const Shards& to) {
  uint32_t experts = 0;
  for (const TensorSpec& spec : from.model().tensors) experts = std::max(experts, spec.experts);
  if (experts == 0 || to.layout().ep == 1) return {};
  SlotChooser chooser(from, to, experts);
  std::vector<std::vector<uint32_t>> rows;
  uint64_t chosen = 0, natural = 0;
  for (uint32_t replica = 0; replica < to.layout().expert_replicas(); ++replica) {
    rows.push_back(chooser.row(replica, chosen));
    natural += chooser.gain_of_natural(replica);
  }
  if (chosen <= natural) return {};
  return rows;
}

}  // namespace cohort::plan

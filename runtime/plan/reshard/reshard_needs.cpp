#include <algorithm>
#include <array>
#include <string>

#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::plan {
namespace {

class NeedFinder {
 public:
  explicit NeedFinder(const ReshardBuilder& builder) : builder_(&builder) {}

  Expected<Needs> find() {
    uint32_t experts = 0;
    for (uint32_t i = 0; i < builder_->family_count(); ++i)
      experts = std::max(experts, builder_->spec(i).experts);
    if (experts > 0) runs_ = expert_runs(builder_->from(), builder_->to(), experts);
    for (uint32_t family = 0; family < builder_->family_count(); ++family) {
      const TensorSpec& spec = builder_->spec(family);
      for (Interval layers : layer_ranges(spec, builder_->from(), builder_->to())) {
        if (spec.experts == 0) COHORT_TRY(add_run(family, layers, {0, 1}, 0));
        for (uint32_t run = 0; spec.experts > 0 && run < runs_.size(); ++run)
          COHORT_TRY(add_run(family, layers, runs_[run], run));
      }
    }
    return std::move(needs_);
  }

 private:
  /// Pieces between one slice before and one after: the flat cuts of both, merged.
  struct Side {
    const Shards* shards;
    uint32_t slice, cut;
  };

  Expected<void> add_run(uint32_t family, Interval layers, ExpertRun run, uint32_t run_index) {
    const Shards &from = builder_->from(), &to = builder_->to();
    const TensorSpec& spec = builder_->spec(family);
    for (uint32_t i = 0; i < from.slices(spec); ++i)
      for (uint32_t j = 0; j < to.slices(spec); ++j) {
        Interval both = intersect(from.slice(spec, i), to.slice(spec, j));
        if (both.size() == 0) continue;
        ReshardPiece piece;
        piece.family = family;
        piece.first_layer = static_cast<uint32_t>(layers.begin);
        piece.end_layer = static_cast<uint32_t>(layers.end);
        piece.first_expert = run.begin;
        piece.end_expert = run.end;
        piece.split_begin = both.begin;
        piece.split_end = both.end;
        COHORT_TRY(add_cuts(spec, piece, {&from, i, 0}, {&to, j, 0}, run_index));
      }
    return {};
  }

  Expected<void> add_cuts(const TensorSpec& spec, ReshardPiece piece, Side before, Side after,
                          uint32_t run) {
    Interval both{piece.split_begin, piece.split_end};
    auto end_of = [&](const Side& side) {
      return flat_inside(spec, side.shards->slice(spec, side.slice),
                         side.shards->cut(spec, side.cut).end, both);
    };
    uint64_t size = spec.outer * both.size() * spec.inner;
    for (uint64_t at = 0; at < size;) {
      while (end_of(before) <= at) ++before.cut;
      while (end_of(after) <= at) ++after.cut;
      piece.flat_begin = at;
      at = std::min(end_of(before), end_of(after));
      piece.flat_end = at;
      Need need{static_cast<uint32_t>(needs_.pieces.size()), group(spec, piece, before, run),
                group(spec, piece, after, run)};
      pairs_ += needs_.groups[need.receivers].size();
      if (pairs_ > k_max_transfers)
        return Error{Errc::capacity,
                     "reshard: more than " + std::to_string(k_max_transfers) +
                         " transfers (flat cuts of ZeRO stage 3 over too many cards); plan fewer "
                         "cards, or gather over DP first (mode all_gather)"};
      needs_.pieces.push_back(piece);
      needs_.needs.push_back(need);
    }
    return {};
  }

  /// The cards of one side that have the piece in their part; made once per different answer.
  uint32_t group(const TensorSpec& spec, const ReshardPiece& piece, const Side& side,
                 uint32_t run) {
    const Shards& x = *side.shards;
    std::vector<uint32_t> stages = x.owners(spec, piece.first_layer);
    bool is_to = side.shards == &builder_->to(), is_expert = spec.experts > 0;
    std::array<uint32_t, 8> key{is_to, is_expert,      stages.front(), stages.back(),
                                run,   x.slices(spec), side.slice,     side.cut};
    auto [entry, is_new] = known_.try_emplace(key, static_cast<uint32_t>(needs_.groups.size()));
    if (!is_new) return entry->second;
    CardGroup cards;
    for (uint32_t stage : stages) add_cards(spec, piece, side, stage, cards);
    for (uint32_t& card : cards) card = is_to ? builder_->to_card(card) : builder_->from_card(card);
    std::ranges::sort(cards);
    needs_.groups.push_back(std::move(cards));
    return entry->second;
  }

  static void add_cards(const TensorSpec& spec, const ReshardPiece& piece, const Side& side,
                        uint32_t stage, CardGroup& positions) {
    const Shards& x = *side.shards;
    const ShardLayout& layout = x.layout();
    bool is_expert = spec.experts > 0, is_cut = layout.zero_stage >= 3;
    uint32_t repeat = x.slicing_degree(spec) / x.slices(spec);
    uint32_t replicas = is_expert ? layout.expert_replicas() : layout.dp;
    for (uint32_t replica = is_cut ? side.cut : 0; replica < (is_cut ? side.cut + 1 : replicas);
         ++replica)
      for (uint32_t i = side.slice * repeat; i < (side.slice + 1) * repeat; ++i)
        positions.push_back(
            is_expert ? x.expert_position(stage, i, x.slot(replica, piece.first_expert), replica)
                      : x.dense_position(stage, i, replica));
  }

  const ReshardBuilder* builder_;
  std::vector<ExpertRun> runs_;
  std::map<std::array<uint32_t, 8>, uint32_t> known_;
  Needs needs_;
  uint64_t pairs_ = 0;
};

}  // namespace

std::vector<ExpertRun> expert_runs(const Shards& from, const Shards& to, uint32_t experts) {
  auto is_same = [](const Shards& x, uint32_t a, uint32_t b) {
    for (uint32_t replica = 0; replica < x.layout().expert_replicas(); ++replica)
      if (x.slot(replica, a) != x.slot(replica, b)) return false;
    return true;
  };
  std::vector<ExpertRun> runs{{0, 1}};
  for (uint32_t expert = 1; expert < experts; ++expert) {
    if (is_same(from, expert - 1, expert) && is_same(to, expert - 1, expert))
      ++runs.back().end;
    else
      runs.push_back({expert, expert + 1});
  }
  return runs;
}

Expected<Needs> find_needs(const ReshardBuilder& builder) { return NeedFinder(builder).find(); }

}  // namespace cohort::plan

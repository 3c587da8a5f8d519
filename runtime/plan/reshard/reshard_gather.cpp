/// The modes that frameworks use: broadcasts and gathers of whole tensors, tensor by tensor.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::plan {
namespace {

using Transfer = ReshardTransfer;
using Source = ReshardTransfer::Source;
using ShardPlace = Shards::Place;

/// Layers of a family that are treated alike: one owner set, one way.
struct Stretch {
  uint32_t family = 0;
  Interval layers;
  std::vector<uint32_t> owners;
  bool is_tp_first = false;
  std::vector<uint64_t> staging;  // of one layer, by stage; last: cards outside the train layout
};

/// One tensor family of one layer, chunk by chunk: what the cards go through together.
struct Granule {
  uint32_t stretch = 0;
  uint64_t layer = 0;
  std::vector<uint32_t> round_of_chunk;
};

class GatherPlanner {
 public:
  explicit GatherPlanner(ReshardBuilder& builder)
      : builder_(&builder), from_(&builder.from()), to_(&builder.to()) {
    for (uint32_t card = 0; card < builder.card_count(); ++card)
      if (builder.from_position(card) == k_no_position) outside_.push_back(card);
    uint32_t experts = 0;
    for (uint32_t i = 0; i < builder.family_count(); ++i)
      experts = std::max(experts, builder.spec(i).experts);
    is_directed_ = builder.options().mode == ReshardMode::directed;
    if (experts > 0) runs_ = expert_runs(*from_, is_directed_ ? *to_ : *from_, experts);
  }

  Expected<void> plan() {
    for (uint32_t family = 0; family < builder_->family_count(); ++family) add_stretches(family);
    COHORT_TRY(choose_chunks());
    order_granules();
    choose_rounds();
    for (uint32_t i = 0; i < stretches_.size(); ++i) COHORT_TRY(add_stretch(i));
    if (builder_->options().tables_only) return {};
    COHORT_TRY(add_local_copies());
    sort_transfers(builder_->plan());
    return {};
  }

 private:
  const ShardLayout& layout() const { return from_->layout(); }
  bool is_gathered(const TensorSpec& x) const {
    return x.experts > 0 ? layout().ep > 1 || from_->slices(x) > 1 : from_->slices(x) > 1;
  }
  static uint64_t tensor_bytes(const TensorSpec& x) {
    return x.outer * x.split * x.inner * x.element_bytes;
  }

  void add_stretches(uint32_t family) {
    const TensorSpec& spec = builder_->spec(family);
    bool is_recipe = builder_->options().mode != ReshardMode::all_gather && spec.tp_first;
    uint64_t shortest = from_->stage_layers(0).size();
    for (uint32_t stage = 1; stage < layout().pp; ++stage)
      shortest = std::min(shortest, from_->stage_layers(stage).size());
    for (Interval layers : layer_ranges(spec, *from_, *to_)) {
      Stretch x{family, layers, from_->owners(spec, layers.begin), false, {}};
      bool in_layers = spec.where == TensorSpec::Where::layers && spec.experts == 0;
      // The recipe leaves layers beyond the shortest stage's count to the old way.
      uint64_t edge = from_->stage_layers(x.owners.front()).begin + shortest;
      Interval early{layers.begin,
                     in_layers ? std::clamp(edge, layers.begin, layers.end) : layers.begin};
      for (auto [part, is_tp_first] :
           {std::pair{early, is_recipe}, std::pair{Interval{early.end, layers.end}, false}}) {
        if (part.size() == 0) continue;
        x.layers = part;
        x.is_tp_first = is_tp_first;
        x.staging = staging_of(spec, x);
        stretches_.push_back(x);
      }
    }
  }

  /// Bytes that the A3 recipe's exchange of experts leaves on a card: its experts, whole slices.
  uint64_t exchanged_bytes(const TensorSpec& spec) const {
    uint64_t most = 0;
    for (uint32_t i = 0; i < to_->slices(spec); ++i) {
      uint64_t sum = 0;
      for (uint32_t j = 0; j < from_->slices(spec); ++j)
        if (intersect(to_->slice(spec, i), from_->slice(spec, j)).size() > 0)
          sum += tensor_bytes(spec) / from_->slices(spec);
      most = std::max(most, sum);
    }
    return most * (spec.experts / to_->layout().ep);
  }

  std::vector<uint64_t> staging_of(const TensorSpec& spec, const Stretch& x) const {
    uint64_t all = tensor_bytes(spec) * family_experts(spec);
    uint64_t share = tensor_bytes(spec) / from_->slices(spec) *
                     (spec.experts > 0 ? spec.experts / layout().ep : 1);
    bool is_exchanged = spec.experts > 0 && is_directed_;
    uint64_t result = is_exchanged ? exchanged_bytes(spec) : all;
    uint64_t gathered = is_gathered(spec) ? result : 0;
    std::vector<uint64_t> staging(layout().pp + 1, 0);
    for (uint32_t stage = 0; stage < layout().pp; ++stage) {
      bool is_owner = std::ranges::find(x.owners, stage) != x.owners.end();
      if (is_owner)
        staging[stage] = (from_->cuts(spec) > 1 ? share : 0) + gathered;
      else
        staging[stage] = x.is_tp_first ? all : share + gathered;
    }
    staging.back() = outside_.empty() ? 0 : result;
    return staging;
  }

  Expected<void> choose_chunks() {
    uint64_t bucket = builder_->options().bucket_bytes;
    chunks_.assign(builder_->family_count(), 1);
    slack_.assign(builder_->family_count(), 0);
    for (const Stretch& x : stretches_) {
      const TensorSpec& spec = builder_->spec(x.family);
      uint64_t most = *std::ranges::max_element(x.staging);
      if (bucket == 0 || most <= bucket) continue;
      // Each chunk of each part may be one element longer than its share.
      slack_[x.family] =
          2 * spec.element_bytes * family_experts(spec) * from_->slices(spec) * from_->cuts(spec);
      if (slack_[x.family] >= bucket || most / (bucket - slack_[x.family]) > 1u << 30)
        return Error{Errc::capacity, "reshard: bucket_bytes " + std::to_string(bucket) +
                                         " is too small to gather " + spec.name + " (" +
                                         std::to_string(most) + " bytes per layer); raise it"};
      auto chunks = static_cast<uint32_t>(most / (bucket - slack_[x.family]) + 1);
      chunks_[x.family] = std::max(chunks_[x.family], chunks);
    }
    return {};
  }

  void order_granules() {
    auto turn = [&](const Granule& x) {
      const TensorSpec& spec = builder_->spec(stretches_[x.stretch].family);
      uint32_t part = spec.where == TensorSpec::Where::layers       ? 1
                      : spec.where == TensorSpec::Where::last_stage ? 2
                                                                    : 0;
      return std::tuple{part, x.layer, stretches_[x.stretch].family};
    };
    for (uint32_t i = 0; i < stretches_.size(); ++i)
      for (uint64_t layer = stretches_[i].layers.begin; layer < stretches_[i].layers.end; ++layer)
        granules_.push_back({i, layer, {}});
    std::ranges::stable_sort(granules_, {}, turn);
  }

  /// Consecutive granules share a round while no card stages more than the bucket.
  void choose_rounds() {
    ReshardPlan& plan = builder_->plan();
    uint64_t bucket = builder_->options().bucket_bytes;
    std::vector<uint64_t> used(layout().pp + 1, 0), most(used);
    bool is_empty = true;
    for (Granule& granule : granules_) {
      const Stretch& x = stretches_[granule.stretch];
      for (uint32_t chunk = 0; chunk < chunks_[x.family]; ++chunk) {
        std::vector<uint64_t> cost = x.staging;
        if (chunks_[x.family] > 1)
          for (uint64_t& bytes : cost)
            bytes = bytes == 0 ? 0 : bytes / chunks_[x.family] + slack_[x.family];
        bool fits = !is_empty && bucket > 0;
        for (size_t i = 0; i < cost.size(); ++i) fits = fits && used[i] + cost[i] <= bucket;
        if (!fits) {
          ++plan.rounds;
          std::ranges::fill(used, 0);
        }
        is_empty = false;
        for (size_t i = 0; i < cost.size(); ++i) most[i] = std::max(most[i], used[i] += cost[i]);
        granule.round_of_chunk.push_back(plan.rounds - 1);
      }
    }
    for (uint32_t card = 0; card < builder_->card_count(); ++card) {
      uint32_t position = builder_->from_position(card);
      plan.ranks[card].staging_peak =
          most[position == k_no_position ? layout().pp : from_->place(position).stage];
    }
  }

  // Templates: the transfers of a stretch, once for all its layers.

  /// Pieces of the stretch by (run, slice, cut).
  uint32_t piece(const Stretch& x, ExpertRun run, uint32_t slice, uint32_t cut) {
    auto [entry, is_new] = known_.try_emplace({run.begin, slice, cut}, 0);
    if (!is_new) return entry->second;
    const TensorSpec& spec = builder_->spec(x.family);
    ReshardPiece part;
    part.family = x.family;
    part.first_layer = static_cast<uint32_t>(x.layers.begin);
    part.end_layer = static_cast<uint32_t>(x.layers.end);
    part.first_expert = run.begin;
    part.end_expert = run.end;
    part.chunks = chunks_[x.family];
    Interval width = from_->slice(spec, slice), flat = from_->cut(spec, cut);
    part.split_begin = width.begin;
    part.split_end = width.end;
    part.flat_begin = flat.begin;
    part.flat_end = flat.end;
    auto& pieces = builder_->plan().pieces;
    entry->second = static_cast<uint32_t>(pieces.size());
    pieces.push_back(part);
    return entry->second;
  }

  /// Adds the transfer of (run, slice) in all its flat cuts from a train position to a card.
  void send(const Stretch& x, ExpertRun run, uint32_t slice, uint32_t from, uint32_t to_card,
            const char* step, uint16_t hop) {
    const TensorSpec& spec = builder_->spec(x.family);
    ShardPlace at = from_->place(from);
    bool is_here = std::ranges::find(x.owners, at.stage) != x.owners.end() &&
                   from_->slice_of(spec, at) == slice;
    if (spec.experts > 0) is_here = is_here && from_->slot(at.replica, run.begin) == at.ep;
    for (uint32_t cut = 0; cut < from_->cuts(spec); ++cut) {
      bool is_own = is_here && from_->cut_of(spec, at) == cut;
      add_template(piece(x, run, slice, cut), builder_->from_card(from), to_card, step, hop,
                   is_own ? Source::before : Source::staging);
    }
  }

  void add_template(uint32_t piece, uint32_t from, uint32_t to, const char* step, uint16_t hop,
                    Source source) {
    const ReshardPiece& shape = builder_->plan().pieces[piece];
    if (shape.flat_begin == shape.flat_end) return;
    Transfer transfer;
    transfer.piece = piece;
    transfer.from = from;
    transfer.to = to;
    transfer.end_unit = shape.units();
    transfer.step = builder_->step(step);
    transfer.hop = hop;
    transfer.source = source;
    builder_->count(transfer.step, from, to, builder_->transfer_bytes(transfer));
    if (!builder_->options().tables_only) templates_.push_back(transfer);
  }

  bool is_owner(const Stretch& x, uint32_t stage) const {
    return std::ranges::find(x.owners, stage) != x.owners.end();
  }

  /// Calls f(position, place, run) for each train position of the stages and each run it holds.
  template <class F>
  void each_holding(const Stretch& x, bool owners, F f) {
    const TensorSpec& spec = builder_->spec(x.family);
    for (uint32_t stage = 0; stage < layout().pp; ++stage) {
      if (is_owner(x, stage) != owners) continue;
      for (uint32_t i = 0; i < layout().stage_width(); ++i) {
        uint32_t position = from_->position(stage, i);
        ShardPlace at = from_->place(position);
        if (spec.experts == 0) {
          f(position, at, ExpertRun{});
          continue;
        }
        for (ExpertRun run : runs_)
          if (from_->slot(at.replica, run.begin) == at.ep) f(position, at, run);
      }
    }
  }

  uint32_t same_group(const TensorSpec& spec, const ShardPlace& at, uint32_t stage) const {
    return spec.experts > 0 ? from_->expert_position(stage, at.expert_tp, at.ep, at.replica)
                            : from_->dense_position(stage, at.tp, at.dp);
  }

  /// The position of at's stage and replica that holds (run, slice) once its share is complete.
  uint32_t peer(const TensorSpec& spec, const ShardPlace& at, ExpertRun run, uint32_t slice) const {
    uint32_t repeat = from_->slicing_degree(spec) / from_->slices(spec);
    if (spec.experts == 0)
      return from_->dense_position(at.stage, slice * repeat + at.tp % repeat, at.dp);
    return from_->expert_position(at.stage, slice * repeat + at.expert_tp % repeat,
                                  from_->slot(at.replica, run.begin), at.replica);
  }

  /// ZeRO stage 3: each owner completes its own share.
  void complete_cuts(const Stretch& x) {
    const TensorSpec& spec = builder_->spec(x.family);
    if (from_->cuts(spec) == 1) return;
    each_holding(x, true, [&](uint32_t position, const ShardPlace& at, ExpertRun run) {
      for (uint32_t cut = 0; cut < from_->cuts(spec); ++cut) {
        if (cut == from_->cut_of(spec, at)) continue;
        uint32_t source =
            spec.experts > 0
                ? from_->expert_position(at.stage, at.expert_tp, from_->slot(cut, run.begin), cut)
                : from_->dense_position(at.stage, at.tp, cut);
        add_template(piece(x, run, from_->slice_of(spec, at), cut), builder_->from_card(source),
                     builder_->from_card(position), "dp_gather", 0, Source::before);
      }
    });
  }

  void broadcast(const Stretch& x) {
    const TensorSpec& spec = builder_->spec(x.family);
    each_holding(x, false, [&](uint32_t position, const ShardPlace& at, ExpertRun run) {
      send(x, run, from_->slice_of(spec, at), same_group(spec, at, x.owners.front()),
           builder_->from_card(position), "pp_broadcast", 1);
    });
  }

  /// Gathers over TP on the given stages (0: those that do not own it, 1: owners).
  void gather_dense(const Stretch& x, bool owners, uint16_t hop) {
    const TensorSpec& spec = builder_->spec(x.family);
    each_holding(x, owners, [&](uint32_t position, const ShardPlace& at, ExpertRun run) {
      for (uint32_t slice = 0; slice < from_->slices(spec); ++slice)
        if (slice != from_->slice_of(spec, at))
          send(x, run, slice, peer(spec, at, run, slice), builder_->from_card(position),
               "tp_gather", hop);
    });
  }

  void exchange_stages(const Stretch& x) {
    const TensorSpec& spec = builder_->spec(x.family);
    each_holding(x, false, [&](uint32_t position, const ShardPlace& at, ExpertRun run) {
      for (uint32_t slice = 0; slice < from_->slices(spec); ++slice)
        send(x, run, slice, same_group(spec, at, x.owners.front()), builder_->from_card(position),
             "pp_exchange", 2);
    });
  }

  /// Does the card need a part of (run, slice) in these layers?
  bool is_needed(const Stretch& x, uint32_t card, ExpertRun run, uint32_t slice) const {
    uint32_t position = builder_->to_position(card);
    if (position == k_no_position) return false;
    const TensorSpec& spec = builder_->spec(x.family);
    ShardPlace at = to_->place(position);
    if (intersect(to_->layers(spec, at.stage), x.layers).size() == 0) return false;
    Interval mine = to_->slice(spec, to_->slice_of(spec, at));
    return to_->slot(at.replica, run.begin) == at.ep &&
           intersect(mine, from_->slice(spec, slice)).size() > 0;
  }

  void gather_experts(const Stretch& x) {
    const TensorSpec& spec = builder_->spec(x.family);
    for (uint32_t position = 0; position < layout().ranks.size(); ++position) {
      ShardPlace at = from_->place(position);
      uint32_t card = builder_->from_card(position);
      for (ExpertRun run : runs_)
        for (uint32_t slice = 0; slice < from_->slices(spec); ++slice) {
          bool is_own =
              from_->slot(at.replica, run.begin) == at.ep && from_->slice_of(spec, at) == slice;
          if (is_own || (is_directed_ && !is_needed(x, card, run, slice))) continue;
          send(x, run, slice, peer(spec, at, run, slice), card,
               is_directed_ ? "ep_exchange" : "ep_gather", 2);
        }
    }
  }

  /// Cards outside the train layout: directed experts from one EP group each, the rest in a chain.
  void forward(const Stretch& x) {
    const TensorSpec& spec = builder_->spec(x.family);
    std::vector<ExpertRun> runs = spec.experts > 0 ? runs_ : std::vector<ExpertRun>{{}};
    for (uint32_t i = 0; i < outside_.size(); ++i)
      for (ExpertRun run : runs)
        for (uint32_t slice = 0; slice < from_->slices(spec); ++slice) {
          if (spec.experts > 0 && is_directed_) {
            ShardPlace group;
            group.stage = i % layout().pp;
            group.replica = i / layout().pp % layout().expert_replicas();
            if (is_needed(x, outside_[i], run, slice))
              send(x, run, slice, peer(spec, group, run, slice), outside_[i], "forward", 3);
          } else if (i == 0) {
            send(x, run, slice, from_->position(0, 0), outside_[i], "forward", 3);
          } else {
            for (uint32_t cut = 0; cut < from_->cuts(spec); ++cut)
              add_template(piece(x, run, slice, cut), outside_[i - 1], outside_[i], "forward",
                           static_cast<uint16_t>(3 + i), Source::staging);
          }
        }
  }

  Expected<void> add_stretch(uint32_t index) {
    const Stretch& x = stretches_[index];
    known_.clear();
    templates_.clear();
    complete_cuts(x);
    if (builder_->spec(x.family).experts > 0) {
      broadcast(x);
      gather_experts(x);
    } else if (x.is_tp_first) {
      gather_dense(x, true, 1);
      exchange_stages(x);
    } else {
      broadcast(x);
      gather_dense(x, true, 2);
      gather_dense(x, false, 2);
    }
    forward(x);
    if (builder_->options().tables_only) {
      builder_->plan().pieces.clear();
      return {};
    }
    return write_out(index);
  }

  /// The templates, layer by layer and chunk by chunk.
  Expected<void> write_out(uint32_t index) {
    ReshardPlan& plan = builder_->plan();
    uint64_t chunks = chunks_[stretches_[index].family];
    uint64_t count = templates_.size() * stretches_[index].layers.size() * chunks;
    if (plan.transfers.size() + count > k_max_transfers)
      return Error{Errc::capacity, "reshard: mode " + std::string(to_string(plan.options.mode)) +
                                       " takes more than " + std::to_string(k_max_transfers) +
                                       " transfers here; ask for tables_only, or for mode p2p"};
    for (const Granule& granule : granules_) {
      if (granule.stretch != index) continue;
      uint64_t layer = granule.layer - stretches_[index].layers.begin;
      for (uint64_t chunk = 0; chunk < chunks; ++chunk)
        for (Transfer x : templates_) {
          const ReshardPiece& shape = plan.pieces[x.piece];
          uint64_t experts = shape.end_expert - shape.first_expert;
          x.first_unit = (layer * chunks + chunk) * experts;
          x.end_unit = x.first_unit + experts;
          x.round = granule.round_of_chunk[chunk];
          if (builder_->transfer_bytes(x) > 0) plan.transfers.push_back(x);
        }
    }
    return {};
  }

  /// What a card keeps goes from buffer to buffer on the card.
  Expected<void> add_local_copies() {
    COHORT_ASSIGN(Needs needs, find_needs(*builder_));
    ReshardPlan& plan = builder_->plan();
    for (const Need& need : needs.needs) {
      CardGroup both;
      std::ranges::set_intersection(needs.groups[need.receivers], needs.groups[need.holders],
                                    std::back_inserter(both));
      if (both.empty()) continue;
      Transfer x;
      x.piece = static_cast<uint32_t>(plan.pieces.size());
      plan.pieces.push_back(needs.pieces[need.piece]);
      x.end_unit = plan.pieces.back().units();
      for (uint32_t card : both) {
        x.from = x.to = card;
        plan.transfers.push_back(x);
      }
    }
    return {};
  }

  ReshardBuilder* builder_;
  const Shards* from_;
  const Shards* to_;
  bool is_directed_ = false;
  std::vector<uint32_t> outside_;  // cards of the target layout alone
  std::vector<ExpertRun> runs_;
  std::vector<Stretch> stretches_;
  std::vector<Granule> granules_;
  std::vector<uint32_t> chunks_;  // by family
  std::vector<uint64_t> slack_;   // by family: bytes beyond staging / chunks that a chunk may take
  std::map<std::array<uint32_t, 3>, uint32_t> known_;  // pieces of the stretch
  std::vector<Transfer> templates_;                    // of the stretch
};

}  // namespace

Expected<void> plan_gather(ReshardBuilder& builder) { return GatherPlanner(builder).plan(); }

}  // namespace cohort::plan

#include <algorithm>
#include <numeric>
#include <string>

#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::plan {
namespace {

using Transfer = ReshardTransfer;

/// Finer than this, a cut of a piece between two senders does not balance noticeably better.
constexpr uint64_t k_unit_bytes = uint64_t{1} << 20;
constexpr int k_sweeps = 8;  // of levelling; the busiest sender hardly changes after four
constexpr uint64_t k_max_chunks = uint64_t{1} << 31;
constexpr uint64_t k_units_per_bucket = 64;  // a round is filled up to this part of the bucket

/// Units of a piece that a receiver wants.
struct Want {
  uint32_t to = 0;
  uint64_t first_unit = 0, end_unit = 0;
};

class P2pPlanner {
 public:
  explicit P2pPlanner(ReshardBuilder& builder)
      : builder_(&builder), load_(builder.card_count(), 0) {}

  Expected<void> plan() {
    COHORT_ASSIGN(needs_, find_needs(*builder_));
    COHORT_ASSIGN(uint64_t bucket, choose_bucket());
    COHORT_TRY(choose_chunks(bucket));
    std::vector<uint32_t> order(needs_.needs.size());
    std::iota(order.begin(), order.end(), 0u);
    // Few holders first: a later need with more holders goes round those that are loaded by then.
    std::ranges::stable_sort(order, {}, [&](uint32_t i) { return holders(i).size(); });
    direct_ = builder_->step("p2p");
    ReshardPlan& plan = builder_->plan();
    plan.pieces = needs_.pieces;
    for (uint32_t i : order) add_need(i);
    balance();
    for (const Job& job : jobs_) write_out(job);
    if (plan.transfers.size() > k_max_transfers)
      return Error{Errc::capacity, "reshard: more than " + std::to_string(k_max_transfers) +
                                       " transfers; plan fewer cards"};
    for (const Transfer& x : plan.transfers)
      if (x.from != x.to) builder_->count(x.step, x.from, x.to, builder_->transfer_bytes(x));
    return pack_rounds(*builder_, bucket);
  }

 private:
  const CardGroup& holders(uint32_t need) const {
    return needs_.groups[needs_.needs[need].holders];
  }
  uint64_t element_bytes(const ReshardPiece& x) const {
    return builder_->spec(x.family).element_bytes;
  }

  /// The bytes asked for, or the largest share of one tensor of one layer that a card needs.
  Expected<uint64_t> choose_bucket() const {
    uint64_t widest = 1, share = 1;
    const Shards& to = builder_->to();
    for (uint32_t family = 0; family < builder_->family_count(); ++family) {
      const TensorSpec& spec = builder_->spec(family);
      widest = std::max(widest, spec.element_bytes);
      uint64_t experts = spec.experts > 0 ? spec.experts / to.layout().ep : 1;
      uint64_t part = to.cut(spec, 0).size() * spec.element_bytes * experts;
      share = std::max(share, part);
    }
    uint64_t bucket = builder_->options().bucket_bytes;
    if (bucket == 0) return share;
    if (bucket < widest)
      return Error{Errc::capacity, "reshard: bucket_bytes " + std::to_string(bucket) +
                                       " is below one element of " + std::to_string(widest) +
                                       " bytes"};
    return bucket;
  }

  Expected<void> choose_chunks(uint64_t bucket) {
    for (ReshardPiece& x : needs_.pieces) {
      uint64_t element = element_bytes(x), length = x.flat_end - x.flat_begin;
      uint64_t unit = std::min(k_unit_bytes, bucket / k_units_per_bucket) / element;
      unit = std::clamp<uint64_t>(std::max(unit, length / k_max_chunks + 1), 1, bucket / element);
      uint64_t chunks = (length + unit - 1) / unit;
      if (chunks > k_max_chunks)
        return Error{Errc::capacity, "reshard: bucket_bytes " + std::to_string(bucket) + " cuts " +
                                         builder_->spec(x.family).name +
                                         " into too many parts; raise it"};
      x.chunks = static_cast<uint32_t>(chunks);
    }
    return {};
  }

  /// What a card holds it keeps; what it lacks any of the holders may send.
  void add_need(uint32_t index) {
    const Need& need = needs_.needs[index];
    const uint64_t units = needs_.pieces[need.piece].units();
    std::vector<Want> wants;
    for (uint32_t card : needs_.groups[need.receivers])
      if (std::ranges::binary_search(holders(index), card))
        add(need.piece, {card, 0, units}, card);
      else
        wants.push_back({card, 0, units});
    add_job(need.piece, holders(index), std::move(wants));
  }

  /// Units that any of the senders may send.
  struct Job {
    uint32_t piece = 0;
    CardGroup senders;
    std::vector<Want> wants;
    uint64_t units = 0, unit_bytes = 0;
    std::vector<uint64_t> quota;  // units by sender
  };

  void add_job(uint32_t piece_index, const CardGroup& senders, std::vector<Want> wants) {
    const ReshardPiece& piece = needs_.pieces[piece_index];
    Job job{piece_index, senders, std::move(wants), 0, 0, {}};
    for (const Want& x : job.wants) job.units += x.end_unit - x.first_unit;
    if (job.units == 0) return;
    uint64_t bytes = elements_before(piece, piece.units()) * element_bytes(piece);
    job.unit_bytes = std::max<uint64_t>(bytes / piece.units(), 1);
    job.quota.assign(senders.size(), 0);
    job.quota[0] = job.units;
    jobs_.push_back(std::move(job));
  }

  /// Levels each job over its senders in turn; later sweeps see all the others' loads.
  void balance() {
    for (int sweep = 0; sweep < k_sweeps; ++sweep)
      for (Job& job : jobs_) {
        if (job.senders.size() == 1 && sweep > 0) continue;
        if (sweep > 0)
          for (size_t i = 0; i < job.senders.size(); ++i)
            load_[job.senders[i]] -= job.quota[i] * job.unit_bytes;
        job.quota = level(job);
        for (size_t i = 0; i < job.senders.size(); ++i)
          load_[job.senders[i]] += job.quota[i] * job.unit_bytes;
      }
  }

  void write_out(const Job& job) {
    std::vector<uint64_t> quota = job.quota;
    std::vector<Want> left = job.wants;
    auto take = [&](Want& want, size_t sender) {
      uint64_t count = std::min(quota[sender], want.end_unit - want.first_unit);
      if (count == 0) return;
      add(job.piece, {want.to, want.first_unit, want.first_unit + count}, job.senders[sender]);
      quota[sender] -= count;
      want.first_unit += count;
    };
    if (builder_->options().ranks_per_node > 0)
      for (Want& want : left)
        for (size_t i = 0; i < job.senders.size(); ++i)
          if (builder_->node(job.senders[i]) == builder_->node(want.to)) take(want, i);
    size_t sender = 0;
    for (Want& want : left)
      while (want.first_unit < want.end_unit) {
        while (quota[sender] == 0) ++sender;
        take(want, sender);
      }
  }

  /// Water-filling: returns units per sender, job.units in all.
  std::vector<uint64_t> level(const Job& job) const {
    const CardGroup& senders = job.senders;
    uint64_t units = job.units, unit_bytes = job.unit_bytes;
    std::vector<uint32_t> order(senders.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](uint32_t i) { return load_[senders[i]]; });
    uint64_t bytes = units * unit_bytes, sum = 0, height = 0;
    size_t filled = 0;
    do {  // the height that the `filled` least loaded reach together
      sum += load_[senders[order[filled++]]];
      height = (bytes + sum) / filled;
    } while (filled < order.size() && load_[senders[order[filled]]] < height);
    std::vector<uint64_t> quota(senders.size(), 0);
    uint64_t given = 0, bytes_so_far = 0;
    for (size_t i = 0; i < senders.size(); ++i) {
      uint64_t load = load_[senders[i]];
      bytes_so_far += height > load ? height - load : 0;
      uint64_t until = std::min(units, (bytes_so_far + unit_bytes / 2) / unit_bytes);
      quota[i] = until - given;
      given = until;
    }
    quota[order[0]] += units - given;  // rounding of the height
    return quota;
  }

  void add(uint32_t piece, const Want& want, uint32_t from) {
    Transfer x;
    x.piece = piece;
    x.from = from;
    x.to = want.to;
    x.first_unit = want.first_unit;
    x.end_unit = want.end_unit;
    x.step = direct_;
    builder_->plan().transfers.push_back(x);
  }

  ReshardBuilder* builder_;
  Needs needs_;
  std::vector<Job> jobs_;
  std::vector<uint64_t> load_;  // bytes that a card sends
  uint8_t direct_ = 0;
};

}  // namespace

Expected<void> plan_p2p(ReshardBuilder& builder) { return P2pPlanner(builder).plan(); }

}  // namespace cohort::plan

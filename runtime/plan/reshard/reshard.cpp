#include "runtime/plan/reshard/reshard.hpp"

#include <map>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/text.hpp"
#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::plan {

uint64_t ReshardPlan::receive_total() const {
  uint64_t sum = 0;
  for (const RankBytes& x : ranks) sum += x.receive;
  return sum;
}

uint64_t ReshardPlan::lower_bound_total() const {
  uint64_t sum = 0;
  for (const RankBytes& x : ranks) sum += x.lower_bound;
  return sum;
}

Expected<ReshardPlan> plan_reshard(const ModelTensors& model, const ShardLayout& from,
                                   const ShardLayout& to, const ReshardOptions& options) {
  COHORT_TRY(check_layout(model, from));
  COHORT_TRY(check_layout(model, to));
  ReshardPlan plan;
  plan.options = options;
  plan.model = model;
  plan.from = from;
  plan.to = to;
  bool is_p2p = options.mode == ReshardMode::p2p;
  Shards before(plan.model, plan.from);
  if (is_p2p && options.permute_experts && to.expert_slots.empty())
    plan.to.expert_slots = choose_expert_slots(before, Shards(plan.model, to));
  Shards after(plan.model, plan.to);
  ReshardBuilder builder(plan, before, after, options);
  COHORT_TRY(is_p2p ? plan_p2p(builder) : plan_gather(builder));
  builder.finish();
  if (options.tables_only) {
    plan.pieces.clear();
    plan.transfers.clear();
  }
  return plan;
}

Expected<ReshardPlan> plan_without(const ReshardPlan& whole, const std::set<CardId>& absent) {
  COHORT_ASSIGN(ShardLayout to, without_replicas(whole.to, absent));
  ReshardOptions options = whole.options;
  options.permute_experts = false;  // the slots are chosen: engines have their buffers
  return plan_reshard(whole.model, whole.from, to, options);
}

void assert_invariants(const ReshardPlan& plan) {
  std::vector<RankBytes> sums(plan.ranks.size());
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> staged;  // (round, card)
  for (const ReshardTransfer& x : plan.transfers) {
    if (x.from == x.to) continue;
    const ReshardPiece& piece = plan.pieces[x.piece];
    uint64_t bytes = (elements_before(piece, x.end_unit) - elements_before(piece, x.first_unit)) *
                     plan.model.tensors[piece.family].element_bytes;
    sums[x.from].send += bytes;
    sums[x.to].receive += bytes;
    staged[{x.round, x.to}] += bytes;
  }
  for (size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankBytes& x = plan.ranks[i];
    COHORT_CHECK(x.kept + x.lower_bound == x.resident_after,
                 "RESHARD-2: needed is not kept and missing");
    COHORT_CHECK(x.receive >= x.lower_bound, "RESHARD-2: a card receives too little");
    COHORT_CHECK(plan.options.mode != ReshardMode::p2p || x.receive == x.lower_bound,
                 "RESHARD-2: p2p moves more than is missing");
    COHORT_CHECK(plan.options.bucket_bytes == 0 || x.staging_peak <= plan.options.bucket_bytes,
                 "RESHARD-3: a card stages more than the bucket");
    if (plan.pieces.empty()) continue;
    COHORT_CHECK(sums[i].send == x.send && sums[i].receive == x.receive,
                 "RESHARD-2: transfers and byte tables disagree");
  }
  for (const auto& [key, bytes] : staged)
    COHORT_CHECK(bytes <= plan.ranks[key.second].staging_peak && key.first < plan.rounds,
                 "RESHARD-3: a round stages more than the table says");
}

std::string_view to_string(ReshardMode mode) {
  return name_in({"all_gather", "tp_then_pp", "directed", "p2p"}, mode);
}

}  // namespace cohort::plan

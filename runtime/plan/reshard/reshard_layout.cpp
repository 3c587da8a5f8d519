#include "runtime/plan/reshard/reshard_layout.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/plan/place/residency.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"

namespace cohort::plan {
namespace {

constexpr uint32_t k_max_cards = 65536;
constexpr uint64_t k_max_bytes = uint64_t{1}
                                 << 60;  // of a model; replicas then fit 64 bits in sums

std::string text(uint64_t value) { return std::to_string(value); }

Error wrong(const ShardLayout& layout, const std::string& what) {
  return {Errc::invalid_argument,
          "reshard: layout" + (layout.name.empty() ? "" : " " + layout.name) + ": " + what};
}

Expected<void> check_ranks(const ShardLayout& x) {
  if (x.tp == 0 || x.pp == 0 || x.dp == 0 || x.ep == 0 || x.expert_tp == 0)
    return wrong(x, "tp " + text(x.tp) + ", pp " + text(x.pp) + ", dp " + text(x.dp) + ", ep " +
                        text(x.ep) + ", expert_tp " + text(x.expert_tp) + ": each must be above 0");
  uint64_t wide = uint64_t{x.tp} * x.dp;
  bool is_huge = wide > k_max_cards || wide * x.pp > k_max_cards;
  if (is_huge || wide * x.pp != x.ranks.size())
    return wrong(x, "tp " + text(x.tp) + " x dp " + text(x.dp) + " x pp " + text(x.pp) +
                        (is_huge ? " is above " + text(k_max_cards)
                                 : " = " + text(wide * x.pp) + ", but " + text(x.ranks.size()) +
                                       " cards are given; give exactly that many"));
  if (wide % (uint64_t{x.ep} * x.expert_tp) != 0)
    return wrong(x, "ep " + text(x.ep) + " x expert_tp " + text(x.expert_tp) +
                        " does not divide tp x dp = " + text(wide));
  std::vector<CardId> sorted = x.ranks;
  std::ranges::sort(sorted);
  auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end())
    return wrong(x, "card " + text(twice->value) + " is named twice; a card has one position");
  if (x.zero_stage > 3) return wrong(x, "zero_stage " + text(x.zero_stage) + " is none of 0 to 3");
  return {};
}

Expected<void> check_stages(const ModelTensors& model, const ShardLayout& x) {
  if (x.layers_per_stage.empty()) {
    if (model.layers % x.pp != 0)
      return wrong(x, "pp " + text(x.pp) + " does not divide " + text(model.layers) +
                          " layers; say layers_per_stage");
    return {};
  }
  uint64_t sum = std::accumulate(x.layers_per_stage.begin(), x.layers_per_stage.end(), uint64_t{0});
  if (x.layers_per_stage.size() != x.pp || sum != model.layers)
    return wrong(x, "layers_per_stage names " + text(x.layers_per_stage.size()) + " stages with " +
                        text(sum) + " layers; pp is " + text(x.pp) + " and the model has " +
                        text(model.layers) + " layers");
  return {};
}

Expected<void> check_slices(const ShardLayout& x, const TensorSpec& spec) {
  if (spec.kind == TensorSpec::Kind::replicated) return {};
  bool is_expert = spec.kind == TensorSpec::Kind::expert;
  uint32_t degree = is_expert ? x.expert_tp : x.tp;
  bool fits = spec.parts % degree == 0 || (spec.may_repeat && degree % spec.parts == 0);
  if (!fits)
    return wrong(x, std::string(is_expert ? "expert_tp " : "tp ") + text(degree) +
                        " does not divide the " + text(spec.parts) + " parts of " + spec.name +
                        (spec.may_repeat ? " (nor is it a multiple of them)" : ""));
  if (is_expert && spec.experts % x.ep != 0)
    return wrong(x, "ep " + text(x.ep) + " does not divide the " + text(spec.experts) +
                        " experts of " + spec.name);
  return {};
}

Expected<void> check_slots(const ShardLayout& x, uint32_t experts) {
  if (x.expert_slots.empty()) return {};
  if (x.expert_slots.size() != 1 && x.expert_slots.size() != x.expert_replicas())
    return wrong(x, "expert_slots has " + text(x.expert_slots.size()) + " rows for " +
                        text(x.expert_replicas()) + " expert replicas; give one row or that many");
  for (const auto& row : x.expert_slots) {
    if (row.size() != experts)
      return wrong(
          x, "expert_slots has " + text(row.size()) + " entries for " + text(experts) + " experts");
    std::vector<uint32_t> count(x.ep, 0);
    for (uint32_t slot : row)
      if (slot >= x.ep || ++count[slot] > experts / x.ep)
        return wrong(x, "expert_slots: slot " + text(slot) + " is not one of " + text(x.ep) +
                            " or holds more than " + text(experts / x.ep) + " experts");
  }
  return {};
}

Expected<void> check_spec(const ModelTensors& model, const TensorSpec& spec) {
  auto wrong_spec = [&](const std::string& what) {
    return Error{Errc::invalid_argument, "reshard: tensor " + spec.name + ": " + what};
  };
  if (spec.outer == 0 || spec.split == 0 || spec.inner == 0 || spec.element_bytes == 0)
    return wrong_spec("a size is 0");
  if (spec.parts == 0 || spec.split % spec.parts != 0)
    return wrong_spec(text(spec.parts) + " parts do not divide the split dimension " +
                      text(spec.split));
  bool in_layers = spec.where == TensorSpec::Where::layers;
  if (in_layers && (spec.first_layer > spec.end_layer || spec.end_layer > model.layers))
    return wrong_spec("layers [" + text(spec.first_layer) + ", " + text(spec.end_layer) +
                      ") are not within the model's " + text(model.layers));
  bool is_expert = spec.kind == TensorSpec::Kind::expert;
  if (is_expert != (spec.experts > 0) || (is_expert && !in_layers))
    return wrong_spec("routed experts are a family of kind expert, in layers");
  uint64_t bytes = 1;
  for (uint64_t factor :
       {spec.outer, spec.split, spec.inner, spec.element_bytes, uint64_t{family_experts(spec)},
        std::max<uint64_t>(family_layers(spec).size(), 1)})
    if (factor > k_max_bytes / bytes)
      return wrong_spec("its bytes exceed 2^60");
    else
      bytes *= factor;
  return {};
}

uint64_t bytes_of(const TensorSpec& spec) {
  return spec.outer * spec.split * spec.inner * spec.element_bytes * family_experts(spec) *
         family_layers(spec).size();
}

uint32_t replica_of(const ShardLayout& x, size_t position) {
  return static_cast<uint32_t>(position) / x.tp % x.dp;
}

}  // namespace

Expected<void> check_layout(const ModelTensors& model, const ShardLayout& layout) {
  COHORT_TRY(check_ranks(layout));
  COHORT_TRY(check_stages(model, layout));
  uint32_t experts = 0;
  uint64_t sum = 0;
  for (const TensorSpec& spec : model.tensors) {
    COHORT_TRY(check_spec(model, spec));
    COHORT_TRY(check_slices(layout, spec));
    sum += bytes_of(spec);
    if (sum > k_max_bytes)
      return Error{Errc::invalid_argument, "reshard: the model's bytes exceed 2^60"};
    if (spec.experts == 0) continue;
    if (experts != 0 && experts != spec.experts)
      return Error{Errc::invalid_argument, "reshard: tensor " + spec.name + ": " +
                                               text(spec.experts) + " experts, others have " +
                                               text(experts)};
    experts = spec.experts;
  }
  return check_slots(layout, experts);
}

Expected<ShardLayout> without_replicas(const ShardLayout& layout, const std::set<CardId>& absent) {
  COHORT_TRY(check_ranks(layout));
  if (layout.zero_stage == 3)
    return wrong(layout, "ZeRO stage 3 cuts each tensor over all replicas: none can be left out");
  // Experts may be spread over several replicas.
  const uint32_t width = std::lcm(layout.tp, layout.ep * layout.expert_tp);
  const uint32_t together = width / layout.tp, rows = width / (layout.ep * layout.expert_tp);
  std::set<uint32_t> gone;  // by replica / together
  for (size_t i = 0; i < layout.ranks.size(); ++i)
    if (absent.contains(layout.ranks[i])) gone.insert(replica_of(layout, i) / together);
  ShardLayout rest = layout;
  rest.dp -= static_cast<uint32_t>(gone.size()) * together;
  if (rest.dp == 0)
    return Error{Errc::not_found,
                 "reshard: layout " + layout.name + ": no replica is left of " + text(layout.dp)};
  rest.ranks.clear();
  for (size_t i = 0; i < layout.ranks.size(); ++i)
    if (!gone.contains(replica_of(layout, i) / together)) rest.ranks.push_back(layout.ranks[i]);
  if (layout.expert_slots.size() > 1) {
    rest.expert_slots.clear();
    for (uint32_t row = 0; row < layout.expert_slots.size(); ++row)
      if (!gone.contains(row / rows)) rest.expert_slots.push_back(layout.expert_slots[row]);
  }
  return rest;
}

uint64_t model_bytes(const ModelTensors& model) {
  uint64_t sum = 0;
  for (const TensorSpec& spec : model.tensors) sum += bytes_of(spec);
  return sum;
}

}  // namespace cohort::plan

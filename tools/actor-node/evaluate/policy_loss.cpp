/// policy_loss: {"loss": a name of verl, ROLL (dialect roll), TRL (trl), OpenRLHF, AReaL or
/// prime-rl; its numbers under that system's names; "loss_agg_mode": token-mean}; log_probs,
/// old_log_probs, advantages, mask [B][T], and what the loss asks for: rollout_is_weights or
/// rollout_log_probs [B][T], scores or is_off_policy [B] -> loss, grad_log_probs, token_loss
/// [B][T].
/// split: likewise, and "dp", "micro_batches_per_rank" -> loss, parts (each times dp, rank by
/// rank), mean_over_ranks_of_sums. "scaling" compares: global, as a run has it; verl_legacy: counts
/// of the micro-batch, averaged over micro-batches and ranks (verl's FSDP workers); roll_unscaled:
/// global counts, averaged over both once more (ROLL with apply_loss_scale: false). No more
/// micro-batches than rows.
#include <map>

#include "algorithms/correction.hpp"
#include "algorithms/losses/surrogate.hpp"
#include "tools/actor-node/evaluate/case_tensors.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {
namespace {

using algorithms::PolicyLossInput;
using algorithms::PolicyLossOptions;
using catalog::PolicyLossKind;

/// The first of `names` that the case gives.
std::optional<double> first_of(Case& in, std::initializer_list<std::string_view> names) {
  std::optional<double> found;
  for (std::string_view name : names)
    if (const auto value = in.maybe_number(name); value && !found) found = value;
  return found;
}

/// What other systems call by a name of their own.
PolicyLossKind kind_of(Case& in, const std::string& dialect) {
  static const std::map<std::string, std::string> k_trl = {{"grpo", "ppo"},
                                                           {"bnpo", "ppo"},
                                                           {"dapo", "ppo"},
                                                           {"dr_grpo", "ppo"},
                                                           {"cispo", "cispo_cap"}};
  static const std::map<std::string, std::string> k_others = {{"decoupled_ppo", "ppo"},
                                                              {"dppo_kl_prime", "prime_rl"}};
  std::string name = in.text("loss");
  const auto& own = dialect == "trl" ? k_trl : k_others;
  if (const auto found = own.find(name); found != own.end()) name = found->second;
  if (dialect == "verl")
    if (const auto kind = catalog::find<PolicyLossKind>(name, catalog::Dialect::verl)) return *kind;
  if (const auto kind = catalog::find<PolicyLossKind>(name)) return *kind;
  in.refuse("params: loss '" + name + "' is unknown in dialect " + dialect +
            "; known: " + catalog::built_names(catalog::entries(PolicyLossKind{})));
  return PolicyLossKind::ppo;
}

void read_ratio(Case& in, const std::string& dialect, PolicyLossOptions& options) {
  const std::string key = dialect == "trl" ? "importance_sampling_level" : "importance_sampling";
  const std::string level = in.choice(key, {"token", "seq", "sequence", "segment"}, "token");
  if (level == "segment") options.ratio_level = algorithms::RatioLevel::segment;
  if (level == "seq" || level == "sequence") options.ratio_level = algorithms::RatioLevel::sequence;
}

/// A side of the clip range without a number of its own has the one for both, as in each system.
void read_range(Case& in, const std::string& dialect, PolicyLossOptions& options) {
  const bool is_cap = options.kind == PolicyLossKind::cispo_cap;
  const auto low = first_of(in, {"clip_ratio_low", "pg_clip_low", "dppo_mask_low"});
  const auto high = first_of(in, {"clip_ratio_high", "pg_clip_high", "dppo_mask_high"});
  const auto both = first_of(in, {"epsilon", "clip", "eps_clip", "pg_clip", "clip_ratio"});
  const auto trl = in.maybe_number("epsilon_high"), delta = in.maybe_number("delta");
  const bool is_roll_cispo = dialect == "roll" && options.kind == PolicyLossKind::cispo && !low;
  const double standard = both.value_or(is_roll_cispo ? 0.1 : 0.2);
  options.pg_clip_low = low.value_or(standard);
  options.pg_clip_high = high.value_or(trl && !is_cap ? *trl : standard);
  options.pg_clip = both.value_or(options.pg_clip);  // of ROLL's bound, beside a range, too
  options.ratio_cap = is_cap ? trl : delta;
  if (is_cap && delta) in.refuse("params: 'delta' is of ppo, not of cispo");
  options.off_policy_mask = in.maybe_number("off_policy_mask_threshold");
  options.dual_clip =
      in.flag("dual_clip", dialect == "verl" && options.kind == PolicyLossKind::ppo);
  options.dual_clip_bound = in.maybe_number("clip_ratio_c");
  if (dialect == "verl" && options.kind == PolicyLossKind::ppo && !options.dual_clip_bound)
    options.dual_clip_bound = 3;  // verl's default
  if (options.kind == PolicyLossKind::ppo && options.dual_clip_bound.value_or(3) <= 1)
    in.refuse("params: 'clip_ratio_c' is not above 1");  // verl asserts it
}

/// The numbers of single losses.
void read_numbers(Case& in, PolicyLossOptions& options) {
  const PolicyLossOptions standard;
  if (options.kind == PolicyLossKind::kimi15 || options.kind == PolicyLossKind::prime_rl)
    options.quadratic_coef =
        first_of(in, {"tau", "dro_beta", "kl_tau"})
            .value_or(options.kind == PolicyLossKind::prime_rl ? 1e-3 : standard.quadratic_coef);
  if (options.kind == PolicyLossKind::tis) {
    options.tis_low = in.number("lower", standard.tis_low);
    options.tis_high = in.number("upper", standard.tis_high);
    if (!(options.tis_low <= options.tis_high)) in.refuse("params: 'lower' is above 'upper'");
  }
  options.tau_pos = in.number("tau_pos", standard.tau_pos);
  options.tau_neg = in.number("tau_neg", standard.tau_neg);
  options.topr_positive = in.number("positive_weight", 1);
  options.topr_negative = in.number("negative_weight", 1);
  options.clip_cov_ratio = in.number("clip_cov_ratio", standard.clip_cov_ratio);
  options.clip_cov_lb = in.number("clip_cov_lb", standard.clip_cov_lb);
  options.clip_cov_ub = in.number("clip_cov_ub", standard.clip_cov_ub);
  options.kl_cov_ratio = in.number("kl_cov_ratio", standard.kl_cov_ratio);
  options.ppo_kl_coef = in.number("ppo_kl_coef", standard.ppo_kl_coef);
  options.k_pos = in.number("k_pos", standard.k_pos);
  options.lambda_pos = in.number("lambda_pos", standard.lambda_pos);
  options.k_neg = in.number("k_neg", standard.k_neg);
  options.lambda_neg = in.number("lambda_neg", standard.lambda_neg);
  if (options.kind == PolicyLossKind::luffy) options.shaping_gamma = in.number("gamma", 0.1);
}

/// What verl's compute_policy_loss_bypass_mode reads: a loss_type (ppo_clip, its default, is ppo
/// without a weight), the weight of reinforce, and rejections of both. Returns whether it is that
/// loss.
bool read_bypass(Case& in, PolicyLossOptions& options) {
  if (options.kind != PolicyLossKind::bypass_mode) return false;
  const std::string type = in.choice("loss_type", {"ppo_clip", "reinforce"}, "ppo_clip");
  const std::string level = in.loose_text("rollout_is", "");
  const std::string threshold = in.loose_text("rollout_is_threshold", "2.0");
  const std::string rules = in.loose_text("rollout_rs", "");
  const std::string limits = in.loose_text("rollout_rs_threshold", "");
  catalog::Correction& own = options.correction;
  own.is_normalized = in.flag("rollout_is_batch_normalize", false);
  if (!level.empty() && level != "token" && level != "sequence")
    in.refuse("params: rollout_is '" + level + "' is unknown; known: token, sequence");
  if (level == "sequence") own.level = catalog::CorrectionLevel::sequence;
  if (type == "ppo_clip") options.kind = PolicyLossKind::ppo;
  own.is_weighted = type == "reinforce" && !level.empty();
  if (auto bound = catalog::read_weight_bound(threshold, own); !bound)
    in.refuse("params: " + bound.error().detail);
  auto rejections = catalog::parse_rejections(rules, limits);
  if (rejections)
    own.rejections = std::move(*rejections);
  else
    in.refuse("params: " + rejections.error().detail);
  return true;
}

/// OpenRLHF's and AReaL's weights between the policy that sampled and the old one.
catalog::Correction read_correction(Case& in, const std::string& dialect) {
  using catalog::CorrectionBound;
  catalog::Correction rules;
  rules.high.reset();
  if (dialect == "areal") {
    rules.is_weighted = in.flag("use_decoupled_loss", true);
    rules.bound = CorrectionBound::mask;
    rules.high = in.maybe_number("behav_imp_weight_cap");
    return rules;
  }
  const std::string kind = in.text("correction", "");
  if (kind.empty()) return rules;
  rules.is_weighted = true;
  if (kind == "icepop") rules.bound = CorrectionBound::mask;
  if (kind == "seq-mask-tis") rules.bound = CorrectionBound::gate;
  if (kind != "tis" && kind != "icepop" && kind != "seq-mask-tis")
    in.refuse("params: correction '" + kind + "' is unknown; known: tis, icepop, seq-mask-tis");
  rules.low = in.maybe_number("low");
  rules.high = in.maybe_number("high");
  return rules;
}

/// A batch as a case gives it.
struct Batch {
  PolicyLossOptions options;
  PolicyLossInput input;
  Array mask;
};

at::Tensor of_rows(Case& in, std::string_view name, const Array& mask) {
  const Array rows = in.array(name, 1);
  if (rows.rows() != mask.rows()) {
    in.refuse("inputs: '" + std::string(name) + "' has not a number for each row");
    return {};
  }
  Array marks = mask;
  for (size_t i = 0; i < marks.values.size(); ++i)
    marks.values[i] = rows.values[i / mask.columns()] > 0 ? 1 : 0;
  return tensor_of(in, marks);
}

/// Runs of live positions of a row, counted over the batch.
void set_segments(const Array& mask, PolicyLossInput& input) {
  std::vector<int64_t> ids;
  int64_t segments = 0;
  for (size_t i = 0; i < mask.values.size(); ++i) {
    const bool is_start = i % mask.columns() == 0 || mask.values[i - 1] == 0;
    if (mask.values[i] != 0 && is_start) ++segments;
    ids.push_back(std::max<int64_t>(0, segments - 1));
  }
  input.segment_id = at::tensor(ids, at::kLong);
  input.segment_count = std::max<int64_t>(1, segments);
}

at::Tensor correction_weights(Case& in, const catalog::Correction& rules, const Array& old,
                              const Array& mask) {
  const Array rollout = in.array_like("rollout_log_probs", mask);
  const Packed packed = packed_of(mask);
  Array weights = mask;
  weights.values =
      algorithms::correct({{packed.cu_seqlens, packed.mask}, old.values, rollout.values}, rules)
          .weights;
  return tensor_of(in, weights);
}

/// bypass_mode's rejections, which leave the mask, and its weights where they are divided by their
/// mean: of the current policy against old_log_probs, over the whole batch.
void correct_bypass(const Case& in, const Array& logp, const Array& old, Batch& batch) {
  catalog::Correction& own = batch.options.correction;
  if (!own.is_normalized && own.rejections.empty()) return;  // the loss has its weight
  const Packed packed = packed_of(batch.mask);
  const algorithms::Correction found =
      algorithms::correct({{packed.cu_seqlens, packed.mask}, logp.values, old.values}, own);
  if (own.is_weighted) batch.input.weights = tensor_of(in, Array{batch.mask.shape, found.weights});
  own.is_weighted = false;
  if (!found.mask.empty()) batch.mask.values.assign(found.mask.begin(), found.mask.end());
}

/// Marks of a loss with a first pass, of the whole batch.
at::Tensor picked(Case& in, const PolicyLossOptions& options, const Array& logp, const Array& old,
                  const Array& advantages, const Array& mask) {
  std::vector<double> live[3];
  for (size_t i = 0; i < mask.values.size(); ++i) {
    if (mask.values[i] == 0) continue;
    live[0].push_back(logp.values[i]);
    live[1].push_back(old.values[i]);
    live[2].push_back(advantages.values[i]);
  }
  const Rng rng(static_cast<uint64_t>(in.integer("seed", 0)));
  const auto picks =
      algorithms::loss_form(options.kind).picks({live[0], live[1], live[2], rng}, options);
  Array marks = mask;
  for (size_t i = 0, next = 0; i < mask.values.size(); ++i)
    if (mask.values[i] != 0) marks.values[i] = picks[next++];
  return tensor_of(in, marks);
}

Batch read_batch(Case& in) {
  Batch batch;
  const std::string dialect = in.text("dialect", "verl");
  PolicyLossOptions& options = batch.options;
  options.kind = kind_of(in, dialect);
  const bool is_bypass = read_bypass(in, options);
  options.loss_agg = aggregation_of(in);
  read_ratio(in, dialect, options);
  read_range(in, dialect, options);
  read_numbers(in, options);
  const catalog::Correction rules = read_correction(in, dialect);
  const double scale = options.kind == PolicyLossKind::prime_rl ? in.number("adv_tau", 1) : 1;
  in.pass_over({"rollout_log_probs", "scores", "is_off_policy"});
  batch.mask = in.array("mask", 2);
  const Array& mask = batch.mask;
  const Array logp = in.array_like("log_probs", mask), old = in.array_like("old_log_probs", mask);
  Array advantages = in.array_like("advantages", mask);
  for (double& x : advantages.values) x *= scale;
  PolicyLossInput& input = batch.input;
  if (options.kind == PolicyLossKind::topr) input.marks = of_rows(in, "scores", mask);
  if (options.kind == PolicyLossKind::luffy) input.marks = of_rows(in, "is_off_policy", mask);
  if (is_bypass) correct_bypass(in, logp, old, batch);
  if (!is_bypass && in.has_input("rollout_is_weights"))
    input.weights = tensor_of(in, in.array_like("rollout_is_weights", mask));
  if (rules.is_weighted) input.weights = correction_weights(in, rules, old, mask);
  if (catalog::entry(options.kind).has(catalog::need::first_pass))
    input.marks = picked(in, options, logp, old, advantages, mask);
  input.logp = leaf_of(in, logp);
  input.old_logp = tensor_of(in, old);
  input.advantages = tensor_of(in, advantages);
  const algorithms::TokenPlaces places = places_of(mask);
  input.mask = places.mask;
  input.seq_id = places.seq_id;
  input.seq_count = places.seq_count;
  set_segments(mask, input);
  return batch;
}

algorithms::GlobalCounts counts_of(Case& in, const Array& mask) {
  algorithms::GlobalCounts counts = evaluate::counts_of(mask);
  counts.rows = static_cast<double>(mask.rows());
  if (const auto scale = in.maybe_number("loss_scale_factor")) counts.norm_length = *scale;
  return counts;
}

/// The positions of rows [begin, end) as a micro-batch of their own.
PolicyLossInput rows_of(const Batch& batch, int64_t begin, int64_t end) {
  const auto columns = static_cast<int64_t>(batch.mask.columns());
  PolicyLossInput part = batch.input;
  for (at::Tensor* x : {&part.logp, &part.old_logp, &part.advantages, &part.mask, &part.weights,
                        &part.marks, &part.seq_id, &part.segment_id})
    if (x->defined()) *x = x->slice(0, begin * columns, end * columns);
  return part;
}

/// Counts of rows [begin, end) alone.
algorithms::GlobalCounts counts_of_rows(const Array& mask, int64_t begin, int64_t end) {
  const auto columns = static_cast<int64_t>(mask.columns());
  const Array part{{end - begin, columns},
                   {mask.values.begin() + begin * columns, mask.values.begin() + end * columns}};
  return evaluate::counts_of(part);
}

}  // namespace

Expected<Json> policy_loss(Case& in) {
  const Batch batch = read_batch(in);
  const algorithms::GlobalCounts counts = counts_of(in, batch.mask);
  COHORT_TRY(in.read());
  const algorithms::PolicyLoss loss = algorithms::policy_loss(batch.input, batch.options, counts);
  Json out{{"loss", in.answer(loss.total.item<double>())},
           {"grad_log_probs", gradient_of(in, loss.total, batch.input.logp, batch.mask)}};
  if (batch.options.kind != PolicyLossKind::geo_mean)  // its loss is a sequence's
    out["token_loss"] = json_of(in, loss.tokens, batch.mask);
  return out;
}

Expected<Json> split(Case& in) {
  const int64_t ranks = in.integer("dp"), each = in.integer("micro_batches_per_rank");
  const std::string scaling =
      in.choice("scaling", {"global", "verl_legacy", "roll_unscaled"}, "global");
  const Batch batch = read_batch(in);
  const algorithms::GlobalCounts counts = counts_of(in, batch.mask);
  const auto rows = static_cast<int64_t>(batch.mask.rows());
  if (ranks < 1 || each < 1) in.refuse("params: dp and micro_batches_per_rank are at least 1");
  if (ranks >= 1 && each > rows / ranks)
    in.refuse("params: dp times micro_batches_per_rank is above the " + std::to_string(rows) +
              " rows");
  COHORT_TRY(in.read());
  Json parts = Json::array();
  double sum = 0;
  for (int64_t i = 0; i < ranks * each; ++i) {
    const int64_t begin = rows * i / (ranks * each), end = rows * (i + 1) / (ranks * each);
    const bool is_local = scaling == "verl_legacy";
    double share =
        algorithms::policy_loss(rows_of(batch, begin, end), batch.options,
                                is_local ? counts_of_rows(batch.mask, begin, end) : counts)
            .total.item<double>();
    if (scaling != "global") share /= static_cast<double>(ranks * each);
    parts.push_back(in.answer(share * static_cast<double>(ranks)));
    sum += share;
  }
  const double whole =
      algorithms::policy_loss(batch.input, batch.options, counts).total.item<double>();
  return Json{
      {"loss", in.answer(whole)}, {"parts", parts}, {"mean_over_ranks_of_sums", in.answer(sum)}};
}

}  // namespace cohort::evaluate

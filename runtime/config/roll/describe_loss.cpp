/// Keys of policy losses and of the correction between the policy that sampled and the one that
/// trains.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/suggest.hpp"
#include "runtime/config/roll/describe.hpp"

namespace cohort::config {
namespace {

using catalog::CorrectionFilter;

/// The members of a filter by their keys.
template <class Filter, class Visit>
void for_each_key(Filter& x, Visit visit) {
  visit("ratio_enabled", x.has_ratio);
  visit("ratio_low", x.ratio_low);
  visit("ratio_high", x.ratio_high);
  visit("diff_enabled", x.has_difference);
  visit("diff_low", x.difference_low);
  visit("diff_high", x.difference_high);
}

Expected<void> read_level(const Node& node, catalog::CorrectionLevel& x) {
  const auto names = catalog::words(names_of(x));
  const auto found = std::ranges::find(names, node.scalar);
  if (found == names.end())
    return Error{Errc::config, fmt::format("agg_type of a rule: expected one of {}, got {}",
                                           names_of(x), describe_value(node))};
  x = static_cast<catalog::CorrectionLevel>(found - names.begin());
  return {};
}

Expected<void> read_member(const Node& node, std::string_view key, bool& x) {
  const auto value = as_bool(node);
  if (!value)
    return Error{Errc::config, fmt::format("{} of a rule: expected true or false, got {}", key,
                                           describe_value(node))};
  x = *value;
  return {};
}

Expected<void> read_member(const Node& node, std::string_view key, double& x) {
  const auto value = as_double(node);
  if (!value)
    return Error{Errc::config,
                 fmt::format("{} of a rule: expected a number, got {}", key, describe_value(node))};
  x = *value;
  return {};
}

/// Returns the rule, or none where `enabled` is not true.
Expected<std::optional<CorrectionFilter>> read_filter(const Node& rule) {
  if (rule.kind != NodeKind::map)
    return Error{Errc::config, "expected a list of rules, got " + describe_value(rule)};
  CorrectionFilter filter;
  std::vector<std::string> known{"enabled", "agg_type"};
  bool is_enabled = false;
  Expected<void> done;
  if (const Entry* entry = rule.find("enabled"))
    done = read_member(entry->node(), "enabled", is_enabled);
  if (const Entry* entry = rule.find("agg_type"); entry != nullptr && done)
    done = read_level(entry->node(), filter.level);
  for_each_key(filter, [&](const char* key, auto& member) {
    known.push_back(key);
    const Entry* entry = rule.find(key);
    if (entry != nullptr && done) done = read_member(entry->node(), key, member);
  });
  if (!done) return done.error();
  for (const Entry& entry : rule.entries)
    if (std::ranges::find(known, entry.key) == known.end())
      return Error{Errc::config, fmt::format("unknown key '{}' in a rule{}", entry.key,
                                             did_you_mean(entry.key, known))};
  if (!is_enabled) return std::optional<CorrectionFilter>{};
  return std::optional(filter);
}

Node write_filter(const CorrectionFilter& filter) {
  Node rule = Node::make_map({});
  rule.set("enabled", {}, Node::make_scalar("true", false));
  const auto level = catalog::words(names_of(filter.level))[static_cast<size_t>(filter.level)];
  rule.set("agg_type", {}, Node::make_scalar(std::string(level), false));
  for_each_key(filter, [&](const char* key, const auto& member) {
    rule.set(key, {}, Node::make_scalar(fmt::format("{}", member), false));
  });
  return rule;
}

/// The rules that are enabled.
void describe_filters(Visitor& v, std::vector<CorrectionFilter>& filters) {
  auto read = [&filters](const Node& node) -> Expected<void> {
    filters.clear();
    if (node.kind == NodeKind::null) return {};
    if (node.kind != NodeKind::sequence)
      return Error{Errc::config, "expected a list of rules, got " + describe_value(node)};
    for (const Node& rule : node.items) {
      COHORT_ASSIGN(const std::optional<CorrectionFilter> filter, read_filter(rule));
      if (filter) filters.push_back(*filter);
    }
    return {};
  };
  v.value({"filters", k_trainer,
           "Rules that take tokens out of the mask: by the ratio (ratio_low to ratio_high), by "
           "the difference of probabilities (diff_low to diff_high)."},
          "list of rules", read, [&filters] {
            Node list;
            list.kind = NodeKind::sequence;
            for (const CorrectionFilter& filter : filters)
              list.items.push_back(write_filter(filter));
            return list;
          });
}

void describe_cov(Visitor& v, PolicyLossSection& x) {
  v.key({"clip_cov_ratio", k_trainer, "clip_cov: share of the mini-batch's tokens that is dropped.",
         between(0, 1)},
        x.clip_cov_ratio);
  v.key({"clip_cov_lb", k_trainer, "clip_cov: candidates have a covariance above this."},
        x.clip_cov_lb);
  v.key({"clip_cov_ub", k_trainer, "clip_cov: and below this."}, x.clip_cov_ub);
  v.key({"kl_cov_ratio", k_trainer, "kl_cov: share of the mini-batch's tokens that gets the KL.",
         between(0, 1)},
        x.kl_cov_ratio);
  v.key({"ppo_kl_coef", k_trainer, "kl_cov: weight of the KL.", at_least(0)}, x.ppo_kl_coef);
}

}  // namespace

void describe_policy_loss(Visitor& v, PolicyLossSection& x) {
  if (!v.enter({"policy_loss", k_trainer, "Numbers of the losses that pg_clip does not give."},
               x != PolicyLossSection{} || v.is_listing()))
    return;
  v.key({"clip_ratio_c", k_trainer,
         "Bound of dual_clip_loss; of dppo_tv and dppo_kl that of the ratio; ~: 1 + 2 pg_clip, 20.",
         above(1)},
        x.dual_clip_bound);
  v.key({"ratio_cap", k_trainer,
         "ppo: bounds the ratio where it is not clipped (TRL's delta); cispo_cap: its cap (TRL's "
         "epsilon_high).",
         above(0)},
        x.ratio_cap);
  v.key({"off_policy_mask_threshold", k_trainer,
         "A sequence of negative advantage adds nothing when its tokens have lost more than this "
         "on average [nats]; ~: never.",
         above(0)},
        x.off_policy_mask);
  v.key({"quadratic_coef", k_trainer,
         "kimi15 (tau), prime_rl (kl_tau): weight of (lp - old)^2; ~: 0.1, 0.001.", at_least(0)},
        x.quadratic_coef);
  v.key({"tau_pos", k_trainer, "sapo: temperature for positive advantages.", above(0)}, x.tau_pos);
  v.key({"tau_neg", k_trainer, "sapo: temperature for negative advantages.", above(0)}, x.tau_neg);
  describe_cov(v, x);
  v.key({"k_pos", k_trainer, "vespo: power of the ratio, advantages of 0 and more."}, x.k_pos);
  v.key({"lambda_pos", k_trainer, "vespo: its decay, likewise.", at_least(0)}, x.lambda_pos);
  v.key({"k_neg", k_trainer, "vespo: power of the ratio, negative advantages."}, x.k_neg);
  v.key({"lambda_neg", k_trainer, "vespo: its decay, likewise.", at_least(0)}, x.lambda_neg);
  v.key({"shaping_gamma", k_trainer, "luffy: gamma of p/(p + gamma).", above(0)}, x.shaping_gamma);
  v.leave();
}

void describe_correction(Visitor& v, TrainInferCorrection& x) {
  if (!v.enter({"train_infer_correction", k_trainer,
                "Weights and filters against the gap between the engine's log-probabilities and "
                "the trainer's, which are computed before the update."},
               x != TrainInferCorrection{} || v.is_listing()))
    return;
  if (v.enter({"is_weight", k_trainer, "Importance weight on the loss."}, true)) {
    v.key({"enabled", k_trainer, "Whether the loss is weighted."}, x.rules.is_weighted);
    v.key({"weight_type", k_trainer, "What one ratio covers."}, x.rules.level);
    v.key({"upper_bound", k_trainer, "Highest ratio; ~: none.", above(0)}, x.rules.high);
    v.key({"lower_bound", k_trainer, "Lowest ratio; ~: none.", above(0)}, x.rules.low);
    v.key({"bound", k_trainer,
           "Ratios outside: truncate sets them to the bound, mask to 0; gate drops sequences by "
           "their geometric ratio."},
          x.rules.bound);
    v.key({"batch_normalize", k_trainer, "Weights are divided by their mean over the step."},
          x.rules.is_normalized);
    v.inert("detach", "the weight never carries a gradient");
    v.leave();
  }
  describe_filters(v, x.rules.filters);
  v.nullable_text({"rejections", k_trainer,
                   "verl's rollout_rs by commas, e.g. token_k1,seq_mean_k3: what they reject "
                   "leaves the mask; ~: none."},
                  x.rejections);
  v.loose_text({"rejection_thresholds", k_trainer,
                "Their thresholds by commas: 0.5_2.0 or a number; one counts for all."},
               x.rejection_thresholds);
  v.leave();
}

}  // namespace cohort::config

/// Rules on generation beside training (docs/async.md).
#include <cmath>

#include "runtime/config/roll/roll_check.hpp"

namespace cohort::config {
namespace {

/// ROLL's key: steps that generation may run ahead.
void take_ratio(RunConfig& c, Findings& f) {
  if (c.async_generation_ratio <= 0 || c.dialect == Dialect::verl) return;
  const AsyncSection said = c.async;
  if (c.placement.mode == PlacementMode::timeshare && said.mode == AsyncMode::sync)
    return f.warn("async_generation_ratio",
                  "{} has no effect with placement.mode timeshare: roles that take turns cannot "
                  "generate while others train, so that each step is played by the policy that it "
                  "trains",
                  c.async_generation_ratio);
  const bool is_whole = c.async_generation_ratio == std::floor(c.async_generation_ratio);
  c.async.mode = is_whole ? AsyncMode::one_step_off : AsyncMode::fully_async;
  c.async.depth = c.async_generation_ratio;
  if ((f.has("async.mode") && said.mode != c.async.mode) ||
      (f.has("async.depth") && said.depth != c.async.depth))
    f.problem("async_generation_ratio",
              "{} and the section async both say how far generation is ahead; remove one",
              c.async_generation_ratio);
}

void check_depth(RunConfig& c, Findings& f) {
  AsyncSection& a = c.async;
  const auto steps = static_cast<int64_t>(std::ceil(a.depth));
  if (a.depth <= 0)
    return f.problem("async.depth", "0 with mode {}: give at least 1, or mode sync",
                     to_string(a.mode));
  if (a.bound == 0) a.bound = steps;
  if (a.bound < steps)
    f.problem("async.bound",
              "{} is below depth {}: what is played {} steps ahead is {} steps old when it trains",
              a.bound, a.depth, a.depth, steps);
  c.derived.steps_ahead = c.from_stream.empty() ? a.bound : 0;
  if (a.mode != AsyncMode::one_step_off) return;
  if (a.depth != static_cast<double>(steps))
    f.problem("async.depth", "{} with mode one_step_off: give a whole number of steps", a.depth);
  else if (a.bound != steps)
    f.problem("async.bound", "{} with mode one_step_off: every step is exactly depth {} old",
              a.bound, a.depth);
}

/// The ratio must be formed with the policy that has sampled.
void check_old_log_probs(const RunConfig& c, Findings& f) {
  if (c.dialect == Dialect::verl) return;  // translate_verl decides
  if (c.derived.old_log_probs == OldLogProbs::first_pass)
    f.problem("force_disable_old_logprobs_recompute",
              "true takes the old log-probabilities from the update's own forward pass, which is "
              "right only on-policy; async.mode is {}: use false",
              to_string(c.async.mode));
  const TrainInferCorrection& correction = c.train_infer_correction;
  const bool is_corrected = correction.rules.is_asked() || !correction.rejections.empty();
  if (c.derived.old_log_probs == OldLogProbs::recomputed && !is_corrected)
    f.problem("enable_old_logprobs_recompute",
              "true with async.mode {}: the policy that begins the update has not sampled, and "
              "nothing weighs that; use false, or train_infer_correction",
              to_string(c.async.mode));
}

/// Unclipped importance sampling at three steps of staleness collapses the entropy, a clipped ratio
/// does not (tinker-cookbook #822).
void check_trust_region(const RunConfig& c, Findings& f) {
  const catalog::Entry& row =
      catalog::entry(c.actor_train.pg_variant.value_or(PolicyLossKind::ppo));
  if (!row.has(catalog::need::fresh_data) || c.async.bound <= 1) return;
  const bool is_verl = c.dialect == Dialect::verl;
  f.problem(is_verl ? "actor_rollout_ref.actor.policy_loss.loss_mode" : "actor_train.pg_variant",
            "{} has no trust region, and async.bound {} lets it train on answers {} steps old; use "
            "a loss with a ratio, such as {}, or async.bound 1",
            is_verl ? row.verl : row.name(), c.async.bound, c.async.bound,
            is_verl ? "vanilla" : "ppo");
}

/// What a recorded schedule needs of the run that repeats it.
void check_schedule(const RunConfig& c, Findings& f) {
  if (c.async.schedule.empty()) return;
  if (c.async.mode != AsyncMode::fully_async)
    return f.problem("async.schedule",
                     "{} with mode {}, in which the versions of tokens do not depend on speed; "
                     "remove it, or use fully_async",
                     c.async.schedule, to_string(c.async.mode));
  if (c.async.keep_kv_cache)
    f.problem("async.keep_kv_cache",
              "true with async.schedule: what a cache has of older policies depends on when each "
              "publish came, which no stream records; use false");
}

}  // namespace

void check_async(RunConfig& c, Findings& f) {
  if (!usable(f, {"async.mode", "async.depth", "async.bound", "async_generation_ratio"})) return;
  take_ratio(c, f);
  if (c.async.mode == AsyncMode::sync) {
    const AsyncSection defaults;
    if (c.async.depth != defaults.depth) f.warn("async.depth", "has no effect with mode sync");
    if (c.async.bound != defaults.bound) f.warn("async.bound", "has no effect with mode sync");
  }
  if (c.async.keep_kv_cache && c.async.mode != AsyncMode::fully_async)
    f.warn("async.keep_kv_cache",
           "has no effect with mode {}: no trajectory goes on over a publish",
           to_string(c.async.mode));
  check_schedule(c, f);
  if (c.async.mode == AsyncMode::sync) return;
  if (c.pipeline > Pipeline::rlvr)
    return f.problem("async.mode", "{} in pipeline {}, which generates nothing; use sync",
                     to_string(c.async.mode), to_string(c.pipeline));
  check_depth(c, f);
  if (f.has("placement.offload") && c.placement.offload == OffloadPolicy::step)
    f.problem("placement.offload",
              "step with async.mode {}: who generates beside training keeps its objects on its "
              "cards; use never",
              to_string(c.async.mode));
  check_old_log_probs(c, f);
  check_trust_region(c, f);
  if (c.async.mode == AsyncMode::fully_async && c.determinism == Determinism::strict &&
      c.async.schedule.empty())
    f.warn("determinism",
           "strict with async.mode fully_async: which policy samples a token depends on speed, so "
           "two runs have other hashes, unless async.schedule names the first of them; the rest of "
           "docs/architecture.md, Determinism, holds");
}

}  // namespace cohort::config

/// Pipelines dpo and rm: their keys, and the rules on them (docs/preference.md).
#include <fmt/format.h>

#include "runtime/config/role_weights.hpp"
#include "runtime/config/roll/describe.hpp"
#include "runtime/config/roll/roll_check.hpp"

namespace cohort::config {
namespace {

constexpr std::string_view k_dpo = "dpo", k_rm = "rm", k_pairs = "dpo, rm";

bool takes_smoothing(PreferenceKind loss) {
  return loss == PreferenceKind::sigmoid || loss == PreferenceKind::robust ||
         loss == PreferenceKind::simpo;
}

void check_loss(PreferenceSection& x, Findings& f) {
  if (x.ipo && f.has("preference_loss") && x.loss != PreferenceKind::ipo)
    f.problem("ipo", "true is preference_loss: ipo, and the file says {}; remove one of them",
              to_string(x.loss));
  if (x.ipo) x.loss = PreferenceKind::ipo;
  if (x.label_smoothing > 0 && !takes_smoothing(x.loss))
    f.problem("label_smoothing", "is of the losses sigmoid, robust and simpo; with {} use 0",
              to_string(x.loss));
  if (x.loss != PreferenceKind::simpo) {
    if (f.has("gamma_beta_ratio"))
      f.warn("gamma_beta_ratio", "has no effect: it is of preference_loss simpo");
    return;
  }
  if (f.has("answer_scale") && x.answer_scale != AnswerScale::mean)
    f.problem("answer_scale", "simpo compares means over tokens; use mean, or leave the key out");
  x.answer_scale = AnswerScale::mean;
  if (f.has("use_reference_model") && x.use_reference_model)
    f.warn("use_reference_model", "has no effect: preference_loss simpo has no reference");
}

void check_reference(RunConfig& c, Findings& f) {
  const PreferenceSection& x = c.preference;
  c.derived.is_reference_needed =
      c.pipeline == Pipeline::dpo && x.use_reference_model && x.loss != PreferenceKind::simpo;
  if (!c.derived.is_reference_needed) {
    if (c.reference.is_configured) f.note("reference", "not built: the loss reads none");
    return;
  }
  if (has_reference_role(c, f) && c.reference.device_mapping.empty() &&
      usable(f, {"reference", "reference.device_mapping"}))
    f.problem("reference",
              "missing: the loss compares the policy with a reference, which needs a card; give "
              "reference.device_mapping (the trainer's card under placement.mode timeshare), or "
              "train an adapter (lora_target), or take preference_loss simpo");
}

void warn_of(const RunConfig& c, Findings& f, std::string_view keys) {
  for (std::string_view key : catalog::words(keys))
    if (f.has(std::string(key)))
      f.warn(std::string(key), "has no effect in pipeline {}", to_string(c.pipeline));
}

}  // namespace

void describe_preference(Visitor& v, RunConfig& c) {
  PreferenceSection& x = c.preference;
  v.inert("train_batch_size",
          "a step is one optimizer step, over the pairs of per_device_train_batch_size x "
          "gradient_accumulation_steps x train cards; ROLL's longer steps make the same ones");
  if (v.is_writing() && x == PreferenceSection{}) return;
  v.key({"preference_loss", k_dpo, "Loss of a pair of answers (docs/preference.md)."}, x.loss);
  v.key({"ipo", k_dpo, "ROLL's name of preference_loss: ipo."}, x.ipo);
  v.key({"beta", k_dpo,
         "How much a log-probability ratio counts; the smaller, the further the policy may go.",
         above(0)},
        x.beta);
  v.key({"label_smoothing",
         k_dpo,
         "Share of the pairs that are taken for mislabelled; of sigmoid, robust and simpo.",
         {0, 0.5, false, true}},
        x.label_smoothing);
  v.key({"answer_scale", k_dpo,
         "sum: an answer's tokens add up, as in ROLL and OpenRLHF; mean: TRL's ipo. simpo: mean."},
        x.answer_scale);
  v.key(
      {"gamma_beta_ratio", k_dpo, "simpo: the margin between the answers over beta.", at_least(0)},
      x.gamma_beta_ratio);
  v.key({"use_reference_model", k_dpo,
         "false: the log-probabilities of the reference count as 0, and none is built."},
        x.use_reference_model);
  v.key({"center_rewards_coefficient", k_rm,
         "Weight of (chosen + rejected)^2, which keeps the scores around 0 (TRL); 0: off.",
         at_least(0)},
        x.center_rewards_coefficient);
  v.key({"chosen_key", k_pairs, "Column with the better answer."}, x.chosen_key);
  v.key({"rejected_key", k_pairs, "Column with the worse answer."}, x.rejected_key);
}

void check_pairs(RunConfig& c, Findings& f) {
  if (c.pipeline == Pipeline::dpo) {
    warn_of(c, f, "center_rewards_coefficient");
    if (usable(f, {"preference_loss", "answer_scale", "label_smoothing"}))
      check_loss(c.preference, f);
  } else {
    warn_of(c, f,
            "preference_loss ipo beta label_smoothing answer_scale gamma_beta_ratio "
            "use_reference_model");
  }
  check_reference(c, f);
}

}  // namespace cohort::config

/// Rules on teachers and students.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/role_weights.hpp"
#include "runtime/config/roll/describe.hpp"
#include "runtime/config/roll/roll_check.hpp"

namespace cohort::config {
namespace {

/// ROLL's sections student_train and student_infer are actor_train and actor_infer: what was read
/// of one is known under the name of the other.
void rename_section(RunConfig& c, Findings& f, const std::string& from, const std::string& to) {
  if (!f.has(from)) return;
  if (f.has(to))
    return f.problem(from, "not together with {}: both are the same role; keep one of them", to);
  const auto renamed = [&](const std::string& path) {
    return path == from || path.starts_with(from + ".") ? to + path.substr(from.size()) : "";
  };
  std::map<std::string, Mark> present;
  for (const auto& [path, mark] : f.present)
    if (std::string name = renamed(path); !name.empty()) present[name] = mark;
  for (const auto& [path, mark] : present) c.origins[path] = mark.file_line();
  f.present.merge(present);
  std::set<std::string> broken;
  for (const std::string& path : f.broken)
    if (std::string name = renamed(path); !name.empty()) broken.insert(name);
  f.broken.merge(broken);
}

/// What ROLL takes from the config where a teacher alone gives the advantages.
void complete_pure(RunConfig& c, Findings& f) {
  const auto passed_over = [&](const char* key) {
    f.warn(key, "has no effect: with is_pure_opd a teacher alone gives the advantages");
  };
  if (f.has("adv_estimator") && c.adv_estimator != AdvEstimator::reinforce)
    passed_over("adv_estimator");
  c.adv_estimator = AdvEstimator::reinforce;
  for (const auto& [key, is_on] :
       {std::pair{"use_kl_loss", &c.use_kl_loss}, {"add_token_level_kl", &c.add_token_level_kl}}) {
    if (*is_on) passed_over(key);
    *is_on = false;
  }
  if (c.critic_warmup > 0) passed_over("critic_warmup");
  c.critic_warmup = 0;
  if (f.has("opd_kl_coef") && c.opd.coef != 1)
    f.warn("opd_kl_coef", "has no effect without use_opd: the teacher's weight is 1");
  c.opd.coef = 1;
}

/// Keys of pipeline distill.
constexpr std::string_view k_distill_keys =
    "kd_objective distill_loss_weight logits_topk kd_temperature teacher_temperature "
    "adaptive_kl_alpha skew_lambda gkd_beta distill_on_prompt question_key answer_key "
    "student_pretrain";

void note_unused(const RunConfig& c, Findings& f) {
  for (const std::string_view key : catalog::words(k_distill_keys))
    if (c.pipeline != Pipeline::distill && f.has(std::string(key)))
      f.note(std::string(key), "only pipeline distill reads it");
  if (c.pipeline <= Pipeline::rlvr && f.has("teacher"))
    f.note("teacher", "not built: neither is_pure_opd nor use_opd is true");
  for (const auto& [key, is_given] : {std::pair{"opd_kl_coef", c.opd.coef != OpdSection{}.coef},
                                      std::pair{"opd_kl_penalty", c.opd.kind.has_value()},
                                      std::pair{"opd_token_kld_clip", c.opd.clip.has_value()}})
    if (is_given && f.has(key)) f.note(key, "only is_pure_opd and use_opd read it");
}

/// A number that only one kind of objective reads.
void note_number(const RunConfig& c, Findings& f, const char* key, bool is_read) {
  if (!is_read && f.has(key))
    f.warn(key, "has no effect with kd_objective {}", to_string(c.distill.objective));
}

/// Student and teacher share their cards: the teacher's logits, a vocabulary for each token, stay
/// where they are compared.
void check_distill(RunConfig& c, Findings& f) {
  using enum DivergenceKind;
  const DivergenceKind x = c.distill.objective;
  note_number(c, f, "adaptive_kl_alpha", x == adaptive_kl);
  note_number(c, f, "skew_lambda", x == skewed_forward_kl || x == skewed_reverse_kl);
  note_number(c, f, "gkd_beta", x == gkd);
  const std::string& own = c.student.model_args.model_name_or_path;
  if (const std::string& start = own.empty() ? c.student_pretrain : own; !start.empty())
    c.pretrain = start;
  if (!f.has("max_grad_norm")) c.max_grad_norm = 0;  // ROLL's default in this pipeline
  if (teacher_folder(c).empty() && usable(f, {"teacher", "teacher_pretrain"}))
    f.problem("teacher_pretrain", "missing: pipeline distill needs the folder of a teacher");
  if (c.teacher.device_mapping.empty() && usable(f, {"teacher.device_mapping"}))
    c.teacher.device_mapping = c.student.device_mapping;
}

/// What stands in the file where a teacher is asked for and none is given.
void refuse_without_teacher(const RunConfig& c, Findings& f) {
  const auto is_asked = [&f](const std::string& key) {
    return std::ranges::any_of(f.refused, [&](const Note& note) { return note.key == key; });
  };
  const bool has_cards =
      !c.teacher.device_mapping.empty() || !usable(f, {"teacher.device_mapping"});
  const bool has_folder = !teacher_folder(c).empty();
  if (has_cards && has_folder) return;
  if (is_asked("teachers")) return f.problem("teachers", k_several_teachers);
  const std::string key = c.opd.is_self            ? "opsd_mode"
                          : c.opd.is_mixed         ? "use_opd"
                          : f.has("is_pure_opd")   ? "is_pure_opd"
                          : f.has("student_train") ? "student_train"
                                                   : "actor_train";
  const bool is_lora = !c.actor_train.model_args.lora_target.empty();
  if (!has_cards)
    f.problem(key, "needs a role `teacher` with a device_mapping{}",
              is_lora ? "; the policy without its adapter is no teacher in this version" : "");
  if (!has_folder)
    f.problem(key, "needs a teacher: name its folder in teacher.model_args.model_name_or_path");
}

/// The teacher's prompt has the row's solution: rows, and room for it.
void check_hints(const RunConfig& c, Findings& f) {
  if (!c.opd.is_self) return;
  if (c.pipeline != Pipeline::rlvr)
    return f.problem("opsd_mode", "needs rows with solutions: pipeline rlvr");
  for (const std::string_view field : {"{problem}", "{solution}"})
    if (c.opd.teacher_template.find(field) == std::string::npos)
      f.problem("opsd_teacher_template", "has no {}", field);
  const int64_t answer =
      c.response_length > 0 ? c.response_length : c.sequence_length - c.prompt_length;
  if (c.sequence_length > 0 && c.sequence_length <= c.prompt_length + answer)
    f.warn("sequence_length",
           "{} leaves a teacher's prompt no more room than the policy's ({} + {}): solutions are "
           "cut; raise it",
           c.sequence_length, c.prompt_length, answer);
}

/// Whether a key of the section has a problem already: a map of several teachers has.
bool is_teacher_broken(const Findings& f) {
  return std::ranges::any_of(f.broken,
                             [](const std::string& path) { return path.starts_with("teacher."); });
}

}  // namespace

bool has_teacher(const RunConfig& c) {
  return c.pipeline == Pipeline::distill || (c.opd.is_asked() && c.pipeline <= Pipeline::rlvr);
}

std::string teacher_folder(const RunConfig& c) {
  if (!has_teacher(c)) return "";
  const std::string& own = c.teacher.model_args.model_name_or_path;
  return own.empty() ? c.teacher_pretrain : own;
}

void check_demonstrations(const RunConfig& c, Findings& f) {
  const std::string key = "demonstration_key";
  if (c.rlvr.demonstration_key.empty() || !usable(f, {key})) return;
  const auto refuse_if = [&](bool is_asked, std::string_view other, std::string_view why) {
    if (is_asked) f.problem(key, "not with {}: {}", other, why);
  };
  constexpr std::string_view k_unsampled =
      "nobody sampled a demonstration, so it has no recorded log-probabilities";
  if (c.pipeline != Pipeline::rlvr)
    return f.note(key, fmt::format("pipeline {} does not read it", to_string(c.pipeline)));
  if (c.actor_train.pg_variant != PolicyLossKind::luffy)
    f.problem(key,
              "needs actor_train.pg_variant: luffy, whose ratio takes a demonstration's "
              "probability for 1");
  refuse_if(c.opd.is_asked(), "is_pure_opd or use_opd", k_unsampled);
  refuse_if(c.add_token_level_kl, "add_token_level_kl", k_unsampled);
  refuse_if(
      c.train_infer_correction.rules.is_asked() || !c.train_infer_correction.rejections.empty(),
      "train_infer_correction", k_unsampled);
  refuse_if(catalog::entry(c.adv_estimator).has(catalog::need::greedy), "adv_estimator remax",
            "the last answer of a group is its greedy one");
  refuse_if(c.num_return_sequences_in_group < 2, "num_return_sequences_in_group 1",
            "a demonstration is compared with sampled answers");
  if (c.loss_agg_mode != LossAgg::token_mean)
    f.warn(key, "LUFFY takes one mean over all tokens: loss_agg_mode token-mean, not {}",
           to_string(c.loss_agg_mode));
}

void check_opd(RunConfig& c, Findings& f) {
  rename_section(c, f, "student_train", "actor_train");
  rename_section(c, f, "student_infer", "actor_infer");
  if (c.opd.is_self && !c.opd.is_mixed) c.opd.is_pure = true;
  if (f.has("student_train") && !f.has("is_pure_opd") && !c.opd.is_mixed) c.opd.is_pure = true;
  if (!usable(f, {"is_pure_opd", "use_opd", "teacher"})) return;
  if (c.pipeline == Pipeline::distill) check_distill(c, f);
  if (!c.opd.is_asked()) return note_unused(c, f);
  if (c.opd.is_pure && c.opd.is_mixed)
    return f.problem("use_opd",
                     "not together with is_pure_opd: say whether rewards count (use_opd) "
                     "or the teacher alone (is_pure_opd)");
  if (c.pipeline > Pipeline::rlvr)
    return f.warn(c.opd.is_pure ? "is_pure_opd" : "use_opd",
                  "has no effect in pipeline {}: nothing is sampled", to_string(c.pipeline));
  check_hints(c, f);
  if (c.opd.is_pure) complete_pure(c, f);
  if (!is_teacher_broken(f)) refuse_without_teacher(c, f);
}

}  // namespace cohort::config

/// Keys of distillation: from a teacher's log-probabilities of what the policy samples (pipelines
/// rlvr and agentic), and from its distributions over rows (pipeline distill).
#include "runtime/config/roll/describe.hpp"

namespace cohort::config {
namespace {

void describe_opd(Visitor& v, OpdSection& x) {
  v.key({"is_pure_opd", k_trainer,
         "The advantage of a token is the lead of the teacher's log-probability over the policy's, "
         "and nothing else. ROLL's launcher sets it; student_train implies it."},
        x.is_pure);
  v.key(
      {"use_opd", k_trainer, "opd_kl_coef times that lead is added to the estimator's advantages."},
      x.is_mixed);
  v.key({"opd_kl_coef", k_trainer, "Weight of the teacher with use_opd.", at_least(0)}, x.coef);
  v.key({"opd_kl_penalty", k_trainer,
         "Estimator of the KL to the teacher whose negative is the lead; ~: kl_penalty."},
        x.kind);
  v.key({"opd_token_kld_clip", k_trainer,
         "A token's KL to the teacher is clamped to plus and minus this; ~: not.", above(0)},
        x.clip);
  v.key({"opsd_mode", "teacher",
         "The teacher reads the row's solution, too (on-policy self-distillation, where its folder "
         "is the policy's start); is_pure_opd, unless use_opd."},
        x.is_self);
  const OpdSection plain;
  const bool is_told = x.is_self || x.solution_key != plain.solution_key ||
                       x.teacher_template != plain.teacher_template || x.solution_tokens != 0;
  if (is_told || !v.is_writing()) {
    v.key({"opsd_solution_key", "teacher", "opsd_mode: column with the solution."}, x.solution_key);
    v.key({"opsd_teacher_template", "teacher",
           "opsd_mode: the user's message that the teacher reads, with {problem} and {solution}."},
          x.teacher_template);
    v.key({"opsd_max_solution_length", "teacher",
           "opsd_mode: tokens of a solution at most; 0: what sequence_length leaves.", at_least(0)},
          x.solution_tokens);
  }
  v.inert("pure_opd_pipeline_type",
          "the pipeline follows from the other keys (environments or rewards), or from `pipeline`");
}

constexpr std::string_view k_distill = "distill";

void describe_objective(Visitor& v, DistillSection& x) {
  v.key({"kd_objective", k_distill,
         "How far the student's distribution is from the teacher's (docs/distillation.md)."},
        x.objective);
  v.key({"distill_loss_weight",
         k_distill,
         "Weight of that distance; the rest is that of the answers' own log-probability.",
         {0, 1}},
        x.loss_weight);
  v.key({"logits_topk", k_distill,
         "Both distributions are over so many of the teacher's likeliest entries; 0: over all.",
         at_least(0)},
        x.topk);
  v.key({"kd_temperature", k_distill, "Divides the logits of both.", above(0)}, x.temperature);
  v.key({"teacher_temperature", k_distill, "Divides the teacher's once more.", above(0)},
        x.teacher_temperature);
  v.key({"adaptive_kl_alpha", k_distill, "adaptive_kl: the teacher's mass in the tail.", {0, 1}},
        x.adaptive_alpha);
  v.key({"skew_lambda", k_distill, "skewed_*: the other side's share of the mixture.", {0, 1}},
        x.skew_lambda);
  v.key({"gkd_beta", k_distill, "gkd: TRL's beta; 0 is forward_kl, 1 reverse_kl.", {0, 1}},
        x.gkd_beta);
}

void describe_distill(Visitor& v, DistillSection& x) {
  v.inert("logits_transfer_backend",
          "the teacher computes on the student's cards: no logits travel");
  if (v.is_writing() && x == DistillSection{}) return;
  describe_objective(v, x);
  v.key({"distill_on_prompt", k_distill, "Tokens of the prompt count too."}, x.is_on_prompt);
  v.key({"question_key", k_distill, "Column with the user's message; behind prompt_key if given."},
        x.question_key);
  v.key({"answer_key", k_distill, "Column with the assistant's message."}, x.answer_key);
}

}  // namespace

void describe_distillation(Visitor& v, RunConfig& c) {
  describe_opd(v, c.opd);
  v.nullable_text(
      {"teacher_pretrain", "teacher",
       "Folder of the teacher, where teacher.model_args.model_name_or_path names none."},
      c.teacher_pretrain);
  if (!v.is_writing() || !c.student_pretrain.empty())
    v.nullable_text({"student_pretrain", k_distill,
                     "What the student starts from, where student.model_args.model_name_or_path "
                     "names nothing; ~: pretrain."},
                    c.student_pretrain);
  describe_distill(v, c.distill);
  v.refused({"teachers", k_nobody, k_several_teachers});
}

}  // namespace cohort::config

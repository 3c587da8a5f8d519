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
  v.inert("pure_opd_pipeline_type",
          "the pipeline follows from the other keys (environments or rewards), or from `pipeline`");
}

}  // namespace

void describe_distillation(Visitor& v, RunConfig& c) {
  describe_opd(v, c.opd);
  v.nullable_text(
      {"teacher_pretrain", "teacher",
       "Folder of the teacher, where teacher.model_args.model_name_or_path names none."},
      c.teacher_pretrain);
  v.nullable_text(
      {"student_pretrain", "plan", "distill: what the student starts from; ~: pretrain."},
      c.student_pretrain);
  v.inert(
      "question_key answer_key logits_topk distill_loss_weight kd_temperature "
      "teacher_temperature kd_objective adaptive_kl_alpha skew_lambda distill_on_prompt "
      "logits_transfer_backend",
      "belongs to pipeline distill, which is not built in");
  v.inert("teachers opsd_mode opsd_solution_key opsd_teacher_template opsd_max_solution_length",
          "not built in: one teacher reads the tokens that the policy has seen and sampled");
}

}  // namespace cohort::config

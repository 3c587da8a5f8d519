/// verl's section distillation: a teacher scores what the policy samples (docs/distillation.md).
#include <fmt/format.h>

#include "runtime/config/roll/not_built.hpp"
#include "runtime/config/tree/interpolate.hpp"
#include "runtime/config/verl/verl_check.hpp"
#include "runtime/config/verl/verl_describe.hpp"
#include "runtime/config/verl/verl_rows.hpp"

namespace cohort::config {
namespace {

const std::string k_loss = "distillation.distillation_loss.";

std::optional<KlKind> estimator_of(const VerlDistillationLoss& loss) {
  return catalog::find<KlKind>(loss.mode, Dialect::verl);
}

void describe_loss(Visitor& v, VerlDistillationLoss& x) {
  if (!v.enter({"distillation_loss", "trainer", "How the teacher counts."}, true)) return;
  v.key({"loss_mode", "trainer", "Estimator of the KL to the teacher: k1, k2, k3, abs."}, x.mode);
  v.key({"use_task_rewards", "trainer", "Rewards count beside the teacher."}, x.use_task_rewards);
  v.key({"task_loss_coef", "trainer", "Their weight; 1 is what runs."}, x.task_loss_coef);
  v.key({"distillation_loss_coef", "trainer", "Weight of the teacher beside rewards.", at_least(0)},
        x.distillation_loss_coef);
  v.key({"loss_max_clamp", "trainer",
         "A token's KL is clamped to plus and minus this; ~: not clamped.", above(0)},
        x.loss_max_clamp);
  v.key({"use_policy_gradient", "trainer",
         "The KL is a negative advantage; false: it is a term of the loss."},
        x.use_policy_gradient);
  v.key({"clip_ratio_low", "trainer", "Clip range of the ratio where the teacher alone counts."},
        x.clip_ratio_low);
  v.key({"clip_ratio_high", "trainer", "Likewise."}, x.clip_ratio_high);
  v.key({"topk", "plan", "Entries of loss_mode forward_kl_topk.", at_least(1)}, x.topk);
  v.only({"policy_loss_mode", "trainer", "The loss of the teacher's advantages, as in verl."},
         "vanilla");
  v.inert("clip_ratio", "verl's loss reads clip_ratio_low and clip_ratio_high");
  v.inert("log_prob_min_clamp", "verl reads it in loss_mode forward_kl_topk alone");
  v.inert("loss_settings", "verl fills it in itself");
  v.leave();
}

void describe_teacher(Visitor& v, VerlDistillation& x, std::string& path) {
  v.nullable_text({"model_path", "teacher", "Folder of the teacher."}, path);
  v.key({"enable_resource_pool", "placement", "The teacher has cards of its own."},
        x.has_own_cards);
  v.key({"n_gpus_per_node", "placement", "Cards of that pool on a node.", at_least(0)},
        x.n_gpus_per_node);
  v.key({"nnodes", "placement", "Nodes of that pool.", at_least(0)}, x.nnodes);
  v.inert("key num_replicas", "one teacher computes on one card");
  v.inert("inference", "the built-in engine computes the teacher's log-probabilities");
}

}  // namespace

void describe_verl_distillation(Visitor& v, VerlDistillation& x) {
  if (!v.enter({"distillation", "trainer", "A teacher scores what the policy samples."},
               x.enabled || v.is_listing()))
    return;
  v.key({"enabled", "trainer", "Whether it does."}, x.enabled);
  v.inert("num_workers teacher_key", "one teacher computes on one card");
  v.key({"n_gpus_per_node", "placement", "Cards of the teacher's pool on a node.", at_least(0)},
        x.n_gpus_per_node);
  v.key({"nnodes", "placement", "Nodes of the teacher's pool.", at_least(0)}, x.nnodes);
  if (v.enter({"teacher_model", "teacher", "The teacher."},
              !x.model_path.empty() || v.is_listing())) {
    describe_teacher(v, x, x.model_path);
    v.leave();
  }
  std::vector<std::string> names;
  for (const auto& [name, path] : x.model_paths) names.push_back(name);
  v.each({"teacher_models", "teacher", "The teacher, in newer files under a name of the user's."},
         names, [&](const std::string& name) { describe_teacher(v, x, x.model_paths[name]); });
  describe_loss(v, x.loss);
  v.leave();
}

VerlConfig with_distillation(const VerlConfig& user) {
  VerlConfig c = user;
  if (!c.distillation.enabled) return c;
  const VerlDistillationLoss& loss = c.distillation.loss;
  VerlActor& actor = c.actor;
  if (!loss.use_policy_gradient) {
    actor.use_kl_loss = true;
    actor.kl_loss_coef = loss.distillation_loss_coef;
    actor.kl_loss_type = estimator_of(loss).value_or(KlKind::k3);
    actor.kl_loss_name = loss.mode;
    c.ref.path = c.distillation.path();
  } else if (!loss.use_task_rewards) {
    actor.use_kl_loss = false;
    actor.entropy_coeff = 0;
    actor.clip_ratio_low = loss.clip_ratio_low;
    actor.clip_ratio_high = loss.clip_ratio_high;
    actor.loss_mode = PolicyLossKind::ppo;
    c.algorithm.use_kl_in_reward = false;
    c.algorithm.adv_estimator = AdvEstimator::reinforce;
  }
  return c;
}

void check_verl_distillation(const VerlConfig& c, Findings& f) {
  const VerlDistillation& x = c.distillation;
  if (!x.enabled) {
    if (f.has("distillation")) f.note("distillation", "not built: distillation.enabled is false");
    return;
  }
  const VerlDistillationLoss& loss = x.loss;
  const auto not_run_if = [&](bool is_asked, const std::string& key, const std::string& text) {
    if (is_asked) f.warn(key, "{}{}", k_not_run, text);
  };
  if (x.path().empty())
    verl_problem(f, "distillation.teacher_model.model_path",
                 "missing: distillation.enabled needs the folder of a teacher");
  not_run_if(x.model_paths.size() + (x.model_path.empty() ? 0 : 1) > 1,
             "distillation.teacher_models",
             "several teachers are not built in: give one, and a run for each");
  const bool is_estimator = estimator_of(loss).has_value();
  if (!is_estimator && loss.mode != "forward_kl_topk" && loss.mode != "self_distill_full_kl")
    verl_problem(f, k_loss + "loss_mode", "'{}' is no estimator; use k1 or k3", loss.mode);
  if (loss.mode == "k1" && !loss.use_policy_gradient)
    verl_problem(f, k_loss + "loss_mode",
                 "k1 without use_policy_gradient: its gradient does not depend on the teacher "
                 "(verl refuses it); use k3");
  not_run_if(!is_estimator, k_loss + "loss_mode",
             loss.mode +
                 " is not built in beside sampling: use k1 or k3; pipeline distill learns "
                 "a teacher's distributions from rows");
  not_run_if(!loss.use_policy_gradient && !loss.use_task_rewards, k_loss + "use_policy_gradient",
             "False without task rewards is not built in: use True, whose advantages have the "
             "gradient of the same KL with loss_mode k1");
  not_run_if(!loss.use_policy_gradient && (c.actor.use_kl_loss || c.algorithm.use_kl_in_reward),
             k_loss + "use_policy_gradient",
             "False beside a KL to a reference is not built in: one model is held against; use "
             "True");
  not_run_if(
      loss.task_loss_coef != 1 && loss.use_task_rewards, k_loss + "task_loss_coef",
      "is not built in: divide distillation_loss_coef by it, and multiply the learning rate");
  const double low = c.actor.clip_ratio_low.value_or(c.actor.clip_ratio);
  const double high = c.actor.clip_ratio_high.value_or(c.actor.clip_ratio);
  if (loss.use_policy_gradient && loss.use_task_rewards &&
      (low != loss.clip_ratio_low || high != loss.clip_ratio_high))
    f.warn(k_loss + "clip_ratio_low",
           "one loss takes both advantages, whose ratio is clipped as the actor says ({}, {}), not "
           "as here ({}, {})",
           low, high, loss.clip_ratio_low, loss.clip_ratio_high);
}

void set_distillation(RunConfig& r, const VerlConfig& c, Findings& f) {
  const VerlDistillation& x = c.distillation;
  if (!x.enabled || !x.loss.use_policy_gradient) return;
  OpdSection& opd = r.opd;
  opd.is_pure = !x.loss.use_task_rewards;
  opd.is_mixed = x.loss.use_task_rewards;
  opd.coef = opd.is_mixed ? x.loss.distillation_loss_coef : 1;
  opd.kind = estimator_of(x.loss);
  opd.clip = x.loss.loss_max_clamp;
  WorkerConfig& w = r.teacher;
  w.is_configured = true;
  w.model_args = r.actor_train.model_args;
  w.model_args.lora_target.clear();
  w.model_args.adapter_name_or_path.clear();
  w.model_args.is_gradient_checkpointing = false;
  w.model_args.model_name_or_path = home_expanded(x.path());
  w.strategy_args = {};
  w.strategy_args.strategy = Strategy::hf_infer;
  w.strategy_args.strategy_name = "hf_infer";
  w.infer_batch_size = r.actor_train.infer_batch_size;
  const bool is_pool = x.has_own_cards || x.n_gpus_per_node * x.nnodes > 0;
  uint32_t card = r.actor_train.device_mapping.front();
  if (is_pool)  // behind all others
    for (const WorkerConfig* role : {&r.actor_train, &r.actor_infer})
      for (uint32_t id : role->device_mapping) card = std::max(card, id + 1);
  w.device_mapping = {card};
  if (is_pool && card >= r.num_nodes * r.num_gpus_per_node)
    r.num_nodes = card / r.num_gpus_per_node + 1;
  f.warn("distillation", "the teacher computes on card {} alone{}", card,
         is_pool ? ", behind those of the other roles" : ", in a turn of its own");
}

}  // namespace cohort::config

/// Keys of pipeline rlvr: rewards by domain, its filters, masks and evaluation; and the keys of
/// sft and distill.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/suggest.hpp"
#include "runtime/config/roll/describe.hpp"

namespace cohort::config {
namespace {

constexpr std::string_view k_rlvr = "rlvr", k_sft = "sft, dpo, rm, distill",
                           k_not_run = "not run yet";

void describe_thresholds(Visitor& v, QueryFilter& f) {
  v.key({"threshold_down", k_trainer, "Lower bound of the group's mean."}, f.threshold_down);
  v.key({"threshold_up", k_trainer, "Upper bound of the group's mean."}, f.threshold_up);
  v.key({"std_threshold", k_trainer, "Lower bound of the group's deviation.", at_least(0)},
        f.std_threshold);
}

void describe_query_filter(Visitor& v, QueryFilter& f) {
  if (!v.enter({"query_filter_config", k_trainer,
                "Which prompts are left out of a step by their group's scores, and replaced "
                "(dynamic_sampling)."},
               true))
    return;
  v.key({"type", k_trainer,
         "mean_filter keeps groups with threshold_down < mean < threshold_up, std_filter those "
         "with a deviation above std_threshold."},
        f.type);
  if (v.enter({"filter_args", k_trainer, "Thresholds of the filter."},
              f != QueryFilter{} || v.is_listing())) {
    describe_thresholds(v, f);
    v.leave();
  }
  v.leave();
}

void describe_dynamic_sampling(Visitor& v, DynamicSampling& x) {
  if (!v.enter({"dynamic_sampling", "driver, trainer",
                "Groups that carry no signal are left out of a step, and others of the data order "
                "take their places (docs/leases.md)."},
               x != DynamicSampling{} || v.is_listing()))
    return;
  v.key({"type", k_trainer,
         "Which are kept: std_filter those with a deviation above std_threshold (DAPO: 0), "
         "mean_filter those with threshold_down < mean < threshold_up. A domain's "
         "query_filter_config goes before it."},
        x.filter.type);
  describe_thresholds(v, x.filter);
  v.key({"metric", k_trainer,
         "What is compared. score: without parts that shape the length (overlong, length); reward: "
         "with them; acc: whether the answer is right."},
        x.metric);
  v.key({"max_num_gen_batches", "driver",
         "Batches of groups that a step plays at most, the first one included; then it trains on "
         "what there is. 1: nothing is replaced.",
         between(1, 1 << 10)},
        x.max_num_gen_batches);
  v.leave();
}

/// What ROLL's CrossThinkQA worker pays, and no other reads.
void describe_cross_think(Visitor& v, RewardConfig& r) {
  constexpr std::string_view k_grade = "reward_type", k_length = "response_length_penalty_coef";
  const bool is_read =
      r.type == RewardType::crossthinkqa || r.worker_cls.find("CrossThinkQA") != std::string::npos;
  if (!is_read && !v.is_listing()) {
    v.inert(k_grade, "only ROLL's crossthinkqa reads it");
    return v.inert(k_length, "only ROLL's crossthinkqa reads it");
  }
  v.key({k_grade, "reward",
         "crossthinkqa pays 1 to -1 by the letter and the box (docs/rewards.md); ~: 1 or 0 by the "
         "letter."},
        r.choice_grade);
  v.key({k_length, "reward", "crossthinkqa: factor of ROLL's penalty of answers below 400 tokens."},
        r.response_length_penalty_coef);
}

void describe_reward(Visitor& v, RewardConfig& r) {
  v.key({"type", "reward",
         "env_return: the sum of what the environment paid. Missing: follows from worker_cls."},
        r.type);
  v.key({"weight", "reward", "Factor of this part."}, r.weight);
  RewardConfig plain;
  plain.weight = r.weight;
  if (v.is_writing() && r == plain) return;
  v.nullable_text({"worker_cls", "reward", "ROLL's class of the scorer."}, r.worker_cls);
  v.key({"tag_included", "reward",
         "Tags (data_source) of the rows that this entry scores; empty: the rows whose domain it "
         "is, and those without one."},
        r.tag_included);
  describe_plugin(v, r.plugin, "reward");
  v.key({"use_local", "reward", "code_sandbox: true checks here, false asks code_url."},
        r.use_local);
  v.nullable_text({"code_url", k_not_run, "code_sandbox: where answers are checked."}, r.code_url);
  v.nullable_text({"judge_model_type", "reward",
                   "llm_judge: api asks a server, inference answers on device_mapping's cards "
                   "(docs/judges.md)."},
                  r.judge_model_type);
  v.nullable_text({"judge_prompt", "reward", "llm_judge: name of the prompt."}, r.judge_prompt);
  v.nullable_text({"judge_model_name", "reward", "llm_judge: model that is asked."},
                  r.judge_model_name);
  v.nullable_text({"judge_api_url", "reward", "llm_judge: where it is asked."}, r.judge_api_url);
  describe_query_filter(v, r.query_filter_config);
  describe_worker_keys(v, r.worker, {.is_infer = true, .is_reward = true});
  describe_generating_args(v, r.worker.generating_args);
  v.inert("response_filter_config", "ROLL's default loop does not consult it");
  v.inert("training_args", "the role does not train");
  v.inert("judge_api_key", "a secret does not belong into a file: set it in the environment");
  describe_cross_think(v, r);
  v.inert("format_pattern reward_manager_config reward_config pg_variant",
          "belongs to a scorer that is not built in");
  v.inert(
      "name backend_timeout checkpoint_config offload_nccl max_concurrency model_update_frequency "
      "use_remove_padding use_sequence_packing use_dynamic_batching_in_train "
      "use_dynamic_batching_in_infer logits_in_fp32 apply_loss_scale",
      "belongs to ROLL's Ray workers");
}

void describe_validation(Visitor& v, ValidationSection& x) {
  if (!v.enter({"validation", "preflight",
                "Held-out rows of files: pipelines rlvr, sft, dpo, rm and distill."},
               x.is_configured))
    return;
  x.is_configured = true;
  describe_data_args(v, x.data_args);
  describe_generating_args(v, x.generating_args);
  v.inert("eval_steps", "ROLL reads it nowhere: eval_steps at the top decides");
  v.inert(
      "model_args training_args strategy_args device_mapping world_size infer_batch_size "
      "worker_cls name num_gpus_per_worker system_envs",
      "evaluation runs in actor_infer");
  v.leave();
}

void describe_masks(Visitor& v, RlvrSection& x) {
  v.key({"rl_loss_coef", k_rlvr, "Weight of the policy loss and the KL loss."}, x.rl_loss_coef);
  v.key({"importance_sampling", k_rlvr, "token: a ratio per token; seq: one per answer (GSPO)."},
        x.importance_sampling);
  v.nullable_text({"demonstration_key", "rollout, trainer",
                   "Column with a worked answer: it takes the place of the last sampled answer of "
                   "its group (pg_variant luffy, docs/distillation.md); ~: none."},
                  x.demonstration_key);
  v.key({"difficulty_loss_weight", k_not_run, "Samples weigh by the difficulty of the prompt."},
        x.difficulty_loss_weight);
  v.key(
      {"length_loss_weight", k_trainer,
       "In the policy loss the shortest answer of the optimizer batch weighs 1.5, the longest 0.5, "
       "others between, scaled to mean 1."},
      x.length_loss_weight);
  v.key(
      {"max_len_mask", k_trainer,
       "Answers that their token budget cut do not train; their scores count in their group (TRL: "
       "mask_truncated_completions)."},
      x.max_len_mask);
  v.key({"difficulty_mask", k_trainer,
         "Only prompts with difficulty_low_threshold < mean score < difficulty_high_threshold "
         "train."},
        x.difficulty_mask);
  v.key({"difficulty_low_threshold", k_trainer, "Lower bound of difficulty_mask."},
        x.difficulty_low_threshold);
  v.key({"difficulty_high_threshold", k_trainer, "Upper bound of difficulty_mask."},
        x.difficulty_high_threshold);
  v.key({"error_max_len_clip", k_trainer,
         "Answers without a score that are longer than error_max_len_threshold do not train."},
        x.error_max_len_clip);
  v.key({"error_max_len_threshold", k_trainer, "Tokens of error_max_len_clip.", at_least(0)},
        x.error_max_len_threshold);
}

void describe_sampling_loop(Visitor& v, RlvrSection& x) {
  v.key(
      {"val_greedy", "config",
       "ROLL: evaluation takes the likeliest token. Here it has sampled answers and a greedy one."},
      x.val_greedy);
  v.key({"val_n_sample", k_rlvr, "Answers to a prompt of evaluation.", between(1, 1 << 16)},
        x.val_n_sample);
  v.key({"is_num_return_sequences_expand", "config",
         "ROLL: the answers to a prompt are requests of their own. Here they always are."},
        x.is_num_return_sequences_expand);
  v.key({"is_use_additional_prompts", "config",
         "ROLL: further prompts start before some are filtered out, and a surplus is dropped. Here "
         "each one left out is replaced."},
        x.is_use_additional_prompts);
  v.key(
      {"max_additional_running_prompts", "config", "ROLL: how many of them at once.", at_least(0)},
      x.max_additional_running_prompts);
  v.key(
      {"generate_opt_level", "config",
       "ROLL: 1 schedules requests, 0 whole batches. Here requests are scheduled.", between(0, 1)},
      x.generate_opt_level);
}

void describe_sft(Visitor& v, SftSection& x) {
  v.nullable_text({"global_template", k_sft, "In place of the training role's data_args.template."},
                  x.global_template);
  v.nullable_text({"system_key", k_sft, "Column with a system message; ~: none."}, x.system_key);
  v.nullable_text(
      {"prompt_key", k_sft,
       "Column with the prompt; ~: the first there is of prompt, instruction, question."},
      x.prompt_key);
  v.nullable_text({"query_key", k_sft,
                   "Column that follows the prompt on a line of its own; ~: input, beside "
                   "instruction."},
                  x.query_key);
  v.nullable_text({"response_key", k_sft,
                   "Column with the answer; ~: the first there is of response, output, answer, "
                   "solution."},
                  x.response_key);
  v.nullable_text({"tools_key", k_sft, "Column with the tools that the chat template shows."},
                  x.tools_key);
  v.key({"ignore_input_ids_mismatch", k_sft,
         "verl's: no error if the template writes earlier turns differently later (docs/sft.md)."},
        x.ignore_input_ids_mismatch);
  v.key({"shuffle", "rlvr, sft, dpo, rm, distill",
         "Each epoch in an order of its own, by the seed; false: as in the files."},
        x.shuffle);
}

}  // namespace

void describe_rewards(Visitor& v, RunConfig& c) {
  std::vector<std::string> names;
  for (const auto& [name, reward] : c.rewards) names.push_back(name);
  v.each({"rewards", "reward",
          "agentic: named parts of the score, added up with their weights; without the key one "
          "part env_return of weight 1. rlvr: domains with their scorers."},
         names, [&](const std::string& name) { describe_reward(v, c.rewards[name]); });
}

void describe_rlvr(Visitor& v, RunConfig& c) {
  v.key({"num_return_sequences_in_group", "plan",
         "rlvr: answers to a prompt; an advantage compares them. agentic takes the group from "
         "group_size.",
         between(1, 1 << 16)},
        c.num_return_sequences_in_group);
  v.key({"norm_mean_type", "plan", "rlvr: scope of the mean taken off the scores."},
        c.norm_mean_type);
  v.key({"norm_std_type", "plan", "rlvr: scope of the deviation that divides them."},
        c.norm_std_type);
  if (!v.is_writing() || c.rlvr != RlvrSection{}) {
    describe_masks(v, c.rlvr);
    describe_sampling_loop(v, c.rlvr);
  }
  describe_dynamic_sampling(v, c.dynamic_sampling);
  describe_correction(v, c.train_infer_correction);
  if (!v.is_writing() || c.sft != SftSection{}) describe_sft(v, c.sft);
  describe_validation(v, c.validation);
  v.inert("mask_type vlm_filter save_logging_board_dir freeze_vision_tower",
          "belongs to ROLL's rlvr workers");
  v.inert("user_defined_rollout_loop_cls router_args rollout_mock",
          "belongs to ROLL's scheduler; requests are scheduled by the built-in engine");
}

}  // namespace cohort::config

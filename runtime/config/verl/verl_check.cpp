/// Rules on verl's algorithm, rollout and run; the order of all checks.
#include "runtime/config/verl/verl_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>

namespace cohort::config {

void verl_problem(Findings& f, const std::string& path, std::string_view text) {
  f.broken.insert(path);
  if (f.has(path)) return f.problem(path, text);
  f.problems.push_back({f.mark_of(""), fmt::format("{}: {}", path, text)});
}

Expected<catalog::Correction> correction_of(const VerlRolloutCorrection& r) {
  catalog::Correction rules;
  rules.is_weighted = r.rollout_is.has_value();
  rules.level = r.rollout_is == VerlCorrection::sequence ? catalog::CorrectionLevel::sequence
                                                         : catalog::CorrectionLevel::token;
  rules.is_normalized = r.rollout_is_batch_normalize;
  COHORT_TRY(catalog::read_weight_bound(r.rollout_is_threshold, rules));
  COHORT_ASSIGN(rules.rejections, catalog::parse_rejections(r.rollout_rs, r.rollout_rs_threshold));
  return rules;
}

int64_t warmup_steps_of(const VerlOptim& o, int64_t total_steps) {
  if (o.lr_warmup_steps >= 0) return o.lr_warmup_steps;
  return static_cast<int64_t>(o.lr_warmup_steps_ratio * static_cast<double>(total_steps));
}

namespace {

void check_estimator(const VerlConfig& c, Findings& f) {
  const std::string key = "algorithm.adv_estimator";
  if (f.broken.contains(key)) return;
  const catalog::Entry& estimator = catalog::entry(c.algorithm.adv_estimator);
  const std::string& name = c.algorithm.estimator_name;
  if (!f.has(key))
    f.warn(key, "left at verl's default gae: a critic of the policy's size is built and trained");
  if (estimator.has(catalog::need::critic) && c.critic.enable == false)
    verl_problem(f, "critic.enable",
                 "false, but adv_estimator {} needs the critic's values; use grpo, or leave it out",
                 name);
  const size_t keys = c.algorithm.gdpo_reward_keys.size();
  const size_t weights = c.algorithm.gdpo_reward_weights.size();
  if (weights > 0 && weights != keys)
    verl_problem(f, "algorithm.gdpo_reward_weights", "{} weights for {} gdpo_reward_keys", weights,
                 keys);
  const char* n_key = "actor_rollout_ref.rollout.n";
  if (c.rollout.sampling.n > 1 || f.broken.contains(n_key)) return;
  if (name == "grpo_passk")
    return verl_problem(f, n_key, "1: grpo_passk compares the two best answers; use at least 2");
  if (name == "rloo_vectorized")
    return f.warn(n_key, "1 under rloo_vectorized: every advantage is 0, nothing is learnt");
  if (estimator.has(catalog::need::groups))
    f.warn(n_key,
           "1 under {}: a group of one has no baseline, the advantage is the "
           "raw score; verl's examples use 5 to 16",
           name);
}

void check_kl_reward(const VerlConfig& c, Findings& f) {
  const VerlAlgorithm& a = c.algorithm;
  if (!a.use_kl_in_reward) {
    for (const char* key :
         {"algorithm.kl_ctrl.kl_coef", "algorithm.kl_ctrl.type", "algorithm.kl_ctrl.horizon",
          "algorithm.kl_ctrl.target_kl", "algorithm.kl_penalty"})
      if (f.has(key))
        f.warn(key,
               "has no effect without algorithm.use_kl_in_reward: the KL is in the loss "
               "(actor.use_kl_loss) or nowhere");
    return;
  }
  if (a.kl_type == VerlKlControl::fixed)
    for (const char* key : {"algorithm.kl_ctrl.horizon", "algorithm.kl_ctrl.target_kl"})
      if (f.has(key)) f.warn(key, "has no effect with kl_ctrl.type fixed");
  if (a.kl_penalty == KlKind::full)
    verl_problem(f, "algorithm.kl_penalty",
                 "full: verl has not implemented it; use kl, abs, mse or low_var_kl");
  if (c.actor.use_kl_loss)
    f.warn("algorithm.use_kl_in_reward",
           "the KL counts twice: in the reward and, by actor.use_kl_loss, in the loss");
}

void check_kl_loss(const VerlConfig& c, Findings& f) {
  const std::string actor = "actor_rollout_ref.actor.";
  if (!c.actor.use_kl_loss) {
    for (const char* key : {"kl_loss_coef", "kl_loss_type"})
      if (f.has(actor + key)) f.warn(actor + key, "has no effect without actor.use_kl_loss");
    return;
  }
  if (c.actor.kl_loss_type == KlKind::full)
    verl_problem(f, actor + "kl_loss_type",
                 "full: verl has not implemented it; use kl, abs, mse or low_var_kl");
  if (c.actor.kl_loss_coef == 0)
    f.warn(actor + "use_kl_loss", "kl_loss_coef is 0: the KL is computed and weighs nothing");
}

void check_loss(const VerlConfig& c, Findings& f) {
  const std::string actor = "actor_rollout_ref.actor.";
  if (f.has(actor + "clip_ratio") && c.actor.clip_ratio_low && c.actor.clip_ratio_high)
    f.warn(actor + "clip_ratio",
           "has no effect: clip_ratio_low {} and clip_ratio_high "
           "{} decide; set these, or make them ~",
           *c.actor.clip_ratio_low, *c.actor.clip_ratio_high);
  if (c.actor.loss_mode == PolicyLossKind::kimi15 && c.actor.dro_beta <= 0)
    verl_problem(f, actor + "policy_loss.dro_beta", "dro needs a number above 0");
  if (catalog::entry(c.actor.loss_mode).has(catalog::need::own_aggregation) &&
      f.has(actor + "loss_agg_mode"))
    f.warn(actor + "loss_agg_mode",
           "counts for the KL and the entropy alone: loss_mode {} averages over sequences",
           c.actor.loss_mode_name);
  if (c.actor.loss_agg_mode == LossAgg::seq_mean_token_constant)
    f.warn(actor + "loss_agg_mode",
           "verl's sum over a fixed length depends on the number of cards; here it does not");
  if (f.has(actor + "loss_scale_factor") &&
      c.actor.loss_agg_mode != LossAgg::seq_mean_token_constant)
    f.warn(actor + "loss_scale_factor",
           "has no effect without loss_agg_mode seq-mean-token-sum-norm");
  bool is_megatron = c.actor.strategy == VerlStrategy::megatron;
  const std::string unread = actor + (is_megatron ? "grad_clip" : "optim.clip_grad");
  if (f.has(unread))
    f.warn(unread, "has no effect: strategy {} reads actor.{}", is_megatron ? "megatron" : "fsdp",
           is_megatron ? "optim.clip_grad" : "grad_clip");
  if ((is_megatron ? c.actor.megatron.dtype : c.actor.fsdp_config.dtype) >= VerlDtype::float16)
    f.warn(actor + (is_megatron ? "megatron.dtype" : "fsdp_config.dtype"), k_half_as_single);
  if (c.actor.ulysses_sequence_parallel_size > 1 && !c.model.use_remove_padding)
    f.warn("actor_rollout_ref.model.use_remove_padding",
           "verl refuses false beside ulysses_sequence_parallel_size above 1; batches are always "
           "packed here");
}

/// verl's scheduler moves once per RL step, from a rate of 0; here each optimizer step moves it.
void warn_warmup(Findings& f, const VerlNumbers& n, const std::string& optim, const VerlOptim& o,
                 int64_t steps_per_step) {
  const bool is_counted = o.lr_warmup_steps >= 0;
  const int64_t warmup = warmup_steps_of(o, n.total_steps);
  if (is_counted ? o.lr_warmup_steps > 0 : o.lr_warmup_steps_ratio > 0)
    f.warn(optim + (is_counted ? "lr_warmup_steps" : "lr_warmup_steps_ratio"),
           "{} RL steps, here {} optimizer steps: each raises the rate, and the first has a share "
           "of it; in verl the rate rises once per RL step, and is 0 in the first",
           warmup, warmup * steps_per_step);
}

void check_schedule(const VerlConfig& c, Findings& f, const VerlNumbers& n) {
  const std::string optim = "actor_rollout_ref.actor.optim.";
  const VerlOptim& o = c.actor.optim;
  if (o.betas.size() != 2)
    verl_problem(f, optim + "betas", "{} numbers; AdamW has 2", o.betas.size());
  if (o.lr_warmup_steps >= 0 && f.has(optim + "lr_warmup_steps_ratio") &&
      o.lr_warmup_steps_ratio > 0)
    f.warn(optim + "lr_warmup_steps_ratio", "has no effect beside lr_warmup_steps");
  if (f.has(optim + "total_training_steps") && o.total_training_steps > 0)
    f.warn(optim + "total_training_steps",
           "has no effect: verl writes the trainer's number of steps over it");
  warn_warmup(f, n, optim, o, n.optimizer_steps_per_step);
  if (n.has_critic) warn_warmup(f, n, "critic.optim.", c.critic.optim, n.critic_steps_per_step);
  if (n.total_steps > 0 && o.lr_warmup_steps > n.total_steps)
    f.warn(optim + "lr_warmup_steps",
           "{} is more than the run's {} steps: the learning rate never reaches its peak",
           o.lr_warmup_steps, n.total_steps);
}

void check_filter(const VerlConfig& c, Findings& f) {
  const VerlFilterGroups& g = c.algorithm.filter_groups;
  if (g.enable && !g.metric && !f.broken.contains("algorithm.filter_groups.metric"))
    verl_problem(f, "algorithm.filter_groups.metric",
                 "missing: filter_groups.enable needs acc, score, seq_reward or seq_final_reward");
  if (!g.enable && c.data.gen_batch_size)
    f.warn("data.gen_batch_size", "has no effect without algorithm.filter_groups.enable");
  if (g.enable && c.data.gen_batch_size)
    f.warn("data.gen_batch_size",
           "has no effect: a step plays train_batch_size prompts, and one more at once for each "
           "that is left out, so that none is played in vain (docs/leases.md)");
  const std::string bound = "algorithm.filter_groups.max_num_gen_batches";
  if (g.enable && g.max_num_gen_batches > 0)
    f.warn(bound, "after {} batches the step trains on what there is; verl ends the run",
           g.max_num_gen_batches);
  else if (g.enable)
    f.warn(bound, "{} is no bound in verl; here a step trains on what there is after {} batches",
           g.max_num_gen_batches, DynamicSampling{}.max_num_gen_batches);
}

void check_correction(const VerlConfig& c, Findings& f) {
  const VerlRolloutCorrection& r = c.algorithm.rollout_correction;
  const std::string key = "algorithm.rollout_correction.";
  const std::string loss_mode = "actor_rollout_ref.actor.policy_loss.loss_mode";
  if (auto rules = catalog::parse_rejections(r.rollout_rs, r.rollout_rs_threshold); !rules)
    verl_problem(f, key + "rollout_rs", rules.error().detail);
  VerlRolloutCorrection weights = r;
  weights.rollout_rs.clear();
  if (!correction_of(weights))
    verl_problem(f, key + "rollout_is_threshold",
                 "'{}' is no bound: give a number above 0, or two as 0.5_5.0",
                 r.rollout_is_threshold);
  if (!r.bypass_mode && c.actor.loss_mode == PolicyLossKind::bypass_mode)
    verl_problem(f, loss_mode, "bypass_mode needs algorithm.rollout_correction.bypass_mode=True");
  if (!r.bypass_mode) {
    if (f.has(key + "loss_type")) f.warn(key + "loss_type", "has no effect without bypass_mode");
    return;
  }
  const bool is_named =
      c.actor.loss_mode != PolicyLossKind::ppo && c.actor.loss_mode != PolicyLossKind::bypass_mode;
  if (is_named)
    f.warn(loss_mode, "{} has no effect: bypass_mode decides, as in verl: loss_type {}",
           c.actor.loss_mode_name, to_string(r.loss_type));
  if (r.rollout_is && r.loss_type == VerlBypassLoss::ppo_clip)
    f.warn(key + "rollout_is",
           "has no effect: with bypass_mode and ppo_clip the clipped ratio is already to the "
           "engine's log-probabilities");
}

void check_critic(const VerlConfig& c, Findings& f, const VerlNumbers& n) {
  bool is_named = std::any_of(f.present.begin(), f.present.end(),
                              [](const auto& x) { return x.first.starts_with("critic."); });
  if (!n.has_critic && is_named)
    f.note("critic", "not built: adv_estimator {} has no use for it", c.algorithm.estimator_name);
  if (n.has_critic && !catalog::entry(c.algorithm.adv_estimator).has(catalog::need::critic))
    f.warn("critic.enable", "true, but adv_estimator {} never reads its values",
           c.algorithm.estimator_name);
  if (c.trainer.critic_warmup > 0 && n.has_critic)
    f.warn("trainer.critic_warmup",
           "the policy is not updated before step {} (in verl its rollout replicas stay asleep "
           "then)",
           c.trainer.critic_warmup);
  else if (c.trainer.critic_warmup > 0)
    f.warn("trainer.critic_warmup",
           "has no effect: there is no critic to warm up (verl would train nothing before step {})",
           c.trainer.critic_warmup);
}

/// Sizes in billions that a name tells: "qwen2_7b_rm" -> 7, "Qwen2.5-0.5B" -> 0.5.
std::vector<double> sizes_in(std::string_view name) {
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::vector<double> sizes;
  for (size_t i = 0; i < name.size(); ++i) {
    bool starts = is_digit(name[i]) && (i == 0 || (!is_word(name[i - 1]) && name[i - 1] != '.'));
    if (!starts) continue;
    double size = 0;
    auto [end, failure] =
        std::from_chars(name.data() + i, name.data() + name.size(), size, std::chars_format::fixed);
    auto after = static_cast<size_t>(end - name.data());
    if (failure != std::errc{} || after >= name.size()) continue;
    bool is_size = (name[after] == 'b' || name[after] == 'B') &&
                   (after + 1 == name.size() || !is_word(name[after + 1]));
    if (is_size) sizes.push_back(size);
  }
  return sizes;
}

void check_name(const VerlConfig& c, Findings& f) {
  std::string_view path = c.model.path;
  std::string_view model = path.substr(path.find_last_of('/') + 1);
  std::vector<double> real = sizes_in(model);
  std::vector<double> told = sizes_in(c.trainer.experiment_name);
  if (real.empty() || told.empty() || f.broken.contains("trainer.experiment_name")) return;
  for (double size : real) {
    std::string dotted = fmt::format("{}b", size);
    std::string lower = c.trainer.experiment_name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char x) { return x == '_' ? '.' : static_cast<char>(std::tolower(x)); });
    bool is_told = std::find(told.begin(), told.end(), size) != told.end();
    if (is_told || lower.find(dotted) != std::string::npos) return;
  }
  f.warn("trainer.experiment_name", "'{}' says {}B, but the model is {} ({}B)",
         c.trainer.experiment_name, told.front(), model, real.front());
}

void check_data(const VerlConfig& c, Findings& f) {
  if (f.has("data.truncation") && !f.broken.contains("data.truncation")) {
    std::string_view name = to_string(c.data.truncation);
    std::string here = c.data.truncation != PromptTruncation::error
                           ? "here a longer prompt is cut so"
                       : c.data.filter_overlong_prompts
                           ? "here filter_overlong_prompts has dropped such rows before"
                           : "here such a row is refused when the data are loaded";
    f.warn("data.truncation",
           "'{}': verl's RL path reads it nowhere, a prompt above max_prompt_length "
           "stops the run later with a tensor of the wrong size; {}",
           name, here);
  }
  f.warn("data.max_response_length",
         "verl lets the engine generate up to R + P - len(prompt) tokens and cuts the "
         "answer at R {}, its end with it; here generation stops at R",
         c.data.max_response_length);
}

void warn_engines(const VerlConfig& c, Findings& f) {
  f.warn("actor_rollout_ref.actor.strategy", "{}: not built in; the built-in engine is used",
         to_string(c.actor.strategy));
  if (c.rollout.name)
    f.warn("actor_rollout_ref.rollout.name", "{}: not built in; the built-in engine is used",
           to_string(*c.rollout.name));
}

void check_algorithm(const VerlConfig& c, Findings& f, VerlNumbers& n) {
  n.has_critic = c.critic.enable.value_or(
      catalog::entry(c.algorithm.adv_estimator).has(catalog::need::critic));
  n.is_reference_needed = c.actor.use_kl_loss || c.algorithm.use_kl_in_reward;
  check_estimator(c, f);
  check_kl_reward(c, f);
  check_kl_loss(c, f);
  check_loss(c, f);
  check_filter(c, f);
  check_correction(c, f);
  check_critic(c, f, n);
}

void check_rollout(const VerlConfig& c, Findings& f, const VerlNumbers& n) {
  const VerlRollout& r = c.rollout;
  const std::string rollout = "actor_rollout_ref.rollout.";
  if (!r.name && !f.broken.contains(rollout + "name"))
    verl_problem(f, rollout + "name", "missing: verl has no default; say vllm or sglang");
  if (n.prompt == 0 || n.response == 0) return;
  int64_t longest = n.prompt + n.response;
  int64_t bound = r.max_model_len.value_or(longest);
  if (bound < longest)
    f.warn(rollout + "max_model_len",
           "{} is less than {} = prompt {} + response {}: long prompts get short answers", bound,
           longest, n.prompt, n.response);
  const bool is_vllm = r.name == VerlEngine::vllm;  // SGLang cuts prompts by keys of its own
  if (is_vllm && !r.enable_chunked_prefill && r.max_num_batched_tokens < bound)
    verl_problem(f, rollout + "max_num_batched_tokens",
                 "{} is less than max_model_len {}, and enable_chunked_prefill is "
                 "false: a longest prompt would never be scheduled; use at least {}",
                 r.max_num_batched_tokens, bound, bound);
  if (r.val_kwargs.n > 1 && (!r.val_kwargs.do_sample || r.val_kwargs.temperature == 0))
    f.warn(rollout + "val_kwargs.n",
           "{} greedy answers to one prompt are the same answer: set "
           "val_kwargs.do_sample true and a temperature",
           r.val_kwargs.n);
}

void check_run(const VerlConfig& c, Findings& f, const InterpolationSources& sources) {
  const VerlTrainer& t = c.trainer;
  if (c.model.path.empty() && !f.broken.contains("actor_rollout_ref.model.path"))
    verl_problem(f, "actor_rollout_ref.model.path",
                 "missing: give a checkpoint folder or a Hugging Face name");
  for (const auto& [key, text] : {std::pair{"trainer.experiment_name", &t.experiment_name},
                                  std::pair{"trainer.project_name", &t.project_name}})
    if (std::filesystem::path name(*text);
        name.is_absolute() || std::ranges::count(name, std::filesystem::path("..")) > 0)
      verl_problem(f, key,
                   "'{}' leaves the folder of the runs; give a name, and the folder as "
                   "trainer.default_local_dir",
                   *text);
  if (t.save_freq == -1 || t.save_freq == 0)
    f.warn("trainer.save_freq",
           "{}: verl writes no checkpoint, not even after the last step: the trained weights are "
           "lost; a run here writes the first and the last",
           t.save_freq);
  if (t.resume_mode == VerlResume::resume_path && t.resume_from_path.empty())
    verl_problem(f, "trainer.resume_from_path", "missing: resume_mode resume_path needs it");
  if (t.resume_mode != VerlResume::resume_path && !t.resume_from_path.empty())
    f.warn("trainer.resume_from_path", "has no effect without resume_mode resume_path");
  if (t.val_before_train && t.test_freq <= 0)
    f.warn("trainer.val_before_train", "test_freq {}: a run here evaluates nothing, not even first",
           t.test_freq);
  if (!t.val_before_train && t.test_freq > 0)
    f.warn("trainer.val_before_train", "false: a run here evaluates before the first step as well");
  if (f.has("trainer.logger"))
    f.note("trainer.logger",
           "metrics go to the console, metrics.jsonl and TensorBoard, whatever it names");
  if (t.val_only && !t.val_before_train)
    f.warn("trainer.val_only", "nothing will happen: val_before_train is false");
  if (!f.has("trainer.device") && !f.has("platform"))
    f.warn("trainer.device",
           "not given: verl takes npu where torch_npu is installed, else cuda; taken for npu "
           "(trainer.device=cuda or platform=… says otherwise)");
  check_data(c, f);
  check_name(c, f);
  if (auto backend = sources.environment("VLLM_ATTENTION_BACKEND"))
    f.warn("VLLM_ATTENTION_BACKEND",
           "'{}' in the environment has no effect: on npu vLLM takes no notice of it, "
           "and the built-in engine has one attention",
           *backend);
}

}  // namespace

VerlNumbers check_verl(const VerlConfig& c, Findings& f, const InterpolationSources& sources) {
  VerlNumbers n;
  n.prompt = f.broken.contains("data.max_prompt_length")
                 ? 0
                 : c.rollout.prompt_length.value_or(c.data.max_prompt_length);
  n.response = f.broken.contains("data.max_response_length")
                   ? 0
                   : c.rollout.response_length.value_or(c.data.max_response_length);
  check_algorithm(c, f, n);
  check_verl_cards(c, f, n);
  check_verl_batches(c, f, n);
  check_verl_rows(c, f, n);
  check_schedule(c, f, n);
  check_rollout(c, f, n);
  check_run(c, f, sources);
  warn_engines(c, f);
  check_verl_run(c, f, n);
  return n;
}

}  // namespace cohort::config

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/role_cuts.hpp"
#include "runtime/config/roll/not_built.hpp"
#include "runtime/config/roll/roll_check.hpp"
#include "runtime/config/train_groups.hpp"
#include "runtime/config/verl/verl_check.hpp"
#include "runtime/config/verl/verl_rows.hpp"
#include "runtime/config/verl/verl_tools.hpp"
#include "runtime/model/lora.hpp"

namespace cohort::config {
namespace {

template <class E>
std::string written_name(E x) {
  return std::string(to_string(x));
}

ModelDtype dtype_of(VerlDtype x) {
  if (x <= VerlDtype::bf16) return ModelDtype::bf16;
  return x <= VerlDtype::fp32 ? ModelDtype::fp32 : ModelDtype::fp16;
}

std::string home_path(const std::string& path, const std::string& fallback) {
  return path.empty() ? fallback : path;
}

void set_run(RunConfig& r, const VerlConfig& c, const VerlNumbers& n, const Findings& f) {
  const VerlTrainer& t = c.trainer;
  r.dialect = Dialect::verl;
  r.pipeline = Pipeline::rlvr;
  r.exp_name = t.experiment_name;
  r.output_dir =
      home_path(c.output_dir, home_path(t.default_local_dir, "./checkpoints/" + t.project_name));
  if (!f.has("platform")) r.platform = f.has("trainer.device") ? t.device : Platform::npu;
  if (!f.has("seed") && c.data.seed && *c.data.seed >= 0) r.seed = *c.data.seed;
  r.max_steps = n.total_steps;
  r.save_steps = t.save_freq > 0 ? t.save_freq : -1;
  r.eval_steps = t.test_freq;
  r.keep_checkpoints = t.max_actor_ckpt_to_keep.value_or(0);
  r.resume_from_checkpoint = {t.resume_mode != VerlResume::disable, t.resume_from_path};
  r.save_hf = std::ranges::count(c.actor.save_contents, "hf_model") > 0;
  r.track_with = t.logger.empty() ? "" : t.logger.front();
  r.critic_warmup = std::max<int64_t>(0, t.critic_warmup - 1);  // verl's first step is step 1
  r.model_update_buffer_size_mb = c.rollout.bucket_megabytes;
  if (c.rollout.max_num_seqs > 0 && !f.has("max_running_requests"))
    r.max_running_requests = c.rollout.max_num_seqs;
}

void set_batches(RunConfig& r, const VerlConfig& c, const VerlNumbers& n) {
  r.rollout_batch_size = c.data.train_batch_size;
  r.num_return_sequences_in_group = c.rollout.sampling.n;
  r.sft.shuffle = c.data.shuffle;
  // verl's val_batch_size cuts the held-out rows into batches, and leaves none out.
  r.val_batch_size = c.data.val_max_samples > 0 ? c.data.val_max_samples : -1;
  if (c.rollout.val_kwargs.do_sample) r.rlvr.val_n_sample = c.rollout.val_kwargs.n;
  r.prompt_length = n.prompt;
  r.sequence_length = n.prompt + n.response;
  r.response_length = 0;
  r.ppo_epochs = c.actor.ppo_epochs;
}

/// bypass_mode decides over loss_mode, as in verl.
void set_loss(RunConfig& r, const VerlConfig& c) {
  const VerlActor& a = c.actor;
  const VerlRolloutCorrection& correction = c.algorithm.rollout_correction;
  PolicyLossKind kind = a.loss_mode;
  if (correction.bypass_mode)
    kind = correction.loss_type == VerlBypassLoss::reinforce ? PolicyLossKind::bypass_mode
                                                             : PolicyLossKind::ppo;
  r.actor_train.pg_variant = kind;
  r.dual_clip_loss = kind == PolicyLossKind::ppo;
  PolicyLossSection& x = r.policy_loss;
  x.dual_clip_bound = a.clip_ratio_c;
  if (kind == PolicyLossKind::kimi15) x.quadratic_coef = a.dro_beta;
  x.tau_pos = a.tau_pos;
  x.tau_neg = a.tau_neg;
  x.clip_cov_ratio = a.clip_cov_ratio;
  x.clip_cov_lb = a.clip_cov_lb;
  x.clip_cov_ub = a.clip_cov_ub;
  x.kl_cov_ratio = a.kl_cov_ratio;
  x.ppo_kl_coef = a.ppo_kl_coef;
  TrainInferCorrection& ours = r.train_infer_correction;
  ours.rejections = correction.rollout_rs;
  ours.rejection_thresholds = correction.rollout_rs_threshold;
  if (auto rules = correction_of(correction)) ours.rules = *rules;  // else there is a problem
}

void set_algorithm(RunConfig& r, const VerlConfig& c) {
  const VerlAlgorithm& a = c.algorithm;
  r.adv_estimator = a.adv_estimator;
  // Without these two verl's estimators spread one number over the tokens.
  const bool has_token_returns =
      a.adv_estimator == AdvEstimator::gae || a.adv_estimator == AdvEstimator::reinforce_plus_plus;
  r.gamma = has_token_returns ? a.gamma : 1;
  r.gdpo_reward_keys = a.gdpo_reward_keys;
  r.gdpo_reward_weights = a.gdpo_reward_weights;
  r.lambd = a.lam;
  r.init_kl_coef = a.use_kl_in_reward ? a.kl_coef : 0.0;
  r.add_token_level_kl = a.use_kl_in_reward;
  r.kl_penalty = a.kl_penalty;
  r.kl_horizon = a.kl_horizon;
  if (a.use_kl_in_reward && a.kl_type == VerlKlControl::adaptive) r.target_kl = a.target_kl;
  r.use_kl_loss = c.actor.use_kl_loss;
  r.kl_loss_coef = c.actor.use_kl_loss ? c.actor.kl_loss_coef : 0.0;
  r.kl_loss_kind = c.actor.kl_loss_type;
  r.is_kl_loss_straight_through = c.actor.kl_loss_name.ends_with('+');
  r.whiten_advantages = r.adv_estimator == AdvEstimator::gae;
  r.reward_normalization = {Grouping::batch, NormMethod::identity, {}, {}};
  if (r.adv_estimator == AdvEstimator::grpo) {
    r.norm_mean_type = NormScope::group;
    r.norm_std_type = a.norm_adv_by_std_in_grpo ? NormScope::group : NormScope::none;
    r.reward_normalization = {Grouping::traj_group_id,
                              a.norm_adv_by_std_in_grpo ? NormMethod::mean_std : NormMethod::mean,
                              {},
                              {}};
  }
  r.entropy_loss_coef = c.actor.entropy_coeff;
  bool is_megatron = c.actor.strategy == VerlStrategy::megatron;
  r.max_grad_norm = is_megatron ? c.actor.optim.clip_grad : c.actor.grad_clip;
  r.use_pg_clip_range = true;
  r.pg_clip_low = c.actor.clip_ratio_low.value_or(c.actor.clip_ratio);
  r.pg_clip_high = c.actor.clip_ratio_high.value_or(c.actor.clip_ratio);
  r.loss_agg_mode = c.actor.loss_agg_mode;
  if (r.loss_agg_mode == LossAgg::seq_mean_token_constant)
    r.loss_scale_factor = c.actor.loss_scale_factor.value_or(
        static_cast<double>(r.sequence_length - r.prompt_length));
  r.value_clip = c.critic.cliprange_value;
  r.enable_old_logprobs_recompute = c.actor.recompute_old_log_prob;
  r.force_disable_old_logprobs_recompute = !c.actor.recompute_old_log_prob;
  set_loss(r, c);
}

TrainingArgs training_args(const VerlOptim& o, const VerlNumbers& n, const VerlPasses& passes,
                           int64_t mini_per_rank) {
  TrainingArgs t;
  t.learning_rate = o.lr;
  t.weight_decay = o.weight_decay;
  t.adam_beta1 = o.betas[0];
  t.adam_beta2 = o.betas[1];
  t.per_device_train_batch_size = passes.is_dynamic ? mini_per_rank : passes.per_card;
  t.gradient_accumulation_steps = passes.is_dynamic ? 1 : mini_per_rank / passes.per_card;
  int64_t warmup = warmup_steps_of(o, n.total_steps);
  t.warmup_steps = warmup * n.optimizer_steps_per_step;
  VerlScheduler course = o.warmup_style.value_or(o.lr_scheduler_type);
  if (course == VerlScheduler::cosine)
    t.lr_scheduler_type =
        o.min_lr_ratio.value_or(0) > 0 ? SchedulerType::cosine_with_min_lr : SchedulerType::cosine;
  else
    t.lr_scheduler_type =
        warmup > 0 ? SchedulerType::constant_with_warmup : SchedulerType::constant;
  return t;
}

/// An expression for names, or the one that stands for them already. A name is a module's last
/// part, as in PEFT.
std::string pattern_of(const std::vector<std::string>& names) {
  if (names.size() == 1 && model::is_target_pattern(names.front())) return names.front();
  std::string text;
  for (const std::string& each : names) {  // one may be a list with commas
    if (each == "all-linear") return ".*";
    text += text.empty() ? "" : "|";
    for (const char x : each)
      if (x != ' ') text += x == ',' ? "|" : x == '.' ? "\\." : std::string(1, x);
  }
  return "(?:.*\\.)?(?:" + text + ")";
}

std::vector<std::string> lora_targets(const VerlLora& lora) {
  if (lora.excluded.empty()) return lora.targets;
  return {fmt::format("(?!(?:{})\\z)(?:{})", pattern_of(lora.excluded), pattern_of(lora.targets))};
}

void set_model(ModelArgs& m, const VerlModel& model, VerlDtype dtype, int64_t ulysses) {
  m.dtype = dtype_of(dtype);
  m.model_name_or_path = home_expanded(model.path);
  m.is_gradient_checkpointing = model.enable_gradient_checkpointing;
  m.ulysses_size = ulysses;
  m.lora_target.clear();
  m.lora_rank = model.lora.rank;
  m.lora_alpha = model.lora.alpha;
  if (model.lora.rank > 0) m.lora_target = lora_targets(model.lora);
  m.adapter_name_or_path = home_expanded(model.lora.adapter_path);
}

/// Engine of a training role, or of the reference.
void set_engine(WorkerConfig& w, VerlStrategy strategy, const VerlFsdp& fsdp, const VerlMegatron& m,
                int64_t dp, bool is_train) {
  StrategySettings& s = w.strategy_args;
  s.strategy_name = written_name(strategy);
  s.data_parallel_size = dp;
  if (strategy != VerlStrategy::megatron) {
    s.strategy = is_train ? Strategy::fsdp2_train : Strategy::fsdp2_infer;
    s.fsdp_size = std::max<int64_t>(0, fsdp.fsdp_size);
    s.reshard_after_forward = fsdp.reshard_after_forward;
    w.param_offload = fsdp.param_offload || fsdp.offload_policy;
    w.optimizer_offload = fsdp.optimizer_offload || fsdp.offload_policy;
    s.offload_param = fsdp.offload_policy || (!is_train && fsdp.param_offload);
    s.offload_optimizer = fsdp.offload_policy;
    return;
  }
  s.strategy = is_train ? Strategy::megatron_train : Strategy::megatron_infer;
  s.tensor_parallel_size = m.tensor_model_parallel_size;
  s.pipeline_parallel_size = m.pipeline_model_parallel_size;
  s.context_parallel_size = m.context_parallel_size;
  s.expert_parallel_size = m.expert_model_parallel_size;
  s.virtual_pipeline_size = m.virtual_pipeline_model_parallel_size.value_or(1);
  s.sequence_parallel = m.sequence_parallel;
  s.use_distributed_optimizer = m.use_distributed_optimizer;
  const Node* recomputed = m.override_transformer_config.at_path("recompute_granularity");
  s.recompute_granularity_full = recomputed != nullptr && recomputed->scalar == "full";
  w.param_offload = m.param_offload;
  w.optimizer_offload = m.optimizer_offload;
}

VerlDtype engine_dtype(VerlStrategy strategy, const VerlFsdp& fsdp, const VerlMegatron& m) {
  return strategy == VerlStrategy::megatron ? m.dtype : fsdp.dtype;
}

GeneratingArgs sampling_args(const VerlSampling& s, int64_t response) {
  GeneratingArgs g;
  g.max_new_tokens = response;
  g.temperature = s.do_sample ? s.temperature : 0.0;
  g.top_p = s.top_p;
  g.top_k = std::max<int64_t>(0, s.top_k);
  g.num_return_sequences = s.n;
  return g;
}

void set_passes(WorkerConfig& w, const VerlPasses& passes) {
  if (passes.per_card > 0) w.infer_batch_size = passes.per_card;
}

DataArgs data_args(const VerlData& d, const std::vector<std::string>& files) {
  DataArgs data;
  data.is_configured = true;
  for (const std::string& file : files) data.file_name.push_back(home_expanded(file));
  data.messages = d.prompt_key;  // a column of messages, as verl wants
  data.prompt = d.prompt_key;
  data.tag = d.reward_fn_key;
  data.dataset_type = "parquet";
  data.chat_template_kwargs = d.apply_chat_template_kwargs;
  data.filter_overlong_prompts = d.filter_overlong_prompts;
  data.truncation = d.truncation;
  return data;
}

void set_actor(RunConfig& r, const VerlConfig& c, const VerlNumbers& n) {
  WorkerConfig& w = r.actor_train;
  const VerlActor& a = c.actor;
  w.is_configured = true;
  set_model(w.model_args, c.model, engine_dtype(a.strategy, a.fsdp_config, a.megatron),
            a.ulysses_sequence_parallel_size);
  w.training_args = training_args(a.optim, n, n.train, n.mini_batch_per_rank);
  set_engine(w, a.strategy, a.fsdp_config, a.megatron, n.train_dp, true);
  set_passes(w, n.log_prob);
  w.data_args = data_args(c.data, c.data.train_files);
}

void set_rollout(RunConfig& r, const VerlConfig& c, const VerlNumbers& n) {
  WorkerConfig& w = r.actor_infer;
  const VerlRollout& o = c.rollout;
  w.is_configured = true;
  set_model(w.model_args, c.model, o.dtype, 1);
  w.generating_args = sampling_args(o.sampling, n.response);
  StrategySettings& s = w.strategy_args;
  s.strategy_name = o.name ? written_name(*o.name) : "";
  s.strategy = o.name == VerlEngine::sglang ? Strategy::sglang
               : o.name == VerlEngine::hf   ? Strategy::hf_infer
                                            : Strategy::vllm;
  s.tensor_parallel_size = o.tensor_model_parallel_size;
  s.pipeline_parallel_size = o.pipeline_model_parallel_size;
  s.expert_parallel_size = o.expert_parallel_size;
  s.data_parallel_size = n.rollout_cards / s.tensor_parallel_size / s.pipeline_parallel_size;
  s.gpu_memory_utilization = o.gpu_memory_utilization;
  s.max_model_len = o.max_model_len.value_or(n.prompt + n.response);
  s.max_num_batched_tokens = o.max_num_batched_tokens;
  s.max_num_seqs = o.max_num_seqs;
  s.enforce_eager = o.enforce_eager;
  s.enable_prefix_caching = o.enable_prefix_caching;
  s.enable_chunked_prefill = o.enable_chunked_prefill;
  s.free_cache_engine = o.free_cache_engine;
  s.load_format = o.load_format;
  s.sleep_level = c.model.lora.is_asked() ? 1 : 2;  // adapters keep the base
  r.validation.is_configured = true;
  r.validation.data_args = data_args(c.data, c.data.val_files);
  r.validation.generating_args = sampling_args(o.val_kwargs, n.response);
}

void set_reference(RunConfig& r, const VerlConfig& c, const VerlNumbers& n) {
  // with adapters the reference is the policy with its adapter off: no weights of its own
  if (!n.is_reference_needed || (c.model.lora.is_asked() && c.ref.path.empty())) return;
  WorkerConfig& w = r.reference;
  VerlStrategy strategy = c.ref.strategy.value_or(c.actor.strategy);
  w.is_configured = true;
  set_model(w.model_args, c.model, engine_dtype(strategy, c.ref.fsdp_config, c.ref.megatron),
            c.ref.ulysses_sequence_parallel_size.value_or(c.actor.ulysses_sequence_parallel_size));
  w.model_args.is_gradient_checkpointing = false;
  w.model_args.lora_target.clear();
  w.model_args.adapter_name_or_path.clear();
  if (!c.ref.path.empty()) w.model_args.model_name_or_path = home_expanded(c.ref.path);
  set_engine(w, strategy, c.ref.fsdp_config, c.ref.megatron, n.ref_dp, false);
  set_passes(w, n.ref);
}

void set_critic(RunConfig& r, const VerlConfig& c, const VerlNumbers& n) {
  if (!n.has_critic) return;
  WorkerConfig& w = r.critic;
  const VerlCritic& k = c.critic;
  w.is_configured = true;
  VerlFsdp fsdp = k.model.fsdp_config;
  fsdp.param_offload = fsdp.param_offload || k.fsdp.param_offload;
  fsdp.optimizer_offload = fsdp.optimizer_offload || k.fsdp.optimizer_offload;
  set_model(w.model_args, k.model, engine_dtype(k.strategy, fsdp, k.megatron),
            k.ulysses_sequence_parallel_size);
  if (w.model_args.model_name_or_path.empty()) w.model_args.model_name_or_path = c.model.path;
  r.reward_pretrain = w.model_args.model_name_or_path;
  w.training_args = training_args(k.optim, n, n.critic, n.critic_mini_per_rank);
  set_engine(w, k.strategy, fsdp, k.megatron, n.critic_dp, true);
  set_passes(w,
             {k.forward.micro_batch_size_per_gpu.value_or(n.critic.per_card), n.critic.is_dynamic,
              k.forward.max_token_len_per_gpu.value_or(n.critic.tokens_max)});
}

std::vector<uint32_t> card_range(int64_t nodes, int64_t per_node, int64_t stride, int64_t first) {
  std::vector<uint32_t> ids;
  for (int64_t node = 0; node < nodes; ++node)
    for (int64_t i = 0; i < per_node; ++i)
      ids.push_back(static_cast<uint32_t>(node * stride + first + i));
  return ids;
}

/// hybrid_engine: every role on every card. Else two pools: on the same hosts when both have as
/// many nodes and fit (num_gpus_per_node, or their sum), on further hosts when not.
void set_cards(RunConfig& r, const VerlConfig& c, const VerlNumbers& n, Findings& f) {
  const VerlTrainer& t = c.trainer;
  int64_t nodes = c.rollout_pool.nnodes.value_or(0);
  int64_t per_node = c.rollout_pool.n_gpus_per_node.value_or(0);
  std::vector<uint32_t> train;
  std::vector<uint32_t> infer;
  if (c.hybrid_engine) {
    r.num_gpus_per_node = c.num_gpus_per_node.value_or(t.n_gpus_per_node);
    r.num_nodes = t.nnodes;
    train = card_range(t.nnodes, t.n_gpus_per_node, r.num_gpus_per_node, 0);
    infer = train;
  } else {
    int64_t both = t.n_gpus_per_node + per_node;
    bool is_shared = nodes == t.nnodes && c.num_gpus_per_node.value_or(both) >= both;
    int64_t widest = std::max(t.n_gpus_per_node, per_node);
    r.num_gpus_per_node = c.num_gpus_per_node.value_or(is_shared ? both : widest);
    r.num_nodes = is_shared ? nodes : t.nnodes + nodes;
    train = card_range(t.nnodes, t.n_gpus_per_node, r.num_gpus_per_node, 0);
    int64_t first = is_shared ? t.n_gpus_per_node : t.nnodes * r.num_gpus_per_node;
    infer = card_range(nodes, per_node, r.num_gpus_per_node, first);
    f.warn("actor_rollout_ref.hybrid_engine",
           "false: the pools of trainer and rollout are laid out on {} (say "
           "num_gpus_per_node to change it)",
           is_shared
               ? fmt::format("the same hosts, {} + {} cards each", t.n_gpus_per_node, per_node)
               : fmt::format("hosts of their own, {} + {}", t.nnodes, nodes));
  }
  if (!f.has("placement.mode"))
    r.placement.mode = c.hybrid_engine ? PlacementMode::timeshare : PlacementMode::separate;
  if (!f.has("placement.offload") && r.placement.mode == PlacementMode::timeshare)
    r.placement.offload = OffloadPolicy::step;
  r.actor_train.device_mapping = train;
  r.actor_infer.device_mapping = infer;
  if (r.reference.is_configured) r.reference.device_mapping = train;
  if (n.has_critic) r.critic.device_mapping = train;
}

/// One scorer for all rows, and with reward manager dapo the penalty of long answers.
void set_reward(RunConfig& r, const VerlConfig& c) {
  const VerlReward& verl = c.reward;
  const bool is_own = !verl.function_path.empty();
  RewardConfig reward;
  reward.type = is_own ? RewardType::plugin : RewardType::data_source;
  reward.tag_included = {"*"};
  if (is_own) {
    const std::string& name = verl.function_name;
    reward.plugin = verl.function;
    reward.plugin.path = verl.function_path + ":" + (name.empty() ? "compute_score" : name);
  }
  r.rewards.clear();
  r.rewards[is_own ? "custom_reward_function" : "data_source"] = reward;
  if (!verl.overlong_buffer.enable) return;
  RewardConfig overlong;
  overlong.type = RewardType::overlong;
  overlong.tag_included = {"*"};
  overlong.plugin.args = fmt::format(R"({{"buffer": {}, "factor": {}}})", verl.overlong_buffer.len,
                                     verl.overlong_buffer.penalty_factor);
  r.rewards["overlong"] = overlong;
}

/// DAPO's dynamic sampling. seq_final_reward is less verl's KL in the reward, which is not run.
void set_filter(RunConfig& r, const VerlFilterGroups& verl) {
  if (!verl.enable) return;
  DynamicSampling& sampling = r.dynamic_sampling;
  sampling.filter.type = GroupFilter::std_filter;
  const VerlGroupMetric metric = verl.metric.value_or(VerlGroupMetric::acc);
  sampling.metric = metric == VerlGroupMetric::acc     ? FilterMetric::acc
                    : metric == VerlGroupMetric::score ? FilterMetric::score
                                                       : FilterMetric::reward;
  if (verl.max_num_gen_batches > 0) sampling.max_num_gen_batches = verl.max_num_gen_batches;
}

void set_section(VerlSection& v, const VerlConfig& c, const VerlNumbers& n) {
  v.hybrid_engine = c.hybrid_engine;
  v.ppo_mini_batch_size = c.actor.ppo_mini_batch_size;
  v.ppo_micro_batch_size_per_gpu = n.train.per_card;
  v.log_prob_micro_batch_size_per_gpu = n.log_prob.per_card;
  v.use_dynamic_bsz = n.train.is_dynamic;
  v.ppo_max_token_len_per_gpu = n.train.tokens_max;
  v.log_prob_use_dynamic_bsz = n.log_prob.is_dynamic;
  v.ref_log_prob_use_dynamic_bsz = n.ref.is_dynamic;
  v.ref_log_prob_max_token_len_per_gpu = n.ref.tokens_max;
  v.train_rows = n.train_rows;
  v.total_epochs = c.trainer.total_epochs;
  v.total_training_steps = c.trainer.total_training_steps.value_or(0);
  v.val_before_train = c.trainer.val_before_train;
  v.agent_workers = c.rollout.agent_num_workers;
  const Node* swap = c.actor.megatron.override_transformer_config.at_path("swap_optimizer");
  v.swap_optimizer = swap != nullptr && as_bool(*swap).value_or(false);
}

int64_t passes_of(const VerlPasses& passes, int64_t trajectories) {
  return passes.per_card == 0 ? 0 : (trajectories + passes.per_card - 1) / passes.per_card;
}

void set_baseline(Derived& d, const VerlConfig& c) {
  const AdvEstimator estimator = c.algorithm.adv_estimator;
  d.has_group_baseline =
      catalog::entry(estimator).has(catalog::need::groups) && c.rollout.sampling.n > 1;
  if (!d.has_group_baseline)
    d.group_baseline = "none";
  else if (estimator == AdvEstimator::grpo)
    d.group_baseline = c.algorithm.norm_adv_by_std_in_grpo
                           ? "(score - mean) / deviation over the answers of a prompt"
                           : "score - mean over the answers of a prompt (Dr.GRPO)";
  else
    d.group_baseline = c.algorithm.estimator_name + " over the answers of a prompt";
}

void set_derived(DerivedCritic& d, const RunConfig& r, const VerlConfig& c, const VerlNumbers& n) {
  d.optimizer_batch = n.critic_mini_per_rank * n.critic_dp;
  d.ppo_epochs = c.critic.ppo_epochs.value_or(c.actor.ppo_epochs);
  d.optimizer_steps_per_step = n.critic_steps_per_step;
  d.total_optimizer_steps = n.total_steps * d.optimizer_steps_per_step;
  d.warmup_steps = warmup_steps_of(c.critic.optim, n.total_steps) * d.optimizer_steps_per_step;
  const bool is_megatron = c.critic.strategy == VerlStrategy::megatron;
  d.max_grad_norm = is_megatron ? c.critic.optim.clip_grad : c.critic.grad_clip;
  d.loss_agg = r.loss_agg_mode;
}

void set_derived(RunConfig& r, const VerlConfig& c, const VerlNumbers& n) {
  Derived& d = r.derived;
  d = n;
  d.group_size = c.rollout.sampling.n;
  d.val_group_size = r.rlvr.val_n_sample;
  d.optimizer_batch = n.mini_batch_per_rank * n.train_dp;
  d.total_optimizer_steps = n.total_steps * n.optimizer_steps_per_step;
  d.warmup_steps = r.actor_train.training_args.warmup_steps;
  d.groups_per_step = c.data.train_batch_size;
  d.num_nodes = r.num_nodes;
  bool is_on_policy = n.optimizer_steps_per_step == 1;
  d.recompute_old_log_prob = !is_on_policy || c.actor.recompute_old_log_prob;
  const bool is_corrected =
      !c.algorithm.rollout_correction.bypass_mode && r.train_infer_correction.rules.is_asked();
  d.recompute_old_log_prob = d.recompute_old_log_prob || is_corrected;
  if (c.algorithm.rollout_correction.bypass_mode) d.recompute_old_log_prob = false;
  d.old_log_probs = c.algorithm.rollout_correction.bypass_mode ? OldLogProbs::behavior
                    : d.recompute_old_log_prob                 ? OldLogProbs::recomputed
                                                               : OldLogProbs::first_pass;
  d.recompute_reason =
      c.algorithm.rollout_correction.bypass_mode ? "bypass_mode: the engine's are the old ones"
      : is_corrected  ? "rollout_correction compares them with the engine's"
      : !is_on_policy ? fmt::format("{} optimizer steps per RL step: the later ones are off-policy",
                                    n.optimizer_steps_per_step)
      : c.actor.recompute_old_log_prob ? "on-policy, but verl computes them for its metrics "
                                         "(recompute_old_log_prob=false skips it)"
                                       : "on-policy: taken from the update's own forward pass";
  set_baseline(d, c);
  d.gradient_accumulation = n.train.per_card == 0 ? 0 : n.mini_batch_per_rank / n.train.per_card;
  d.log_prob_passes = passes_of(n.log_prob, n.trajectories_per_rank);
  if (n.is_reference_needed && n.ref_dp > 0)
    d.ref_log_prob_passes = passes_of(n.ref, n.trajectories_per_step / n.ref_dp);
  d.dropped_rows = n.train_rows - n.steps_per_epoch * c.data.train_batch_size;
  if (n.has_critic) set_derived(d.critic, r, c, n);
}

/// What cannot run beside training.
void set_async(RunConfig& r, Findings& f) {
  if (r.async.mode == AsyncMode::sync) return;
  const Derived& d = r.derived;
  const auto refuse_if = [&](bool is_asked, const char* key, const std::string& text) {
    if (is_asked) f.warn(key, "{}{}", k_not_run, text);
  };
  refuse_if(d.old_log_probs != OldLogProbs::behavior, "algorithm.rollout_correction.bypass_mode",
            "False beside training: the policy that begins the update has not sampled, and nothing "
            "weighs that; use True");
  refuse_if(r.placement.mode == PlacementMode::timeshare, "async.mode",
            fmt::format("{} on shared cards: roles that take turns cannot generate while others "
                        "train; use actor_rollout_ref.hybrid_engine=False with a rollout pool",
                        to_string(r.async.mode)));
  refuse_if(has_group_filter(r), "algorithm.filter_groups.enable",
            "True beside training: a checkpoint could not say which groups that were played ahead "
            "are left out; use False, or async.mode=sync");
  refuse_if(d.is_reference_needed, "actor_rollout_ref.actor.use_kl_loss",
            "the reference is on the trainer's cards, where it cannot compute beside the update; "
            "with a pool of the rollout's own use False, or async.mode=sync");
  check_async(r, f);
}

/// The cuts that a run makes otherwise.
void note_cuts(const RunConfig& r, Findings& f) {
  const auto note = [&f](const char* key, std::string_view name, const WorkerConfig& role,
                         bool is_trained) {
    if (role.device_mapping.empty()) return;
    if (const std::string text = cut_in_run(name, role, is_trained); !text.empty())
      f.note(key, "{}", text);
  };
  note("actor_rollout_ref.actor", "actor_train", r.actor_train, true);
  note("actor_rollout_ref.rollout", "actor_infer", r.actor_infer, false);
  note("actor_rollout_ref.ref", "reference", r.reference, false);
  note("critic", "critic", r.critic, true);
}

}  // namespace

RunConfig translate_verl(const VerlConfig& c, const VerlNumbers& n, Findings& f) {
  RunConfig r = c.cohort;
  r.pretrain = home_expanded(c.model.path);
  set_run(r, c, n, f);
  set_batches(r, c, n);
  set_algorithm(r, c);
  set_actor(r, c, n);
  set_rollout(r, c, n);
  set_reference(r, c, n);
  set_critic(r, c, n);
  set_cards(r, c, n, f);
  set_reward(r, c);
  set_verl_tools(r, c.rollout.multi_turn, f);
  set_filter(r, c.algorithm.filter_groups);
  set_section(r.verl, c, n);
  set_distillation(r, c, f);
  set_derived(r, c, n);
  set_async(r, f);
  note_cuts(r, f);
  return r;
}

}  // namespace cohort::config

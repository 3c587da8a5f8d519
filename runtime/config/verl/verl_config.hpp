#pragma once
/// verl's configuration as it is written: members are named and nested as verl's dotted keys, with
/// the defaults of its repository (HEAD of 2026-01-29). Only what decides something here has a
/// member; the rest of verl's schema is in describe_verl() as keys without effect. Owner:
/// load_verl() fills one, translate_verl() reads it. Value types.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

enum class VerlStrategy : uint8_t { fsdp, fsdp2, megatron, veomni };
constexpr std::string_view names_of(VerlStrategy) { return "fsdp fsdp2 megatron veomni"; }
enum class VerlEngine : uint8_t { vllm, sglang, trtllm, hf, sglang_async };
constexpr std::string_view names_of(VerlEngine) { return "vllm sglang trtllm hf sglang_async"; }
enum class VerlRolloutMode : uint8_t { async, sync };
constexpr std::string_view names_of(VerlRolloutMode) { return "async sync"; }
enum class VerlKlControl : uint8_t { fixed, adaptive };
constexpr std::string_view names_of(VerlKlControl) { return "fixed adaptive"; }
enum class VerlScheduler : uint8_t { constant, cosine };
constexpr std::string_view names_of(VerlScheduler) { return "constant cosine"; }
enum class VerlResume : uint8_t { automatic, disable, resume_path };
constexpr std::string_view names_of(VerlResume) { return "auto disable resume_path"; }
enum class VerlGroupMetric : uint8_t { acc, score, seq_reward, seq_final_reward };
constexpr std::string_view names_of(VerlGroupMetric) {
  return "acc score seq_reward seq_final_reward";
}
enum class VerlDtype : uint8_t { bfloat16, bf16, float32, fp32, float16, fp16, half };
constexpr std::string_view names_of(VerlDtype) {
  return "bfloat16 bf16 float32 fp32 float16 fp16 half";
}
enum class VerlBypassLoss : uint8_t { ppo_clip, reinforce };
constexpr std::string_view names_of(VerlBypassLoss) { return "ppo_clip reinforce"; }
enum class VerlCorrection : uint8_t { token, sequence };
constexpr std::string_view names_of(VerlCorrection) { return "token sequence"; }

struct VerlData {
  std::vector<std::string> train_files = {"~/data/rlhf/gsm8k/train.parquet"};
  std::vector<std::string> val_files = {"~/data/rlhf/gsm8k/test.parquet"};
  int64_t train_max_samples = -1;  // [rows]; -1: all
  int64_t val_max_samples = -1;
  std::string prompt_key = "prompt";
  std::string reward_fn_key = "data_source";
  std::string apply_chat_template_kwargs = "{}";  // JSON object
  int64_t max_prompt_length = 512;                // [tokens]
  int64_t max_response_length = 512;              // [tokens]
  int64_t train_batch_size = 1024;                // [prompts]
  std::optional<int64_t> gen_batch_size;          // [prompts] of one generation, DAPO
  std::optional<int64_t> val_batch_size;          // [prompts]; none: the whole set
  bool shuffle = true;
  std::optional<int64_t> seed;
  bool filter_overlong_prompts = false;
  PromptTruncation truncation = PromptTruncation::error;
  std::optional<int64_t> train_rows;  // ours: rows of train_files, while they are not there
};

struct VerlLora {
  int64_t rank = 0;
  int64_t alpha = 16;
  std::vector<std::string> targets = {"all-linear"};
  std::vector<std::string> excluded;
  std::string adapter_path;  // a PEFT folder to start from
  bool is_asked() const { return rank > 0 || !adapter_path.empty(); }
};

/// model.lora: adapters of the megatron engine, by its names of layers.
struct VerlMegatronLora {
  int64_t rank = 0;
  int64_t alpha = 32;
  std::vector<std::string> targets = {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"};
  std::vector<std::string> excluded;
};

/// fsdp_config of an engine.
struct VerlFsdp {
  bool param_offload = false;
  bool optimizer_offload = false;
  bool offload_policy = false;  // fsdp2: weights, gradients and optimizer live on the host
  bool reshard_after_forward = true;
  int64_t fsdp_size = -1;  // cards that share one copy; -1: all
  VerlDtype dtype = VerlDtype::bfloat16;
};

struct VerlModel {
  std::string path;
  std::string tokenizer_path;
  bool enable_gradient_checkpointing = true;
  bool enable_activation_offload = false;
  bool use_remove_padding = true;
  VerlLora lora;
  VerlMegatronLora megatron_lora;
  VerlFsdp fsdp_config;  // of the critic, which keeps it here
};

struct VerlOptim {
  double lr = 1e-6;
  int64_t lr_warmup_steps = -1;  // [RL steps]; negative: the ratio decides
  double lr_warmup_steps_ratio = 0.0;
  int64_t total_training_steps = -1;
  double weight_decay = 0.01;
  std::vector<double> betas = {0.9, 0.999};
  double clip_grad = 1.0;
  std::optional<double> min_lr_ratio = 0.0;
  double num_cycles = 0.5;
  VerlScheduler lr_scheduler_type = VerlScheduler::constant;
  std::optional<VerlScheduler> warmup_style;  // the older name
};

struct VerlMegatron {
  bool param_offload = false;
  bool grad_offload = false;
  bool optimizer_offload = false;
  int64_t tensor_model_parallel_size = 1;
  int64_t expert_model_parallel_size = 1;
  std::optional<int64_t> expert_tensor_parallel_size;
  int64_t pipeline_model_parallel_size = 1;
  std::optional<int64_t> virtual_pipeline_model_parallel_size;
  int64_t context_parallel_size = 1;
  bool sequence_parallel = true;
  bool use_distributed_optimizer = true;
  VerlDtype dtype = VerlDtype::bfloat16;
  Node override_transformer_config;  // free: MindSpeed's and Megatron's own switches
};

/// Batch keys that actor, reference, rollout and critic share in meaning.
struct VerlMicro {
  std::optional<int64_t> micro_batch_size;          // deprecated: over all cards
  std::optional<int64_t> micro_batch_size_per_gpu;  // [trajectories]
  std::optional<bool> use_dynamic_bsz;              // none: the actor's
  std::optional<int64_t> max_token_len_per_gpu;     // [tokens]; none: the actor's
};

struct VerlActor {
  std::vector<std::string> save_contents = {"model", "optimizer", "extra"};
  VerlStrategy strategy = VerlStrategy::fsdp;
  int64_t ppo_mini_batch_size = 256;  // [prompts]
  VerlMicro micro;
  int64_t ppo_epochs = 1;
  bool shuffle = false;
  std::optional<int64_t> data_loader_seed = 42;
  double clip_ratio = 0.2;
  std::optional<double> clip_ratio_low = 0.2;  // none: clip_ratio
  std::optional<double> clip_ratio_high = 0.2;
  double clip_ratio_c = 3.0;
  double tau_pos = 1.0;  // sapo
  double tau_neg = 1.05;
  PolicyLossKind loss_mode = PolicyLossKind::ppo;
  std::string loss_mode_name = "vanilla";  // as written, like the other names
  bool use_gpg_loss = false;               // the older name of loss_mode gpg
  double clip_cov_ratio = 0.0002;
  double clip_cov_lb = 1.0;
  double clip_cov_ub = 5.0;
  double kl_cov_ratio = 0.0002;
  double ppo_kl_coef = 0.1;
  double dro_beta = 0.0;  // dro; above 0
  LossAgg loss_agg_mode = LossAgg::token_mean;
  std::optional<double> loss_scale_factor;  // of seq-mean-token-sum-norm; none: R
  double entropy_coeff = 0.0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0.001;
  KlKind kl_loss_type = KlKind::k3;
  std::string kl_loss_name = "low_var_kl";
  double grad_clip = 1.0;
  int64_t ulysses_sequence_parallel_size = 1;
  bool recompute_old_log_prob = true;  // the A3 recipe's key
  VerlOptim optim;
  VerlFsdp fsdp_config;
  VerlMegatron megatron;
};

struct VerlRef {
  std::string path;                      // ref.model.path; empty: the policy's
  std::optional<VerlStrategy> strategy;  // none: the actor's
  VerlMicro micro;
  std::optional<int64_t> ulysses_sequence_parallel_size;
  VerlFsdp fsdp_config;
  VerlMegatron megatron;
};

struct VerlSampling {
  double temperature = 1.0;
  int64_t top_k = -1;
  double top_p = 1.0;
  bool do_sample = true;
  int64_t n = 1;
};

struct VerlMultiTurn {
  bool enable = false;
  std::optional<int64_t> max_assistant_turns;
  std::optional<int64_t> max_user_turns;
  int64_t max_parallel_calls = 1;
  int64_t max_tool_response_length = 256;  // [characters]
  CutSide tool_response_truncate_side = CutSide::middle;
  ToolFormat format = ToolFormat::hermes;
  std::string tool_config_path;
  std::string interaction_config_path;
};

struct VerlRollout {
  std::optional<VerlEngine> name;
  VerlRolloutMode mode = VerlRolloutMode::async;
  VerlSampling sampling;
  VerlSampling val_kwargs = {0.0, -1, 1.0, false, 1};
  std::optional<int64_t> prompt_length;    // none: data.max_prompt_length
  std::optional<int64_t> response_length;  // none: data.max_response_length
  VerlDtype dtype = VerlDtype::bfloat16;
  double gpu_memory_utilization = 0.5;
  bool enforce_eager = false;
  bool free_cache_engine = true;
  int64_t tensor_model_parallel_size = 2;
  int64_t data_parallel_size = 1;
  int64_t expert_parallel_size = 1;
  int64_t pipeline_model_parallel_size = 1;
  int64_t max_num_batched_tokens = 8192;
  std::optional<int64_t> max_model_len;
  int64_t max_num_seqs = 256;
  bool enable_chunked_prefill = true;
  bool enable_prefix_caching = true;
  std::string load_format = "dummy";
  VerlMicro micro;
  VerlMultiTurn multi_turn;
  bool calculate_log_probs = false;
  int64_t agent_num_workers = 8;
  int64_t bucket_megabytes = 2048;
};

struct VerlCritic {
  VerlCritic() { optim.lr = 1e-5; }
  std::optional<bool> enable;  // none: gae builds one
  VerlStrategy strategy = VerlStrategy::fsdp;
  VerlOptim optim;
  VerlModel model;
  VerlFsdp fsdp;  // the newer place of model.fsdp_config
  VerlMegatron megatron;
  std::optional<int64_t> ppo_mini_batch_size;  // [prompts]; none: the actor's
  VerlMicro micro;
  VerlMicro forward;
  std::optional<int64_t> ppo_epochs;
  double cliprange_value = 0.5;
  double grad_clip = 1.0;
  int64_t ulysses_sequence_parallel_size = 1;
};

struct VerlOverlongBuffer {
  bool enable = false;
  int64_t len = 0;  // [tokens]
  double penalty_factor = 1.0;
};

struct VerlReward {
  std::string function_path;
  std::string function_name = "compute_score";
  PluginSection function;         // args: reward_kwargs; the rest is ours: its processes
  std::string manager = "naive";  // "": naive
  VerlOverlongBuffer overlong_buffer;
  std::optional<bool> is_model_enabled = false;
  std::string model_path;
};

struct VerlFilterGroups {
  bool enable = false;
  std::optional<VerlGroupMetric> metric;
  int64_t max_num_gen_batches = 0;  // 0 or less: no bound
};

struct VerlRolloutCorrection {
  std::optional<VerlCorrection> rollout_is;
  std::string rollout_is_threshold = "2.0";  // a bound, or "lo_hi": outside the weight is 0
  bool rollout_is_batch_normalize = false;
  std::string rollout_rs;            // comma list; "": none
  std::string rollout_rs_threshold;  // "lo_hi", a number, or ""
  bool bypass_mode = false;
  VerlBypassLoss loss_type = VerlBypassLoss::ppo_clip;
};

struct VerlAlgorithm {
  AdvEstimator adv_estimator = AdvEstimator::gae;
  std::string estimator_name = "gae";
  double gamma = 1.0;
  double lam = 1.0;
  bool norm_adv_by_std_in_grpo = true;
  std::vector<std::string> gdpo_reward_keys;
  std::vector<double> gdpo_reward_weights;
  bool use_kl_in_reward = false;
  KlKind kl_penalty = KlKind::kl;
  std::string kl_penalty_name = "kl";
  VerlKlControl kl_type = VerlKlControl::fixed;
  double kl_coef = 0.001;
  int64_t kl_horizon = 10000;
  double target_kl = 0.1;
  bool use_pf_ppo = false;
  VerlFilterGroups filter_groups;
  VerlRolloutCorrection rollout_correction;
};

struct VerlTrainer {
  int64_t total_epochs = 30;
  std::optional<int64_t> total_training_steps;
  std::string project_name = "verl_examples";
  std::string experiment_name = "gsm8k";
  std::vector<std::string> logger = {"console", "wandb"};
  int64_t nnodes = 1;
  int64_t n_gpus_per_node = 8;
  int64_t save_freq = -1;
  int64_t test_freq = -1;
  bool val_before_train = true;
  bool val_only = false;
  int64_t critic_warmup = 0;
  VerlResume resume_mode = VerlResume::automatic;
  std::string resume_from_path;
  std::string default_local_dir;  // "": checkpoints/{project_name}/{experiment_name}
  std::optional<int64_t> max_actor_ckpt_to_keep;
  Platform device = Platform::cuda;
};

/// The pool of its own that generates in verl's disaggregated recipes (one_step_off, fully_async).
struct VerlRolloutPool {
  std::optional<int64_t> nnodes;
  std::optional<int64_t> n_gpus_per_node;
  std::optional<int64_t> total_rollout_steps;
};

struct VerlAsync {
  bool is_configured = false;
  double staleness_threshold = 0.1;
  int64_t trigger_parameter_sync_step = 4;
  int64_t require_batches = 1;
  bool partial_rollout = true;
};

struct VerlDistillationLoss {
  std::string mode = "k3";  // an estimator of the KL, or a name of what is not run
  int64_t topk = 128;
  bool use_task_rewards = true;
  double task_loss_coef = 1.0;
  double distillation_loss_coef = 1.0;
  std::optional<double> loss_max_clamp = 10.0;
  bool use_policy_gradient = true;
  double clip_ratio_low = 0.2, clip_ratio_high = 0.2;
};

/// On-policy distillation.
struct VerlDistillation {
  bool enabled = false;
  std::string model_path;                          // of the teacher
  std::map<std::string, std::string> model_paths;  // newer: teachers by the user's names
  bool has_own_cards = false;                      // enable_resource_pool, or n_gpus_per_node
  int64_t n_gpus_per_node = 0, nnodes = 0;
  VerlDistillationLoss loss;
  /// Returns the folder of the first teacher, or "".
  std::string path() const {
    return model_path.empty() && !model_paths.empty() ? model_paths.begin()->second : model_path;
  }
};

struct VerlConfig {
  VerlData data;
  bool hybrid_engine = true;
  VerlModel model;
  VerlActor actor;
  VerlRef ref;
  VerlRollout rollout;
  VerlCritic critic;
  VerlReward reward;
  VerlAlgorithm algorithm;
  VerlTrainer trainer;
  VerlRolloutPool rollout_pool;
  VerlAsync async_training;
  VerlDistillation distillation;
  RunConfig cohort;  // Cohort's own keys beside verl's: platform, placement, cards, recording, …
  std::string output_dir;                    // ours; "": trainer.default_local_dir
  std::optional<int64_t> num_gpus_per_node;  // ours
};

}  // namespace cohort::config

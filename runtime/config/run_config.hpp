#pragma once
/// The validated configuration of one run: plain values, nested as the YAML is, so that the key
/// `actor_train.training_args.learning_rate` is the member of the same path.
/// Owner: config::load() builds it once; everybody else reads it. Value types, thread-safe to read.
/// Meaning, default and reader of every key: docs/config.md (made of the schema, describe_*.cpp).
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/enums.hpp"
#include "runtime/config/plugin_sections.hpp"
#include "runtime/config/record_sections.hpp"
#include "runtime/config/training_sections.hpp"
#include "runtime/model/shape.hpp"

namespace cohort::config {

struct ModelArgs {
  ModelDtype dtype = ModelDtype::bf16;
  std::string model_name_or_path;  // empty: `pretrain` (critic: `reward_pretrain`)
  std::string adapter_name_or_path;
  std::optional<AttnImplementation> attn_implementation;
  std::optional<ModelType> model_type;    // none: a causal language model
  bool is_gradient_checkpointing = true;  // the key is disable_gradient_checkpointing
  int64_t ulysses_size = 1;               // cards that share a sequence (Ulysses)
  std::vector<std::string> lora_target;   // empty: full fine-tuning
  int64_t lora_rank = 8;
  int64_t lora_alpha = 0;  // 0 in the file: 2 * lora_rank; set after load
  double lora_dropout = 0.0;
  std::vector<std::string> freeze_module_prefix;
  std::vector<std::string> freeze_module_contains;
  bool operator==(const ModelArgs&) const = default;
};

/// What some schedules of the learning rate need beside their name.
struct SchedulerArgs {
  double num_cycles = 1;              // cosine_with_restarts
  std::optional<double> min_lr;       // cosine_with_min_lr, as a rate
  std::optional<double> min_lr_rate;  // or as a share of learning_rate
  double lr_end = 1e-7;               // polynomial
  double power = 1;                   // polynomial
  int64_t timescale = 0;              // inverse_sqrt [steps]; 0: warmup_steps, or 10,000
  int64_t num_decay_steps = 0;        // warmup_stable_decay
  double min_lr_ratio = 0;            // warmup_stable_decay
  bool operator==(const SchedulerArgs&) const = default;
};

struct TrainingArgs {
  double learning_rate = 5e-5;
  double weight_decay = 0.0;
  int64_t per_device_train_batch_size = 8;  // [trajectories]
  int64_t gradient_accumulation_steps = 1;
  int64_t warmup_steps = 0;  // [optimizer steps]; 0: warmup_ratio decides
  double warmup_ratio = 0.0;
  SchedulerType lr_scheduler_type = SchedulerType::linear;
  SchedulerArgs lr_scheduler_kwargs;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double num_train_epochs = 3;  // of rows of files: how often each is read, without max_steps
  int64_t max_steps = -1;       // likewise: optimizer steps; <= 0: num_train_epochs decides
  bool operator==(const TrainingArgs&) const = default;
};

struct GeneratingArgs {
  int64_t max_new_tokens = 8192;
  double top_p = 0.7;
  int64_t top_k = 50;         // 0: off
  double temperature = 0.95;  // 0: greedy
  int64_t num_beams = 1;
  int64_t num_return_sequences = 1;
  double repetition_penalty = 1.0;
  std::vector<std::string> stop_strings;
  bool operator==(const GeneratingArgs&) const = default;
};

/// ROLL's data_args: where prompts come from and how they become chats.
struct DataArgs {
  bool is_configured = false;
  std::string template_name = "native";     // key `template`: a chat template
  std::string chat_template_kwargs = "{}";  // JSON object: more variables of the template
  std::string chat_template_date;           // YYYY-MM-DD: what the template takes for today
  std::string system_prompt;                // of conversations that have none; empty: none
  std::vector<std::string> file_name;
  std::vector<std::pair<std::string, double>>
      domain_interleave_probs;  // share of a step's prompts, file order
  std::string dataset_type = "json";
  std::string messages;  // column names; empty: not given
  std::string prompt;
  std::string response = "solution";
  std::string tag = "tag";
  std::string id = "id";
  bool filter_overlong_prompts = false;  // else a prompt above prompt_length is truncated
  PromptTruncation truncation = PromptTruncation::error;
  bool skip_bad_rows = false;  // a row that cannot be read is counted; else it ends the load
  bool operator==(const DataArgs&) const = default;
};

/// The engine of a role: its name as written, and from its strategy_config, whatever the engine
/// calls it, what decides cards, bytes and batches.
struct StrategySettings {
  std::string strategy_name;           // as written; "" when missing
  Strategy strategy = Strategy::none;  // the same as a value; after load never none with cards

  // how the role cuts the model over its cards
  int64_t tensor_parallel_size = 1;
  int64_t pipeline_parallel_size = 1;
  int64_t context_parallel_size = 1;
  int64_t expert_parallel_size = 1;
  int64_t virtual_pipeline_size = 1;
  int64_t data_parallel_size = 1;  // not a key: cards / (TP * PP * CP), set after load
  bool sequence_parallel = false;

  // deepspeed_*: the ZeRO map
  int64_t zero_stage = 0;
  bool offload_optimizer = false;  // to the host (device: cpu)
  bool offload_param = false;
  // fsdp2_*: cards that share one copy; 0: all of the role
  int64_t fsdp_size = 0;
  bool reshard_after_forward = true;
  // megatron_train
  bool use_distributed_optimizer = false;
  bool recompute_granularity_full = false;

  // vllm and sglang
  double gpu_memory_utilization = 0.9;   // [share of the card] weights, activations and KV cache
  int64_t block_size = 16;               // [tokens] of a KV block
  std::optional<int64_t> max_model_len;  // [tokens]; none: the model's own
  int64_t max_num_batched_tokens = 8192;
  int64_t max_num_seqs = 256;
  bool enforce_eager = false;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  bool free_cache_engine = true;  // the KV cache leaves its card between generations
  std::string load_format = "dummy";
  std::string kv_cache_dtype = "auto";
  int64_t sleep_level = 1;
  bool operator==(const StrategySettings&) const = default;
};

/// One role: actor_train, actor_infer, reference, critic, reward_model, or a reward with a model of
/// its own. Keys that a role does not use stay at their defaults.
struct WorkerConfig {
  bool is_configured = false;  // the section is in the file
  ModelArgs model_args;
  TrainingArgs training_args;
  GeneratingArgs generating_args;
  DataArgs data_args;
  StrategySettings strategy_args;
  std::string engine = "built_in";                     // actor_infer: a row of engine_table.cpp
  std::map<std::string, std::string> engine_settings;  // likewise, for the engine alone
  std::vector<uint32_t> device_mapping;      // global card ids, distinct; empty: a CPU role
  int64_t world_size = 0;                    // processes of a CPU role; 0: not given
  int64_t infer_batch_size = 16;             // log-probability micro-batch [trajectories]
  std::optional<PolicyLossKind> pg_variant;  // none: ppo
  double topr_positive_weight = 1.0, topr_negative_weight = 1.0;
  bool param_offload = false;      // weights leave their cards between phases (verl's fsdp_config)
  bool optimizer_offload = false;  // likewise gradients and optimizer
  std::map<std::string, std::string> system_envs;  // after load with the file's global ones
  bool operator==(const WorkerConfig&) const = default;
};

/// Shape of the policy under Hugging Face's names. vocab_size is the tokenizer's.
struct ModelSection {
  bool is_configured = false;
  /// vocab_size 0: the tokenizer's; more: rows that no text has, as HF models pad. Set after load:
  /// head_dim, if it is 0, to hidden_size / num_attention_heads; attention_bias, if it is left out,
  /// to the family's.
  model::ModelShape shape = {.hidden_size = 64,
                             .num_hidden_layers = 2,
                             .num_attention_heads = 4,
                             .num_key_value_heads = 2,
                             .intermediate_size = 192,
                             .name = "model section"};
  std::string tokenizer =
      "frozen_lake";                    // name of a built-in vocabulary; empty: `vocabulary` is it
  std::vector<std::string> vocabulary;  // words in id order
  bool operator==(const ModelSection&) const = default;
};

struct RewardNormalization {
  Grouping grouping = Grouping::batch;
  NormMethod method = NormMethod::identity;
  std::optional<NormScope> norm_mean_type;  // when set it wins over `method`
  std::optional<NormScope> norm_std_type;
  bool operator==(const RewardNormalization&) const = default;
};

/// One entry of rewards: for rlvr a domain with its scorer.
struct RewardConfig {
  RewardType type = RewardType::env_return;  // missing in the file: follows from worker_cls
  double weight = 1.0;
  std::vector<std::string> tag_included;  // tags of the data that this domain scores
  PluginSection plugin;                   // what it is computed by; its keys are the entry's own
  bool use_local = true;
  std::string code_url;
  std::string judge_model_type;
  std::string judge_prompt;
  std::string judge_model_name;
  std::string judge_api_url;
  std::optional<ChoiceGrade> choice_grade;  // crossthinkqa
  double response_length_penalty_coef = 0;  // crossthinkqa
  QueryFilter query_filter_config;
  std::string worker_cls;  // ROLL's class; "" in an entry of our own
  WorkerConfig worker;     // world_size, model_args, device_mapping … of the same section
  bool operator==(const RewardConfig&) const = default;
};

struct EnvManagerConfig {
  bool is_configured = false;
  int64_t num_env_groups = 128;
  int64_t group_size = 1;  // trajectories on one map
  std::vector<std::string> tags;
  std::vector<int64_t> num_groups_partition;  // groups per tag; after load as long as `tags`
  int64_t max_env_num_per_worker = 0;         // environments per environment actor; 0: all in one
  int64_t group_size_redundancy = 0;          // started beyond group_size, the slowest are dropped
  std::string group_filter_cls;               // "": no group is dropped
  std::string llm_proxy_type = "policy";
  bool operator==(const EnvManagerConfig&) const = default;
};

/// env_config: what all built-in environments have, and what each has of its own.
struct EnvConfigSection {
  int64_t size = 4;  // frozen_lake
  double p = 0.8;    // probability that a cell is frozen
  bool is_slippery = false;
  double format_penalty = -0.01;
  std::string action_pattern = "<answer>(.*?)</answer>";
  std::optional<std::string>
      env_instruction;  // none: the environment's own text; "": no instruction
  // sokoban
  std::vector<int64_t> dim_room = {6, 6};  // rows, columns
  int64_t num_boxes = 1;
  int64_t search_depth = 300;
  std::map<std::string, std::string> grid_lookup;  // number of a cell -> glyph; empty: ROLL's
  std::map<std::string, std::string> grid_vocab;   // glyph -> what it is, for the instructions
  PluginSection plugin;                            // its keys are the section's own
  bool operator==(const EnvConfigSection&) const = default;
};

/// One entry of custom_envs, keyed by its tag.
struct EnvTemplate {
  EnvType env_type = EnvType::frozen_lake;
  std::string env_type_name = "frozen_lake";  // as written
  std::string env_manager_cls;   // ROLL's class; "": the trajectory manager (env_manager.hpp)
  std::string agent_runner_cls;  // ROLL's class that acts behind ProxyEnvManager; "": none
  int64_t history_length = 0;    // of a step manager: turns that a prompt shows, its own among them
  int64_t max_steps = 10;        // turns per trajectory
  int64_t max_tokens_per_step =
      64;  // answer tokens per turn; after load never above the two other limits
  std::string agent_system_template;
  std::string agent_template;
  EnvConfigSection env_config;
  std::string tool_wrapper = "{}";  // JSON: wrapper_args, tool_configs of a world of GEM
  bool operator==(const EnvTemplate&) const = default;
};

/// Whether gem.make() of a Python package makes it (runtime/plugin/child/gem_spec.hpp).
constexpr bool is_of_gem(EnvType x) {
  return x == EnvType::gem || x == EnvType::roll_math || x == EnvType::roll_code ||
         x == EnvType::roll_qa || x == EnvType::package;
}
/// Whether child processes play it: it may show any text, and nobody has a script of it.
constexpr bool is_hosted(EnvType x) { return x == EnvType::plugin || is_of_gem(x); }

struct CardsSection {
  std::string type;                           // of plans, e.g. A2; empty: follows from the platform
  uint64_t memory_bytes = uint64_t{2} << 30;  // budget of one card
  uint64_t reserve_bytes = uint64_t{64} << 20;  // of it kept free for work space
  int64_t threads_per_card = 1;
  bool operator==(const CardsSection&) const = default;
};

struct PlacementSection {
  PlacementMode mode = PlacementMode::separate;
  OffloadPolicy offload = OffloadPolicy::never;
  CacheArrival init_cache = CacheArrival::late;
  bool operator==(const PlacementSection&) const = default;
};

/// Supervised start on scripted play, before the first GRPO step.
struct WarmStartSection {
  int64_t steps = 0;        // optimizer steps; 0: no warm start
  int64_t batch_size = 64;  // trajectories per optimizer step
  int64_t rounds = 1;       // the trajectories are played and delivered in this many rounds
  double learning_rate = 1e-3;
  int64_t warmup_steps = 0;
  double decay_fraction = 0.0;   // last share of the steps over which the rate falls linearly to 0
  double expert_fraction = 0.5;  // probability that a scripted action is the shortest path's
  std::optional<double> expert_fraction_end;  // set: half the rounds at expert_fraction, a quarter
                                              // linear to this, rest
  bool operator==(const WarmStartSection&) const = default;
};

/// When a replica, or a group on it, has taken too long.
struct RecoverySection {
  double straggler_factor = 3;   // times the median time of a group; 0: nobody is late
  double straggler_floor_s = 1;  // not before
  double group_timeout_s = 600;  // without a token or a turn of a rollout that has work; 0: off
  bool operator==(const RecoverySection&) const = default;
};

struct TransportSection {
  uint64_t credit_bytes = uint64_t{64} << 20;
  uint64_t chunk_bytes = uint64_t{1} << 20;
  uint64_t queue_bytes = uint64_t{64} << 20;
  bool operator==(const TransportSection&) const = default;
};

struct ResumeSection {
  bool is_enabled = false;
  std::string path;  // empty: the newest checkpoint under output_dir/exp_name
  bool operator==(const ResumeSection&) const = default;
};

/// validation of rlvr: evaluation data and its sampling.
struct ValidationSection {
  bool is_configured = false;
  DataArgs data_args;
  GeneratingArgs generating_args;
  bool operator==(const ValidationSection&) const = default;
};

/// Keys of rlvr that filter or weigh samples.
struct RlvrSection {
  double rl_loss_coef = 1.0;
  ImportanceSampling importance_sampling = ImportanceSampling::token;
  bool difficulty_loss_weight = false;
  bool length_loss_weight = false;
  bool max_len_mask = false;      // drop answers that fill the padded width
  std::string demonstration_key;  // column with an answer that stands in each group; empty: none
  bool difficulty_mask = false;
  double difficulty_low_threshold = 0.0;
  double difficulty_high_threshold = 1.0;
  bool error_max_len_clip = false;
  int64_t error_max_len_threshold = 9'999'999'999;
  bool val_greedy = false;
  int64_t val_n_sample = 1;
  bool is_num_return_sequences_expand = false;
  bool is_use_additional_prompts = false;
  int64_t max_additional_running_prompts = 16;
  int64_t generate_opt_level = 1;
  bool operator==(const RlvrSection&) const = default;
};

/// Columns of the rows of pipelines sft, dpo and rm, and the order of all pipelines' rows; its keys
/// are at the file's top. Empty: the first of the usual names that a row has (docs/sft.md).
struct SftSection {
  std::string global_template;  // in place of sft_train.data_args.template
  std::string system_key;       // column with the system message
  std::string prompt_key;
  std::string query_key;  // column that is put behind the prompt, on a line of its own
  std::string response_key;
  std::string tools_key = "tools";
  bool ignore_input_ids_mismatch = false;
  bool shuffle = true;  // epochs by the seed; else in the order of the files
  bool operator==(const SftSection&) const = default;
};

/// What a plan reads of verl's keys beyond ROLL's; only the verl dialect fills it.
struct VerlSection {
  bool hybrid_engine = true;        // one pool of cards for all roles
  int64_t ppo_mini_batch_size = 0;  // [prompts] of an optimizer step
  int64_t ppo_micro_batch_size_per_gpu = 0;
  int64_t log_prob_micro_batch_size_per_gpu = 0;
  bool use_dynamic_bsz = false;
  int64_t ppo_max_token_len_per_gpu = 16384;
  bool log_prob_use_dynamic_bsz = false;
  bool ref_log_prob_use_dynamic_bsz = false;
  int64_t ref_log_prob_max_token_len_per_gpu = 16384;
  int64_t train_rows = 0;  // 0: not known before the files are read
  int64_t total_epochs = 30;
  int64_t total_training_steps = 0;  // 0: follows from the rows and epochs
  bool val_before_train = true;
  int64_t agent_workers = 8;
  bool swap_optimizer = false;  // MindSpeed: optimizer on the host, streamed in the step
  bool operator==(const VerlSection&) const = default;
};

/// A critic's numbers that follow from the keys.
struct DerivedCritic {
  int64_t optimizer_batch = 0;           // P·A·D of critic [trajectories]; 0: no critic is built
  int64_t ppo_epochs = 1;                // passes over the trajectories of a step
  int64_t optimizer_steps_per_step = 0;  // ppo_epochs · N / optimizer_batch
  int64_t total_optimizer_steps = 0;     // over the run
  int64_t warmup_steps = 0;              // of its learning rate, after warmup_ratio
  double max_grad_norm = 1.0;
  LossAgg loss_agg = LossAgg::seq_mean_token_mean;
  bool operator==(const DerivedCritic&) const = default;
};

/// Numbers that follow from the keys; docs/config.md, Batch algebra.
struct Derived {
  int64_t train_cards = 0;               // cards of actor_train
  int64_t train_dp = 0;                  // D: train cards / (TP * PP * CP)
  int64_t infer_replicas = 0;            // actor_infer cards / (TP * PP)
  int64_t group_size = 1;                // trajectories of one map or prompt
  int64_t trajectories_per_step = 0;     // N
  int64_t optimizer_batch = 0;           // P·A·D [trajectories]
  int64_t optimizer_steps_per_step = 0;  // ppo_epochs · N / optimizer_batch
  int64_t total_optimizer_steps = 0;     // over the run, warm start apart
  int64_t warmup_steps = 0;              // of the learning rate, after warmup_ratio
  int64_t groups_per_step = 0;           // agentic: N / group_size; rlvr: prompts
  int64_t val_groups = 0;                // val_batch_size / val group_size; rlvr: prompts
  int64_t val_group_size = 1;            // sampled answers to one of them
  int64_t num_nodes = 1;                 // of the device mappings
  int64_t train_environments = 0;        // that live at once
  int64_t val_environments = 0;
  int64_t train_environment_workers = 0;  // ROLL's processes; ours are actors
  int64_t val_environment_workers = 0;
  std::vector<std::pair<std::string, int64_t>> domain_prompts;  // rlvr: prompts of a step by domain
  bool is_reference_needed = false;       // a KL or the loss of pairs reads its log-probabilities
  bool is_reference_metric_only = false;  // it is built, and only draws a chart
  int64_t steps_ahead = 0;                // async.bound; 0: generation and training take turns
  OldLogProbs old_log_probs = OldLogProbs::behavior;  // of a run here (decisions/0001)
  bool recompute_old_log_prob = false;                // what ROLL, or verl, would do
  std::string recompute_reason;                       // why, or why not
  bool has_group_baseline = false;
  std::string group_baseline;  // "reward_normalization mean_std by traj_group_id", "none"
  // verl dialect (docs/config.md, Batch algebra)
  int64_t trajectories_per_rank = 0;  // N / D
  int64_t mini_batch_per_rank = 0;    // normalised: ppo_mini_batch_size · n / D [trajectories]
  int64_t gradient_accumulation = 0;  // passes of an optimizer step; 0: cut by tokens
  int64_t log_prob_passes = 0;        // of a rank per step, under the actor; 0: cut by tokens
  int64_t ref_log_prob_passes = 0;
  int64_t train_rows = 0;    // after train_max_samples; 0: not known
  int64_t dropped_rows = 0;  // of an epoch, its last incomplete batch
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;  // 0: not known before the files are read
  DerivedCritic critic;
  bool operator==(const Derived&) const = default;
};

/// Something the user should know about one key.
struct Note {
  std::string key;    // full path, e.g. "actor_infer.strategy_args.strategy_config"
  std::string where;  // "file:line", or empty when the key is not in a file
  std::string text;   // the reason
  bool operator==(const Note&) const = default;
};

struct RunConfig {
  Dialect dialect = Dialect::roll;
  Pipeline pipeline = Pipeline::agentic;  // missing: follows from the other keys
  std::string exp_name = "cohort";
  int64_t seed = 42;
  std::string output_dir = "./output";
  Platform platform = Platform::cpu;
  Determinism determinism = Determinism::strict;

  int64_t max_steps = 500;  // rows of files, after load: -1 if the epochs decide
  int64_t save_steps = 50;
  int64_t eval_steps = 10;       // <= 0: never
  int64_t keep_checkpoints = 3;  // 0: all
  bool save_hf = false;          // each checkpoint also as a Hugging Face folder
  ResumeSection resume_from_checkpoint;

  int64_t rollout_batch_size = 128;  // [trajectories]
  int64_t val_batch_size = 128;      // [trajectories]
  int64_t sequence_length = 0;       // [tokens], context bound; required (or response_length)
  int64_t response_length = 0;       // after load 0: it is in sequence_length
  int64_t prompt_length = 1024;
  int64_t max_tokens_per_step = 0;  // 0: each environment's own value
  int64_t num_gpus_per_node = 8;
  int64_t num_nodes = 0;                      // 0: follows from the device mappings
  int64_t num_return_sequences_in_group = 1;  // rlvr: answers to a prompt
  double async_generation_ratio = 0.0;
  BatchAdjustMode batch_adjust_mode = BatchAdjustMode::copy;
  std::map<std::string, std::string> system_envs;
  std::string track_with = "tensorboard";
  int64_t model_update_buffer_size_mb = 1024;  // bucket of a weight transfer

  int64_t ppo_epochs = 1;
  AdvEstimator adv_estimator = AdvEstimator::gae;  // ROLL's default: needs a critic
  double gamma = 1.0;
  double lambd = 0.95;
  double init_kl_coef = 0.2;  // ROLL's default: builds a reference
  KlKind kl_penalty = KlKind::kl;
  bool add_token_level_kl = false;
  std::optional<double> target_kl;
  int64_t kl_horizon = 10000;
  bool use_kl_loss = false;
  double kl_loss_coef = 0.0;
  KlKind kl_loss_kind = KlKind::k3;          // ROLL's only one
  bool is_kl_loss_straight_through = false;  // verl's "+": the estimator's value, k2's gradient
  bool whiten_advantages = false;
  bool whiten_rewards = false;
  std::optional<double> advantage_clip;
  std::optional<double> reward_clip;
  double entropy_loss_coef = 0.0;
  double max_grad_norm = 1.0;
  int64_t nonfinite_steps_max = 3;
  double pg_clip = 0.2;
  bool use_pg_clip_range = false;
  double pg_clip_low = 0.2;
  double pg_clip_high = 0.2;
  bool dual_clip_loss = false;
  LossAgg loss_agg_mode = LossAgg::seq_mean_token_mean;
  std::optional<double> loss_scale_factor;  // L of the aggregations that divide by a constant
  PolicyLossSection policy_loss;
  RewardNormalization reward_normalization;
  std::optional<NormScope> norm_mean_type;  // rlvr's reward normalisation
  std::optional<NormScope> norm_std_type;
  RatioType ratio_type = RatioType::token;
  double step_reward_gamma = 0.95;  // gigpo and step_reinforce
  double step_reward_weight = 1.0;
  double episode_reward_weight = 1.0;
  std::vector<std::string> gdpo_reward_keys;  // reward parts of gdpo; empty: those in the score
  std::vector<double> gdpo_reward_weights;    // one per key; empty: 1 each
  std::optional<double> value_clip;           // critic
  int64_t critic_warmup = 0;                  // [steps] before the policy is updated
  int64_t critic_epochs = 0;                  // passes of the critic; 0: ppo_epochs
  bool enable_reference = false;
  bool enable_old_logprobs_recompute = false;
  bool force_disable_old_logprobs_recompute = false;
  TrainInferCorrection train_infer_correction;
  DynamicSampling dynamic_sampling;
  RlvrSection rlvr;              // its keys are at the top of the file
  SftSection sft;                // likewise
  OpdSection opd;                // likewise
  PreferenceSection preference;  // likewise
  DistillSection distill;        // likewise
  VerlSection verl;

  std::string pretrain;  // checkpoint folder or model name; empty: random initialisation of `model`
  std::string reward_pretrain;   // of the critic
  std::string teacher_pretrain;  // of the teacher
  std::string student_pretrain;  // of the student, in pipeline distill
  ModelSection model;
  WorkerConfig actor_train;
  WorkerConfig actor_infer;
  WorkerConfig reference;
  WorkerConfig critic;        // built when adv_estimator is gae
  WorkerConfig reward_model;  // judge that several rewards share
  WorkerConfig sft_train;     // pipeline sft; after load actor_train is its copy
  WorkerConfig student;       // pipeline distill; after load actor_train is its copy
  WorkerConfig teacher;       // pipeline distill, and built when opd.is_asked()
  std::map<std::string, RewardConfig> rewards;  // agentic: never empty after load
  ValidationSection validation;
  EnvManagerConfig train_env_manager;
  EnvManagerConfig val_env_manager;
  std::map<std::string, EnvTemplate> custom_envs;
  std::map<std::string, ToolConfig> tools;  // empty: answers call none
  MultiTurnSection multi_turn;

  CardsSection cards;
  PlacementSection placement;
  AsyncSection async;
  WarmStartSection warm_start;
  RecordingSection recording;
  TelemetrySection telemetry;
  bool self_checks = true;   // the first update's numbers are held against what is healthy
  bool record_only = false;  // rollouts are recorded; after the warm start nothing is trained
  std::string from_stream;   // run or stream folder whose trajectories train; empty: rollouts play
  bool from_stream_paced = false;  // they come as they came then, not at once
  TransportSection transport;
  RecoverySection recovery;
  int64_t micro_batch_tokens = 2048;   // packed tokens of one forward/backward
  int64_t max_running_requests = 128;  // trajectories that generate at once, per infer card

  Derived derived;
  std::vector<Note> notes;                     // keys that ROLL knows and that have no effect here
  std::vector<Note> warnings;                  // inert or contradictory settings
  std::map<std::string, std::string> origins;  // key -> "file:line" or override that set it
  std::string resolved_yaml;  // every key with its value; load() of it gives the same settings
  bool operator==(const RunConfig&) const = default;
};

}  // namespace cohort::config

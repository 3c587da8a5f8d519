#pragma once
/// The validated configuration of one run: plain values, nested as the YAML is, so that the key
/// `actor_train.training_args.learning_rate` is the member of the same path.
/// Owner: config::load() builds it once; everybody else reads it. Value types, thread-safe to read.
/// Meaning, default and reader of every key: docs/config.md (generated from the schema in
/// describe_*.cpp).
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::config {

enum class Platform : uint8_t { cpu, cuda, npu };
enum class AdvEstimator : uint8_t { gae, grpo, reinforce };
enum class KlPenalty : uint8_t { kl, abs, mse, k3 };
enum class LossAggMode : uint8_t {
  token_mean,
  seq_mean_token_sum,
  seq_mean_token_mean,
  seq_mean_token_sum_norm
};
enum class Grouping : uint8_t { traj_group_id, tags, batch };
enum class NormMethod : uint8_t { identity, mean, mean_std, asym_clip };
enum class NormScope : uint8_t { none, batch, group };
enum class SchedulerType : uint8_t { constant, linear, cosine };
enum class ModelDtype : uint8_t { fp32, bf16, fp16 };
enum class PlacementMode : uint8_t { separate, timeshare };
enum class OffloadPolicy : uint8_t { never, step };
enum class Determinism : uint8_t { strict, relaxed };
enum class RewardType : uint8_t { env_return };
enum class EnvType : uint8_t { frozen_lake, sokoban, webshop };

struct ModelArgs {
  ModelDtype dtype = ModelDtype::bf16;
  bool operator==(const ModelArgs&) const = default;
};

struct TrainingArgs {
  double learning_rate = 5e-5;
  double weight_decay = 0.0;
  int64_t per_device_train_batch_size = 8;  // [trajectories]
  int64_t gradient_accumulation_steps = 1;
  int64_t warmup_steps = 0;  // [optimizer steps]; 0: warmup_ratio decides
  double warmup_ratio = 0.0;
  SchedulerType lr_scheduler_type = SchedulerType::linear;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
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
  bool operator==(const GeneratingArgs&) const = default;
};

/// One role: actor_train, actor_infer or reference. Keys that a role does not use stay at their
/// defaults.
struct WorkerConfig {
  bool is_configured = false;  // the section is in the file
  ModelArgs model_args;
  TrainingArgs training_args;
  GeneratingArgs generating_args;
  std::string strategy_name;             // as written; the built-in engine serves every name
  std::vector<uint32_t> device_mapping;  // global card ids, distinct; empty: a CPU role
  int64_t infer_batch_size = 16;         // log-probability micro-batch [trajectories]
  bool operator==(const WorkerConfig&) const = default;
};

/// Shape of the policy under Hugging Face's names. vocab_size is the tokenizer's.
struct ModelSection {
  bool is_configured = false;
  int64_t hidden_size = 64;
  int64_t num_hidden_layers = 2;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 2;
  int64_t head_dim = 0;  // 0 in the file: hidden_size / num_attention_heads; set after load
  int64_t intermediate_size = 192;
  double rope_theta = 10000.0;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool attention_bias = true;
  bool tie_word_embeddings = true;
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

struct RewardConfig {
  RewardType type = RewardType::env_return;
  double weight = 1.0;
  bool operator==(const RewardConfig&) const = default;
};

struct EnvManagerConfig {
  int64_t num_env_groups = 128;
  int64_t group_size = 1;  // trajectories on one map
  std::vector<std::string> tags;
  std::vector<int64_t> num_groups_partition;  // groups per tag; after load as long as `tags`
  int64_t max_env_num_per_worker = 0;         // environments per environment actor; 0: all in one
  bool operator==(const EnvManagerConfig&) const = default;
};

struct FrozenLakeSection {
  int64_t size = 4;
  double p = 0.8;  // probability that a cell is frozen
  bool is_slippery = false;
  double format_penalty = -0.01;
  std::string action_pattern = "<answer>(.*?)</answer>";
  std::optional<std::string>
      env_instruction;  // none: the environment's own text; "": no instruction
  bool operator==(const FrozenLakeSection&) const = default;
};

/// One entry of custom_envs, keyed by its tag.
struct EnvTemplate {
  EnvType env_type = EnvType::frozen_lake;
  int64_t max_steps = 10;  // turns per trajectory
  int64_t max_tokens_per_step =
      64;  // answer tokens per turn; after load never above the two other limits
  std::string agent_system_template;
  std::string agent_template;
  FrozenLakeSection env_config;
  bool operator==(const EnvTemplate&) const = default;
};

struct CardsSection {
  uint64_t memory_bytes = uint64_t{2} << 30;    // budget of one card
  uint64_t reserve_bytes = uint64_t{64} << 20;  // of it kept free for work space
  int64_t threads_per_card = 1;
  bool operator==(const CardsSection&) const = default;
};

struct PlacementSection {
  PlacementMode mode = PlacementMode::separate;
  OffloadPolicy offload = OffloadPolicy::never;
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

struct RecordingSection {
  bool enabled = true;
  uint64_t segment_bytes = uint64_t{64} << 20;
  bool operator==(const RecordingSection&) const = default;
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

/// Numbers that follow from the keys; roll.md 2.6 has the algebra.
struct Derived {
  int64_t train_cards = 0;               // D
  int64_t optimizer_batch = 0;           // P·A·D [trajectories]
  int64_t optimizer_steps_per_step = 0;  // ppo_epochs · rollout_batch_size / optimizer_batch
  int64_t total_optimizer_steps = 0;     // over the run, warm start apart
  int64_t warmup_steps = 0;              // of the learning rate, after warmup_ratio
  int64_t groups_per_step = 0;           // rollout_batch_size / group_size
  int64_t val_groups = 0;                // val_batch_size / val group_size
  bool is_reference_needed = false;      // init_kl_coef > 0 or use_kl_loss
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
  std::string exp_name = "cohort";
  int64_t seed = 42;
  std::string output_dir = "./output";
  Platform platform = Platform::cpu;
  Determinism determinism = Determinism::strict;

  int64_t max_steps = 500;
  int64_t save_steps = 50;
  int64_t eval_steps = 10;  // <= 0: never
  int64_t logging_steps = 1;
  int64_t keep_checkpoints = 3;  // 0: all
  ResumeSection resume_from_checkpoint;

  int64_t rollout_batch_size = 128;  // [trajectories]
  int64_t val_batch_size = 128;      // [trajectories]
  int64_t sequence_length = 0;       // [tokens], context bound; required (or response_length)
  int64_t response_length = 0;       // after load 0: it is in sequence_length
  int64_t prompt_length = 1024;
  int64_t max_tokens_per_step = 0;  // 0: each environment's own value
  int64_t num_gpus_per_node = 8;

  int64_t ppo_epochs = 1;
  AdvEstimator adv_estimator = AdvEstimator::gae;  // ROLL's default, refused unless said otherwise
  double gamma = 1.0;
  double lambd = 0.95;
  double init_kl_coef = 0.2;  // ROLL's default: builds a reference
  KlPenalty kl_penalty = KlPenalty::kl;
  bool add_token_level_kl = false;
  std::optional<double> target_kl;
  int64_t kl_horizon = 10000;
  bool use_kl_loss = false;
  double kl_loss_coef = 0.0;
  bool whiten_advantages = false;
  std::optional<double> advantage_clip;
  std::optional<double> reward_clip;
  double entropy_loss_coef = 0.0;
  double max_grad_norm = 1.0;
  double pg_clip = 0.2;
  bool use_pg_clip_range = false;
  double pg_clip_low = 0.2;
  double pg_clip_high = 0.2;
  bool dual_clip_loss = false;
  LossAggMode loss_agg_mode = LossAggMode::seq_mean_token_mean;
  RewardNormalization reward_normalization;

  std::string pretrain;  // checkpoint folder; empty: random initialisation of `model`
  ModelSection model;
  WorkerConfig actor_train;
  WorkerConfig actor_infer;
  WorkerConfig reference;
  std::map<std::string, RewardConfig> rewards;  // never empty after load
  EnvManagerConfig train_env_manager;
  EnvManagerConfig val_env_manager;
  std::map<std::string, EnvTemplate> custom_envs;

  CardsSection cards;
  PlacementSection placement;
  WarmStartSection warm_start;
  RecordingSection recording;
  TransportSection transport;
  int64_t micro_batch_tokens = 2048;   // packed tokens of one forward/backward
  int64_t max_running_requests = 128;  // trajectories that generate at once, per infer card

  Derived derived;
  std::vector<Note> notes;     // keys that ROLL knows and that have no effect here
  std::vector<Note> warnings;  // inert or contradictory settings
  std::string resolved_yaml;   // every key with its value; load() of it gives the same settings
  bool operator==(const RunConfig&) const = default;
};

/// Returns whether two configs have equal settings; notes, warnings and texts are not compared.
bool same_settings(const RunConfig& a, const RunConfig& b);

/// Names as the YAML spells them.
std::string_view to_string(Platform x);
std::string_view to_string(AdvEstimator x);
std::string_view to_string(KlPenalty x);
std::string_view to_string(LossAggMode x);
std::string_view to_string(Grouping x);
std::string_view to_string(NormMethod x);
std::string_view to_string(NormScope x);
std::string_view to_string(SchedulerType x);
std::string_view to_string(ModelDtype x);
std::string_view to_string(PlacementMode x);
std::string_view to_string(OffloadPolicy x);
std::string_view to_string(Determinism x);
std::string_view to_string(RewardType x);
std::string_view to_string(EnvType x);

}  // namespace cohort::config

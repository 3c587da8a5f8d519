#pragma once
/// One job, planned: which card holds what in which phase, what every batch number becomes, what
/// travels, and what to do when it does not fit. Pure: no card, no weights, no file.
///
/// JobSpec is plain numbers that a config was turned into; JobPlan is what `actor-node plan`
/// prints. A plan that does not fit its cards is a result (fits == false, with remedies), not an
/// error. Bytes are those of the largest pipeline stage. Bounds: 65,536 cards; a few lines per card
/// and phase.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/estimate/batch.hpp"
#include "runtime/plan/estimate/card_types.hpp"
#include "runtime/plan/estimate/memory_model.hpp"
#include "runtime/plan/place/phases.hpp"
#include "runtime/plan/place/placement.hpp"
#include "runtime/plan/reshard/reshard.hpp"

namespace cohort::plan {

/// What a role holds follows from its name: "actor_train", "critic", "reference", "actor_infer";
/// any other with cards holds weights and a KV cache if its engine generates, else weights alone.
struct RoleJob {
  std::string name;           // "actor_train", "actor_infer", "reference", "critic", "rewards.x"
  std::vector<CardId> cards;  // empty: a CPU role, it takes no card
  std::string engine_asked;   // as the config names it, e.g. "deepspeed_train"
  Engine engine = Engine::builtin;  // whose arithmetic its bytes follow (memory_model.hpp)
  std::optional<ModelShape> model;  // none: JobSpec::model
  uint32_t tp = 1, pp = 1, cp = 1;  // the data-parallel degree is cards / (tp * pp * cp)
  uint32_t ep = 1;                  // expert parallel; 1: experts are cut by TP like the rest
  uint32_t expert_tp = 1;           // TP inside one expert, with ep > 1
  std::vector<uint32_t> layers_per_stage;  // empty: as even as pp allows, first stages larger
  uint64_t param_bytes = 2;                // per element as products read it: 2 (bf16, fp16), 4

  // training and log-probabilities
  uint32_t zero_stage = 0;   // deepspeed 0..3; fsdp is always 3; megatron 1 = distributed optimizer
  uint32_t zero_shards = 0;  // cards that share one copy; 0: the data-parallel degree
  /// The object lives on the host and is never whole on the card (DeepSpeed's offload_optimizer and
  /// offload_param, FSDP's CPUOffload). Not for what merely leaves between phases: OffloadPolicy.
  bool offload_optimizer = false, offload_params = false;
  bool swap_optimizer = false;  // streamed through the card in update (MindSpeed)
  bool gradient_checkpointing = true;
  uint64_t micro_batch = 1;             // sequences of one forward and backward pass
  uint64_t log_prob_micro_batch = 1;    // sequences of one forward pass alone
  uint64_t packed_tokens = 0;           // >0: micro-batches are packed to that many tokens instead
  uint64_t logits_chunk_tokens = 0;     // 0: logits of the whole micro-batch at once
  uint64_t reduce_bucket_elements = 0;  // gradient bucket of ZeRO 1 and 2; 0: the engine's default
  uint32_t threads = 1;                 // builtin: threads (lanes) per card
  bool has_own_weights = false;         // frozen: it reads a folder that is not the policy's
  bool has_value_head = false;          // a score in the place of the output matrix
  bool is_judge = false;  // builtin: frozen, and generates: ref_params are its weights and cache
  /// builtin: only this adapter is trained, and only it travels to generation.
  std::optional<model::LoraShape> lora = {};
  /// builtin: a frozen model of this shape is whole on the card whenever train_params are.
  std::optional<ModelShape> teacher = {};

  // generation
  double memory_utilization = 0.9;  // share of the card for weights, work space and KV cache
  uint64_t block_tokens = 16;       // of a KV block
  uint64_t max_model_len = 0;       // [tokens]; 0: JobSpec::sequence_length
  uint64_t max_running = 256;       // sequences in one replica
  uint64_t max_batched_tokens = 8192;
  uint64_t kv_element_bytes = 0;  // 0: param_bytes
  uint64_t panel_columns = 32;    // builtin: columns of a panel (compute's decode_kernels())
  /// builtin: the cache asked for, cut to what fits; 0: max_running * max_model_len.
  uint64_t kv_tokens = 0;
};

enum class Dialect : uint8_t { roll, verl };  // how remedies and warnings spell their keys

struct JobSpec {
  Dialect dialect = Dialect::roll;
  PlacementMode mode = PlacementMode::separate;
  OffloadPolicy offload = OffloadPolicy::step;
  CacheArrival init_cache = CacheArrival::late;
  CardType card;                // of find_card_type; for cpu with the config's bytes filled in
  uint32_t cards_per_node = 0;  // 0: the card type's; cpu: all on one node
  ModelShape model;
  std::vector<RoleJob> roles;  // cards of CPU roles are empty
  std::optional<BatchOptions> batch;
  uint64_t prompt_length = 0, response_length = 0;
  uint64_t sequence_length = 0;                      // 0: prompt_length + response_length
  uint64_t update_bucket_bytes = uint64_t{1} << 30;  // model_update_buffer_size_mb
  bool overlap_is_verl_pool = false;  // timeshare because of hybrid_engine: the plan says so
};

/// Bytes that come and go inside a phase: activations, logits, gathered layers, staging.
struct TransientBytes {
  std::string role, name;
  uint64_t bytes = 0;
  std::string arithmetic;
  bool operator==(const TransientBytes&) const = default;
};

struct CardPhase {
  CardId card;
  std::vector<HeldObject> objects;
  std::vector<TransientBytes> transients;
  uint64_t object_bytes = 0, transient_bytes = 0;
  uint64_t bytes() const { return object_bytes + transient_bytes; }
  bool fits = true;
};

struct JobPhase {
  PhaseKind phase = PhaseKind::init;
  std::vector<CardPhase> cards;  // ascending; cards without a role in the phase are there too
};

struct RolePlan {
  std::string role, engine_asked, engine_note;  // note: what runs instead, and its bytes
  std::vector<CardId> cards;
  uint32_t tp = 1, pp = 1, cp = 1, ep = 1, dp = 1;
  uint32_t replicas = 1;            // whole copies of the model that the role holds
  uint64_t parameters = 0;          // of the model
  uint64_t elements_per_card = 0;   // after TP, PP, EP, before ZeRO; largest stage
  uint64_t kv_tokens = 0;           // of one replica's cache
  uint64_t kv_sequences = 0;        // of max_model_len that it holds at once
  bool is_cache_too_small = false;  // not one sequence of max_model_len: the engine would not start
  std::vector<PlanNumber> numbers;  // objects' bytes per card, each with its arithmetic
};

struct ReshardLine {
  ReshardMode mode = ReshardMode::p2p;
  uint64_t receive_total = 0, receive_max = 0, send_max = 0, staging_max = 0;
  uint64_t lower_bound_total = 0;
  double seconds = 0;   // busiest card over its link, no overlap with anything
  std::string refused;  // why the mode does not apply; then no numbers
};

struct TrafficLine {
  std::string name;
  uint64_t bytes_max_card = 0, bytes_total = 0;
  double seconds = 0;  // at the card type's link; 0 where the type has none
  std::string arithmetic;
};

struct Remedy {
  std::string key;   // "cpu_offload", "batch_1", "log_prob_batch", "max_model_len", "utilization",
                     // "more_cards", "checkpointing", "all"
  std::string text;  // what to set, in the config's own keys
  uint64_t peak_bytes = 0, budget_bytes = 0;
  CardId card;
  PhaseKind phase = PhaseKind::update;
  bool fits = false;
  std::string refused;  // the planner's error where the change makes no sense
};

struct PlanWarning {
  std::string key, text;
  bool operator==(const PlanWarning&) const = default;
};

struct JobPlan {
  PlacementPlan placement;
  std::optional<BatchPlan> batch;
  std::vector<RolePlan> roles;
  std::vector<JobPhase> phases;  // of one step, in order
  CardId peak_card;
  PhaseKind peak_phase = PhaseKind::update;
  uint64_t peak_bytes = 0, budget_bytes = 0;  // of a card
  bool fits = true;
  uint64_t host_bytes_per_node = 0;  // objects that live or wait in host memory, fullest node
  std::vector<std::string> notes;    // what the plan asks of the engines and the host
  std::vector<ReshardLine> reshard;
  std::vector<TrafficLine> traffic;  // of one step
  std::vector<Remedy> remedies;      // empty when it fits
  std::vector<PlanWarning> warnings;
};

/// Returns Errc::invalid_argument for degrees that do not divide (with the nearest values), roles
/// that are missing or repeated, shapes that cannot be; Errc::placement for overlapping train and
/// infer cards in separate mode (names roles and cards, and the override); Errc::config for batch
/// numbers that do not divide.
Expected<JobPlan> plan_job(const JobSpec& spec);

}  // namespace cohort::plan

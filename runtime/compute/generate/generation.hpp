#pragma once
/// The generation engine of one card: continuous batching over a paged KV cache.
///
/// `lanes` worker threads each run their own slots: an iteration is one packed forward over prefill
/// chunks (tokens appended by new turns) and decode rows; a finished turn leaves at once and a
/// waiting one takes its place. A trajectory keeps its KV between its turns; when blocks run out,
/// idle and then younger trajectories lose theirs and are computed again later, with the same bits.
/// Owner: the rollout actor. Thread-safe: every call may come from any thread; on_outputs runs on a
/// lane's thread, without a lock held, and may call submit() and finish(), not stop() or a
/// residency command. Bound: at most max_waiting requests wait (FLOW-4); KV bytes are those of
/// init_cache. GEN-1: on CPU f32, tokens and log-prob bits of a turn are a function of (weights,
/// tokens so far, request) only:
///        not of the batch, the lane, the chunking of the prefill, or an eviction.
/// GEN-2: a submitted turn gives exactly one output, unless it is finished or the engine is stopped
/// before. PLACE-4: submit is refused unless weights and cache are on the card. PLACE-5: see
/// begin_weights and commit_weights.
///
/// Tensor parallelism: one engine per card, all with the same options but for card and groups. Each
/// takes its part of the weights (model_tp.hpp) and of the KV cache; weights and residency commands
/// are given to every engine. Turns go to rank 0, which schedules, samples and answers; the others
/// follow it (TP-1 … TP-4, model_tp.hpp and tp_link.hpp). GEN-1 holds for a given group size.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/device/card_residency.hpp"
#include "runtime/compute/generate/sampling.hpp"
#include "runtime/compute/model/model_layout.hpp"

namespace cohort::compute {

struct TurnRequest {
  uint64_t request_id = 0;  // stable handle of the trajectory: the same in all its turns
  std::vector<int32_t> append_tokens;
  int max_new_tokens = 1;
  std::vector<int32_t> stop_ids;  // a sampled stop id ends the turn and is part of its tokens
  SamplingOptions sampling;
  uint64_t rng_key = 0;  // of (seed, step, kind, group, index)
  uint32_t turn = 0;
  bool is_last = false;  // the engine finishes the trajectory with this turn
};

struct TurnOutput {
  uint64_t request_id = 0;
  uint32_t turn = 0;
  std::vector<int32_t> tokens;
  std::vector<float> logp;      // behaviour log-prob: full softmax at temperature 1, greedy too
  std::string_view stop;        // "stop" (a stop id) | "length" (budget or context) | "error"
  uint64_t weight_version = 0;  // oldest version that sampled one of the tokens
  double seconds = 0;           // from submit to here
};

enum class RunnerKind : uint8_t { automatic, cpu_f32, aten };

struct GenerationOptions {
  ModelConfig model;
  CardMemory* card = nullptr;  // outlives the engine
  uint32_t lanes = 1;
  uint32_t max_running = 64;     // trajectories in the cache, per lane
  int64_t max_context = 0;       // [tokens] 0: the model's max_position
  int64_t kv_block_tokens = 16;  // the only size the kernels have
  int64_t batch_tokens = 256;    // rows of one iteration, per lane; decode rows go first
  uint32_t max_waiting = 65536;  // requests, per lane
  RunnerKind runner = RunnerKind::automatic;
  std::string device = "cpu";  // of the ATen runner; a card that is a device names its own
  /// Tensor parallelism: `model` is cut over the ranks of a group. One group per lane, since lanes
  /// iterate on their own; every engine has the same rank in all of them. Empty: not cut.
  std::vector<std::shared_ptr<Collectives>> groups;
  int group_beat_ms = 10000;  // an idle leader speaks so often; well below the groups' timeout
  /// A rank died or a wait ended (COLL-2): this engine computes no more. Called once, on a lane's
  /// thread, on every rank that lives. Turns in flight end with stop "error".
  std::function<void(const Error&)> on_group_lost;
};

struct LaneStats {
  uint64_t iterations = 0;
  uint64_t tokens_sampled = 0;
  uint64_t prefill_tokens = 0;  // rows computed that sampled nothing
  uint64_t evictions = 0;       // trajectories that lost their KV to another
  double busy_seconds = 0;      // inside iterations, callbacks apart
  double callback_seconds = 0;
  double idle_seconds = 0;
  uint32_t running = 0;  // trajectories that hold a slot
  uint32_t waiting = 0;  // requests without a slot
  int32_t blocks_free = 0;
  int32_t blocks_total = 0;
  /// Returns rows per iteration.
  double mean_batch() const {
    const auto rows = static_cast<double>(tokens_sampled + prefill_tokens);
    return iterations == 0 ? 0.0 : rows / static_cast<double>(iterations);
  }
};

struct GenerationStats {
  std::vector<LaneStats> lanes;
  LaneStats total;  // sums
};

using OutputHandler = std::function<void(std::vector<TurnOutput>)>;

class GenerationEngine {
 public:
  /// Returns Errc::invalid_argument naming the option that is wrong. Takes no card memory yet.
  static Expected<std::unique_ptr<GenerationEngine>> create(const GenerationOptions& options);
  /// Stops, then frees what is on the card.
  ~GenerationEngine();
  GenerationEngine(const GenerationEngine&) = delete;
  GenerationEngine& operator=(const GenerationEngine&) = delete;

  /// Starts the lanes. `on_outputs` gets, once per iteration, all turns that ended in it. REQUIRES:
  /// called once.
  void start(OutputHandler on_outputs);
  /// Ends the lanes after at most one iteration each; turns not finished give no output.
  /// Idempotent.
  void stop();

  // -- weights: two phases; the version served does not change before commit (PLACE-5)
  // --------------
  /// Opens the arrival of a version, an unfinished earlier one is dropped, and returns where it is
  /// to be written: weight_bytes() of zeros on the host, as layout_of(model) says (under tensor
  /// parallelism that of tp_config()). The bytes are the caller's until commit_weights() or the
  /// next begin_weights(); that they are complete and undamaged is its matter (PUBLISH-1).
  Expected<std::span<std::byte>> begin_weights(uint64_t version);
  /// Serves the version from the next iteration on. Returns Errc::invalid_argument if `version` was
  /// not begun, Errc::placement on the leader of a group while turns are in flight (its followers
  /// could not change at the same iteration): the old one stays.
  Expected<void> commit_weights(uint64_t version);
  uint64_t weight_version() const;
  uint64_t weight_bytes() const;    // of the flat buffer, of this rank's part
  const ModelConfig& part() const;  // the model, or this rank's part (tp_config)

  // -- residency: each waits for the iterations in progress to end
  // ----------------------------------
  /// Takes card memory for the weights, and brings back what offload_params kept on the host.
  Expected<Residency> onload_params();
  /// Frees it; the weights stay on the host. Errc::placement while turns are in flight.
  Expected<Residency> offload_params();
  /// Takes up to `bytes` (whole blocks, the same for every lane). Errc::capacity if a lane gets no
  /// block.
  Expected<Residency> init_cache(uint64_t bytes);
  /// Frees it. Trajectories between two turns are computed again when they go on. Errc::placement
  /// while turns are in flight.
  Expected<Residency> free_cache();
  uint64_t param_bytes_on_card() const;  // what onload_params takes
  uint64_t kv_bytes_per_token() const;
  uint64_t kv_block_bytes() const;

  // -- turns
  // ----------------------------------------------------------------------------------------
  /// Hands a turn to the lane that has its trajectory, or, for the first one, to the lane with the
  /// fewest outstanding tokens. Returns Errc::placement (PLACE-4), Errc::backpressure if
  /// max_waiting requests wait, Errc::closed after stop() or when the group is lost,
  /// Errc::invalid_argument for a bad request (token outside the vocabulary) and on a follower. A
  /// turn that cannot fit the context or the whole cache ends with stop "length", not here.
  Expected<void> submit(TurnRequest request);
  /// Forgets the trajectory: its KV is free and its turn, if one is in flight, gives no output.
  /// Unknown: no effect.
  void finish(uint64_t request_id);
  GenerationStats stats() const;

 private:
  class Impl;
  explicit GenerationEngine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::compute

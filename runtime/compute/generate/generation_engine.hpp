#pragma once
/// A generation engine: answers turns of trajectories with tokens that a served weight version
/// samples. The rollout actor knows nothing else of how tokens come. Engines: the built-in one
/// (built_in_engine.hpp) and those of the table in engine_table.cpp. Owner: the rollout actor.
/// Thread-safe: every call may come from any thread; the output handler runs on a thread of the
/// engine, without a lock held, and may call submit(), finish() and abort(), nothing else.
///
/// A trajectory is a request_id and the tokens of its turns so far; the engine keeps them between
/// turns (or their KV, or both) until finish() or abort().
/// GEN-2: a submitted turn gives exactly one output, unless it is finished or the engine is stopped
/// before. GEN-3: a turn goes on from the tokens that its caller means, or it is refused: see
/// TurnRequest::kept_tokens. PLACE-4: submit() is refused unless weights and cache are on the card.
/// PLACE-5: see begin_weights() and commit_weights().
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/generate/sampling.hpp"
#include "runtime/compute/model/model_layout.hpp"

namespace cohort::compute {

struct TurnRequest {
  uint64_t request_id = 0;  // of the trajectory: the same in all its turns, another's never
  std::vector<int32_t> append_tokens;
  /// How many tokens of the trajectory the caller takes the engine to keep, before those appended;
  /// 0 begins a trajectory. Unset: the engine's own count is not doubted.
  std::optional<size_t> kept_tokens = {};
  int max_new_tokens = 1;
  std::vector<int32_t> stop_ids;  // a sampled stop id ends the turn and is part of its tokens
  /// Asked about each sampled token that is no stop id, in order, on a thread of the engine; true
  /// ends the turn behind it, with TurnStop::stop. May be empty. It must answer at once.
  std::function<bool(int32_t token)> ends_turn = {};
  SamplingOptions sampling;
  uint64_t rng_key = 0;  // of (seed, step, kind, group, index)
  uint32_t turn = 0;
  /// Of the turn's first token to sample: those before it are an aborted turn's, appended again.
  uint32_t first_position = 0;
  bool is_last = false;  // the engine finishes the trajectory with this turn
};

/// Returns Errc::invalid_argument naming request, turn and what is wrong with it.
Expected<void> validate(const TurnRequest& request, int64_t vocab_size);

enum class TurnStop : uint8_t {
  none,     // of no turn
  stop,     // a stop id, or ends_turn said so
  length,   // max_new_tokens, or the context is full
  aborted,  // abort() or pause(PauseMode::abort)
  error,
};
std::string_view to_string(TurnStop stop);

struct TurnOutput {
  uint64_t request_id = 0;
  uint32_t turn = 0;
  std::vector<int32_t> tokens;
  std::vector<float> logp;         // behaviour log-prob: full softmax at temperature 1, greedy too
  std::vector<uint32_t> versions;  // weight version that sampled each token
  TurnStop stop = TurnStop::none;
  double seconds = 0;  // from submit to here
};
using OutputHandler = std::function<void(std::vector<TurnOutput>)>;

/// What an engine can hold. Constant from its opening on.
struct EngineCapacity {
  bool takes_turns = true;      // false: a rank that only follows the one that does
  int64_t max_context = 0;      // [tokens] of a trajectory
  uint64_t max_running = 0;     // trajectories; further ones wait
  uint64_t weight_bytes = 0;    // of begin_weights()
  uint64_t param_bytes = 0;     // that onload_params() takes on the card
  uint64_t kv_token_bytes = 0;  // of the cache; 0: the cache is not on a card of ours
  uint64_t kv_block_bytes = 0;  // the least that init_cache() takes, for each worker
};

/// Counters of one worker: a thread, a server, or what else iterates alone.
struct WorkerStats {
  uint64_t iterations = 0;
  uint64_t tokens_sampled = 0;
  uint64_t prefill_tokens = 0;  // rows computed that sampled nothing
  uint64_t evictions = 0;       // trajectories that lost their KV to another
  double busy_seconds = 0;      // inside iterations, callbacks apart
  uint32_t running = 0;         // trajectories that hold a slot
  uint32_t waiting = 0;         // requests without a slot
  int32_t blocks_free = 0;
  int32_t blocks_total = 0;
  /// Returns rows per iteration.
  double mean_batch() const {
    const auto rows = static_cast<double>(tokens_sampled + prefill_tokens);
    return iterations == 0 ? 0.0 : rows / static_cast<double>(iterations);
  }
};

struct EngineStats {
  std::vector<WorkerStats> workers;
  WorkerStats total;  // sums
  /// Returns the seconds of the worker that was busy longest since `start`.
  double busiest_since(const EngineStats& start) const;
};

EngineStats stats_of(std::vector<WorkerStats> workers);

/// Where a new version is to be written before it is committed.
struct WeightArrival {
  std::span<std::byte> bytes;  // zeros, on the host
  ParameterLayout layout;      // of them: the model, or this rank's part
  size_t element_bytes = 0;
};

/// Writes elements of a parameter of the layout, from `begin` on, as many as `to` holds, in the
/// element type of the arrival. Called from several threads at once.
using WeightReader =
    std::function<void(const ParameterSpec& spec, int64_t begin, std::span<std::byte> to)>;

/// Reads elements of the flat buffer from `begin` on, as many as `to` holds, parameter by
/// parameter; what lies between two of them is zero.
void read_flat(const ParameterLayout& layout, size_t element_bytes, const WeightReader& read,
               int64_t begin, std::span<std::byte> to);

enum class PauseMode : uint8_t {
  keep,   // turns in flight stay as they are, with their KV, and go on after resume()
  abort,  // turns in flight end with what they have sampled, as after abort()
};

class GenerationEngine {
 public:
  GenerationEngine() = default;
  virtual ~GenerationEngine() = default;  // stops, then frees what is on the card
  GenerationEngine(const GenerationEngine&) = delete;
  GenerationEngine& operator=(const GenerationEngine&) = delete;

  virtual EngineCapacity capacity() const = 0;
  /// Opens for turns. `on_outputs` gets turns that ended, several at a time. REQUIRES: called once.
  virtual void start(OutputHandler on_outputs) = 0;
  /// Turns that are not finished give no output. Idempotent.
  virtual void stop() = 0;

  // -- weights: two phases; the version served does not change before commit (PLACE-5)
  /// Opens the arrival of a version; an unfinished earlier one is dropped. The bytes are the
  /// caller's until commit_weights() or the next begin_weights(); the caller answers for their
  /// being complete and undamaged (PUBLISH-1).
  virtual Expected<WeightArrival> begin_weights(uint64_t version) = 0;
  /// Serves the version from the next token on. Returns Errc::invalid_argument if `version` was not
  /// begun, Errc::placement if the engine cannot change with turns in flight: the old one stays.
  /// After another error it serves none.
  virtual Expected<void> commit_weights(uint64_t version) = 0;
  virtual uint64_t weight_version() const = 0;
  /// begin_weights() and commit_weights() of what `read` gives; an engine that can take it straight
  /// to the card holds no second copy of the model.
  virtual Expected<void> load_weights(uint64_t version, const WeightReader& read);
  /// Forgets what was computed from earlier weights: the tokens of every trajectory are computed
  /// again before it goes on. Returns when that is so, or Errc::timeout: a mixture would be served.
  virtual Expected<void> reset_cache() = 0;

  // -- sleep and wake: each waits for the iterations in progress to end
  /// Takes card memory for the weights, and brings back what offload_params() kept on the host.
  virtual Expected<Residency> onload_params() = 0;
  /// Frees it; the weights stay on the host. Errc::placement while turns are in flight.
  virtual Expected<Residency> offload_params() = 0;
  /// Takes up to `bytes` (whole blocks, the same for every worker). Errc::capacity if a worker gets
  /// no block.
  virtual Expected<Residency> init_cache(uint64_t bytes) = 0;
  /// Frees it. Trajectories between two turns are computed again when they go on. Errc::placement
  /// while turns are in flight.
  virtual Expected<Residency> free_cache() = 0;

  // -- turns
  /// Returns Errc::placement (PLACE-4), Errc::backpressure when no more requests may wait,
  /// Errc::closed after stop() or when the engine is lost, Errc::invalid_argument for a bad request
  /// (a token outside the vocabulary, other tokens kept than the caller says) and where turns are
  /// not taken. A turn that cannot fit the context or the whole cache ends with TurnStop::length,
  /// not here.
  virtual Expected<void> submit(TurnRequest request) = 0;
  /// Forgets the trajectory: its turn, if one is in flight, gives no output. Unknown: no effect.
  virtual void finish(uint64_t request_id) = 0;
  /// As finish(), but a turn in flight gives its output: what it has sampled, TurnStop::aborted (or
  /// how it ended, if it was faster; the trajectory is forgotten all the same). To go on, submit
  /// all tokens again as a new trajectory.
  virtual void abort(uint64_t request_id) = 0;
  /// Samples nothing until resume(); turns may be submitted and wait. Idempotent.
  virtual void pause(PauseMode mode) = 0;
  virtual void resume() = 0;
  virtual EngineStats stats() const = 0;
};

/// Commits a version that has arrived whole and has the engine sample from nothing older: pause,
/// commit, forget the cache, resume.
Expected<void> serve_weights(GenerationEngine& engine, uint64_t version);

}  // namespace cohort::compute

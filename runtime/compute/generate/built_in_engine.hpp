#pragma once
/// The generation engine of one card: continuous batching over a paged KV cache.
///
/// `lanes` worker threads each run their own slots: an iteration is one packed forward over prefill
/// chunks (tokens appended by new turns) and decode rows; a finished turn leaves at once and a
/// waiting one takes its place. A trajectory keeps its KV between its turns; when blocks run out,
/// idle and then younger trajectories lose theirs and are computed again later, with the same bits.
/// Bound: at most max_waiting requests wait (FLOW-4); KV bytes are those of init_cache(). Contract:
/// GenerationEngine, and
/// GEN-1: with the CPU kernels (decode_kernels.hpp), f32 and bf16, tokens and log-prob bits of a
/// turn are a function of (weights, tokens so far, request) only: not of the batch, the lane, its
/// threads, the chunking of the prefill, or an eviction.
///
/// Tensor parallelism: one engine per card, all with the same options but for card and groups. Each
/// takes its part of the weights (model_tp.hpp) and of the KV cache; weights, residency commands
/// and pauses are given to every engine. Turns go to rank 0, which schedules, samples and answers;
/// the others follow it (TP-1 … TP-4, model_tp.hpp and tp_link.hpp). GEN-1 holds for a given group
/// size. Weights are committed between turns only, since the followers could not change at the
/// same iteration.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/generate/generation_engine.hpp"
#include "runtime/model/lora.hpp"

namespace cohort::compute {

struct EngineSetup;

enum class RunnerKind : uint8_t { automatic, cpu_packed, aten };

struct BuiltInOptions {
  ModelConfig model;
  CardMemory* card = nullptr;  // outlives the engine
  uint32_t lanes = 1;
  uint32_t threads_per_lane = 1;  // that share an iteration (CPU kernels); 1 with groups
  uint32_t max_running = 64;      // trajectories in the cache, per lane
  int64_t max_context = 0;        // [tokens] 0: the model's max_position
  int64_t batch_tokens = 256;     // rows of one iteration, per lane; decode rows go first
  uint32_t max_waiting = 65536;   // requests, per lane
  RunnerKind runner = RunnerKind::automatic;
  /// Tensor parallelism: `model` is cut over the ranks of a group. One group per lane, since lanes
  /// iterate on their own; every engine has the same rank in all of them. Empty: not cut.
  std::vector<std::shared_ptr<Collectives>> groups;
  /// What arrives is this adapter, over the model of `base_folder`; what is served is merged
  /// (lora_base.hpp).
  std::optional<model::LoraShape> lora = {};
  std::string base_folder;
  int group_beat_ms = 10000;  // an idle leader speaks so often; well below the groups' timeout
  /// A rank died or a wait ended (COLL-2): this engine computes no more. Called once, on a lane's
  /// thread, on every rank that lives. Turns in flight end with TurnStop::error.
  std::function<void(const Error&)> on_group_lost;
};

/// Returns Errc::invalid_argument naming the option that is wrong. Takes no card memory yet.
Expected<std::unique_ptr<GenerationEngine>> open_built_in(const BuiltInOptions& options);
/// Of the engine table: joins the groups first.
Expected<std::unique_ptr<GenerationEngine>> open_built_in(const EngineSetup& setup);

}  // namespace cohort::compute

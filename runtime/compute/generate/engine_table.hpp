#pragma once
/// The generation engines that a rollout can be given, by name. An engine that is added is one row
/// of the table in engine_table.cpp and a file of its own (docs/extending.md).
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/generate/generation_engine.hpp"
#include "runtime/model/lora.hpp"

namespace cohort::compute {

/// What a run knows of one card of a rollout; each engine takes what it needs.
struct EngineSetup {
  ModelConfig model;
  CardMemory* card = nullptr;  // outlives the engine
  uint32_t threads = 1;
  uint32_t max_running = 256;  // trajectories at a time
  int64_t max_context = 0;     // [tokens]
  /// Tensor parallelism: the replica's groups, one per thread, joined when the engine is opened.
  /// Empty: the replica is one card.
  std::vector<GroupOptions> groups;
  std::function<void(std::shared_ptr<Collectives>)> on_group;  // of each group that is joined
  /// The engine computes no more: a rank died, a server is gone. Called once, on any thread. Turns
  /// in flight end with TurnStop::error.
  std::function<void(const Error&)> on_lost;
  std::map<std::string, std::string> settings;  // of the engine alone: engine_settings
  /// Versions are this adapter's, over the model of `base_folder`.
  std::optional<model::LoraShape> lora = {};
  std::string base_folder;
};

struct EngineRow {
  std::string_view name;  // as strategy_args.engine says it
  std::string_view help;
  bool is_blocking = false;  // its calls wait for others: the rollout has a thread of its own
  Expected<std::unique_ptr<GenerationEngine>> (*open)(const EngineSetup& setup) = nullptr;
};

/// Returns Errc::config with the names that there are.
Expected<EngineRow> engine_named(std::string_view name);

}  // namespace cohort::compute

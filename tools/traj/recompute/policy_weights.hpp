#pragma once
/// The weights of the policies that a recorded run has served: from its checkpoints, and where a
/// step has none by the updates from the checkpoint before it. Reads files; one thread. Bound: one
/// model on the host, and that of a Follower.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/run/preflight.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/generate/generation_engine.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/stream/reader.hpp"
#include "tools/traj/recompute/trained_run.hpp"

namespace cohort::traj {

class PolicyWeights {
 public:
  /// `run`: the run's folder. `card` outlives it. Returns Errc::corrupt for a damaged record.
  static Expected<PolicyWeights> open(const std::filesystem::path& run, stream::Reader& reader,
                                      const config::RunConfig& config,
                                      const actors::Preflight& plan, compute::CardMemory& card);
  /// Has the engine serve a version. Returns Errc::not_found if no checkpoint leads to it,
  /// Errc::unsupported if its updates do not replay, Errc::corrupt if the parameters are not those
  /// that the stream names.
  Expected<void> serve(uint64_t version, compute::GenerationEngine& engine);

 private:
  /// The engine that holds the parameters after `step`.
  Expected<compute::TrainEngine*> engine_at(uint64_t step);
  struct Recorded {
    uint64_t step = 0;
    std::string param_hash;
  };
  std::filesystem::path run_;
  std::map<uint64_t, Recorded> recorded_;                  // by version
  std::map<uint64_t, std::filesystem::path> checkpoints_;  // by step
  std::unique_ptr<compute::TrainEngine> model_;
  std::unique_ptr<TrainedRun> trained_;  // follower_ reads it
  std::optional<Follower> follower_;
};

}  // namespace cohort::traj

#pragma once
/// The weights of the policies that a recorded run has served, from its checkpoints. Reads files;
/// one thread. Bound: one model on the host.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "actors/run/preflight.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/generate/generation_engine.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/stream/reader.hpp"

namespace cohort::traj {

class PolicyWeights {
 public:
  /// `run`: the run's folder. `card` outlives it. Returns Errc::corrupt for a damaged record.
  static Expected<PolicyWeights> open(const std::filesystem::path& run, stream::Reader& reader,
                                      const config::RunConfig& config,
                                      const actors::Preflight& plan, compute::CardMemory& card);
  /// Has the engine serve a version. Returns Errc::not_found if no checkpoint has it, Errc::corrupt
  /// if the checkpoint has other parameters than those that the stream names.
  Expected<void> serve(uint64_t version, compute::GenerationEngine& engine);

 private:
  struct Recorded {
    uint64_t step = 0;
    std::string param_hash;
  };
  std::filesystem::path run_;
  std::map<uint64_t, Recorded> recorded_;                  // by version
  std::map<uint64_t, std::filesystem::path> checkpoints_;  // by step
  std::unique_ptr<compute::TrainEngine> model_;
};

}  // namespace cohort::traj

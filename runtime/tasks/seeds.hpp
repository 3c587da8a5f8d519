#pragma once
/// Which world an episode plays in. ROLL leaves training maps to an unseeded generator, so that two
/// runs of one seed differ; here every map is a pure function of the run's seed. All episodes of a
/// group share one map. TASK-3: training and warm start never play a map (cell for cell) of the
/// held-out set. Immutable after construction; any thread may ask.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/tasks/frozen_lake.hpp"

namespace cohort::tasks {

enum class EpisodeUse : uint8_t { train = 0, validation = 1, warm_start = 2 };

struct SeedOptions {
  uint64_t run_seed = 42;
  uint64_t train_span = 1'000'000;        // training seeds are drawn from [0, train_span)
  uint64_t validation_first = 1'000'000;  // held-out seeds are validation_first + group
  uint32_t validation_count = 256;
};

/// Returns the seed of draw `attempt` for a group: train and warm_start are draws of
/// Rng(run_seed).fork(use).fork(step).fork(group) in [0, train_span); validation is
/// validation_first + group at every step, so that curves compare like with like.
uint64_t episode_seed(const SeedOptions& options, EpisodeUse use, uint64_t step, uint32_t group,
                      uint32_t attempt = 0);
/// Returns validation_first .. validation_first + validation_count - 1.
std::vector<uint64_t> validation_seeds(const SeedOptions& options);

/// episode_seed with TASK-3: draws again while the map is one of the held-out maps. Distinct seeds
/// do give equal maps: on the default 4x4 lake 1 draw in 500 is one of the 256 held-out maps,
/// several in every run.
class EpisodeSeeds {
 public:
  EpisodeSeeds(const SeedOptions& options, const FrozenLakeConfig& lake)
      : EpisodeSeeds(options, lake, lake) {}
  /// For training on other lakes than the held-out ones (e.g. a smaller p: more holes). A map of
  /// another size is never a held-out one.
  EpisodeSeeds(const SeedOptions& options, const FrozenLakeConfig& train,
               const FrozenLakeConfig& held_out);
  /// For training on worlds that are no lakes: nothing is held out but the seeds.
  explicit EpisodeSeeds(const SeedOptions& options) : options_(options) {}
  uint64_t seed(EpisodeUse use, uint64_t step, uint32_t group) const;
  /// Returns whether the training lake of `seed` is a held-out map.
  bool is_held_out(uint64_t seed) const;
  const SeedOptions& options() const { return options_; }

 private:
  SeedOptions options_;
  int size_ = 0;  // of the training lakes
  double p_ = 0;
  std::set<std::string> held_out_;  // cells of the validation maps
};

}  // namespace cohort::tasks

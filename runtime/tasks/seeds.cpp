#include "runtime/tasks/seeds.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/rng.hpp"

namespace cohort::tasks {
namespace {

// Tiny lakes (2x2) may have every map held out: then there is nothing to train on, and we say so.
constexpr uint32_t k_attempts_max = 10'000;

}  // namespace

uint64_t episode_seed(const SeedOptions& options, EpisodeUse use, uint64_t step, uint32_t group,
                      uint32_t attempt) {
  if (use == EpisodeUse::validation) return options.validation_first + group;
  Rng rng = Rng(options.run_seed).fork(static_cast<uint64_t>(use)).fork(step).fork(group);
  rng.seek(attempt);
  return rng.below(options.train_span);
}

std::vector<uint64_t> validation_seeds(const SeedOptions& options) {
  std::vector<uint64_t> seeds(options.validation_count);
  for (uint32_t i = 0; i < options.validation_count; ++i)
    seeds[i] = episode_seed(options, EpisodeUse::validation, 0, i);
  return seeds;
}

EpisodeSeeds::EpisodeSeeds(const SeedOptions& options, const FrozenLakeConfig& train,
                           const FrozenLakeConfig& held_out)
    : options_(options), size_(train.size), p_(train.p) {
  COHORT_CHECK(options.train_span > 0, "TASK-3: no training seeds to draw from");
  for (uint64_t seed : validation_seeds(options))
    held_out_.insert(generate_map(seed, held_out.size, held_out.p).cells);
}

bool EpisodeSeeds::is_held_out(uint64_t seed) const {
  return size_ > 0 && held_out_.contains(generate_map(seed, size_, p_).cells);
}

uint64_t EpisodeSeeds::seed(EpisodeUse use, uint64_t step, uint32_t group) const {
  for (uint32_t attempt = 0; attempt < k_attempts_max; ++attempt) {
    uint64_t seed = episode_seed(options_, use, step, group, attempt);
    if (use == EpisodeUse::validation || !is_held_out(seed)) return seed;
  }
  check_failed(__FILE__, __LINE__, "attempt < k_attempts_max",
               "TASK-3: the held-out maps cover the whole lake; enlarge size or lower the count");
}

}  // namespace cohort::tasks

#pragma once
/// Seeded trajectories for property tests: every field set, columns present or not, bytes of any
/// value.
#include <string>

#include "runtime/base/rng.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::proto::test {

inline std::string random_text(Rng& rng, size_t max_size) {
  std::string text(rng.below(max_size + 1), '\0');
  for (char& c : text) c = static_cast<char>(rng.below(256));
  return text;
}

template <class T, class F>
std::vector<T> random_column(Rng& rng, size_t count, F&& draw) {
  std::vector<T> column;
  if (rng.below(4) == 0) return column;
  for (size_t i = 0; i < count; ++i) column.push_back(static_cast<T>(draw()));
  return column;
}

inline Trajectory random_trajectory(Rng& rng) {
  Trajectory x;
  x.run_id = random_text(rng, 20);
  x.key = {static_cast<TrajectoryKind>(rng.below(4)), rng.next_u64(),
           static_cast<uint32_t>(rng.next_u64()), static_cast<uint32_t>(rng.next_u64())};
  x.attempt = static_cast<uint32_t>(rng.below(5));
  x.tag = random_text(rng, 10);
  x.seed = rng.next_u64();
  x.prompt_id = random_text(rng, 10);
  x.weight_version_min = rng.below(10);
  x.weight_version_max = x.weight_version_min + rng.below(3);
  x.stop_reason = random_text(rng, 10);
  x.generate_seconds = rng.uniform();
  x.env_seconds = rng.uniform();
  x.score = rng.uniform() * 2 - 1;
  if (rng.below(2) == 0) x.mask_reason = random_text(rng, 12);
  x.is_greedy = rng.below(4) == 0;
  x.data_source = random_text(rng, 8);
  x.ground_truth = random_text(rng, 30);
  for (uint64_t i = rng.below(4); i > 0; --i)
    x.reward_parts.push_back(
        {random_text(rng, 8), rng.uniform(), rng.uniform(), random_text(rng, 12)});
  for (uint64_t i = rng.below(4); i > 0; --i)
    x.metrics.emplace_back(random_text(rng, 8), rng.uniform());
  size_t count = rng.below(3) == 0 ? rng.below(3) : rng.below(500);
  for (size_t i = 0; i < count; ++i) x.tokens.push_back(static_cast<int32_t>(rng.next_u64()));
  auto number = [&] { return rng.uniform() * -5; };
  x.response_mask = random_column<uint8_t>(rng, count, [&] { return rng.below(2); });
  x.behavior_logp = random_column<float>(rng, count, number);
  x.ref_logp = random_column<float>(rng, count, number);
  x.values = random_column<float>(rng, count, number);
  x.token_rewards = random_column<float>(rng, count, number);
  x.token_versions = random_column<uint32_t>(rng, count, [&] { return rng.below(100); });
  uint32_t end = 0;
  for (uint64_t i = rng.below(6); i > 0; --i) {
    auto begin = end + static_cast<uint32_t>(rng.below(count - end + 1));
    end = begin + static_cast<uint32_t>(rng.below(count - begin + 1));
    x.turns.push_back({begin, end, static_cast<float>(rng.uniform()), rng.below(2) == 1,
                       rng.below(2) == 1, random_text(rng, 40), random_text(rng, 40)});
  }
  x.teacher_logp = random_column<float>(rng, count, number);
  return x;
}

}  // namespace cohort::proto::test

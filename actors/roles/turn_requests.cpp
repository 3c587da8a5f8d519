#include "actors/roles/turn_requests.hpp"

#include <algorithm>

#include "runtime/base/rng.hpp"

namespace cohort::actors {

compute::SamplingOptions sampling_of(const config::GeneratingArgs& args) {
  compute::SamplingOptions sampling;
  sampling.greedy = args.temperature == 0;
  sampling.temperature = sampling.greedy ? 1.F : static_cast<float>(args.temperature);
  sampling.top_p = static_cast<float>(args.top_p);
  sampling.top_k = static_cast<int>(args.top_k);
  sampling.repetition_penalty = static_cast<float>(args.repetition_penalty);
  return sampling;
}

uint64_t rng_key_of(uint64_t seed, const TrajectoryKey& key) {
  return Rng(seed)
      .fork(static_cast<uint64_t>(key.kind))
      .fork(key.step)
      .fork(key.group)
      .fork(key.index)
      .next_u64();
}

size_t first_prompt(std::span<const proto::Turn> turns, size_t context_begin, size_t context) {
  const auto first = std::ranges::find(turns, context_begin, &proto::Turn::context_begin);
  return first == turns.end() ? context : first->response_begin - context_begin;
}

int room_behind(const AnswerBounds& bounds, size_t first_prompt, size_t context) {
  int limit = bounds.sequence;
  if (bounds.total > 0) limit = std::min(limit, static_cast<int>(first_prompt) + bounds.total);
  return limit - static_cast<int>(context);
}

int answer_limit(const AnswerBounds& bounds, int room, size_t sampled) {
  const int limit = std::min(std::max(1, bounds.per_answer), room);
  return std::max(1, limit - static_cast<int>(sampled));
}

}  // namespace cohort::actors

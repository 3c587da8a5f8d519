#pragma once
/// What a rollout asks of its engine for the answers of a trajectory, and so what their tokens are
/// a function of. A replay of recorded tokens asks the same. Pure.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/trajectory_kind.hpp"
#include "runtime/compute/generate/sampling.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::actors {

/// Returns how the answers of a run are sampled. Of a trajectory that is greedy, `greedy` is set.
compute::SamplingOptions sampling_of(const config::GeneratingArgs& args);

/// Returns the key of a trajectory's random numbers.
uint64_t rng_key_of(uint64_t seed, const TrajectoryKey& key);

/// How long a trajectory and its answers may be. [tokens]
struct AnswerBounds {
  int sequence = 0;    // the whole context
  int per_answer = 0;  // 0: one token
  int total = 0;       // all that comes after the first prompt; 0: the sequence is the bound
};
/// Returns the tokens of the prompt that a context of so many tokens, from `context_begin` of the
/// trajectory on, began with: all of them, until a turn of it is answered.
size_t first_prompt(std::span<const proto::Turn> turns, size_t context_begin, size_t context);
/// Returns how many tokens may follow a context, 0 or less for none. `first_prompt`: the tokens
/// before the first answer.
int room_behind(const AnswerBounds& bounds, size_t first_prompt, size_t context);
/// Returns how many tokens of an answer are still to be sampled at most, at least 1. `room`: of its
/// context; `sampled`: those of this answer that are sampled already.
int answer_limit(const AnswerBounds& bounds, int room, size_t sampled);

}  // namespace cohort::actors

#pragma once
/// Trajectories that are interrupted: by a publish that the engine cannot take with turns in
/// flight, or by a checkpoint, whose resumed run goes on with them (docs/async.md). Pure.
///
/// An unfinished trajectory is written as any other, with stop_reason "unfinished": its turns are
/// the answered ones; behind the last of them come, if it had the move, the next prompt (response
/// mask 0) and what had been sampled of its answer (mask 1).
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/compute/generate/generation_engine.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::actors {

/// Appends what was sampled later of the same turn; how it ended is told by the later part.
void join(compute::TurnOutput& before, compute::TurnOutput later);

/// Returns the trajectory with its open turn. `partial`: what is sampled of it, maybe nothing.
proto::Trajectory unfinished_of(const proto::Trajectory& so_far, std::span<const int32_t> prompt,
                                const compute::TurnOutput& partial);

/// What an unfinished trajectory has of the answer to a prompt.
struct Recalled {
  compute::TurnOutput output;
  bool is_whole = false;  // the turn was answered; else the rest is still to be sampled
};
/// Returns nothing if `unfinished` does not go on as `so_far` and then `prompt` do: its world is
/// another than the one that it was played in.
std::optional<Recalled> recall(const proto::Trajectory& unfinished, const proto::Trajectory& so_far,
                               std::span<const int32_t> prompt);

}  // namespace cohort::actors

#pragma once
/// A teacher that reads more than the policy does (ROLL's opsd_mode, on-policy self-distillation):
/// it judges the tokens of an answer behind a prompt of its own (TeacherHints). No actor in it; the
/// thread of the role.
#include <memory>
#include <span>

#include "actors/roles/reference_actor.hpp"
#include "actors/run/teacher_hints.hpp"

namespace cohort::actors {

/// Returns the trajectory with `prompt` in the place of its first turn's prompt: what the teacher
/// reads. REQUIRES: a trajectory of one context with a turn.
proto::Trajectory with_prompt(const proto::Trajectory& trajectory, std::span<const int32_t> prompt);

/// Returns the work of the role: teacher_logp of what is trained on.
FrozenWork hinted_log_probs(std::shared_ptr<const TeacherHints> hints);

}  // namespace cohort::actors

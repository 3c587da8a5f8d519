#pragma once
/// Reads what a run keeps to that is to repeat another (async.schedule).
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/plan/flow/recorded_schedule.hpp"

namespace cohort::actors {

/// `run`: a run folder, or its stream. Reads every trajectory of training once; of a trajectory
/// that was recorded several times the last. Returns Errc::not_found if no stream is there,
/// Errc::corrupt if a part of it is damaged, Errc::config if it has no trajectory of training.
Expected<plan::RecordedSchedule> read_schedule(const std::string& run);

}  // namespace cohort::actors

#pragma once
/// From a recorded trajectory to what the pages of a run show of it. Pure.
#include "runtime/observe/browse_data.hpp"
#include "runtime/stream/record.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort {

observe::TrajectoryLine line_of(const proto::Trajectory& x);

/// Returns page `page` of its tokens, and the whole rest. `tokenizer` is null if the run's is not
/// known: tokens have no text then.
observe::TrajectoryPage page_of(const stream::RecordInfo& info, const proto::Trajectory& x,
                                const tasks::Tokenizer* tokenizer, size_t page);

}  // namespace cohort

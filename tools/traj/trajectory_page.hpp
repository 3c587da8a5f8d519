#pragma once
/// From a recorded trajectory to what pages show of it. Pure. A tokenizer is null where the run's
/// not known: tokens have no text then.
#include "runtime/observe/browse_data.hpp"
#include "runtime/observe/token_page.hpp"
#include "runtime/stream/record.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::traj {

observe::TrajectoryLine line_of(const proto::Trajectory& x);

/// Returns page `page` of its tokens, and all the rest.
observe::TrajectoryPage page_of(const stream::RecordInfo& info, const proto::Trajectory& x,
                                const tasks::Tokenizer* tokenizer, size_t page);

/// Returns its first `tokens_max` tokens, without advantages.
observe::TokenPage coloured_of(const stream::RecordInfo& info, const proto::Trajectory& x,
                               const tasks::Tokenizer* tokenizer, size_t tokens_max);

}  // namespace cohort::traj

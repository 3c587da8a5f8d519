#pragma once
/// Hands the rows of pipelines sft, dpo and rm to the trainer, or to the reference in front of it,
/// and recorded trajectories (from_stream) to the rewards: it takes leases as a rollout does, and
/// has the trajectories ready, so that the run, the stream and what is done after a loss are those
/// of every pipeline. It needs no card, no engine and no weights. Owner: node, in its process.
/// Thread: CAF's scheduler. Bound: the frames of its open leases, which are the rows of a step
/// (FLOW-4). LEASE-1 as RolloutActor. Messages: PlayerActor in role_handles.hpp.
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/roles/role_parts.hpp"
#include "actors/run/recorded_groups.hpp"
#include "actors/run/row_set.hpp"

namespace cohort::actors {

/// Returns what group `position` of a lease is: its trajectories that are asked for, in order.
using LeaseReader = std::function<Expected<std::vector<proto::Trajectory>>(
    const control::Lease& lease, size_t position)>;
LeaseReader reader_of(std::shared_ptr<const RowSet> rows);
LeaseReader reader_of(std::shared_ptr<RecordedGroups> recorded);

struct RowFeederOptions {
  transport::Context* context = nullptr;
  std::vector<transport::LinkOptions> outputs;  // to each card of the role that has them first
  LeaseReader read;
  std::string run_id;
  size_t frame_trajectories = 32;
  /// A trajectory leaves so long after its lease as its generate_seconds and env_seconds say.
  bool is_paced = false;
  FailureSink fail;
};

PlayerActor spawn_row_feeder(caf::actor_system& system, RowFeederOptions options);

/// Returns answer key.index of row `row` as the trajectory `key` of version `version`.
proto::Trajectory trajectory_of(const RowSet& rows, uint64_t row, const proto::TrajectoryKey& key,
                                uint64_t version);

}  // namespace cohort::actors

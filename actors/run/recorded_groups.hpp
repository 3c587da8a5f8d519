#pragma once
/// The groups of a recorded run, to be scored and trained on again in place of rollouts
/// (from_stream, docs/replay.md). Reads the stream; thread-safe. Bound: the index of the recorded
/// stream, one trajectory a call.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/run/prompt_set.hpp"
#include "actors/run/task_source.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/stream/reader.hpp"

namespace cohort::actors {

class RecordedGroups {
 public:
  /// Returns Errc::not_found if `from_stream` names no stream, Errc::config if its first step, or
  /// its supervised start, has not the groups that this config trains on.
  static Expected<std::shared_ptr<RecordedGroups>> open(const config::RunConfig& config);

  /// The steps from 1 on that have all groups.
  uint64_t steps() const { return steps_; }
  /// The number of trajectories of a group, 0 if there is none.
  uint32_t size_of(TrajectoryKind kind, uint64_t step, uint32_t group) const;
  /// Returns the newest record of the trajectory as it left its rollout: without score, masks of
  /// rewards and columns of other roles. Errc::corrupt names the record.
  Expected<proto::Trajectory> read(const proto::TrajectoryKey& key);
  /// What the group played. Errc::not_found if it is not recorded.
  Expected<GroupTask> task_of(TrajectoryKind kind, uint64_t step, uint32_t group);

 private:
  explicit RecordedGroups(stream::Reader reader) : reader_(std::move(reader)) {}
  Expected<void> check(const config::RunConfig& config);
  std::mutex mutex_;
  stream::Reader reader_;
  std::string name_;
  std::map<proto::TrajectoryKey, stream::RecordInfo> records_;
  uint64_t steps_ = 0;
};

/// The recorded groups of each step, in their order. `prompts`: of pipeline rlvr, else null.
std::unique_ptr<TaskSource> make_recorded_tasks(const config::RunConfig& config,
                                                std::shared_ptr<RecordedGroups> groups,
                                                std::shared_ptr<const PromptSet> prompts);

}  // namespace cohort::actors

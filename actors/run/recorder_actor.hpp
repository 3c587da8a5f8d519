#pragma once
/// The stream's only writer; it also writes the trajectories of a checkpoint, as a small stream in
/// its folder. Owner: node. Thread: its own (appends may wait for the disk).
/// Holds no queue of its own: senders wait for its answer before they acknowledge anything
/// (FLOW-2). Errors: io (full disk, with path and bytes) goes back to the sender, which ends the
/// run.
#include <memory>

#include "actors/roles/role_handles.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::actors {

struct RecorderState {
  static inline const char* name = "recorder";
  std::shared_ptr<stream::Writer> writer;
  caf::result<uint64_t> on_trajectories(const TrajectoryBatch& batch);
  caf::result<bool> on_json(uint16_t type, const std::string& json);
  caf::result<bool> on_flush();
  static caf::result<bool> on_save(const std::string& folder, const TrajectoryBatch& batch);
  static caf::result<TrajectoryBatch> on_load(const std::string& folder);
};

/// `writer` null: recording is off, everything is answered at once.
RecorderActor::behavior_type recorder(RecorderActor::stateful_pointer<RecorderState> self,
                                      std::shared_ptr<stream::Writer> writer);

}  // namespace cohort::actors

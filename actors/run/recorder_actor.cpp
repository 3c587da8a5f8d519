#include "actors/run/recorder_actor.hpp"

#include "runtime/base/failpoint.hpp"

namespace cohort::actors {

using namespace control;

caf::result<uint64_t> RecorderState::on_trajectories(const TrajectoryBatch& batch) {
  for (const proto::Trajectory& trajectory : *batch) {
    if (!writer) break;
    if (auto passed = failpoint::check("recorder.append"); !passed) return to_caf(passed.error());
    auto id = writer->append_trajectory(trajectory);
    if (!id) return to_caf(id.error());
  }
  return batch->size();
}

caf::result<bool> RecorderState::on_json(uint16_t type, const std::string& json) {
  if (writer) {
    auto id = writer->append_json(static_cast<stream::RecordType>(type), json);
    if (!id) return to_caf(id.error());
  }
  return true;
}

caf::result<bool> RecorderState::on_flush() {
  if (writer) {
    auto synced = writer->sync();
    if (!synced) return to_caf(synced.error());
  }
  return true;
}

RecorderActor::behavior_type recorder(RecorderActor::stateful_pointer<RecorderState> self,
                                      std::shared_ptr<stream::Writer> writer) {
  self->state.writer = std::move(writer);
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  return {
      [self](record_atom, const TrajectoryBatch& batch) {
        return self->state.on_trajectories(batch);
      },
      [self](record_atom, uint16_t type, const std::string& json) {
        return self->state.on_json(type, json);
      },
      [self](flush_atom) { return self->state.on_flush(); },
  };
}

}  // namespace cohort::actors

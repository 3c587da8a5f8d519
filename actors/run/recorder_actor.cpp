#include "actors/run/recorder_actor.hpp"

#include <filesystem>
#include <utility>

#include "runtime/base/failpoint.hpp"
#include "runtime/stream/reader.hpp"

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

namespace {

Expected<void> write_batch(const std::string& folder, const TrajectoryBatch& batch) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);  // of a save that was cut short
  COHORT_ASSIGN(stream::Writer to, stream::Writer::open(folder, {.preallocate = false}));
  for (const proto::Trajectory& trajectory : *batch)
    if (auto id = to.append_trajectory(trajectory); !id) return id.error();
  return to.close();
}

Expected<TrajectoryBatch> read_batch(const std::string& folder) {
  auto batch = std::make_shared<std::vector<proto::Trajectory>>();
  std::error_code code;
  if (!std::filesystem::exists(folder, code)) {
    if (code) return Error{Errc::io, code.message()};
    return batch;
  }
  COHORT_ASSIGN(stream::Reader from, stream::Reader::open(folder));
  for (;;) {
    COHORT_ASSIGN(const auto record, from.next());
    if (!record) return batch;
    COHORT_ASSIGN(proto::Trajectory trajectory, record->trajectory());
    batch->push_back(std::move(trajectory));
  }
}

}  // namespace

caf::result<bool> RecorderState::on_save(const std::string& folder, const TrajectoryBatch& batch) {
  if (auto written = write_batch(folder, batch); !written)
    return to_caf(written.error().with_context(folder));
  return true;
}

caf::result<TrajectoryBatch> RecorderState::on_load(const std::string& folder) {
  auto batch = read_batch(folder);
  if (!batch) return to_caf(batch.error().with_context(folder));
  return *batch;
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
      [](save_atom, const std::string& folder, const TrajectoryBatch& batch) {
        return RecorderState::on_save(folder, batch);
      },
      [](load_atom, const std::string& folder) { return RecorderState::on_load(folder); },
  };
}

}  // namespace cohort::actors

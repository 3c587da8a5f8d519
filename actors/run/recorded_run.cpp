#include "actors/run/recorded_run.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/stream/reader.hpp"
#include "runtime/stream/stream_file.hpp"

namespace cohort::actors {
Expected<plan::RecordedSchedule> read_schedule(const std::string& run) {
  COHORT_ASSIGN(const std::filesystem::path folder, stream::folder_of(run));
  COHORT_ASSIGN(stream::Reader reader, stream::Reader::open(folder));
  plan::RecordedSchedule schedule;
  for (;;) {
    COHORT_ASSIGN(std::optional<stream::Record> record, reader.next());
    if (!record) break;
    if (record->info.type == stream::RecordType::trajectory) {
      COHORT_ASSIGN(const proto::Trajectory t, record->trajectory());
      if (t.key.kind == TrajectoryKind::train)
        schedule.add(t.key.step, t.key.group, t.key.index,
                     plan::spans_of(t.token_versions, t.response_mask));
    } else if (record->info.type == stream::RecordType::weight_version) {
      const auto data = nlohmann::json::parse(record->text(), nullptr, false);
      if (data.is_object() && data.contains("step") && data.contains("param_hash"))
        schedule.add_hash(data["step"].get<uint64_t>(), data["param_hash"].get<std::string>());
    }
  }
  if (schedule.trajectories() == 0)
    return Error{Errc::config, fmt::format("{}: no trajectory of training is recorded", run)};
  return schedule;
}

}  // namespace cohort::actors

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/traj/open_run.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {

Expected<void> records(const RecordsOptions& options) {
  auto type = stream::parse_record_type(options.type);
  if (!options.type.empty() && (!type || *type == stream::RecordType::trajectory))
    return Error{Errc::invalid_argument,
                 fmt::format("no JSON record type '{}': run_config, plan, phase, weight_version, "
                             "advantages, step_result, event, checkpoint",
                             options.type)};
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  COHORT_ASSIGN(const stream::Index* index, reader.index());
  const uint64_t losses = tell_losses(*index);
  uint64_t damaged = 0;
  bool is_step_there = !options.step;
  for (const stream::RecordInfo& info : index->records()) {
    is_step_there |= options.step && info.key.step == options.step;
    if (info.type == stream::RecordType::trajectory || (type && info.type != *type) ||
        (options.step && info.key.step != options.step))
      continue;
    auto record = reader.read(info);
    if (!record) {
      ++damaged;
      fmt::print(stderr, "traj: left out: {}\n", record.error().detail);
      continue;
    }
    // One JSON object a line: {"record": 4, "type": "event", "data": {…as it was recorded…}}.
    fmt::print("{{\"record\":{},\"type\":\"{}\",\"data\":{}}}\n", info.number,
               stream::to_string(info.type),
               nlohmann::ordered_json::parse(record->text(), nullptr, false).dump());
  }
  if (!is_step_there && losses == 0)
    return Error{Errc::not_found,
                 fmt::format("{}: no record is of step {}", options.run, *options.step)};
  return to_result(losses, damaged, "records");
}

}  // namespace cohort::traj

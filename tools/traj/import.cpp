#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/read_file.hpp"
#include "runtime/stream/writer.hpp"
#include "tools/traj/import_rows.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

namespace fs = std::filesystem;

Expected<ImportedRows> read_rows(const std::string& file, const std::string& run_id) {
  ImportedRows rows(file, run_id);
  COHORT_TRY(for_each_line(
      file, [&](std::string_view text, uint64_t line) { return rows.add(text, line); }));
  if (rows.trajectories().empty()) return Error{Errc::config, file + ": has no rows"};
  return rows;
}

Expected<void> write_stream(const fs::path& folder, const ImportedRows& rows,
                            const nlohmann::ordered_json& config) {
  const std::string run_id = config["run_id"];
  COHORT_ASSIGN(stream::Writer writer,
                stream::Writer::open(folder, {.run_id = run_id, .preallocate = false}));
  if (auto id = writer.append_json(stream::RecordType::run_config, config.dump()); !id)
    return id.error();
  for (const proto::Trajectory& t : rows.trajectories())
    if (auto id = writer.append_trajectory(t); !id) return id.error();
  return writer.close();
}

}  // namespace

Expected<void> import_jsonl(const ImportOptions& options) {
  fs::path run(options.run);
  if (!run.has_filename()) run = run.parent_path();
  std::error_code error;
  if (fs::exists(run, error) && !fs::is_empty(run, error))
    return Error{
        Errc::invalid_argument,
        fmt::format("{}: is there already; import makes a folder of its own", options.run)};
  const std::string run_id = run.filename();
  COHORT_ASSIGN(const ImportedRows rows, read_rows(options.file, run_id));
  const ImportedShape shape = shape_of(rows.trajectories());
  const auto dialect = options.is_verl ? ImportDialect::verl : ImportDialect::roll;
  const std::string yaml = imported_config(shape, dialect);
  fs::create_directories(run / "stream", error);
  if (error)
    return Error{Errc::io, fmt::format("cannot create {}: {}", run.string(), error.message())};
  COHORT_TRY(write_stream(run / "stream", rows,
                          {{"run_id", run_id}, {"yaml", yaml}, {"imported_from", options.file}}));
  std::ofstream(run / "config.yaml") << yaml;
  fmt::print("{} trajectories, at most {} groups in a step and {} in a group, to {}\n",
             rows.trajectories().size(), shape.groups, shape.group_size, run.string());
  return {};
}

}  // namespace cohort::traj

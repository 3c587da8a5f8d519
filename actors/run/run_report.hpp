#pragma once
/// report.html of a run, from its RunLog and its stream. No actor in it.
#include "actors/run/driver_actor.hpp"
#include "actors/run/preflight.hpp"
#include "actors/run/run_folder.hpp"
#include "actors/run/run_log.hpp"

namespace cohort::actors {

/// Held-out success of the scripted players: random valid, walk straight (blind to holes), shortest
/// path.
std::vector<observe::ReferenceLine> scripted_references(const Preflight& plan,
                                                        const std::string& val_tag, uint64_t seed);

/// The stream's run_config record: {"run_id", "yaml"}.
std::string run_config_record(const std::string& run_id, const std::string& yaml);

/// Writes report.html into the run folder. Returns Errc::io naming the path.
Expected<void> write_run_report(const config::RunConfig& config, const Preflight& plan,
                                const RunFolder& folder, RunLog& log, const RunResult& result);

}  // namespace cohort::actors

#include "tools/actor-node/run_waits.hpp"

#include <fmt/format.h>

#include "runtime/base/host_name.hpp"

namespace cohort {

Expected<RunWaits> read_run_waits(const std::filesystem::path& run, double after_s,
                                  std::chrono::milliseconds window) {
  std::error_code ignored;
  if (!std::filesystem::exists(run / "config.yaml", ignored))
    return Error{Errc::not_found,
                 fmt::format("{}: no run's folder (it has no config.yaml); the last line of a run, "
                             "`run: FOLDER`, and its dashboard name it; a cluster is named by its "
                             "head, HOST:PORT",
                             run.string())};
  actors::HostWaits host = actors::read_host_waits(run, window);
  RunWaits found;
  found.input.now = host.now;
  found.input.after_s = after_s;
  found.input.processes = std::move(host.processes);
  for (const auto& [pid, state] : host.states) found.input.states[{host_name(), pid}] = state;
  found.elsewhere = std::move(host.elsewhere);
  return found;
}

}  // namespace cohort

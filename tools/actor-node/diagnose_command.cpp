#include "tools/actor-node/diagnose_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/actor-node/cluster_waits.hpp"
#include "tools/actor-node/run_waits.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

struct Row {
  const ProcessWaits* process;
  const WaitEntry* wait;
};

/// The oldest first.
std::vector<Row> rows_of(const plan::StallInput& input) {
  std::vector<Row> rows;
  for (const ProcessWaits& process : input.processes)
    for (const WaitEntry& wait : process.waits) rows.push_back({&process, &wait});
  std::ranges::stable_sort(rows, {}, [](const Row& row) { return row.wait->since; });
  return rows;
}

std::string elsewhere_text(const RunWaits& waits) {
  std::string text;
  for (const auto& [host, count] : waits.elsewhere)
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", count, host);
  return text;
}

/// No process here: nothing can stand still.
plan::Diagnosis of_nothing(const RunWaits& waits) {
  plan::Diagnosis none;
  if (waits.is_of_no_run) {
    none.sentence = "nothing runs on the cluster";
    return none;
  }
  none.sentence = waits.elsewhere.empty()
                      ? "no process of the run is there: it has ended"
                      : fmt::format("no process of the run is on this host; ask there: {}",
                                    elsewhere_text(waits));
  return none;
}

Json json_of(const RunWaits& waits, const plan::Diagnosis& found) {
  Json json{{"cause", plan::to_string(found.cause)},
            {"sentence", found.sentence},
            {"who", found.who},
            {"pid", found.pid},
            {"waited_s", found.waited_s},
            {"chain", found.chain}};
  json["waits"] = Json::array();
  for (const Row& row : rows_of(waits.input))
    json["waits"].push_back({{"process", row.process->name},
                             {"host", row.process->host},
                             {"pid", row.process->pid},
                             {"level", to_string(row.wait->level)},
                             {"who", row.wait->who},
                             {"for", row.wait->what},
                             {"ends_by", row.wait->ends_by},
                             {"where", row.wait->where},
                             {"child", row.wait->pid},
                             {"s", waits.input.now - row.wait->since}});
  json["elsewhere"] = waits.elsewhere;
  return json;
}

void print(const RunWaits& waits, const plan::Diagnosis& found, bool with_all) {
  fmt::print("{}\n", found.sentence);
  if (!waits.input.processes.empty() && !waits.elsewhere.empty())
    fmt::print("not looked at: {}\n", elsewhere_text(waits));
  if (!with_all) return;
  for (const Row& row : rows_of(waits.input))
    fmt::print("{:>8.1f} s  {:<7}  {} ({}): {} for {}; ends with {}\n",
               waits.input.now - row.wait->since, to_string(row.wait->level), row.process->name,
               row.process->pid, row.wait->who, row.wait->what, row.wait->ends_by);
}

/// A run's folder, or of a run of a cluster what its nodes say.
Expected<RunWaits> read_waits_of(const DiagnoseCommand& command, std::chrono::milliseconds window) {
  std::error_code ignored;
  const bool is_address =
      command.run.find(':') != std::string::npos && !std::filesystem::exists(command.run, ignored);
  if (!is_address) return read_run_waits(command.run, command.after_s, window);
  COHORT_ASSIGN(ClusterWaits cluster, read_cluster_waits(command.run, command.run_id,
                                                         command.after_s, window, command.access));
  return std::move(cluster.waits);
}

}  // namespace

CLI::App* add_diagnose_command(CLI::App& app, DiagnoseCommand& command) {
  CLI::App* diagnose =
      app.add_subcommand("diagnose", "why a run stands still: who waits for whom, and since when");
  diagnose
      ->add_option("RUN", command.run,
                   "the run's folder, or the address of a cluster's head (HOST:PORT)")
      ->required();
  diagnose->add_option("--run", command.run_id, "of the runs of a cluster (default: the only one)");
  diagnose->add_option("--after", command.after_s, "[s] a shorter wait is none")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  diagnose->add_option("--window", command.window_s, "[s] to watch whether the processes compute")
      ->check(CLI::Range(0.05, 60.0))
      ->capture_default_str();
  diagnose->add_flag("--all", command.with_all, "also every wait, the oldest first");
  diagnose->add_flag("--json", command.is_json, "one JSON object");
  add_access_options(*diagnose, command.access);
  diagnose->footer(
      "Exit codes: 0 nothing stands still, 1 the first line names what does, 2 no such run.");
  return diagnose;
}

int diagnose_command(const DiagnoseCommand& command) {
  const std::chrono::milliseconds window(std::lround(command.window_s * 1000));
  auto waits = read_waits_of(command, window);
  if (!waits) {
    std::fprintf(stderr, "error: %s\n", waits.error().detail.c_str());
    return 2;
  }
  const bool is_nothing = waits->input.processes.empty() && waits->input.silent.empty();
  const plan::Diagnosis found = is_nothing ? of_nothing(*waits) : plan::diagnose(waits->input);
  if (command.is_json)
    fmt::print("{}\n", json_of(*waits, found).dump());
  else
    print(*waits, found, command.with_all);
  return found.cause == plan::StallCause::none ? 0 : 1;
}

}  // namespace cohort

// actor-node-run: the part of actor-node that computes. `actor-node run` becomes it; agents start
// it for the processes that hold cards. A program of its own because libtorch takes half a second
// to load, and the other commands need none of it. Processes that hold cards are forked from one
// that has loaded it (fork_server.hpp).
#include <CLI/CLI.hpp>
#include <vector>

#include "runtime/base/main_frame.hpp"
#include "runtime/platform/fork_server.hpp"
#include "tools/actor-node/card_command.hpp"
#include "tools/actor-node/chat_command.hpp"
#include "tools/actor-node/dashboard_server.hpp"
#include "tools/actor-node/evaluate_command.hpp"
#include "tools/actor-node/export_command.hpp"
#include "tools/actor-node/logprobs_command.hpp"
#include "tools/actor-node/plan_command.hpp"
#include "tools/actor-node/run_command.hpp"

// jemalloc reads it while it is loaded; the environment's MALLOC_CONF comes after it, and wins. By
// default each block above 8 MB goes back to the kernel as soon as it is free: an update takes such
// blocks again and again (the gradients of a micro-batch) and paid a sixth of its time for clearing
// their pages. So they are kept as all others are (10 s), in huge pages: one fault, not 512.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "oversize_threshold:0,thp:always";
}

namespace {

void add_cluster_options(CLI::App& run, cohort::ClusterRun& cluster) {
  run.add_option("--cluster", cluster.head,
                 "HOST:PORT of a cluster's head: the cards are on its nodes (not with WORLD_SIZE, "
                 "which makes RANK 0 the head of a cluster of its own)");
  run.add_option("--wait", cluster.wait_s, "seconds to wait for the cluster's nodes")
      ->capture_default_str();
  run.add_option("--nodes", cluster.nodes,
                 "MIN or MIN:MAX: begin with MIN nodes of the cluster when no other has joined for "
                 "--wait-more seconds and the missing ones have rollout cards only; they take part "
                 "as soon as they join (default: all must be there)");
  run.add_option("--wait-more", cluster.wait_more_s,
                 "seconds to wait for more nodes than --nodes asks for")
      ->capture_default_str();
}

int start(int argc, char** argv) {
  std::vector<std::string> forked;
  std::vector<const char*> words(argv, argv + argc);
  if (cohort::platform::is_fork_server(argc, argv)) {
    forked = cohort::platform::serve_forks(argc, argv);
    words.clear();
    for (const std::string& word : forked) words.push_back(word.c_str());
  }
  CLI::App app{"the part of actor-node that computes: use `actor-node run`", "actor-node"};
  app.require_subcommand(1);
  cohort::RunCommand command;
  CLI::App* run = app.add_subcommand("run", "run a configuration on this node");
  cohort::add_dialect_options(*run, command.input);
  run->add_flag("-q,--quiet", command.is_quiet, "print warnings, errors and the last line only");
  run->add_flag("--plain", command.is_plain, "one line per step, also on a terminal");
  run->add_option("--sandbox", command.sandbox,
                  "of every plugin and of code_sandbox: bubblewrap, or rlimits (limits without "
                  "isolation, for machines without user namespaces)")
      ->check(CLI::IsMember({"bubblewrap", "rlimits"}));
  run->add_option("--from-stream", command.from_stream,
                  "RUN: score and train on its recorded trajectories, without rollouts");
  run->add_flag("--record-only", command.is_record_only,
                "roll out, score and record; train nothing (--from-stream trains on it later)");
  run->add_option("--processes", command.processes,
                  "hold the cards in N processes of their own, split evenly (0: in this one)")
      ->check(CLI::Range(0, 4096));
  add_cluster_options(*run, command.cluster);
  int ignored = 0;
  run->add_option(
         "--restarts", ignored,
         "start the run again from its last checkpoint when it is killed or loses a process "
         "that it needs, at most N times in 10 minutes (default: 3 on a cluster, else 0)")
      ->check(CLI::Range(0, 1000));
  cohort::add_access_options(*run, command.cluster.access);
  cohort::add_dashboard_option(*run, command.dashboard);
  cohort::add_stop_option(*run, command.allows_stop);
  run->footer(
      "Last line of a run: `run: <folder>`. Ctrl-C once: finish the step, write a checkpoint, exit "
      "0; twice: leave at once.\n"
      "Exit codes: 0 done or stopped, 1 the run failed, 2 the configuration cannot run.");
  cohort::CardCommand card_options;
  CLI::App* card = cohort::add_card_command(app, card_options);
  cohort::LogprobsCommand logprobs_options;
  CLI::App* logprobs = cohort::add_logprobs_command(app, logprobs_options);
  cohort::ChatCommand chat_options;
  CLI::App* chat = cohort::add_chat_command(app, chat_options);
  cohort::ExportCommand export_options;
  CLI::App* exported = cohort::add_export_command(app, export_options);
  cohort::EvaluateCommand evaluate_options;
  CLI::App* evaluated = cohort::add_evaluate_command(app, evaluate_options);
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  if (logprobs->parsed()) return cohort::logprobs_command(logprobs_options);
  if (chat->parsed()) return cohort::chat_command(chat_options);
  if (exported->parsed()) return cohort::export_command(export_options);
  if (evaluated->parsed()) return cohort::evaluate_command(evaluate_options);
  return card->parsed() ? cohort::card_command(card_options) : cohort::run_command(command);
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("error: ", [&] { return start(argc, argv); });
}

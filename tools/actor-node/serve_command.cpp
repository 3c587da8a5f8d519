#include "tools/actor-node/serve_command.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "tools/actor-node/dashboard_server.hpp"
#include "tools/actor-node/saved_run.hpp"
#include "tools/actor-node/signal_thread.hpp"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds k_follow_every{500};

int fail(int code, const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.detail.c_str());
  return code;
}

}  // namespace

CLI::App* add_serve_command(CLI::App& app, ServeCommand& command) {
  CLI::App* serve =
      app.add_subcommand("serve", "pages of a run: its trajectories, curves, cards, logs");
  serve->add_option("RUN", command.runs, "the run's folder, and further ones to compare it with")
      ->required();
  add_dashboard_option(*serve, command.dashboard);
  add_access_options(*serve, command.access);
  serve->footer("Reads, never writes. Ctrl-C ends it.");
  return serve;
}

int serve_command(const ServeCommand& command) {
  SignalThread signals;
  auto address = dashboard_address(command.dashboard, false);
  if (!address) return fail(2, address.error());
  auto server = DashboardServer::open(**address, command.access);
  if (!server) return fail(server.error().code == Errc::io ? 1 : 2, server.error());
  observe::Board& board = (*server)->board();
  auto run = SavedRun::open(command.runs.front(), board);
  if (!run) return fail(2, run.error());
  RunBrowserOptions options{run->folder(), run->tokenizer(), {}};
  for (size_t i = 1; i < command.runs.size(); ++i) {
    std::error_code code;
    const auto other = std::filesystem::absolute(command.runs[i], code).lexically_normal();
    if (code || !std::filesystem::exists(other / "metrics.jsonl", code))
      return fail(
          2, {Errc::not_found, "'" + command.runs[i] + "' is no run folder: no metrics.jsonl"});
    options.others.push_back(other);
  }
  (*server)->open_run(std::move(options));
  std::mutex mutex;
  std::condition_variable stopped;
  bool is_stopped = false;
  signals.start([&] {
    std::lock_guard lock(mutex);
    is_stopped = true;
    stopped.notify_all();
  });
  if (!run->tokenizer_error().empty())
    std::fprintf(stderr, "tokens have no text: %s\n", run->tokenizer_error().c_str());
  std::printf("dashboard: %s\n", (*server)->url().c_str());
  std::fflush(stdout);
  std::unique_lock lock(mutex);
  while (!stopped.wait_for(lock, k_follow_every, [&] { return is_stopped; })) {
    lock.unlock();
    run->follow(board);
    lock.lock();
  }
  return 0;
}

}  // namespace cohort

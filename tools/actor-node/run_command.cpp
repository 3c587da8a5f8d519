#include "tools/actor-node/run_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <future>
#include <thread>

#include "actors/node.hpp"
#include "actors/run_report.hpp"
#include "runtime/base/log.hpp"
#include "runtime/compute/cpu_setup.hpp"
#include "runtime/control/system.hpp"
#include "tools/actor-node/card_processes.hpp"

namespace cohort {
namespace {

int fail(int code, const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.detail.c_str());
  return code;
}

/// Hears SIGINT and SIGTERM. A handler, not a blocked signal: OpenBLAS starts threads before main
/// that block nothing, and the kernel may choose one of them. First signal: `on_stop`, on a thread
/// of its own. Second: leave at once, the run can be resumed from its last checkpoint.
class SignalThread {
 public:
  SignalThread() {
    if (::pipe2(pipe_, O_CLOEXEC) != 0) return;
    write_end_ = pipe_[1];
    struct sigaction action {};
    action.sa_handler = [](int) {
      int saved = errno;
      [[maybe_unused]] ssize_t written = ::write(write_end_, "s", 1);
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    for (int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  }
  void start(std::function<void()> on_stop) {
    thread_ = std::thread([this, on_stop = std::move(on_stop)] {
      char byte = 0;
      for (int count = 0; ::read(pipe_[0], &byte, 1) == 1 && byte == 's';) {
        if (++count == 2) {
          constexpr char k_restore[] = "\x1b[?25h\nerror: stopped at once by a second signal\n";
          [[maybe_unused]] ssize_t written =
              ::write(STDERR_FILENO, k_restore, sizeof(k_restore) - 1);
          _exit(130);
        }
        on_stop();
      }
    });
  }
  ~SignalThread() {
    if (!thread_.joinable()) return;
    [[maybe_unused]] ssize_t written = ::write(pipe_[1], "e", 1);
    thread_.join();
  }

 private:
  static inline std::atomic<int> write_end_ = -1;  // a handler knows nothing but globals
  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

std::vector<observe::CardInfo> card_infos(const plan::PlacementPlan& plan) {
  std::vector<observe::CardInfo> cards;
  for (const plan::CardSpec& spec : plan.cards) {
    observe::CardInfo info{spec.id.value, "", spec.budget_bytes()};
    for (const plan::RoleSpec& role : plan.roles)
      if (std::find(role.cards.begin(), role.cards.end(), spec.id) != role.cards.end())
        info.role += (info.role.empty() ? "" : "+") + role.role;
    cards.push_back(std::move(info));
  }
  return cards;
}

/// Everything of a run that lives longer than its actors.
struct Session {
  config::RunConfig config;
  actors::Preflight plan;
  std::vector<actors::RewardFunction> rewards;
  actors::RunFolder folder;
  std::shared_ptr<stream::Writer> writer;
  std::unique_ptr<observe::Console> console;
  std::unique_ptr<actors::RunLog> log;
  std::unique_ptr<CardProcesses> processes;  // null: the cards are in this one
};

Expected<void> open_stream(Session& session) {
  if (!session.config.recording.enabled) return {};
  stream::WriterOptions options;
  options.segment_bytes = session.config.recording.segment_bytes;
  options.run_id = session.folder.run_id;
  COHORT_ASSIGN(stream::Writer writer,
                stream::Writer::open(session.folder.path / "stream", options));
  session.writer = std::make_shared<stream::Writer>(std::move(writer));
  COHORT_ASSIGN(
      [[maybe_unused]] stream::RecordId config_id,
      session.writer->append_json(
          stream::RecordType::run_config,
          actors::run_config_record(session.folder.run_id, session.config.resolved_yaml)));
  COHORT_ASSIGN([[maybe_unused]] stream::RecordId plan_id,
                session.writer->append_json(stream::RecordType::plan, session.plan.plan_json));
  return session.writer->sync();
}

Expected<void> open_folder(Session& session, const RunCommand& command) {
  COHORT_ASSIGN(session.folder, actors::open_run_folder(session.config));
  // Two generations of checkpoints and a first stream segment must fit, or the run would die late.
  uint64_t need = 3 * session.plan.checkpoint_bytes + (uint64_t{4} << 20);
  COHORT_TRY(actors::check_free_space(session.folder.path, need));
  COHORT_TRY(actors::write_file(session.folder.path / "config.yaml", session.config.resolved_yaml));
  COHORT_TRY(actors::write_file(session.folder.path / "plan.json", session.plan.plan_json));
  COHORT_TRY(log::open((session.folder.path / "log" / "node_0.log").string(), log::Level::error));
  COHORT_TRY(open_stream(session));
  observe::ConsoleOptions options = observe::choose_console(command.is_quiet);
  if (command.is_plain && !command.is_quiet) options.mode = observe::ConsoleMode::plain;
  session.console = std::make_unique<observe::Console>(options);
  actors::RunLogOptions log;
  log.run_folder = session.folder.path;
  log.run_name = session.config.exp_name;
  log.total_steps = static_cast<uint64_t>(session.config.max_steps);
  log.resume_after = session.folder.resume_step;
  const std::vector<std::string>& val_tags = session.config.val_env_manager.tags;
  if (!val_tags.empty())
    log.references = actors::scripted_references(session.plan, val_tags.front(),
                                                 static_cast<uint64_t>(session.config.seed));
  log.cards = card_infos(session.plan.placement);
  log.config_yaml = session.config.resolved_yaml;
  log.console = session.console.get();
  COHORT_ASSIGN(session.log, actors::RunLog::open(std::move(log)));
  return {};
}

actors::RunResult run_actors(Session& session, SignalThread& signals) {
  control::SystemOptions options;
  // Handlers are short: few workers, or they wake each other for every message of an environment
  // and take the cores from the lanes (two workers on two cores: a third of their time went into
  // context switches).
  options.scheduler_threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 4);
  options.has_network = session.processes != nullptr;
  control::SystemConfig system_config(options);
  caf::actor_system system(system_config);
  std::promise<actors::RunResult> promise;
  std::future<actors::RunResult> future = promise.get_future();
  std::atomic<bool> is_set = false;
  actors::NodeOptions node_options;
  node_options.config = session.config;
  node_options.plan = session.plan;
  node_options.rewards = std::move(session.rewards);
  node_options.folder = session.folder;
  node_options.writer = session.writer;
  node_options.log = session.log.get();
  node_options.on_end = [&](actors::RunResult result) {
    if (!is_set.exchange(true)) promise.set_value(std::move(result));
  };
  if (session.processes) {
    node_options.processes = session.processes->cards();
    node_options.socket_folder = session.processes->socket_folder();
  }
  auto node = system.spawn(actors::node, std::move(node_options));
  signals.start([node] { caf::anon_send(node, control::stop_atom_v); });
  caf::anon_send(node, control::start_atom_v);
  if (session.processes)
    if (auto started = session.processes->start(system, node); !started)
      caf::anon_send(node, control::fail_atom_v,
                     control::Failure{"node", "start", started.error().to_string()});
  actors::RunResult result = future.get();
  {
    caf::scoped_actor self{system};
    self->request(node, std::chrono::seconds(10), control::flush_atom_v)
        .receive([](bool) {}, [](caf::error&) {});
  }
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  if (session.processes) session.processes->finish(5000);
  return result;
}

std::string percent(std::optional<double> value) {
  return value ? fmt::format("{:.3f}", *value) : std::string("-");
}

std::string summary(const Session& session, const actors::RunResult& result) {
  std::string text;
  for (const observe::ReferenceLine& line : session.log->report().references)
    text += fmt::format("reference  {:<28} {:.3f}\n", line.name, line.value);
  if (result.success_before)
    text += fmt::format("held-out success, sampled:   before {}  after {}\n",
                        percent(result.success_before), percent(result.success_after));
  if (result.greedy_before)
    text += fmt::format("held-out success, greedy:    before {}  after {}\n",
                        percent(result.greedy_before), percent(result.greedy_after));
  if (result.success_of_tags.size() > 1)
    for (const auto& [tag, success] : result.success_of_tags)
      text +=
          fmt::format("  {:<26} before {:.3f}  after {:.3f}\n", tag, success.first, success.second);
  const std::string folder = session.folder.path.string();
  text += fmt::format("report: {}/report.html\nstream: {}/stream\ntensorboard: {}/tensorboard",
                      folder, folder, folder);
  return text;
}

/// The config, with --sandbox as overrides of whatever has a child process.
Expected<config::RunConfig> load(const RunCommand& command) {
  COHORT_ASSIGN(config::RunConfig config, load_config(command.input, true));
  if (command.sandbox.empty()) return config;
  PlanInput input = command.input;
  for (const auto& [name, reward] : config.rewards)
    input.overrides.push_back(fmt::format("++rewards.{}.sandbox.mode={}", name, command.sandbox));
  for (const auto& [tag, environment] : config.custom_envs)
    if (environment.env_type == config::EnvType::plugin)
      input.overrides.push_back(
          fmt::format("++custom_envs.{}.env_config.sandbox.mode={}", tag, command.sandbox));
  return load_config(input, true);
}

}  // namespace

int run_command(const RunCommand& command) {
  SignalThread signals;
  Session session;
  auto config = load(command);
  if (!config) return fail(2, config.error());
  session.config = std::move(*config);
  auto plan = actors::preflight(session.config);
  if (!plan) return fail(2, plan.error());
  session.plan = std::move(*plan);
  auto rewards = actors::open_rewards(session.config);
  if (!rewards) return fail(2, rewards.error());
  session.rewards = std::move(*rewards);
  if (command.processes > 0) {
    auto processes = CardProcesses::create(session.plan.placement, command.processes);
    if (!processes) return fail(2, processes.error());
    session.processes = std::move(*processes);
  }
  if (auto opened = open_folder(session, command); !opened) {
    // Nothing has run: what this start has made goes away again.
    session.writer.reset();
    session.log.reset();
    session.console.reset();
    std::error_code ignored;
    if (session.folder.is_new && !session.folder.path.empty()) {
      std::filesystem::remove_all(session.folder.path, ignored);
      for (std::filesystem::path parent = session.folder.path.parent_path();
           std::filesystem::is_empty(parent, ignored); parent = parent.parent_path())
        if (parent == std::filesystem::absolute(session.config.output_dir) ||
            !std::filesystem::remove(parent, ignored))
          break;
    }
    return fail(opened.error().code == Errc::io ? 1 : 2, opened.error());
  }
  for (const config::Note& warning : session.config.warnings)
    session.log->event(observe::EventLevel::warning, 0,
                       fmt::format("{}{}: {}", warning.where.empty() ? "" : warning.where + ": ",
                                   warning.key, warning.text));
  double gflops = compute::measured_gemm_gflops();
  log::info("gemm 512^3: {:.1f} GFLOP/s on one thread", gflops);
  if (gflops < 20)
    session.log->event(
        observe::EventLevel::warning, 0,
        fmt::format("matrix products run at {:.1f} GFLOP/s: is a reference BLAS in use? install "
                    "libopenblas0-pthread",
                    gflops));
  actors::RunResult result = run_actors(session, signals);
  if (session.writer)
    if (auto closed = session.writer->close(); !closed && result.is_ok) {
      result.is_ok = false;
      result.error = closed.error().to_string();
    }
  auto reported =
      actors::write_run_report(session.config, session.plan, session.folder, *session.log, result);
  if (!reported) log::warn("report: {}", reported.error().to_string());
  if (auto closed = session.log->close(); !closed)
    log::warn("metrics: {}", closed.error().to_string());
  if (result.is_ok)
    session.console->note(summary(session, result));
  else
    std::fprintf(stderr, "error: %s\n", result.error.c_str());
  session.console->finish("run: " + session.folder.path.string());
  return result.is_ok ? 0 : 1;
}

}  // namespace cohort

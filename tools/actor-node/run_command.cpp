#include "tools/actor-node/run_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <future>
#include <thread>

#include "actors/node/node_actor.hpp"
#include "actors/run/recorded_run.hpp"
#include "actors/run/run_book.hpp"
#include "actors/run/run_report.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/control/system.hpp"
#include "tools/actor-node/card_processes.hpp"
#include "tools/actor-node/dashboard_server.hpp"
#include "tools/actor-node/plan_text.hpp"
#include "tools/actor-node/run_files.hpp"
#include "tools/actor-node/run_links.hpp"
#include "tools/actor-node/run_note.hpp"
#include "tools/actor-node/run_waits.hpp"
#include "tools/actor-node/signal_thread.hpp"
#include "tools/actor-node/supervisor.hpp"

namespace cohort {
namespace {

int fail(int code, const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.detail.c_str());
  return code;
}

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
  ~Session() {
    if (dashboard) dashboard->unfollow();  // before the system, whose actor it asks
  }
  config::RunConfig config;
  std::unique_ptr<DashboardServer> dashboard;  // null: none was asked for
  actors::Preflight plan;
  std::vector<actors::RewardFunction> rewards;
  std::shared_ptr<const plan::RecordedSchedule> schedule;  // null: none was asked for
  actors::RunFolder folder;
  std::shared_ptr<stream::Writer> writer;
  std::unique_ptr<LinkTeller> links;
  std::unique_ptr<observe::Console> console;
  std::unique_ptr<actors::RunLog> log;
  std::unique_ptr<control::SystemConfig> system_config;
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<RunProcesses> processes;  // null: the cards are in this one
};

Expected<void> open_stream(Session& session) {
  if (!session.config.recording.enabled) return {};
  stream::WriterOptions options;
  options.segment_bytes = session.config.recording.segment_bytes;
  options.run_id = session.folder.run_id;
  if (session.config.recording.compression == "zstd")
    options.compression = stream::Compression::zstd;
  COHORT_ASSIGN(stream::Writer writer,
                stream::Writer::open(session.folder.path / "stream", options));
  session.writer = std::make_shared<stream::Writer>(std::move(writer));
  if (const std::string found = session.writer->recovered().describe(); !found.empty()) {
    COHORT_ASSIGN([[maybe_unused]] stream::RecordId event_id,
                  session.writer->append_json(
                      stream::RecordType::event,
                      actors::event_record("stream", session.folder.resume_step.value_or(0),
                                           "start", found)));
  }
  COHORT_ASSIGN(
      [[maybe_unused]] stream::RecordId config_id,
      session.writer->append_json(
          stream::RecordType::run_config,
          actors::run_config_record(session.folder.run_id, session.config.resolved_yaml)));
  COHORT_ASSIGN([[maybe_unused]] stream::RecordId plan_id,
                session.writer->append_json(stream::RecordType::plan, session.plan.plan_json));
  return session.writer->sync();
}

/// What the start has found: no checkpoint, or what the stream of a resumed run had lost or still
/// has of damage.
void tell_found(const Session& session) {
  if (!session.folder.warning.empty())
    session.log->event(observe::EventLevel::warning, 0, session.folder.warning);
  if (!session.writer) return;
  const std::string found = session.writer->recovered().describe();
  if (found.empty()) return;
  const std::string text =
      fmt::format("stream {}: {}", (session.folder.path / "stream").string(), found);
  log::warn("{}", text);
  session.log->event(observe::EventLevel::warning, session.folder.resume_step.value_or(0), text,
                     "stream");
}

void warn_if_slow(const Session& session) {
  double gflops = compute::measured_gemm_gflops();
  log::info("gemm 512^3: {:.1f} GFLOP/s on one thread", gflops);
  if (gflops < compute::k_gemm_gflops_expected)
    session.log->event(
        observe::EventLevel::warning, 0,
        fmt::format("matrix products run at {:.1f} GFLOP/s: other work has the cores, or the "
                    "reference BLAS is in use (install libopenblas0-pthread)",
                    gflops));
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
  if (auto published = publish_waits(waits_folder(session.folder.path), "run"); !published)
    log::warn("waits: {}: `actor-node diagnose` will not see this process",
              published.error().detail);
  session.links = std::make_unique<LinkTeller>(waits_folder(session.folder.path), "run");
  observe::ConsoleOptions options = observe::choose_console(command.is_quiet);
  if (command.is_plain && !command.is_quiet) options.mode = observe::ConsoleMode::plain;
  session.console = std::make_unique<observe::Console>(options);
  actors::RunLogOptions log;
  log.run_folder = session.folder.path;
  log.run_name = session.config.exp_name;
  log.total_steps = static_cast<uint64_t>(std::max<int64_t>(session.config.max_steps, 0));
  log.resume_after = session.folder.resume_step;
  const std::vector<std::string>& val_tags = session.config.val_env_manager.tags;
  if (!val_tags.empty())
    log.references = actors::scripted_references(session.plan, val_tags.front(),
                                                 static_cast<uint64_t>(session.config.seed));
  log.cards = card_infos(session.plan.placement);
  log.config_yaml = session.config.resolved_yaml;
  log.telemetry = session.config.telemetry;
  log.names = actors::metric_names_of(session.config);
  log.console = session.console.get();
  if (session.dashboard) log.board = &session.dashboard->board();
  if (session.dashboard) {
    session.dashboard->open_run({session.folder.path, session.plan.tokenizer, {}});
    if (auto told = write_pages_address(session.folder.path, session.dashboard->url()); !told)
      log::warn("pages: {}: `actor-node top` reads the folder instead", told.error().detail);
  }
  COHORT_ASSIGN(session.log, actors::RunLog::open(std::move(log)));
  return {};
}

bool is_clustered(const RunCommand& command) {
  auto start = rank_start();
  return !command.cluster.head.empty() || (start && *start);
}

/// A taken port or missing credentials are told before anything else begins.
Expected<void> open_dashboard(Session& session, const RunCommand& command) {
  COHORT_ASSIGN(auto address, dashboard_address(command.dashboard, true));
  if (!address && command.allows_stop)
    return Error{Errc::config, "--allow-stop is for the dashboard: say --dashboard PORT too"};
  if (!address) return {};
  COHORT_ASSIGN(session.dashboard, DashboardServer::open(*address, command.cluster.access));
  observe::RunView run;
  run.name = session.config.exp_name;
  run.total_steps = static_cast<uint64_t>(std::max<int64_t>(session.config.max_steps, 0));
  run.started = now_seconds();
  for (const observe::CardInfo& card : card_infos(session.plan.placement))
    run.cards.push_back({card.card, card.role, 0, 0, card.budget_bytes});
  session.dashboard->board().begin_run(std::move(run));
  std::printf("dashboard: %s\n", session.dashboard->url().c_str());
  if (command.allows_stop) {
    const std::string token = new_secret();
    session.dashboard->allow_stop(token);
    std::printf("stop token: %s\n", token.c_str());
  }
  std::fflush(stdout);
  return {};
}

/// Where there is no cluster: this host, with this process or those that hold its cards.
void show_this_host(Session& session) {
  const plan::PlacementPlan& plan = session.plan.placement;
  observe::NodeView node;
  node.host = host_name();
  node.version = k_version;
  node.pid = ::getpid();
  node.cards = static_cast<uint32_t>(plan.cards.size());
  std::vector<CardId> all;
  for (const plan::CardSpec& card : plan.cards) all.push_back(card.id);
  if (!session.processes) node.processes.push_back("this process: " + text_of(plan, all));
  for (size_t i = 0; session.processes && i < session.processes->cards().size(); ++i)
    node.processes.push_back(
        fmt::format("process {}: {}", i, text_of(plan, session.processes->cards()[i])));
  observe::ClusterView cluster;
  cluster.version = k_version;
  cluster.at = now_seconds();
  cluster.is_this_one = true;
  cluster.nodes.push_back(std::move(node));
  session.dashboard->board().set_cluster(std::move(cluster));
}

/// The actor system of the run, and the processes that are to hold its cards. Nothing is left
/// behind if one of them cannot be had.
Expected<void> open_system(Session& session, const RunCommand& command) {
  ClusterRun cluster = command.cluster;
  COHORT_ASSIGN(cluster.start, rank_start());
  if (!cluster.head.empty()) cluster.start.reset();
  control::SystemOptions options;
  if (cluster.is_wanted()) {
    COHORT_ASSIGN(options, system_options(cluster.access));
  } else if (!cluster.nodes.empty()) {
    return Error{Errc::config,
                 "--nodes says with how many nodes of a cluster the run begins: say --cluster "
                 "HOST:PORT, or set RANK and WORLD_SIZE"};
  } else if (session.config.derived.num_nodes > 1) {
    return Error{Errc::config,
                 fmt::format("num_gpus_per_node: {}, so the cards of the configuration are on {} "
                             "nodes: start it on a cluster (--cluster HOST:PORT, or RANK and "
                             "WORLD_SIZE on every host), or raise the key",
                             session.config.num_gpus_per_node, session.config.derived.num_nodes)};
  }
  // Handlers are short: few workers, or they wake each other for every message of an environment
  // and take the cores from the lanes (two workers on two cores: a third of their time went into
  // context switches).
  options.scheduler_threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 4);
  options.has_network = cluster.is_wanted() || command.processes > 0;
  session.system_config = std::make_unique<control::SystemConfig>(options);
  session.system = std::make_unique<caf::actor_system>(*session.system_config);
  if (cluster.is_wanted()) {
    cluster.processes_per_node = command.processes;
    if (session.dashboard)
      cluster.on_head = [&session](const actors::ClusterHeadActor& head) {
        session.dashboard->follow(*session.system, head);
      };
    COHORT_ASSIGN(session.processes,
                  ClusterProcesses::create(*session.system, cluster, session.config, session.plan));
  } else if (command.processes > 0) {
    COHORT_ASSIGN(session.processes,
                  CardProcesses::create(session.config, session.plan.placement, command.processes));
  }
  if (session.dashboard && !cluster.is_wanted()) show_this_host(session);
  return {};
}

actors::RunResult run_actors(Session& session, SignalThread& signals) {
  caf::actor_system& system = *session.system;
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
  node_options.schedule = session.schedule;
  node_options.on_end = [&](actors::RunResult result) {
    if (!is_set.exchange(true)) promise.set_value(std::move(result));
  };
  if (session.processes) {
    node_options.processes = session.processes->cards();
    node_options.wires = session.processes->wires();
    node_options.process_control = session.processes->control();
    node_options.absent = session.processes->absent();
  }
  auto node = system.spawn(actors::node, std::move(node_options));
  signals.start([node] { caf::anon_send(node, control::stop_atom_v); });
  if (session.dashboard)
    session.dashboard->on_stop([node] { caf::anon_send(node, control::stop_atom_v); });
  caf::anon_send(node, control::start_atom_v);
  if (session.processes)
    if (auto started = session.processes->start(system, session.folder, node); !started)
      caf::anon_send(node, control::fail_atom_v,
                     control::Failure{"node", "start", started.error().to_string()});
  actors::RunResult result = future.get();
  if (session.dashboard) session.dashboard->on_stop(nullptr);
  {
    caf::scoped_actor self{system};
    self->request(node, std::chrono::seconds(10), control::flush_atom_v)
        .receive([](bool) {}, [](caf::error&) {});
  }
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  if (session.dashboard) session.dashboard->unfollow();
  if (session.processes) session.processes->finish(result.is_ok ? "" : result.error, 5000);
  std::error_code ignored;
  session.links.reset();
  std::filesystem::remove_all(waits_folder(session.folder.path), ignored);
  node = nullptr;
  session.processes.reset();
  session.system.reset();  // waits for the actors, which use what the session closes next
  return result;
}

std::string percent(std::optional<double> value) {
  return value ? fmt::format("{:.3f}", *value) : std::string("-");
}

std::string summary(const Session& session, const actors::RunResult& result) {
  std::string text;
  for (const observe::ReferenceLine& line : session.log->report().references)
    text += fmt::format("reference  {:<28} {:.3f}\n", line.name, line.value);
  if (result.sampled.before)
    text += fmt::format("held-out success, sampled:   before {}  after {}\n",
                        percent(result.sampled.before), percent(result.sampled.after));
  if (result.greedy.before)
    text += fmt::format("held-out success, greedy:    before {}  after {}\n",
                        percent(result.greedy.before), percent(result.greedy.after));
  if (result.loss.before)
    text += fmt::format("held-out loss:               before {:.4f}  after {:.4f}\n",
                        *result.loss.before, *result.loss.after);
  if (result.of_tags.size() > 1)
    for (const auto& [tag, success] : result.of_tags)
      text += fmt::format("  {:<26} before {}  after {}\n", tag, percent(success.before),
                          percent(success.after));
  const std::string folder = session.folder.path.string();
  text += fmt::format("report: {}/report.html\nstream: {}/stream\ntensorboard: {}/tensorboard",
                      folder, folder, folder);
  return text;
}

/// Nothing has run: what this start has made goes away again.
void remove_new_folder(Session& session) {
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
}

/// The run does not start: the dashboard says so too.
int refuse(Session& session, int code, const Error& error) {
  if (session.dashboard) {
    session.dashboard->board().set_state(observe::RunState::failed, error.detail);
    session.dashboard->linger();
  }
  return fail(code, error);
}

/// A checkpoint that does not load, as the error says: the one before it may.
std::string remedy(const Session& session, const actors::RunResult& result) {
  const std::filesystem::path& from = session.folder.resume_from;
  if (result.is_ok || result.steps > 0 || from.empty() ||
      result.error.find(from.string()) == std::string::npos)
    return "";
  const auto before = actors::checkpoint_before(from);
  if (!before) return "";
  const bool is_verl = session.config.dialect == config::Dialect::verl;
  return fmt::format("; to go on from the checkpoint before it: {}={}",
                     is_verl ? "trainer.resume_mode=resume_path trainer.resume_from_path"
                             : "resume_from_checkpoint",
                     before->folder.string());
}

void show_end(Session& session, const actors::RunResult& result, bool is_started_again) {
  if (!session.dashboard) return;
  observe::Board& board = session.dashboard->board();
  if (is_started_again)
    return board.set_state(observe::RunState::starting,
                           result.error + " (the run is started again from its last checkpoint)");
  board.set_state(result.is_ok ? observe::RunState::finished : observe::RunState::failed,
                  result.error);
  session.dashboard->linger();
}

/// Rows of files without a number of steps: those of the epochs give it.
Expected<void> complete_steps(Session& session, const RunCommand& command) {
  if (!config::is_supervised(session.config.pipeline) || session.config.max_steps > 0) return {};
  PlanInput input = command.input;
  input.overrides.push_back(fmt::format("++max_steps={}", session.plan.row_steps));
  std::vector<config::Note> warnings = std::move(session.config.warnings);  // of what was written
  COHORT_ASSIGN(session.config, load_config(input, true));
  session.config.warnings = std::move(warnings);
  return {};
}

/// The config, with --from-stream, and with --sandbox as overrides of whatever has a child process.
Expected<config::RunConfig> load(const RunCommand& command) {
  PlanInput input = command.input;
  if (!command.from_stream.empty())
    input.overrides.push_back(fmt::format("++from_stream=\"{}\"", command.from_stream));
  if (command.is_record_only) input.overrides.push_back("++record_only=true");
  COHORT_ASSIGN(config::RunConfig config, load_config(input, true));
  if (command.sandbox.empty()) return config;
  if (config.dialect == config::Dialect::verl) {
    input.overrides.push_back("++custom_reward_function.sandbox.mode=" + command.sandbox);
    return load_config(input, true);
  }
  for (const auto& [name, reward] : config.rewards)
    input.overrides.push_back(fmt::format("++rewards.{}.sandbox.mode={}", name, command.sandbox));
  for (const auto& [tag, environment] : config.custom_envs)
    if (config::is_hosted(environment.env_type))
      input.overrides.push_back(
          fmt::format("++custom_envs.{}.env_config.sandbox.mode={}", tag, command.sandbox));
  return load_config(input, true);
}

}  // namespace

int run_command(const RunCommand& command) {
  RunNote note;
  if (auto alive = note.die_with_supervisor(); !alive) return fail(1, alive.error());
  SignalThread signals;
  Session session;
  auto config = load(command);
  if (!config) return fail(2, config.error());
  session.config = std::move(*config);
  const bool is_here = command.processes == 0 && !is_clustered(command);
  auto plan = actors::preflight(
      session.config, is_here ? std::optional<std::vector<CardId>>() : std::vector<CardId>());
  if (!plan) return fail(2, plan.error());
  session.plan = std::move(*plan);
  if (auto completed = complete_steps(session, command); !completed)
    return fail(2, completed.error());
  if (auto opened = open_dashboard(session, command); !opened)
    return fail(opened.error().code == Errc::io ? 1 : 2, opened.error());
  auto rewards = actors::open_rewards(session.config);
  if (!rewards) return refuse(session, 2, rewards.error());
  session.rewards = std::move(*rewards);
  if (const std::string& run = session.config.async.schedule; !run.empty()) {
    auto schedule = actors::read_schedule(run);
    if (!schedule) return refuse(session, 2, schedule.error().with_context("async.schedule"));
    session.schedule = std::make_shared<plan::RecordedSchedule>(std::move(*schedule));
  }
  if (auto opened = open_system(session, command); !opened)
    return refuse(
        session,
        opened.error().code == Errc::timeout || opened.error().code == Errc::closed ? 1 : 2,
        opened.error());
  if (auto opened = open_folder(session, command); !opened) {
    remove_new_folder(session);
    return refuse(session, opened.error().code == Errc::io ? 1 : 2, opened.error());
  }
  note.tell(session.folder.path);
  for (const config::Note& warning : session.config.warnings)
    session.log->event(observe::EventLevel::warning, 0,
                       fmt::format("{}{}: {}", warning.where.empty() ? "" : warning.where + ": ",
                                   warning.key, warning.text));
  for (const std::string& line : keys_without_effect(session.config, command.input.config_path))
    session.log->event(observe::EventLevel::info, 0, "without effect: " + line);
  tell_found(session);
  warn_if_slow(session);
  actors::RunResult result = run_actors(session, signals);
  result.error += remedy(session, result);
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
  const bool is_started_again = result.is_loss && note.is_supervised();
  show_end(session, result, is_started_again);
  if (is_started_again) return k_exit_lost;
  return result.is_ok ? 0 : 1;
}

}  // namespace cohort

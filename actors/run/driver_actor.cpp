#include "actors/run/driver_actor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "actors/roles/lease_keys.hpp"
#include "actors/run/quarantine.hpp"
#include "actors/run/run_folder.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/config/train_groups.hpp"
#include "runtime/control/request.hpp"
#include "runtime/plan/run/run.hpp"

namespace cohort::actors {

using namespace control;
namespace run = plan::run;

namespace {

/// A rollout that does not answer in time has nothing that a checkpoint needs.
constexpr std::chrono::milliseconds k_unfinished_timeout{10000};

uint64_t at_least_zero(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(0, value)); }

run::RunOptions run_options_of(const DriverOptions& options, const Quarantine& quarantine) {
  using Start = run::RunOptions::Start;
  const config::RunConfig& config = options.config;
  run::RunOptions to;
  const bool is_first_policy = config.derived.is_reference_needed &&
                               !config.reference.device_mapping.empty() &&
                               config::own_reference(config).empty();
  const bool is_frozen = is_first_policy && !options.resume_first.empty();
  if (!options.resume_from.empty()) to.start = is_frozen ? Start::resumed_frozen : Start::resumed;
  to.steps = config.max_steps < 0 ? run::k_no_end : at_least_zero(config.max_steps);
  // Recorded steps are all that there is to train on; nobody plays an evaluation.
  const bool is_recorded = options.recorded_steps > 0;
  if (is_recorded) to.steps = std::min(to.steps, options.recorded_steps);
  to.eval_steps = is_recorded ? 0 : at_least_zero(config.eval_steps);
  to.save_steps = at_least_zero(config.save_steps);
  to.warm_steps = at_least_zero(config.warm_start.steps);
  to.warm_rounds = at_least_zero(config.warm_start.rounds);
  to.warm_batch = at_least_zero(config.warm_start.batch_size);
  to.group_size = static_cast<uint32_t>(config::played_group_size(config));
  to.val_group_size = static_cast<uint32_t>(config.derived.val_group_size);
  to.greedy_group_size = config.pipeline == config::Pipeline::rlvr ? 1 : to.val_group_size;
  if (config::has_group_filter(config))
    to.gen_batches_max = static_cast<uint32_t>(config.dynamic_sampling.max_num_gen_batches);
  to.steps_ahead = static_cast<uint32_t>(config.derived.steps_ahead);
  if (config.async.mode == config::AsyncMode::fully_async && !is_recorded) {
    to.is_flowing = true;
    to.depth = config.async.depth;
    to.steps_ahead = static_cast<uint32_t>(std::ceil(to.depth));  // the bound may be above
  }
  if (options.schedule) {
    to.is_scheduled = true;
    to.lease_trajectory_bytes = (options.schedule->longest() + 1) * sizeof(uint32_t);
  }
  to.is_record_only = config.record_only;
  to.measures_loss = config::is_supervised(config.pipeline);
  to.plays_in_reference = to.measures_loss && config.derived.is_reference_needed &&
                          !config.reference.device_mapping.empty();
  to.has_reference_phase = options.has_reference_phase && !to.plays_in_reference;
  to.refers_held_out = options.refers_held_out;
  to.attempt = options.attempt;
  for (CardId card : options.rollout_cards) to.cards.push_back(card.value);
  to.running_max = at_least_zero(config.max_running_requests);
  to.stragglers = {config.recovery.straggler_factor, config.recovery.straggler_floor_s};
  to.group_timeout_s = config.recovery.group_timeout_s;
  for (const auto& [prompt, entry] : quarantine.entries()) to.quarantined[prompt] = entry.step;
  return to;
}

// The scripted player of the warm start plays worse and worse towards the end, if that is asked
// for.
double expert_fraction(const config::RunConfig& config, uint64_t round) {
  const auto& warm = config.warm_start;
  if (!warm.expert_fraction_end) return warm.expert_fraction;
  double progress =
      static_cast<double>(round) / static_cast<double>(std::max<int64_t>(1, warm.rounds));
  double blend = std::clamp((progress - 0.5) / 0.25, 0.0, 1.0);
  return warm.expert_fraction + blend * (*warm.expert_fraction_end - warm.expert_fraction);
}

/// Returns the cards of actor_infer whose weights were committed.
std::vector<uint32_t> served_by(const PhaseReport& report) {
  std::vector<uint32_t> cards;
  for (const Transition& transition : report.transitions)
    if (transition.command.verb == plan::Command::Verb::reshard &&
        transition.command.role == Role::actor_infer)
      cards.push_back(transition.command.card.value);
  return cards;
}

double share_of_masked(const CollectReport& report) {
  double share = 0;
  for (const auto& [metric, value] : report.metrics)
    if (metric == "reward/masked") share = value;
  return share;
}

class DriverState {
 public:
  static inline const char* name = "driver";
  explicit DriverState(DriverActor::pointer self) : self_(self) {}
  void open(DriverOptions options) {
    options_ = std::move(options);
    rollouts_ = options_.rollouts;
    auto quarantine = Quarantine::open(options_.run_folder);
    if (quarantine)
      quarantine_ = std::move(*quarantine);
    else
      broken_ = quarantine.error();
    run_.emplace(run_options_of(options_, quarantine_));
    RunBookOptions book;
    book.config = options_.config;
    book.run_id = options_.run_id;
    book.run_folder = options_.run_folder;
    book.is_resumed = !options_.resume_from.empty();
    book.has_reference_phase = options_.has_reference_phase;
    book.infer_cards = options_.infer_cards;
    book.train_card = options_.train_card;
    book.log = options_.log;
    book.record = [this](stream::RecordType type, std::string json) {
      record(type, std::move(json));
    };
    book.epochs = [this] { return options_.tasks->epochs(); };
    book_.emplace(std::move(book));
    cursors_[0] = options_.tasks->state();
  }
  void on_start() {
    if (broken_) return tell(run::CommandFailed{"driver", *broken_});
    tell(run::Started{});
  }
  void on_stop() {
    if (std::exchange(is_stopping_, true)) return;
    book_->stopping();
    tell(run::StopAsked{});
  }
  void on_lost(const CardsLost& lost) {
    options_.log->lost(lost.cards, true);
    for (const uint32_t card : lost.cards)
      if (std::ranges::count(options_.rollout_cards, CardId{card}) > 0) lost_rollouts_.insert(card);
    show_lost_rollouts();
    tell(run::CardsLost{lost.cards, lost.text, lost.is_away});
  }
  void on_back(const CardsBack& back) {
    run::CardsBack told;
    for (const RoleHandle& role : back.roles) {
      options_.log->lost({role.card}, false);
      if (is_frozen(to_string(role.role))) told.references.push_back(role.card);
      if (role.role != Role::actor_infer) continue;
      for (size_t replica = 0; replica < rollouts_.size(); ++replica)
        if (options_.rollout_cards[replica].value == role.card) {
          rollouts_[replica] = caf::actor_cast<PlayerActor>(role.actor);
          told.rollouts.push_back(role.card);
          lost_rollouts_.erase(role.card);
        }
    }
    show_lost_rollouts();
    tell(std::move(told));
  }
  caf::result<bool> on_leave(const CardsLost& leaving, uint32_t wait_ms) {
    if (run_->stage() == run::Stage::over) return to_caf({Errc::closed, "the run is over"});
    auto promise = self_->make_response_promise<bool>();
    leaves_.emplace(++last_leave_, promise);
    tell(run::LeaveAsked{last_leave_, leaving.cards, leaving.text, wait_ms * 1e-3});
    return promise;
  }
  // What the machine answers is executed before it is told the next event.
  void tell(run::Event event) {
    events_.push_back(std::move(event));
    if (std::exchange(is_telling_, true)) return;
    while (!events_.empty()) {
      const run::Event next = std::move(events_.front());
      events_.pop_front();
      phase_ = to_string(run_->activity());
      for (const run::Command& command : run_->on(next, now_seconds()))
        std::visit([this](const auto& each) { execute(each); }, command);
    }
    is_telling_ = false;
  }

 private:
  /// A run without a rollout waits for one, for as long as it takes.
  void show_lost_rollouts() {
    if (lost_rollouts_.empty() || lost_rollouts_.size() < options_.rollout_cards.size())
      return wait_rollout_.end();
    wait_rollout_ =
        Wait({WaitLevel::link, "the run",
              fmt::format("a rollout: all are lost (cards {})", fmt::join(lost_rollouts_, ", ")),
              "a process that takes one of their cards"});
  }
  /// The run waits for this until what is returned goes: with the answer, or its error.
  std::shared_ptr<Wait> shown(Role role, const std::string& what) const {
    // The recorder waits for nothing but the disk.
    const WaitLevel level = role == Role::recorder ? WaitLevel::link : WaitLevel::run;
    return std::make_shared<Wait>(WaitText{level, fmt::format("step {}", run_->step()),
                                           fmt::format("{} ({})", what, to_string(role)),
                                           "its answer"});
  }
  template <class Answer>
  static auto ending(std::shared_ptr<Wait> wait, std::function<void(Answer)> then) {
    return [wait = std::move(wait), then = std::move(then)](Answer answer) {
      wait->end();
      then(answer);
    };
  }
  /// Sends a request. Its answer goes to `then`, its error to the machine.
  template <class Handle, class Then, class... Args>
  void ask(Role role, const std::string& what, const Handle& handle, Then then, Args&&... args) {
    const auto wait = shown(role, what);
    send_request(
        self_, handle, std::chrono::milliseconds(options_.request_timeout_ms),
        ending(wait, std::function(std::move(then))),
        [this, role, wait](caf::error& e) {
          wait->end();
          tell(run::CommandFailed{std::string(to_string(role)), from_caf(e)});
        },
        std::forward<Args>(args)...);
  }

  void execute(const run::BeginPhase& command) {
    book_->on(command);
    ask(
        Role::placement, fmt::format("the cards in phase {}", plan::to_string(command.kind)),
        options_.placement,
        [this](const PhaseReport& report) {
          book_->phase(report);
          auto served = served_by(report);
          if (options_.infer_cards.empty()) served.push_back(k_no_card.value);
          tell(run::PhaseDone{report.kind, std::move(served)});
        },
        phase_atom_v, PhaseRequest{command.step, command.kind, command.version});
  }
  void execute(const run::AskTasks& command) {
    if (!command.in_place.empty()) return draw_in_place(command);
    book_->on(command);
    const auto [kind, step] = command.round;
    std::vector<GroupTask> groups;
    if (kind == TrajectoryKind::train) {
      auto drawn = options_.tasks->train(step);
      if (!drawn) return tell(run::CommandFailed{"driver", drawn.error()});
      groups = std::move(*drawn);
      cursors_[step] = options_.tasks->state();
    } else {
      groups = kind == TrajectoryKind::warm_start ? options_.tasks->warm(step, command.count)
                                                  : options_.tasks->held_out();
    }
    run::TasksReady ready{command.round, {}};
    for (const GroupTask& group : groups) ready.tasks.push_back(told_of(group));
    tell(std::move(ready));
  }
  run::GroupTask told_of(const GroupTask& group) const {
    return {group.tag, group.seed, options_.tasks->prompt_id(group), group.lane};
  }
  // A checkpoint of the step has the data's cursor behind them.
  void draw_in_place(const run::AskTasks& command) {
    run::TasksReady ready{command.round, {}};
    for (const plan::Refill::Next& next : command.in_place) {
      auto drawn = options_.tasks->in_place(command.round.step, next.group, next.lane);
      if (!drawn) return tell(run::CommandFailed{"driver", drawn.error()});
      ready.tasks.push_back(told_of(*drawn));
      ready.in_place.push_back(next.group);
    }
    cursors_[command.round.step] = options_.tasks->state();
    tell(std::move(ready));
  }
  void execute(const run::OpenRound& command) {
    ask(
        Role::actor_train, "the collector to open it", options_.trainer,
        [this, round = command.round](const RecordedReport& recorded) {
          tell(run::RoundOpened{round, recorded.trajectories});
        },
        expect_atom_v,
        CollectRequest{command.round.kind, command.round.step, command.groups, command.group_size,
                       command.in_place});
  }
  void execute(const run::Lease& command) {
    Lease lease;
    lease.number = command.number;
    lease.kind = command.round.kind;
    lease.step = command.round.step;
    lease.attempt = command.attempt;
    lease.groups = command.groups;
    lease.group_size = command.group_size;
    for (const run::GroupTask& task : command.tasks) {
      lease.seeds.push_back(task.seed);
      lease.tags.push_back(task.tag);
    }
    lease.version = command.version;
    lease.expert_fraction = expert_fraction(options_.config, command.round.step);
    lease.indices = command.indices;
    if (options_.schedule && lease.kind == TrajectoryKind::train)
      for (const auto& [position, index] : keys_of(lease))
        lease.spans.push_back(options_.schedule->spans(lease.step, lease.groups[position], index));
    send_request(
        self_, rollouts_[command.replica], std::chrono::milliseconds(options_.request_timeout_ms),
        [this, round = command.round, replica = command.replica](const LeaseReport& report) {
          if (run_->players().is_open(report.number)) book_->leased(round, replica, report);
          tell(run::LeaseEnded{report.number, report.trajectories, report.response_tokens});
        },
        [this, number = command.number](caf::error& e) {
          tell(run::LeaseFailed{number, from_caf(e)});
        },
        lease_atom_v, lease);
  }
  /// The first step whose parameters are others than the recorded ones is told, once.
  void compare_with_record(uint64_t step, uint64_t param_hash) {
    if (!options_.schedule || is_off_record_) return;
    const std::optional<std::string> recorded = options_.schedule->hash(step);
    const std::string hash = fmt::format("{:016x}", param_hash);
    is_off_record_ = recorded && *recorded != hash;
    if (is_off_record_)
      book_->note("off_record",
                  fmt::format("step {} has the parameters {}, in {} they are {}: traj diff names "
                              "what differs first",
                              step, hash, options_.config.async.schedule, *recorded),
                  phase_);
  }
  void execute(const run::Cancel& command) {
    self_->send(rollouts_[command.replica], cancel_atom_v, command.number);
  }
  void execute(const run::Ping& command) {
    send_request(
        self_, rollouts_[command.replica],
        std::chrono::milliseconds(std::llround(1e3 * command.limit_s)),
        [this, number = command.number](uint64_t done) {
          tell(run::Pong{number, done});
        },
        [](caf::error&) {}, ping_atom_v);
  }
  void execute(const run::Collect& command) {
    ask(
        Role::actor_train, "its trajectories", options_.trainer,
        [this, round = command.round](const CollectReport& report) {
          book_->collected(round, report);
          tell(run::Collected{round, share_of_masked(report), report.left_out});
        },
        collect_atom_v, command.round.kind, command.round.step);
  }
  // Its answer may take as long as the step: one that does not come in time is asked for again.
  void execute(const run::Sift& command) {
    send_request(
        self_, options_.trainer, std::chrono::milliseconds(options_.request_timeout_ms),
        [this, round = command.round](const SiftReport& report) {
          tell(run::Sifted{round, report.left_out});
        },
        [this, round = command.round](caf::error& e) {
          Error error = from_caf(e);
          if (error.code == Errc::timeout) return tell(run::Sifted{round, {}});
          tell(run::CommandFailed{"actor_train", std::move(error)});
        },
        sift_atom_v, command.round.kind, command.round.step, command.known);
  }
  void execute(const run::AskRecorded& command) {
    send_request(
        self_, options_.trainer, std::chrono::milliseconds(options_.request_timeout_ms),
        [this, question = command.question](const RecordedReport& report) {
          tell(run::Recorded{question, false, report.trajectories});
        },
        [this, question = command.question](caf::error& e) {
          Error error = from_caf(e);
          if (error.code == Errc::not_found) return tell(run::Recorded{question, true});
          tell(run::CommandFailed{"actor_train", std::move(error)});
        },
        recorded_atom_v, command.round.kind, command.round.step);
  }
  void execute(const run::Mask& command) {
    MaskRequest request;
    request.kind = command.round.kind;
    request.step = command.round.step;
    request.group = command.group;
    request.attempt = options_.attempt;
    request.version = command.version;
    request.run_id = options_.run_id;
    request.tag = command.task.tag;
    request.seed = command.task.seed;
    request.prompt_id = command.task.prompt;
    request.reason = command.reason;
    ask(
        Role::actor_train, fmt::format("the mask of group {}", command.group), options_.trainer,
        [this, round = command.round, group = command.group](bool) {
          tell(run::Masked{round, group});
        },
        mask_atom_v, request);
  }
  void execute(const run::Update& command) {
    if (options_.config.record_only && command.round.kind == TrajectoryKind::train)
      return end_recorded(command);
    book_->on(command);
    ask(
        Role::actor_train, "the update", options_.trainer,
        [this, round = command.round](const UpdateReport& report) {
          book_->updated(round, report);
          if (round.kind == TrajectoryKind::train)
            compare_with_record(round.step, report.param_hash);
          tell(run::Updated{round});
        },
        update_atom_v, UpdateRequest{command.round.kind, command.round.step, command.next_version});
  }
  /// The trainer hands over what is recorded, and trains on none of it.
  void end_recorded(const run::Update& command) {
    ask(
        Role::actor_train, "the end of what is recorded", options_.trainer,
        [this, round = command.round](const UpdateReport&) { tell(run::Updated{round}); },
        update_atom_v, UpdateRequest{command.round.kind, command.round.step, command.next_version});
  }
  void execute(const run::Flush&) {
    ask(
        Role::recorder, "the stream on the disk", options_.recorder,
        [this](bool) { tell(run::Flushed{}); }, flush_atom_v);
  }
  // What rollouts have begun goes into the checkpoint, as far as they answer: without it these
  // trajectories begin again.
  void execute(const run::Save& command) {
    const uint64_t step = command.cursor.step;
    cursors_.erase(cursors_.begin(), cursors_.lower_bound(step));
    const CheckpointRequest request{step, options_.run_folder + "/checkpoints/" + command.name,
                                    book_->state(command.cursor, cursors_.at(step))};
    auto save = [this, request] {
      ask(
          Role::actor_train, "the checkpoint on the disk", options_.trainer,
          [this](const CheckpointReport& report) {
            book_->saved(report);
            tell(run::Saved{});
          },
          save_atom_v, request);
    };
    if (!run_->plays_on()) return save();
    const std::string folder = running_beside(request.folder);
    std::error_code ignored;  // of a save that was cut short
    std::filesystem::remove_all(folder, ignored);
    std::vector<std::pair<UnfinishedActor, std::string>> asked;
    for (size_t i = 0; i < rollouts_.size(); ++i)
      if (run_->players().standing(static_cast<uint32_t>(i)) != run::Players::Standing::lost)
        asked.emplace_back(unfinished_of(i), fmt::format("{}/rollout_{}", folder, i));
    ask_all(save_atom_v, asked, std::move(save));
  }
  void execute(const run::Load& command) {
    const std::string& folder = command.is_first ? options_.resume_first : options_.resume_from;
    auto load = [this, folder, is_first = command.is_first] {
      ask(
          Role::actor_train, "the checkpoint that is loaded", options_.trainer,
          [this, is_first](const CheckpointReport& report) {
            if (is_first) return tell(run::Loaded{});
            auto cursor = restore(report);
            if (!cursor) return tell(run::CommandFailed{"driver", cursor.error()});
            tell(run::Loaded{*cursor});
          },
          load_atom_v, CheckpointRequest{0, folder, ""});
    };
    if (command.is_first || !run_->plays_on()) return load();
    std::vector<std::pair<UnfinishedActor, std::string>> asked;
    std::error_code ignored;  // none there: nothing was under way
    for (const auto& entry : std::filesystem::directory_iterator(running_in(folder), ignored))
      for (size_t i = 0; i < rollouts_.size(); ++i)
        asked.emplace_back(unfinished_of(i), entry.path().string());
    ask_all(load_atom_v, asked, std::move(load));
  }
  UnfinishedActor unfinished_of(size_t replica) const {
    return caf::actor_cast<UnfinishedActor>(rollouts_[replica]);
  }
  /// Asks rollouts for something that may fail; calls `then` when all have answered.
  template <class Atom>
  void ask_all(Atom atom, const std::vector<std::pair<UnfinishedActor, std::string>>& asked,
               std::function<void()> then) {
    if (asked.empty()) return then();
    auto left = std::make_shared<size_t>(asked.size());
    auto answered = [left, then = std::move(then)] {
      if (--*left == 0) then();
    };
    for (const auto& [rollout, folder] : asked)
      send_request(
          self_, rollout, k_unfinished_timeout, [answered](bool) { answered(); },
          [this, answered, folder = folder](caf::error& e) {
            book_->note("unfinished", fmt::format("{}: {}", folder, from_caf(e).to_string()),
                        phase_);
            answered();
          },
          atom, folder);
  }
  void execute(const run::Prune&) {
    prune_checkpoints(options_.run_folder, static_cast<size_t>(options_.config.keep_checkpoints));
  }
  void execute(const run::Judge& command) {
    if (options_.judge) options_.judge({command.card, command.judgement, command.text});
  }
  void execute(const run::Quarantine& command) {
    QuarantineEntry entry;
    entry.prompt = command.task.prompt;
    entry.tag = command.task.tag;
    entry.seed = command.task.seed;
    entry.kind = to_string(command.round.kind);
    entry.step = command.round.step;
    entry.group = command.group;
    for (const plan::Death& death : command.deaths) entry.deaths.push_back(death.text);
    entry.time_us = wall_time_us();
    book_->note("quarantine", command.text, phase_, to_json(entry));
    if (auto added = quarantine_.add(entry); !added)
      tell(run::CommandFailed{"driver", added.error()});
  }
  void execute(const run::Note& command) { book_->note(command.kind, command.text, phase_); }
  void execute(const plan::run::Published& command) { book_->on(command); }
  void execute(const plan::run::BeginRow& command) { book_->on(command); }
  void execute(const plan::run::RoundOver& command) { book_->on(command); }
  void execute(const run::EndRow& command) {
    if (auto written = book_->on(command); !written)
      tell(run::FailureTold{{"driver", "metrics", written.error().to_string()}});
  }
  void execute(const run::WakeAt& command) {
    const double wait_ms = 1e3 * std::max(0.0, command.at - now_seconds());
    self_->delayed_send(DriverActor{self_},
                        std::chrono::milliseconds(static_cast<int64_t>(wait_ms) + 1), watch_atom_v);
  }
  void execute(const run::AnswerLeave& command) {
    auto leave = leaves_.extract(command.number);
    if (leave.empty()) return;
    if (command.error.code == Errc::none)
      leave.mapped().deliver(true);
    else
      leave.mapped().deliver(to_caf(command.error));
  }
  void execute(const run::End& command) { options_.on_end(book_->on(command)); }

  Expected<plan::run::Cursor> restore(const CheckpointReport& report) {
    COHORT_ASSIGN(auto found, book_->restore(report));
    COHORT_TRY(options_.tasks->restore(found.second));
    cursors_ = {{found.first.step, found.second}};
    return found.first;
  }
  void record(stream::RecordType type, std::string json) {
    ask(
        Role::recorder, "a record in the stream", options_.recorder, [](bool) {}, record_atom_v,
        static_cast<uint16_t>(type), std::move(json));
  }

  DriverActor::pointer self_;
  DriverOptions options_;
  std::optional<plan::run::Run> run_;
  std::optional<RunBook> book_;
  Quarantine quarantine_;
  std::optional<Error> broken_;  // what speaks against a start
  std::vector<PlayerActor> rollouts_;
  std::deque<plan::run::Event> events_;  // to be told, in order
  bool is_telling_ = false;
  bool is_stopping_ = false;
  std::set<uint32_t> lost_rollouts_;         // their cards, until others hold them
  Wait wait_rollout_;                        // while no rollout is left
  bool is_off_record_ = false;               // this run has other parameters than its schedule's
  std::string phase_;                        // in which the event came
  std::map<uint64_t, std::string> cursors_;  // of the data, after the groups of a step
  std::map<uint64_t, caf::typed_response_promise<bool>> leaves_;
  uint64_t last_leave_ = 0;
};

DriverActor::behavior_type driver(DriverActor::stateful_pointer<DriverState> self,
                                  DriverOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  DriverState* state = &self->state;
  return {
      [state](start_atom) { state->on_start(); },
      [state](stop_atom) { state->on_stop(); },
      [state](fail_atom, const Failure& failure) {
        state->tell(run::FailureTold{{failure.role, failure.phase, failure.detail,
                                      failure.is_consequence, failure.is_loss}});
      },
      [state](notice_atom, const std::string& role, const std::string& text) {
        state->tell(run::Noticed{role, text});
      },
      [state](lost_atom, const CardsLost& lost) { state->on_lost(lost); },
      [state](back_atom, const CardsBack& back) { state->on_back(back); },
      [state](leave_atom, const CardsLost& leaving, uint32_t wait_ms) {
        return state->on_leave(leaving, wait_ms);
      },
      [state](watch_atom) { state->tell(run::TimePassed{}); },
  };
}

}  // namespace

DriverActor spawn_driver(caf::actor_system& system, DriverOptions options) {
  return system.spawn(driver, std::move(options));
}

}  // namespace cohort::actors

#include "actors/node/node_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "actors/node/control_rendezvous.hpp"
#include "actors/node/placement_actor.hpp"
#include "actors/roles/trainer_actor.hpp"
#include "actors/run/recorder_actor.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"

namespace cohort::actors {

using namespace control;

template <class Handle>
Handle NodeState::watch(Handle handle, const std::string& role) {
  roles_[handle.address()] = role;
  self_->monitor(handle);
  if (options_.on_spawn) options_.on_spawn(role, handle.address());
  return handle;
}

FailureSink NodeState::failure_sink() {
  auto address = NodeActor{self_};
  return [address](Failure failure) { caf::anon_send(address, fail_atom_v, std::move(failure)); };
}

NoticeSink NodeState::notice_sink() {
  auto address = NodeActor{self_};
  return [address](std::string role, std::string text) {
    caf::anon_send(address, notice_atom_v, std::move(role), std::move(text));
  };
}

template <class Handle>
Handle NodeState::holder(const std::string& role, CardId card) const {
  return caf::actor_cast<Handle>(holders_.at({role, card}).actor);
}

void NodeState::open(NodeOptions options) {
  options_ = std::move(options);
  RoleSpawnerOptions roles;
  roles.config = &options_.config;
  roles.plan = &options_.plan;
  roles.run_id = options_.folder.run_id;
  roles.wires = options_.wires;
  roles.rendezvous = table_;
  roles.fail = failure_sink();
  if (options_.processes.empty())
    for (const plan::CardSpec& card : options_.plan.placement.cards) roles.cards.push_back(card.id);
  auto spawner = RoleSpawner::create(std::move(roles));
  if (!spawner) return on_fail({"node", "start", spawner.error().to_string()});
  spawner_ = std::move(*spawner);
  slots_.resize(options_.processes.size());
  self_->set_down_handler([this](caf::down_msg& message) { on_down(message); });
}

void NodeState::on_start() {
  if (spawner_ == nullptr) return;  // the run has ended with the reason
  recorder_ = watch(self_->spawn<caf::detached>(recorder, options_.writer), "recorder");
  if (options_.processes.empty()) {
    spawn_cards();
    return start_run();
  }
  for (uint32_t absent : options_.absent)
    for (uint32_t slot : unit_of(absent)) slots_[slot].is_away = true;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (!slots_[slot].is_away) watch_slot(slot);
  on_ping();
}

caf::result<ProcessWelcome> NodeState::on_join(const ProcessHello& hello) {
  if (hello.slot >= options_.processes.size())
    return to_caf({Errc::not_found, fmt::format("this run has no slot {}: it has {}", hello.slot,
                                                options_.processes.size())});
  if (hello.attempt != slots_[hello.slot].attempt)
    return to_caf(
        {Errc::denied, fmt::format("attempt {} of {} was given up: {} is expected", hello.attempt,
                                   slot_name(hello.slot), slots_[hello.slot].attempt)});
  ProcessWelcome welcome;
  welcome.attempt = hello.attempt;
  welcome.run_id = options_.folder.run_id;
  welcome.run_folder = options_.folder.path;
  welcome.working_folder = std::filesystem::current_path();
  welcome.config_yaml = options_.config.resolved_yaml;
  welcome.socket_folder = options_.wires.socket_folder;
  for (CardId card : options_.processes[hello.slot]) welcome.cards.push_back(card.value);
  return welcome;
}

void NodeState::on_ready(const ProcessReady& ready) {
  if (ready.slot >= slots_.size() || is_shutting_down_) return;
  Slot& slot = slots_[ready.slot];
  if (slot.is_ready || slot.is_lost || ready.attempt != slot.attempt) return;
  slot.is_ready = true;
  slot.process = ready.process;
  slot.roles = ready.roles;
  slot.last_heard = now_seconds();
  for (const RoleHandle& role : ready.roles) {
    holders_[{role.role, CardId{role.card}}] = {role.actor, true};
    caf::actor_addr address = caf::actor_cast<caf::actor_addr>(role.actor);
    roles_[address] = receiver_name(role.role, CardId{role.card});
    remote_.insert(address);
    self_->monitor(role.actor);
  }
  is_begun_ ? hand_out(unit_of(ready.slot)) : start_if_all();
}

TableReply NodeState::on_table(const TableRequest& request) {
  return answer_table(*table_, request);
}

void NodeState::spawn_cards() {
  caf::actor_system& system = self_->home_system();
  auto hold = [this](const std::string& role, CardId card, auto handle, const std::string& label) {
    holders_[{role, card}] = {caf::actor_cast<caf::strong_actor_ptr>(handle), false};
    watch(handle, label);
  };
  for (const plan::RoleSpec& role : options_.plan.placement.roles)
    for (CardId card : role.cards) {
      std::string label = receiver_name(role.role, card);
      if (role.role == "actor_train")
        hold(role.role, card, spawner_->train_worker(system, card), label + " (worker)");
      else if (role.role == "actor_infer")
        hold(role.role, card, spawner_->rollout(system, card), label);
      else
        hold(role.role, card, spawner_->reference(system, card), label);
    }
}

void NodeState::start_run() {
  if (std::exchange(is_begun_, true)) return;
  spawn_trainer();
  spawn_reward();
  if (!reward_) return;  // the run has ended with the reason
  spawn_head();
  for (uint32_t slot : options_.absent)
    if (const auto unit = unit_of(slot); !is_there(unit))
      set_away(unit, slot_name(slot) + " is not there: the run begins without it");
  caf::anon_send(driver_, start_atom_v);
}

void NodeState::spawn_trainer() {
  TrainerOptions options;
  options.context = spawner_->context();
  options.input = spawner_->link("trainer", "->actor_train");
  options.recorder = recorder_;
  for (CardId card : options_.plan.placement.find("actor_train")->cards) {
    TrainRank rank{card, {}, {}, {}};
    if (!holders_.at({"actor_train", card}).is_remote) {
      rank.worker = holder<TrainWorkerActor>("actor_train", card);
    } else {
      rank.remote = holder<TrainRankActor>("actor_train", card);
      rank.batches = spawner_->batch_link(card);
    }
    options.ranks.push_back(std::move(rank));
  }
  options.fail = failure_sink();
  trainer_ = watch(self_->spawn(trainer, std::move(options)), "actor_train");
}

void NodeState::spawn_reward() {
  bool has_reference = options_.plan.placement.find("reference") != nullptr;
  RewardOptions options;
  options.hop = {spawner_->context(), spawner_->link("rewards", "actor_infer->rewards"),
                 has_reference ? spawner_->link("reference", "rewards->reference")
                               : spawner_->link("trainer", "rewards->actor_train")};
  options.rewards = std::exchange(options_.rewards, {});
  if (options.rewards.empty()) {  // a successor starts with plugins of its own
    auto rewards = open_rewards(options_.config);
    if (!rewards) return on_fail({"rewards", "start", rewards.error().to_string()});
    options.rewards = std::move(*rewards);
  }
  options.prompts = options_.plan.prompts;
  options.step_trajectories = static_cast<uint64_t>(options_.config.derived.trajectories_per_step);
  options.fenced = fenced_;
  options.fail = failure_sink();
  options.notice = notice_sink();
  const bool waits = std::ranges::any_of(options.rewards, [](const RewardFunction& each) {
    return each.scorer && each.scorer->concurrency() > 0;
  });
  reward_ = watch(waits ? self_->spawn<caf::detached>(reward, std::move(options))
                        : self_->spawn(reward, std::move(options)),
                  "rewards");
}

void NodeState::spawn_head() {
  PlacementOptions placing;
  placing.plan = options_.plan.placement;
  placing.policy = options_.plan.offload;
  placing.recorder = recorder_;
  placing.run_start = now_seconds() - options_.log->seconds_since_start();
  constexpr int k_loss_wait_ms = 2000;
  if (options_.process_control.start) {
    placing.loss_wait_ms = k_loss_wait_ms;
    placing.restart_grace_ms = options_.restart_grace_ms;
  }
  for (const auto& [key, holder] : holders_)
    placing.owners[key] = caf::actor_cast<CardActor>(holder.actor);
  CardId train_card = placing.plan.find("actor_train")->cards.front();
  placement_ = watch(self_->spawn(placement, std::move(placing)), "placement");

  DriverOptions options;
  options.config = options_.config;
  options.run_id = options_.folder.run_id;
  options.run_folder = options_.folder.path;
  options.resume_from = options_.folder.resume_from;
  options.resume_first = options_.folder.resume_first;
  options.attempt = options_.folder.attempt;
  options.placement = placement_;
  options.infer_cards = options_.plan.placement.find("actor_infer")->cards;
  options.rollout_cards = spawner_->leading_cards();
  for (CardId card : options.rollout_cards)
    options.rollouts.push_back(holders_.contains({"actor_infer", card})
                                   ? holder<RolloutActor>("actor_infer", card)
                                   : RolloutActor{});  // of one that is away
  options.train_card = train_card;
  options.trainer = trainer_;
  options.has_reference_phase = spawner_->has_reference_phase();
  options.recorder = recorder_;
  options.log = options_.log;
  options.on_end = options_.on_end;
  options.judge = [address = NodeActor{self_}](const ProcessJudgement& judged) {
    caf::anon_send(address, judge_atom_v, judged);
  };
  if (options_.plan.prompts) {
    auto tasks = make_prompt_tasks(options_.config, options_.plan.prompts);
    COHORT_CHECK(tasks.has_value(), "DATA-2: preflight has made the same");
    options.tasks = std::move(*tasks);
  } else {
    options.tasks = make_environment_tasks(options_.config, options_.plan.seeds);
  }
  driver_ = watch(self_->spawn(driver, std::move(options)), "driver");
}

void NodeState::on_stop() {
  if (driver_) caf::anon_send(driver_, stop_atom_v);
}

void NodeState::on_fail(const Failure& failure) {
  if (is_shutting_down_) return;
  // What a link says of a peer that is gone, some seconds later: pings and whoever watches say it
  // first, and it goes on when the peer is back.
  constexpr double k_link_memory_s = 60;
  if (failure.phase == "link" && last_loss_ > 0 && now_seconds() - last_loss_ < k_link_memory_s)
    return on_notice(failure.role, failure.detail);
  // A process that is started while the run goes on, and fails at that: its end is told next.
  if (is_begun_ && failure.phase == "start" && failure.role.starts_with("process"))
    return on_notice(failure.role, failure.detail);
  if (!failure.is_consequence)
    log::warn("{} in phase {}: {}", failure.role, failure.phase, failure.detail);
  if (driver_)  // it ends the run with the first cause
    caf::anon_send(driver_, fail_atom_v, failure);
  else {
    RunResult result;
    result.error = fmt::format("{} in phase {}: {}", failure.role, failure.phase, failure.detail);
    result.is_loss = failure.is_loss;
    options_.on_end(std::move(result));
  }
}

void NodeState::on_notice(const std::string& role, const std::string& text) {
  log::warn("{}: {}", role, text);
  if (driver_ && !is_shutting_down_) caf::anon_send(driver_, notice_atom_v, role, text);
}

void NodeState::on_down(const caf::down_msg& message) {
  auto found = roles_.find(message.source);
  if (is_shutting_down_ || found == roles_.end()) return;
  std::string role = found->second;
  roles_.erase(found);
  std::string reason = message.reason ? from_caf(message.reason).to_string() : "it ended by itself";
  if (role == "rewards" && reward_restarts_ < k_reward_restarts) {
    ++reward_restarts_;
    log::warn("rewards died ({}), restart {} of {}", reason, reward_restarts_, k_reward_restarts);
    reward_ = nullptr;
    return spawn_reward();
  }
  if (role == "driver") driver_ = nullptr;  // nobody else is left to end the run
  // Of a process that ends, the roles are heard of first; why, only its supervisor knows.
  bool is_consequence = remote_.contains(message.source) && driver_;
  on_fail({role, "supervision", "the actor died: " + reason, is_consequence});
}

// From here on deaths are expected. The links' owners go first, so that no pump calls an actor that
// is gone.
bool NodeState::on_shutdown() {
  is_shutting_down_ = true;
  if (spawner_) spawner_->end_waits("the run ends");
  for (const auto& [address, role] : roles_)
    caf::anon_send_exit(address, caf::exit_reason::user_shutdown);
  return true;
}

NodeActor::behavior_type node(NodeActor::stateful_pointer<NodeState> self, NodeOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  NodeState* state = &self->state;
  return {
      [state](start_atom) { state->on_start(); },
      [state](stop_atom) { state->on_stop(); },
      [state](fail_atom, const Failure& failure) { state->on_fail(failure); },
      [state](notice_atom, const std::string& role, const std::string& text) {
        state->on_notice(role, text);
      },
      [state](flush_atom) { return state->on_shutdown(); },
      [state](join_atom, const ProcessHello& hello) { return state->on_join(hello); },
      [state](ready_atom, const ProcessReady& ready) { state->on_ready(ready); },
      [state](watch_atom, uint64_t which) { state->on_watch(which); },
      [state](ping_atom) { state->on_ping(); },
      [state](lost_atom, const ProcessLost& lost) { state->on_process_lost(lost); },
      [state](leave_atom, const LeaveOrder& order) { return state->on_leave(order); },
      [state](judge_atom, const ProcessJudgement& judged) { state->on_judged(judged); },
      [state](table_atom, const TableRequest& request) { return state->on_table(request); },
  };
}

}  // namespace cohort::actors

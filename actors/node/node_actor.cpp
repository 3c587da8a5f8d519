#include "actors/node/node_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "actors/node/control_rendezvous.hpp"
#include "actors/node/placement_actor.hpp"
#include "actors/roles/row_feeder.hpp"
#include "actors/roles/trainer_actor.hpp"
#include "actors/run/recorder_actor.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/config/train_groups.hpp"

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
  roles.run_attempt = options_.folder.attempt;
  roles.wires = options_.wires;
  roles.rendezvous = table_;
  roles.fail = failure_sink();
  if (options_.processes.empty())
    for (const plan::CardSpec& card : options_.plan.placement.cards) roles.cards.push_back(card.id);
  auto spawner = RoleSpawner::create(std::move(roles));
  if (!spawner) return on_fail({"node", "start", spawner.error().to_string()});
  spawner_ = std::move(*spawner);
  self_->set_down_handler([this](caf::down_msg& message) { on_down(message); });
  open_membership();
}

void NodeState::on_start() {
  if (spawner_ == nullptr) return;  // the run has ended with the reason
  recorder_ = watch(self_->spawn<caf::detached>(recorder, options_.writer), "recorder");
  if (options_.processes.empty()) spawn_cards();
  feed(plan::member::Open{});
}

TableReply NodeState::on_table(const TableRequest& request) {
  return answer_table(*table_, request);
}

void NodeState::spawn_cards() {
  caf::actor_system& system = self_->home_system();
  for (const plan::RoleSpec& role : options_.plan.placement.roles)
    for (CardId card : role.cards) {
      const bool is_worker = role.role == Role::actor_train || role.role == Role::critic;
      auto actor = spawner_->spawn(system, role.role, card);
      holders_[{role.role, card}] = {actor, false};
      watch(caf::actor_cast<caf::actor>(actor),
            receiver_name(role.role, card) + (is_worker ? " (worker)" : ""));
    }
}

void NodeState::spawn_trainer() {
  TrainerOptions options;
  options.context = spawner_->context();
  options.input = spawner_->link("trainer", "->actor_train");
  options.recorder = recorder_;
  for (const auto& role : options_.plan.placement.roles) {
    if (!role.has(plan::Object::grads) && !role.has(plan::Object::critic_grads)) continue;
    for (CardId card : role.cards) {
      TrainRank rank{role_of(role.role).value(), card, {}, {}, {}};
      if (!holders_.at({role.role, card}).is_remote) {
        rank.worker = holder<TrainWorkerActor>(role.role, card);
      } else {
        rank.remote = holder<TrainRankActor>(role.role, card);
        rank.batches = spawner_->batch_link(role.role, card);
      }
      options.ranks.push_back(std::move(rank));
    }
  }
  if (config::has_group_filter(options_.config)) options.sieve.emplace(options_.config);
  options.staleness_bound = static_cast<uint64_t>(options_.config.derived.steps_ahead);
  options.is_supervised = options_.plan.rows != nullptr;
  options.is_checked = options_.config.self_checks;
  options.answer_ends = options_.plan.stop_ids;
  options.is_record_only = options_.config.record_only;
  options.takes_any_age = options_.plan.recorded != nullptr;
  options.fail = failure_sink();
  trainer_ = watch(actors::spawn_trainer(self_->home_system(), std::move(options)), "actor_train");
}

void NodeState::spawn_reward() {
  RewardOptions options;
  options.hop = spawner_->hop_links(to_string(Role::rewards));
  options.rewards = std::exchange(options_.rewards, {});
  if (options.rewards.empty()) {  // a successor starts with plugins of its own
    auto rewards = open_rewards(options_.config);
    if (!rewards) return on_fail({"rewards", "start", rewards.error().to_string()});
    options.rewards = std::move(*rewards);
  }
  options.prompts = options_.plan.prompts;
  options.chat = options_.plan.chat;
  options.fenced = fenced_;
  options.fail = failure_sink();
  options.notice = notice_sink();
  reward_ = watch(actors::spawn_reward(self_->home_system(), std::move(options)), "rewards");
}

/// What stands between the cards and the trainer. Returns whether the run can begin.
bool NodeState::spawn_producers() {
  if (!options_.plan.rows) {
    spawn_reward();
    if (reward_ == nullptr) return false;  // the run has ended with the reason
  }
  if (!options_.plan.rows && !options_.plan.recorded) return true;
  RowFeederOptions options;
  options.context = spawner_->context();
  options.outputs = spawner_->rows_links();
  options.read =
      options_.plan.rows ? reader_of(options_.plan.rows) : reader_of(options_.plan.recorded);
  options.run_id = options_.folder.run_id;
  options.is_paced = options_.plan.recorded != nullptr && options_.config.from_stream_paced;
  options.fail = failure_sink();
  rows_ = watch(spawn_row_feeder(self_->home_system(), std::move(options)), "rows");
  return true;
}

/// Those that the driver leases groups to, by replica.
void NodeState::name_players(DriverOptions& options) const {
  if (rows_) {
    options.rollout_cards = {k_no_card};
    options.rollouts = {rows_};
    return;
  }
  options.infer_cards = options_.plan.placement.find(Role::actor_infer)->cards;
  options.rollout_cards = spawner_->leading_cards();
  for (CardId card : options.rollout_cards)
    options.rollouts.push_back(holders_.contains({"actor_infer", card})
                                   ? holder<RolloutActor>("actor_infer", card)
                                   : RolloutActor{});  // of one that is away
}

std::shared_ptr<TaskSource> NodeState::open_tasks() const {
  if (options_.plan.recorded)
    return make_recorded_tasks(options_.config, options_.plan.recorded, options_.plan.prompts);
  if (options_.plan.seeds) return make_environment_tasks(options_.config, options_.plan.seeds);
  auto tasks = options_.plan.rows ? make_row_tasks(options_.config, options_.plan.rows)
                                  : make_prompt_tasks(options_.config, options_.plan.prompts);
  COHORT_CHECK(tasks.has_value(), "DATA-2: preflight has made the same");
  return std::move(*tasks);
}

void NodeState::spawn_head() {
  PlacementOptions placing;
  placing.machine.plan = options_.plan.placement;
  placing.machine.policy = options_.plan.offload;
  placing.machine.run_start = now_seconds() - options_.log->seconds_since_start();
  if (options_.process_control.start) {
    placing.machine.loss_wait_s = options_.limits.loss_wait_s;
    placing.machine.grace_s = options_.limits.grace_s;
  }
  placing.recorder = recorder_;
  for (const auto& [key, holder] : holders_)
    placing.owners[key] = caf::actor_cast<CardActor>(holder.actor);
  CardId train_card = options_.plan.placement.find(Role::actor_train)->cards.front();
  placement_ = watch(spawn_placement(self_->home_system(), std::move(placing)), "placement");

  DriverOptions options;
  options.config = options_.config;
  options.run_id = options_.folder.run_id;
  options.run_folder = options_.folder.path;
  options.resume_from = options_.folder.resume_from;
  options.resume_first = options_.folder.resume_first;
  options.attempt = options_.folder.attempt;
  options.placement = placement_;
  name_players(options);
  options.train_card = train_card;
  options.trainer = trainer_;
  options.has_reference_phase = spawner_->has_reference_phase();
  options.refers_held_out = spawner_->has_reward_in_turns();
  options.recorder = recorder_;
  options.log = options_.log;
  options.schedule = options_.schedule;
  options.on_end = options_.on_end;
  options.judge = [address = NodeActor{self_}](const ProcessJudgement& judged) {
    caf::anon_send(address, judge_atom_v, judged);
  };
  if (options_.plan.recorded) options.recorded_steps = options_.plan.recorded->steps();
  options.tasks = open_tasks();
  driver_ = watch(spawn_driver(self_->home_system(), std::move(options)), "driver");
}

void NodeState::on_stop() {
  if (driver_) caf::anon_send(driver_, stop_atom_v);
}

void NodeState::on_fail(const Failure& failure) {
  if (is_shutting_down_) return;
  if (!failure.link.empty() && membership_) return feed(link_of(failure));
  if (failure.phase == "start" && failure.role.starts_with("process") && membership_)
    return feed(plan::member::StartFailed{failure.role, failure.detail});
  end_run(failure);
}

void NodeState::end_run(const Failure& failure) {
  if (!failure.is_consequence)
    log::warn("{} in phase {}: {}", failure.role, failure.phase, failure.detail);
  if (driver_)  // it ends the run with the first cause
    return caf::anon_send(driver_, fail_atom_v, failure);
  RunResult result;
  result.error = fmt::format("{} in phase {}: {}", failure.role, failure.phase, failure.detail);
  result.is_loss = failure.is_loss;
  options_.on_end(std::move(result));
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
  if (role == Role::rewards && reward_restarts_ < k_reward_restarts) {
    ++reward_restarts_;
    log::warn("rewards died ({}), restart {} of {}", reason, reward_restarts_, k_reward_restarts);
    reward_ = nullptr;
    return spawn_reward();
  }
  if (role == Role::driver) driver_ = nullptr;  // nobody else is left to end the run
  // Of a process that ends, the roles are heard of first; why, only its supervisor knows.
  bool is_consequence = remote_.contains(message.source) && driver_;
  end_run({role, "supervision", "the actor died: " + reason, is_consequence});
}

// From here on deaths are expected. The links' owners go first, so that no pump calls an actor that
// is gone.
bool NodeState::on_shutdown() {
  is_shutting_down_ = true;
  if (membership_) feed(plan::member::Over{});
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
      [state](watch_atom, uint64_t time) { state->on_watch(time); },
      [state](lost_atom, const ProcessLost& lost) { state->on_process_lost(lost); },
      [state](leave_atom, const LeaveOrder& order) { return state->on_leave(order); },
      [state](judge_atom, const ProcessJudgement& judged) { state->on_judged(judged); },
      [state](table_atom, const TableRequest& request) { return state->on_table(request); },
  };
}

}  // namespace cohort::actors

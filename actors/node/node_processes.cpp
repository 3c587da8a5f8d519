// The processes that hold a run's cards: messages to events of plan::Membership, commands to
// messages.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include "actors/node/card_process.hpp"
#include "actors/node/node_actor.hpp"
#include "runtime/base/log.hpp"
#include "runtime/control/request.hpp"

namespace cohort::actors {

using namespace control;
namespace member = plan::member;

void NodeState::open_membership() {
  plan::MembershipOptions options;
  options.limits = options_.limits;
  options.can_start = options_.process_control.start != nullptr;
  options.can_recover = !spawner_->has_reference_phase();
  options.absent = options_.absent;
  const plan::ShardLayout infer = options_.plan.infer_layout();
  const plan::PlacementPlan& plan = options_.plan.placement;
  membership_.emplace(std::move(options),
                      plan::slots_of(plan, infer.ranks, infer.tp, options_.processes));
  processes_.resize(options_.processes.size());
  for (uint32_t slot = 0; slot < processes_.size(); ++slot)
    for (const plan::RoleSpec& role : plan.roles)
      for (CardId card : role.cards)
        if (std::ranges::find(options_.processes[slot], card) != options_.processes[slot].end())
          for (const std::string& link : spawner_->links_of(role.role, card)) links_[link] = slot;
}

double NodeState::now() const {
  return std::chrono::duration<double>(self_->clock().now().time_since_epoch()).count();
}

void NodeState::feed(const member::Event& event, double now) {
  if (!membership_) return;  // the run has ended with the reason
  if (!is_first_policy_saved_ && !processes_.empty() &&
      std::filesystem::exists(first_policy(options_.folder.path))) {
    is_first_policy_saved_ = true;
    feed(member::FirstPolicySaved{}, now);
  }
  for (const member::Command& command : membership_->on(event, now))
    std::visit([this](const auto& each) { execute(each); }, command);
}

CardsLost NodeState::cards_of(const std::vector<uint32_t>& slots, const std::string& text) const {
  CardsLost cards{{}, text, false};
  for (uint32_t slot : slots)
    for (CardId card : options_.processes[slot]) cards.cards.push_back(card.value);
  return cards;
}

// -- messages

caf::result<ProcessWelcome> NodeState::on_join(const ProcessHello& hello) {
  auto promise = join_ = self_->make_response_promise<ProcessWelcome>();
  feed(member::Hello{hello.slot, hello.attempt});
  return promise;
}

void NodeState::on_ready(const ProcessReady& ready) {
  joining_ = &ready;
  feed(member::Ready{ready.slot, ready.attempt});
  joining_ = nullptr;
}

void NodeState::on_watch(uint64_t time) {
  feed(member::TimePassed{}, std::max(now(), std::bit_cast<double>(time)));
}

void NodeState::on_process_lost(const ProcessLost& lost) {
  feed(member::Exited{lost.slot, lost.attempt, lost.text, lost.is_node_gone});
}

caf::result<bool> NodeState::on_leave(const LeaveOrder& order) {
  auto promise = self_->make_response_promise<bool>();
  leaves_.emplace(++next_leave_, promise);
  feed(member::LeaveAsked{next_leave_, order.slots, order.wait_ms});
  return promise;
}

void NodeState::on_judged(const ProcessJudgement& judged) {
  for (uint32_t slot = 0; slot < processes_.size(); ++slot)
    if (std::ranges::find(options_.processes[slot], CardId{judged.card}) !=
        options_.processes[slot].end())
      return feed(member::Judged{slot, judged.judgement, judged.text});
  if (judged.judgement == Judgement::hung)  // in this process, which cannot end without the run
    end_run(
        {receiver_name("actor_infer", CardId{judged.card}), "supervision", "it " + judged.text});
}

member::LinkFailed NodeState::link_of(const Failure& failure) const {
  member::LinkFailed link{failure.role, failure.detail, {}, {}};
  const auto [without, attempt] = attempt_of_link(failure.link);
  if (auto found = links_.find(without); found != links_.end()) link.slot = found->second;
  link.attempt = attempt;
  return link;
}

// -- commands

void NodeState::execute(const member::Welcome& x) {
  ProcessWelcome welcome;
  welcome.attempt = x.attempt;
  welcome.run_id = options_.folder.run_id;
  welcome.run_attempt = options_.folder.attempt;
  welcome.run_folder = options_.folder.path;
  welcome.working_folder = std::filesystem::current_path();
  welcome.config_yaml = options_.config.resolved_yaml;
  welcome.socket_folder = options_.wires.socket_folder;
  for (CardId card : options_.processes[x.slot]) welcome.cards.push_back(card.value);
  join_.deliver(std::move(welcome));
}

void NodeState::execute(const member::Refuse& x) {
  const bool is_known = x.slot < processes_.size();
  join_.deliver(to_caf({is_known ? Errc::denied : Errc::not_found, x.why}));
}

void NodeState::execute(const member::Admit& x) {
  processes_[x.slot] = {joining_->process, joining_->roles};
  for (const RoleHandle& role : joining_->roles) {
    const std::string held = spawner_->role_at(role.role, CardId{role.card});
    holders_[{held, CardId{role.card}}] = {role.actor, true};
    const auto address = caf::actor_cast<caf::actor_addr>(role.actor);
    roles_[address] = receiver_name(held, CardId{role.card});
    remote_.insert(address);
    self_->monitor(role.actor);
  }
}

void NodeState::execute(const member::Forget& x) {
  for (const RoleHandle& role : processes_[x.slot].roles) {
    const auto address = caf::actor_cast<caf::actor_addr>(role.actor);
    self_->demonitor(address);
    roles_.erase(address);
    remote_.erase(address);
    holders_.erase({spawner_->role_at(role.role, CardId{role.card}), CardId{role.card}});
    if (!x.is_fenced) continue;  // it has ended, or plays to its end: all that it sent counts
    const std::string producer =
        spawner_->producer(to_string(role.role), CardId{role.card}, x.attempt);
    fenced_.insert(producer);
    if (reward_) self_->send(reward_, fence_atom_v, producer);
  }
  processes_[x.slot].roles.clear();
}

void NodeState::execute(const member::BeginRun&) {
  spawn_trainer();
  if (spawn_producers()) spawn_head();
}

void NodeState::execute(const member::StartRun&) {
  if (driver_) caf::anon_send(driver_, start_atom_v);
}

void NodeState::execute(const member::Start& x) {
  log::warn("{} starts again, attempt {}", membership_->spec(x.slot).name, x.attempt);
  options_.process_control.start(x.slot, x.attempt);
}

void NodeState::execute(const member::Kill& x) {
  if (options_.process_control.end) options_.process_control.end(x.slot, x.attempt);
}

void NodeState::execute(const member::Stop& x) {
  self_->send(caf::actor_cast<CardProcessActor>(processes_[x.slot].actor), stop_atom_v);
}

void NodeState::execute(const member::Ping& x) {
  const auto limit = std::chrono::milliseconds(std::lround(1e3 * options_.limits.silence_s));
  send_request(
      self_, caf::actor_cast<CardProcessActor>(processes_[x.slot].actor), limit,
      [this, x](uint64_t) {
        feed(member::Beat{x.slot, x.attempt});
      },
      [](caf::error&) {}, ping_atom_v, uint64_t{x.slot});
}

void NodeState::execute(const member::TellLost& x) {
  CardsLost lost = cards_of(x.slots, x.text);
  lost.is_away = x.is_away;
  log::warn("{}", lost.text);
  if (placement_) self_->send(placement_, lost_atom_v, lost);
  if (driver_) self_->send(driver_, lost_atom_v, lost);
}

void NodeState::execute(const member::TellBack& x) {
  CardsBack back;
  for (uint32_t slot : x.slots)
    back.roles.insert(back.roles.end(), processes_[slot].roles.begin(),
                      processes_[slot].roles.end());
  if (placement_) self_->send(placement_, back_atom_v, back);
  if (driver_) self_->send(driver_, back_atom_v, back);
}

void NodeState::execute(const member::AskLeave& x) {
  const auto answer_ms = static_cast<uint32_t>(1e3 * options_.limits.leave_answer_s);
  send_request(
      self_, driver_, std::chrono::milliseconds(x.wait_ms + answer_ms),
      [this, id = x.id](bool) {
        feed(member::LeaveAnswered{id, {}});
      },
      [this, id = x.id](caf::error& e) {
        feed(member::LeaveAnswered{id, from_caf(e).detail});
      },
      leave_atom_v, cards_of(x.slots, x.text), x.wait_ms);
}

void NodeState::execute(const member::AnswerLeave& x) {
  auto promise = leaves_.extract(x.id);
  if (promise.empty()) return;
  if (x.refusal)
    promise.mapped().deliver(to_caf({Errc::invalid_argument, *x.refusal}));
  else
    promise.mapped().deliver(true);
}

void NodeState::execute(const member::Notice& x) { on_notice(x.role, x.text); }

void NodeState::execute(const member::EndRun& x) {
  end_run({x.role, x.phase, x.text, false, x.is_loss});
}

void NodeState::execute(const member::WakeAt& x) {
  const auto wait = std::chrono::nanoseconds(std::llround(1e9 * std::max(0.0, x.time - now())));
  self_->delayed_send(NodeActor{self_}, wait, watch_atom_v, std::bit_cast<uint64_t>(x.time));
}

}  // namespace cohort::actors

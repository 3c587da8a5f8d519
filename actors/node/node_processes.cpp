// The processes that hold a run's cards: heard of, lost, and started again.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "actors/node/card_process.hpp"
#include "actors/node/node_actor.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/control/request.hpp"

namespace cohort::actors {

using namespace control;

namespace {

constexpr int k_attempt_bits = 32;  // of a watch message, below the slot

bool holds(const std::vector<CardId>& cards, CardId card) {
  return std::ranges::find(cards, card) != cards.end();
}

}  // namespace

std::string NodeState::slot_name(uint32_t slot) const {
  std::string roles;
  for (const plan::RoleSpec& role : options_.plan.placement.roles)
    if (std::ranges::any_of(role.cards,
                            [&](CardId card) { return holds(options_.processes[slot], card); }))
      roles += (roles.empty() ? "" : ", ") + role.role;
  return fmt::format("process {} (cards {}: {})", slot, plan::to_text(options_.processes[slot]),
                     roles);
}

/// Returns the slot and those that hold other cards of its tensor-parallel groups.
std::vector<uint32_t> NodeState::unit_of(uint32_t slot) const {
  const plan::ShardLayout& layout = options_.plan.weights.at("actor_infer")->to;
  std::vector<uint32_t> unit = {slot};
  for (size_t i = 0; i < unit.size(); ++i)
    for (size_t first = 0; first + layout.tp <= layout.ranks.size(); first += layout.tp) {
      std::span group(layout.ranks.begin() + static_cast<ptrdiff_t>(first), layout.tp);
      auto is_here = [&](uint32_t x) {
        return std::ranges::any_of(group,
                                   [&](CardId card) { return holds(options_.processes[x], card); });
      };
      if (!is_here(unit[i])) continue;
      for (uint32_t other = 0; other < slots_.size(); ++other)
        if (is_here(other) && std::ranges::find(unit, other) == unit.end()) unit.push_back(other);
    }
  return unit;
}

/// Returns true if all cards of these processes are there to be used.
bool NodeState::is_there(const std::vector<uint32_t>& unit) const {
  return std::ranges::all_of(unit, [this](uint32_t slot) { return slots_[slot].is_ready; });
}

/// Returns true if a replica of the rollout is there, but for those of these processes.
bool NodeState::has_player(const std::vector<uint32_t>& beside) const {
  const plan::RoleSpec& infer = *options_.plan.placement.find("actor_infer");
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (std::ranges::find(beside, slot) == beside.end() && is_there(unit_of(slot)) &&
        std::ranges::any_of(infer.cards,
                            [&](CardId card) { return holds(options_.processes[slot], card); }))
      return true;
  return false;
}

/// Returns true if the run can go on without these processes.
bool NodeState::may_be_away(const std::vector<uint32_t>& unit) const {
  if (!options_.process_control.start) return false;
  for (uint32_t slot : unit)
    for (const plan::RoleSpec& role : options_.plan.placement.roles)
      for (CardId card : role.cards)
        if (role.role != "actor_infer" && holds(options_.processes[slot], card)) return false;
  return true;
}

// A reference begins again from the policy of step 0. One that takes turns holds what rollouts have
// played until its turn comes: a step cannot go back to generation from there.
bool NodeState::is_recoverable(const std::vector<uint32_t>& unit) const {
  if (!is_begun_ || !options_.process_control.start || spawner_->has_reference_phase())
    return false;
  const bool has_first = std::filesystem::exists(first_policy(options_.folder.path));
  for (uint32_t slot : unit)
    for (const plan::RoleSpec& role : options_.plan.placement.roles)
      for (CardId card : role.cards) {
        const bool is_safe = role.role == "actor_infer" || (role.role == "reference" && has_first);
        if (!is_safe && holds(options_.processes[slot], card)) return false;
      }
  return true;
}

void NodeState::watch_slot(uint32_t slot) {
  self_->delayed_send(NodeActor{self_}, std::chrono::milliseconds(options_.join_timeout_ms),
                      watch_atom_v, uint64_t{slot} << k_attempt_bits | slots_[slot].attempt);
}

void NodeState::on_watch(uint64_t which) {
  auto slot = static_cast<uint32_t>(which >> k_attempt_bits);
  if (is_shutting_down_) return;
  if (slot == slots_.size())
    return static_cast<uint32_t>(which) == times_nobody_ ? on_nobody() : void();
  const Slot& seen = slots_[slot];
  if (seen.is_ready || seen.is_away || seen.attempt != static_cast<uint32_t>(which)) return;
  const std::string text = fmt::format("has not joined within {} ms", options_.join_timeout_ms);
  if (const auto unit = unit_of(slot); is_begun_ && may_be_away(unit))
    return set_away(unit, slot_name(slot) + " " + text + ": the run goes on without it");
  on_fail({slot_name(slot), "start", "it " + text, false, is_begun_});
}

void NodeState::start_if_all() {
  if (std::ranges::all_of(slots_, [](const Slot& each) { return each.is_ready || each.is_away; }))
    start_run();
}

void NodeState::tell_lost(const CardsLost& lost) {
  log::warn("{}", lost.text);
  self_->send(placement_, lost_atom_v, lost);
  self_->send(driver_, lost_atom_v, lost);
}

void NodeState::set_away(const std::vector<uint32_t>& unit, const std::string& text) {
  CardsLost lost{{}, text, true};
  for (uint32_t slot : unit) {
    slots_[slot].is_away = true;
    for (CardId card : options_.processes[slot]) lost.cards.push_back(card.value);
  }
  tell_lost(lost);
  watch_players(text);
}

// Nobody can play: whoever is started again, or joins, has so long to be there.
void NodeState::watch_players(const std::string& cause) {
  if (has_player({})) return nobody_since_.clear();
  if (!nobody_since_.empty()) return;
  nobody_since_ = cause;
  self_->delayed_send(NodeActor{self_}, std::chrono::milliseconds(options_.join_timeout_ms),
                      watch_atom_v, uint64_t{slots_.size()} << k_attempt_bits | ++times_nobody_);
}

void NodeState::on_nobody() {
  if (nobody_since_.empty()) return;
  on_fail({"actor_infer", "supervision",
           fmt::format("{}; no replica was there for {} ms since", nobody_since_,
                       options_.join_timeout_ms),
           false, true});
}

// A timer that comes late says that this process stood still: then nobody else was silent.
void NodeState::on_ping() {
  if (is_shutting_down_) return;
  const double now = now_seconds();
  const bool is_late = now - last_ping_ > 2e-3 * k_ping_ms;
  last_ping_ = now;
  self_->delayed_send(NodeActor{self_}, std::chrono::milliseconds(k_ping_ms), ping_atom_v);
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    Slot& seen = slots_[slot];
    if (!seen.is_ready || seen.process == nullptr) continue;
    if (is_late) seen.last_heard = now;
    if (now - seen.last_heard > 1e-3 * k_silence_ms) {
      lose(unit_of(slot), slot, fmt::format("was silent for {:.1f} s", now - seen.last_heard),
           true);
      continue;
    }
    send_request(
        self_, caf::actor_cast<CardProcessActor>(seen.process),
        std::chrono::milliseconds(k_silence_ms),
        [this, slot, attempt = seen.attempt](uint64_t) { on_pong(slot, attempt); },
        [](caf::error&) {}, ping_atom_v, uint64_t{slot});
  }
}

void NodeState::on_pong(uint32_t slot, uint32_t attempt) {
  if (slots_[slot].attempt == attempt) slots_[slot].last_heard = now_seconds();
}

void NodeState::on_process_lost(const ProcessLost& lost) {
  if (is_shutting_down_ || lost.slot >= slots_.size()) return;
  Slot& slot = slots_[lost.slot];
  if (lost.attempt != slot.attempt) return;
  // One whose node is gone may live on, cut off from here.
  if (!slot.is_lost) lose(unit_of(lost.slot), lost.slot, lost.text, lost.is_node_gone);
  if (!slot.is_lost) return;  // it has ended the run
  slot.is_gone = true;
  if (const auto all = unit_of(lost.slot); lost.is_node_gone && !slot.is_away && may_be_away(all))
    set_away(all, slot_name(lost.slot) + " has no node: the run goes on without it");
  // The ranks of a group find each other by the number of their attempt: they start together.
  uint32_t attempt = 0;
  const std::vector<uint32_t> unit = unit_of(lost.slot);
  for (uint32_t each : unit) {
    if (!slots_[each].is_gone) return;
    attempt = std::max(attempt, slots_[each].attempt + 1);
  }
  for (uint32_t each : unit) {
    slots_[each].is_lost = slots_[each].is_gone = false;
    if (slots_[each].is_given_up) continue;
    slots_[each].attempt = attempt;
    log::warn("{} starts again, attempt {}", slot_name(each), attempt);
    options_.process_control.start(each, attempt);
    watch_slot(each);
  }
}

caf::result<bool> NodeState::on_leave(const LeaveOrder& order) {
  auto refused = [](const std::string& why) { return to_caf({Errc::invalid_argument, why}); };
  if (!is_begun_ || is_shutting_down_) return refused("it is at its start or end: try again");
  std::set<uint32_t> all;
  for (uint32_t slot : order.slots)
    if (slot < slots_.size())
      for (uint32_t each : unit_of(slot)) all.insert(each);
  const std::vector<uint32_t> slots(all.begin(), all.end());
  CardsLost leaving;
  for (uint32_t slot : slots) {
    leaving.text += (leaving.text.empty() ? "" : ", ") + slot_name(slot);
    for (CardId card : options_.processes[slot]) leaving.cards.push_back(card.value);
  }
  if (!may_be_away(slots))
    return refused(leaving.text + " cannot leave: these cards are not actor_infer's alone");
  if (!has_player(slots))
    return refused(leaving.text + " cannot leave: no other replica of actor_infer is there");
  leaving.text += " leaves";
  auto promise = self_->make_response_promise<bool>();
  constexpr uint32_t k_answer_ms = 5000;
  send_request(
      self_, driver_, std::chrono::milliseconds(order.wait_ms + k_answer_ms),
      [this, promise, slots](bool) mutable {
        part(slots);
        promise.deliver(true);
      },
      [promise](caf::error& e) mutable { promise.deliver(std::move(e)); }, leave_atom_v, leaving,
      order.wait_ms);
  return promise;
}

// It is no loss. The processes end, and are to be started again where a node of their number joins.
void NodeState::part(const std::vector<uint32_t>& slots) {
  last_loss_ = now_seconds();  // of their links nothing more is heard, either
  std::string who;
  for (uint32_t slot : slots) {
    who += (who.empty() ? "" : ", ") + slot_name(slot);
    if (!slots_[slot].is_ready) continue;
    auto process = caf::actor_cast<CardProcessActor>(slots_[slot].process);
    forget_roles(slots_[slot], false);
    self_->send(process, stop_atom_v);
  }
  set_away(slots, who + " has left");
}

void NodeState::lose(const std::vector<uint32_t>& unit, uint32_t first, const std::string& text,
                     bool is_silent) {
  const double now = last_loss_ = now_seconds();
  const std::string who = slot_name(first);
  Slot& slot = slots_[first];
  std::erase_if(slot.losses, [&](double at) { return now - at > k_restart_window_s; });
  if (slot.losses.empty()) slot.first_loss = text;
  const bool is_excused =
      std::ranges::any_of(unit, [this](uint32_t each) { return slots_[each].is_alone; });
  if (!is_excused) slot.losses.push_back(now);
  if (!is_recoverable(unit)) return on_fail({who, "supervision", "it " + text, false, true});
  const bool is_last = slot.losses.size() > k_process_restarts;
  if (is_last && !(may_be_away(unit) && has_player(unit)))
    return on_fail({who, "supervision",
                    fmt::format("it {}, the {}th loss in {:.0f} minutes; the first: it {}", text,
                                slot.losses.size(), k_restart_window_s / 60, slot.first_loss)});
  CardsLost lost{{}, who + " " + text, slot.is_away};
  for (uint32_t each : unit) {
    for (CardId card : options_.processes[each]) lost.cards.push_back(card.value);
    if (!slots_[each].is_lost) forget_roles(slots_[each], is_silent);
    slots_[each].is_given_up = is_last;
    // The end of one that still runs is told when it has come; then it is started again.
    if (each != first || is_silent) options_.process_control.end(each, slots_[each].attempt);
    slots_[each].is_alone = false;
  }
  tell_lost(lost);
  watch_players(lost.text);
  if (is_last)
    set_away(unit, fmt::format("{} is lost for the {}th time in {:.0f} minutes, and not started "
                               "again; the first: it {}",
                               who, slot.losses.size(), k_restart_window_s / 60, slot.first_loss));
}

void NodeState::on_judged(const ProcessJudgement& judged) {
  if (is_shutting_down_) return;
  uint32_t number = 0;
  while (number < slots_.size() && !holds(options_.processes[number], CardId{judged.card}))
    ++number;
  if (number == slots_.size()) {  // the card is in this process, which cannot end without the run
    if (judged.judgement == Judgement::hung)
      on_fail(
          {receiver_name("actor_infer", CardId{judged.card}), "supervision", "it " + judged.text});
    return;
  }
  Slot& slot = slots_[number];
  if (judged.judgement == Judgement::hung) {
    if (slot.is_ready) lose(unit_of(number), number, judged.text, true);
  } else if (judged.judgement == Judgement::pardon) {
    if (!slot.losses.empty()) slot.losses.pop_back();
  } else {
    slot.is_alone = judged.judgement == Judgement::alone && slot.is_ready;
  }
}

void NodeState::forget_roles(Slot& slot, bool is_silent) {
  slot.is_lost = true;
  slot.is_ready = false;
  slot.process = nullptr;
  for (const RoleHandle& role : slot.roles) {
    auto address = caf::actor_cast<caf::actor_addr>(role.actor);
    self_->demonitor(address);
    roles_.erase(address);
    remote_.erase(address);
    holders_.erase({role.role, CardId{role.card}});
    if (!is_silent) continue;  // it has ended: nothing more comes from it
    std::string producer = spawner_->producer(role.role, CardId{role.card}, slot.attempt);
    fenced_.insert(producer);
    if (reward_) self_->send(reward_, fence_atom_v, producer);
  }
  slot.roles.clear();
}

// All of a unit at once: its groups are whole only then.
void NodeState::hand_out(const std::vector<uint32_t>& unit) {
  CardsBack back;
  for (uint32_t slot : unit) {
    if (!slots_[slot].is_ready) return;
    slots_[slot].is_away = false;
    back.roles.insert(back.roles.end(), slots_[slot].roles.begin(), slots_[slot].roles.end());
  }
  nobody_since_.clear();
  self_->send(placement_, back_atom_v, back);
  self_->send(driver_, back_atom_v, back);
}

}  // namespace cohort::actors

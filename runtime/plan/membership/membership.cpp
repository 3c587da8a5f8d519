#include "runtime/plan/membership/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "runtime/base/check.hpp"

namespace cohort::plan {

using namespace member;

namespace {

/// Its process is pinged, and its roles are known.
bool is_up(Standing x) {
  return x == Standing::joined || x == Standing::here || x == Standing::leaving;
}
/// Of the present attempt nothing is heard any more.
bool is_over(Standing x) { return x >= Standing::fenced; }
/// A publish, or the start of the run, waits for it.
bool is_awaited(Standing x) { return x == Standing::starting || x == Standing::fenced; }
bool is_away(Standing x) {
  return x == Standing::absent || x == Standing::parted || x == Standing::gone;
}

}  // namespace

std::vector<SlotSpec> slots_of(const PlacementPlan& plan, const std::vector<CardId>& replicas,
                               uint32_t tp, const std::vector<std::vector<CardId>>& processes) {
  auto holds = [&](size_t slot, CardId card) {
    return std::ranges::find(processes[slot], card) != processes[slot].end();
  };
  std::vector<SlotSpec> slots(processes.size());
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    SlotSpec& spec = slots[slot];
    spec.cards = processes[slot];
    spec.unit = slot;
    spec.duty = Duty::rollout;
    std::string roles;
    for (const RoleSpec& role : plan.roles) {
      if (std::ranges::none_of(role.cards, [&](CardId card) { return holds(slot, card); }))
        continue;
      roles += (roles.empty() ? "" : ", ") + role.role;
      spec.has_rollout = spec.has_rollout || role.role == Role::actor_infer;
      if (role.role == Role::actor_infer) continue;
      spec.duty = std::max(spec.duty, is_frozen(role.role) ? Duty::reference : Duty::needed);
    }
    spec.name = fmt::format("process {} (cards {}: {})", slot, to_text(spec.cards), roles);
  }
  for (size_t first = 0; first + tp <= replicas.size(); first += tp) {
    std::set<uint32_t> units;  // of the slots that hold the replica's cards
    for (uint32_t slot = 0; slot < slots.size(); ++slot)
      if (std::ranges::any_of(std::span(&replicas[first], tp),
                              [&](CardId card) { return holds(slot, card); }))
        units.insert(slots[slot].unit);
    for (SlotSpec& each : slots)
      if (units.contains(each.unit)) each.unit = *units.begin();
  }
  return slots;
}

Membership::Membership(MembershipOptions options, std::vector<SlotSpec> slots)
    : options_(std::move(options)), specs_(std::move(slots)), slots_(specs_.size()) {}

Commands Membership::on(const Event& event, double now) {
  now_ = std::max(now_, now);
  out_.clear();
  if (stage_ != Stage::over) {
    std::visit([this](const auto& each) { on_event(each); }, event);
    wake();
  } else if (const auto* hello = std::get_if<Hello>(&event)) {
    out_.push_back(Refuse{hello->slot, hello->attempt, "the run ends"});
  } else if (const auto* leave = std::get_if<LeaveAsked>(&event)) {
    out_.push_back(AnswerLeave{leave->id, "the run ends"});
  } else if (const auto* answer = std::get_if<LeaveAnswered>(&event)) {
    out_.push_back(AnswerLeave{answer->id, answer->refusal});
  }
  return std::move(out_);
}

// -- who

Membership::Slots Membership::unit_of(uint32_t slot) const {
  Slots unit;
  for (uint32_t each = 0; each < specs_.size(); ++each)
    if (specs_[each].unit == specs_[slot].unit) unit.push_back(each);
  return unit;
}

bool Membership::is_away(const Slots& unit) const {
  return std::ranges::any_of(unit, [this](uint32_t x) { return plan::is_away(standing(x)); });
}

bool Membership::may_be_away(const Slots& slots) const {
  return options_.can_start && std::ranges::all_of(slots, [this](uint32_t slot) {
           return specs_[slot].duty == Duty::rollout;
         });
}

bool Membership::is_recoverable(const Slots& unit) const {
  if (stage_ != Stage::running || !options_.can_start || !options_.can_recover) return false;
  return std::ranges::all_of(unit, [this](uint32_t slot) {
    return specs_[slot].duty == Duty::rollout ||
           (specs_[slot].duty == Duty::reference && has_first_policy_);
  });
}

/// Returns true if a replica of the rollout is there, but for those of these slots.
bool Membership::has_player(const Slots& beside, bool with_leaving) const {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (specs_[slot].has_rollout && std::ranges::find(beside, slot) == beside.end() &&
        (standing(slot) == Standing::here || (with_leaving && standing(slot) == Standing::leaving)))
      return true;
  return false;
}

bool Membership::is_last(uint32_t slot, uint32_t attempt) const {
  return slot < slots_.size() && slots_[slot].attempt == attempt;
}

bool Membership::is_explained(const LinkFailed& link) const {
  if (!link.slot || *link.slot >= slots_.size()) return false;
  const Slot& slot = slots_[*link.slot];
  if (link.attempt)
    return *link.attempt < slot.attempt ||
           (*link.attempt == slot.attempt && is_over(slot.standing));
  return !is_up(slot.standing) || now_ - slot.last_loss <= options_.limits.link_memory_s;
}

std::string Membership::text_of(const Slots& slots) const {
  std::string text;
  for (uint32_t slot : slots) text += (text.empty() ? "" : ", ") + specs_[slot].name;
  return text;
}

// -- they come

void Membership::on_event(const Open&) {
  if (stage_ != Stage::created) return;
  stage_ = Stage::opening;
  last_ping_ = now_;
  for (Slot& slot : slots_) slot.wait_until = now_ + options_.limits.join_s;
  for (uint32_t absent : options_.absent)
    for (uint32_t slot : unit_of(absent))
      if (standing(slot) == Standing::starting) slots_[slot].standing = Standing::absent;
  start_if_all();
}

void Membership::on_event(const Hello& hello) {
  auto refuse = [&](std::string why) {
    out_.push_back(Refuse{hello.slot, hello.attempt, std::move(why)});
  };
  if (hello.slot >= slots_.size())
    return refuse(fmt::format("this run has no slot {}: it has {}", hello.slot, slots_.size()));
  const Slot& slot = slots_[hello.slot];
  if (hello.attempt != slot.attempt)
    return refuse(fmt::format("attempt {} of {} was given up: {} is expected", hello.attempt,
                              specs_[hello.slot].name, slot.attempt));
  if (is_over(slot.standing))
    return refuse(
        fmt::format("attempt {} of {} was given up", hello.attempt, specs_[hello.slot].name));
  out_.push_back(Welcome{hello.slot, hello.attempt});
}

void Membership::on_event(const Ready& ready) {
  if (!is_last(ready.slot, ready.attempt)) return;
  Slot& slot = slots_[ready.slot];
  if (slot.standing != Standing::starting && slot.standing != Standing::absent) return;
  slot.standing = Standing::joined;
  slot.last_heard = now_;
  out_.push_back(Admit{ready.slot, ready.attempt});
  stage_ == Stage::running ? hand_out(unit_of(ready.slot)) : start_if_all();
}

void Membership::start_if_all() {
  auto is_settled = [](const Slot& each) {
    return each.standing == Standing::joined || each.standing == Standing::absent;
  };
  if (stage_ != Stage::opening || !std::ranges::all_of(slots_, is_settled)) return;
  stage_ = Stage::running;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (standing(slot) == Standing::joined && !is_away(unit_of(slot)))
      slots_[slot].standing = Standing::here;
  out_.push_back(BeginRun{});
  std::set<uint32_t> told;  // units
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (standing(slot) == Standing::absent && told.insert(specs_[slot].unit).second)
      set_away(unit_of(slot), specs_[slot].name + " is not there: the run begins without it");
  out_.push_back(StartRun{});
}

// All of a unit at once: its groups are whole only then.
void Membership::hand_out(const Slots& unit) {
  if (!std::ranges::all_of(unit, [this](uint32_t x) { return standing(x) == Standing::joined; }))
    return;
  for (uint32_t slot : unit) slots_[slot].standing = Standing::here;
  out_.push_back(TellBack{unit});
  if (has_player({}, true)) nobody_since_.clear();
}

void Membership::on_event(const Beat& beat) {
  if (is_last(beat.slot, beat.attempt)) slots_[beat.slot].last_heard = now_;
}

// -- they go

void Membership::on_event(const Exited& exit) {
  if (!is_last(exit.slot, exit.attempt)) return;
  if (!is_over(standing(exit.slot))) lose(exit.slot, exit.text, !exit.is_node_gone);
  const Standing now = standing(exit.slot);
  if (stage_ == Stage::over || now == Standing::ended || now == Standing::gone) return;
  const Slots unit = unit_of(exit.slot);
  if (exit.is_node_gone && !is_away(unit) && may_be_away(unit))
    set_away(unit, specs_[exit.slot].name + " has no node: the run goes on without it");
  end(exit.slot);
}

void Membership::lose(uint32_t first, const std::string& text, bool has_ended) {
  const Slots unit = unit_of(first);
  const std::string& who = specs_[first].name;
  const MembershipLimits& limits = options_.limits;
  Slot& slot = slots_[first];
  std::erase_if(slot.losses, [&](double at) { return now_ - at > limits.restart_window_s; });
  if (slot.losses.empty()) slot.first_loss = text;
  if (std::ranges::none_of(unit, [this](uint32_t each) { return slots_[each].is_alone; }))
    slot.losses.push_back(now_);
  if (!is_recoverable(unit)) return end_run(who, "supervision", "it " + text, true);
  const bool is_too_often = slot.losses.size() > limits.restarts_max;
  const double minutes = limits.restart_window_s / 60;
  if (is_too_often && !(may_be_away(unit) && has_player(unit, true)))
    return end_run(who, "supervision",
                   fmt::format("it {}, the {}th loss in {:.0f} minutes; the first: it {}", text,
                               slot.losses.size(), minutes, slot.first_loss),
                   false);
  const bool was_away = is_away(unit);
  fence(unit, first, has_ended, was_away);
  const std::string told = who + " " + text;
  out_.push_back(TellLost{unit, told, was_away});
  watch_players(told);
  if (!is_too_often) return;
  for (uint32_t each : unit) slots_[each].standing = Standing::gone;
  set_away(unit, fmt::format("{} is lost for the {}th time in {:.0f} minutes, and not started "
                             "again; the first: it {}",
                             who, slot.losses.size(), minutes, slot.first_loss));
}

/// The end of a process that still runs is told when it has come. Of one that is absent nobody
/// knows whether it exists: its end is not waited for.
void Membership::fence(const Slots& unit, uint32_t first, bool has_ended, bool is_away) {
  for (uint32_t each : unit) {
    Slot& slot = slots_[each];
    const bool is_told = each == first && has_ended;
    if (is_up(slot.standing)) out_.push_back(Forget{each, slot.attempt, !is_told});
    if (!is_told) out_.push_back(Kill{each, slot.attempt});
    const bool is_unknown = each != first && slot.standing == Standing::absent;
    slot.standing = is_unknown ? Standing::ended : is_away ? Standing::parted : Standing::fenced;
    slot.is_alone = false;
    slot.last_loss = now_;
    slot.wait_until = now_ + options_.limits.join_s;
  }
}

/// A process has ended; once all of its unit have, they start again. The ranks of a group find each
/// other by the number of their attempt: it is one for all.
void Membership::end(uint32_t slot) {
  const bool is_away = standing(slot) == Standing::parted;
  slots_[slot].standing = Standing::ended;
  uint32_t attempt = 0;
  const Slots unit = unit_of(slot);
  for (uint32_t each : unit) {
    if (standing(each) != Standing::ended) return;
    attempt = std::max(attempt, slots_[each].attempt + 1);
  }
  for (uint32_t each : unit) {
    slots_[each].standing = is_away ? Standing::absent : Standing::starting;
    slots_[each].attempt = attempt;
    slots_[each].wait_until = now_ + options_.limits.join_s;
    out_.push_back(Start{each, attempt});
  }
}

void Membership::set_away(const Slots& slots, const std::string& text) {
  for (uint32_t each : slots) {
    Standing& standing = slots_[each].standing;
    if (standing == Standing::starting) standing = Standing::absent;
    if (standing == Standing::fenced) standing = Standing::parted;
  }
  out_.push_back(TellLost{slots, text, true});
  watch_players(text);
}

// Nobody can play: one that is started again, or joins, has so long to be there.
void Membership::watch_players(const std::string& cause) {
  if (has_player({}, true)) return nobody_since_.clear();
  if (!nobody_since_.empty()) return;
  nobody_since_ = cause;
  nobody_until_ = now_ + options_.limits.join_s;
}

void Membership::on_event(const Judged& judged) {
  if (judged.slot >= slots_.size()) return;
  Slot& slot = slots_[judged.slot];
  if (judged.judgement == Judgement::pardon) {  // the last loss of its unit
    const auto last = [this](uint32_t each) {
      return slots_[each].losses.empty() ? 0 : slots_[each].losses.back();
    };
    std::vector<double>& losses = slots_[std::ranges::max(unit_of(judged.slot), {}, last)].losses;
    if (!losses.empty()) losses.pop_back();
  } else if (judged.judgement != Judgement::hung) {
    slot.is_alone = judged.judgement == Judgement::alone && is_up(slot.standing);
  } else if (is_up(slot.standing)) {
    lose(judged.slot, judged.text, false);
  }
}

// -- they leave

void Membership::on_event(const LeaveAsked& leave) {
  std::set<uint32_t> all;
  for (uint32_t slot : leave.slots)
    if (slot < slots_.size())
      for (uint32_t each : unit_of(slot)) all.insert(each);
  const Slots slots(all.begin(), all.end());
  std::string why;
  if (stage_ != Stage::running)
    why = "it is at its start or end: try again";
  else if (!may_be_away(slots))
    why = text_of(slots) + " cannot leave: these cards are not actor_infer's alone";
  else if (!has_player(slots, false))
    why = text_of(slots) + " cannot leave: no other replica of actor_infer is there";
  if (!why.empty()) return out_.push_back(AnswerLeave{leave.id, why});
  for (uint32_t slot : slots)
    if (standing(slot) == Standing::here) slots_[slot].standing = Standing::leaving;
  leaves_[leave.id] = slots;
  out_.push_back(AskLeave{leave.id, slots, text_of(slots) + " leaves", leave.wait_ms});
}

// Agreed, it is no loss: the processes end, and start again where a node of their number joins.
void Membership::on_event(const LeaveAnswered& answer) {
  auto found = leaves_.extract(answer.id);
  if (found.empty()) return;
  const Slots& slots = found.mapped();
  auto is_asked = [this](uint32_t slot) {
    return std::ranges::any_of(leaves_, [slot](const auto& other) {
      return std::ranges::find(other.second, slot) != other.second.end();
    });
  };
  for (uint32_t each : slots) {
    Slot& slot = slots_[each];
    if (answer.refusal) {
      if (slot.standing == Standing::leaving && !is_asked(each)) slot.standing = Standing::here;
    } else if (is_up(slot.standing)) {
      out_.push_back(Forget{each, slot.attempt, false});
      out_.push_back(Stop{each, slot.attempt});
      slot.standing = Standing::parted;
      slot.last_loss = now_;
      slot.is_alone = false;
    }
  }
  if (!answer.refusal) set_away(slots, text_of(slots) + " has left");
  out_.push_back(AnswerLeave{answer.id, answer.refusal});
}

// -- what may be the consequence of a loss

void Membership::on_event(const LinkFailed& link) {
  if (is_explained(link)) return out_.push_back(Notice{link.role, link.detail});
  doubts_.push_back({link, now_ + options_.limits.link_verdict_s});
}

void Membership::judge_links() {
  auto is_due = [this](const LinkDoubt& doubt) { return doubt.until <= now_; };
  for (const LinkDoubt& doubt : doubts_) {
    if (!is_due(doubt)) continue;
    if (!is_explained(doubt.link))
      return end_run(doubt.link.role, "link", doubt.link.detail, false);
    out_.push_back(Notice{doubt.link.role, doubt.link.detail});
  }
  std::erase_if(doubts_, is_due);
}

void Membership::on_event(const StartFailed& failure) {
  if (stage_ == Stage::running) return out_.push_back(Notice{failure.role, failure.detail});
  end_run(failure.role, "start", failure.detail, false);
}

// -- time

void Membership::on_event(const TimePassed&) {
  if (stage_ == Stage::created) return;
  if (now_ >= last_ping_ + options_.limits.ping_s) ping_all();
  if (stage_ != Stage::over) give_up_waiting();
  if (stage_ != Stage::over) judge_links();
}

// A timer that comes late says that this process stood still: then nobody else was silent.
void Membership::ping_all() {
  const bool is_late = now_ - last_ping_ > 2 * options_.limits.ping_s;
  last_ping_ = now_;
  for (uint32_t each = 0; each < slots_.size() && stage_ != Stage::over; ++each) {
    Slot& slot = slots_[each];
    if (!is_up(slot.standing)) continue;
    if (is_late) slot.last_heard = now_;
    if (const double silence = now_ - slot.last_heard; silence > options_.limits.silence_s)
      lose(each, fmt::format("was silent for {:.1f} s", silence), false);
    else
      out_.push_back(Ping{each, slot.attempt});
  }
}

void Membership::give_up_waiting() {
  const long limit_ms = std::lround(1e3 * options_.limits.join_s);
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!is_awaited(standing(slot)) || now_ < slots_[slot].wait_until) continue;
    const bool is_fenced = standing(slot) == Standing::fenced;
    const std::string text =
        fmt::format("has not {} within {} ms", is_fenced ? "ended" : "joined", limit_ms);
    const std::string& who = specs_[slot].name;
    const Slots unit = unit_of(slot);
    if (stage_ != Stage::running || !may_be_away(unit))
      return end_run(who, is_fenced ? "supervision" : "start", "it " + text,
                     stage_ == Stage::running);
    set_away(unit, who + " " + text + ": the run goes on without it");
  }
  if (!nobody_since_.empty() && now_ >= nobody_until_)
    end_run("actor_infer", "supervision",
            fmt::format("{}; no replica was there for {} ms since", nobody_since_, limit_ms), true);
}

void Membership::end_run(std::string role, std::string phase, std::string text, bool is_loss) {
  stage_ = Stage::over;
  out_.push_back(EndRun{std::move(role), std::move(phase), std::move(text), is_loss});
}

double Membership::next_deadline() const {
  double next = std::numeric_limits<double>::infinity();
  if (stage_ == Stage::created || stage_ == Stage::over) return next;
  if (!slots_.empty()) next = last_ping_ + options_.limits.ping_s;
  for (const Slot& slot : slots_)
    if (is_awaited(slot.standing)) next = std::min(next, slot.wait_until);
  if (!nobody_since_.empty()) next = std::min(next, nobody_until_);
  for (const LinkDoubt& doubt : doubts_) next = std::min(next, doubt.until);
  return next;
}

void Membership::wake() {
  if (now_ >= wakes_at_) wakes_at_ = std::numeric_limits<double>::infinity();
  const double next = next_deadline();
  if (next >= wakes_at_) return;
  wakes_at_ = next;
  out_.push_back(WakeAt{next});
}

void Membership::assert_invariants() const {
  const auto is_in = [](Standing x) { return x == Standing::here || x == Standing::leaving; };
  const auto is_gone = [](Standing x) { return x == Standing::gone; };
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const Slots unit = unit_of(slot);
    const auto as_whole = [&](auto is) {
      return std::ranges::all_of(unit,
                                 [&](uint32_t x) { return is(standing(x)) == is(standing(slot)); });
    };
    const auto is_waited_for = [this](uint32_t x) { return is_awaited(standing(x)); };
    COHORT_CHECK(as_whole(is_in), "MEMBER-2: a unit has its part in the run as a whole");
    COHORT_CHECK(!is_away(unit) || std::ranges::none_of(unit, is_waited_for),
                 "MEMBER-2: a unit is awaited, or away");
    COHORT_CHECK(as_whole(is_gone), "MEMBER-2: a unit is given up as a whole");
    for (uint32_t each : unit)
      COHORT_CHECK(attempt(each) == attempt(slot), "MEMBER-2: one attempt for a unit");
  }
}

}  // namespace cohort::plan

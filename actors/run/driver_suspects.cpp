// Groups that kill the processes that play them, and rollouts that do not get on with theirs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "actors/run/driver_actor.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::actors {

using namespace control;

void DriverState::judge(size_t replica, Judgement judgement, const std::string& text) {
  if (options_.judge) options_.judge({options_.rollout_cards[replica].value, judgement, text});
}

// -- groups that kill

// What is left of `open` was being played when the process died.
void DriverState::blame(const std::shared_ptr<Round>& round, const plan::Death& death,
                        const std::vector<uint64_t>& open) {
  const plan::Suspects::Verdict verdict = round->suspects.blame(open, death);
  for (uint64_t group : open)
    if (round->suspects.is_isolated(group)) round->dispatcher->isolate(group);
  if (!verdict.isolated.empty())
    note("suspects",
         fmt::format("{} groups of step {} were open at {} losses each: from now on "
                     "each is played alone",
                     verdict.isolated.size(), round->batch.step, plan::Suspects::k_shared_losses));
  if (verdict.convicted) quarantine(round, static_cast<uint32_t>(*verdict.convicted));
}

void DriverState::quarantine(const std::shared_ptr<Round>& round, uint32_t group) {
  const Batch& batch = round->batch;
  const GroupTask& task = batch.tasks[group];
  const std::vector<plan::Death>& deaths = round->suspects.deaths_of(group);
  QuarantineEntry entry;
  entry.prompt = options_.tasks->prompt_id(task);
  entry.tag = task.tag;
  entry.seed = task.seed;
  entry.kind = proto::to_string(static_cast<proto::TrajectoryKind>(batch.kind));
  entry.step = batch.step;
  entry.group = group;
  for (const plan::Death& death : deaths) entry.deaths.push_back(death.text);
  entry.time_us = wall_time_us();
  const std::string text = fmt::format(
      "prompt {} ({}, step {}, group {}) is quarantined: {} processes have ended while "
      "they played it, the last {} played nothing else; the last: {}",
      entry.prompt, entry.kind, entry.step, group, deaths.size(), plan::Suspects::k_alone_losses,
      deaths.back().text);
  options_.log->event(observe::EventLevel::warning, step_, text);
  record(static_cast<uint16_t>(stream::RecordType::event),
         nlohmann::json{{"kind", "quarantine"},
                        {"step", step_},
                        {"phase", phase_},
                        {"detail", text},
                        {"time_us", entry.time_us},
                        {"entry", nlohmann::json::parse(to_json(entry))}}
             .dump());
  if (auto added = quarantine_.add(entry); !added)
    return on_fail({"driver", phase_, added.error().detail});
  if (round->suspects.is_over_limit())
    return on_fail({"actor_infer", phase_,
                    fmt::format("{} of {} groups of step {} have ended the processes that played "
                                "nothing else, {} at most are quarantined: this is no matter of "
                                "single prompts; the last: {}",
                                round->suspects.convicted(), batch.groups, batch.step,
                                round->suspects.limit(), deaths.back().text)});
  // The losses before it was played alone have counted.
  for (size_t i = 0; i < plan::Suspects::k_shared_losses; ++i)
    if (options_.judge) options_.judge({deaths[i].card, Judgement::pardon, ""});
  for (uint32_t index = 0; index < batch.group_size; ++index)
    round->dispatcher->end(group, index, 0, static_cast<uint64_t>(response_tokens_));
  mask(round, group,
       fmt::format("quarantined: {} processes have ended while they played it", deaths.size()));
}

void DriverState::mask(const std::shared_ptr<Round>& round, uint32_t group,
                       const std::string& reason) {
  const GroupTask& task = round->batch.tasks[group];
  MaskRequest request;
  request.kind = round->batch.kind;
  request.step = round->batch.step;
  request.group = group;
  request.attempt = options_.attempt;
  request.version = version_;
  request.run_id = options_.run_id;
  request.tag = task.tag;
  request.seed = task.seed;
  request.prompt_id = options_.tasks->prompt_id(task);
  request.reason = reason;
  ++round->questions;
  send_request(
      self_, options_.trainer, std::chrono::milliseconds(options_.request_timeout_ms),
      [this, round](bool) {
        --round->questions;
        if (round_ == round) continue_round(round);
      },
      [this](caf::error& e) { on_fail(failure_of("actor_train", phase_, e)); }, mask_atom_v,
      request);
}

// A prompt of an earlier step, or of this run before it was resumed.
bool DriverState::skip_quarantined(const std::shared_ptr<Round>& round, uint32_t group) {
  const std::string prompt = options_.tasks->prompt_id(round->batch.tasks[group]);
  const QuarantineEntry* entry = quarantine_.find(prompt);
  if (entry == nullptr) return false;
  note("skip", fmt::format("group {} of step {} is not played: its prompt {} is quarantined since "
                           "step {} (quarantine.jsonl)",
                           group, round->batch.step, prompt, entry->step));
  mask(round, group, fmt::format("quarantined since step {}", entry->step));
  return true;
}

// -- rollouts that do not get on

// What has no answer in time does not come back by itself.
void DriverState::on_lease_error(const std::pair<size_t, uint32_t>& from, const caf::error& error) {
  const Error cause = from_caf(error);
  if (cause.code == Errc::cancelled) return;  // another has played it, or says what is wrong
  if (cause.code == Errc::timeout && replicas_[from.first].attempt == from.second)
    judge(from.first, Judgement::hung, "does not answer: " + cause.detail);
  std::string role = fmt::format("actor_infer (card {})", options_.rollout_cards[from.first].value);
  doubt({failure_of(std::move(role), phase_, error), now_seconds(), from});
}

void DriverState::note_move(const std::shared_ptr<Round>& round, size_t replica) {
  round->paces[replica].since = now_seconds();
  ping_later();
}

double DriverState::ping_period_s() const {
  constexpr double k_pings_per_limit = 4;
  return options_.config.recovery.group_timeout_s / k_pings_per_limit;
}

void DriverState::ping_later() {
  constexpr double k_hedge_period_s = 0.25;
  double period = ping_period_s();
  if (straggler_options().factor > 0)
    period = period > 0 ? std::min(period, k_hedge_period_s) : k_hedge_period_s;
  if (period <= 0 || std::exchange(is_pinged_, true)) return;
  self_->delayed_send(DriverActor{self_},
                      std::chrono::milliseconds(std::max<int64_t>(1, std::llround(1e3 * period))),
                      ping_atom_v);
}

// Each rollout that has groups open says a number that rises while it gets on. One that says
// nothing stands still too.
void DriverState::on_ping() {
  is_pinged_ = false;
  if (is_over_ || !round_) return;
  hedge_late(round_);
  const double limit = options_.config.recovery.group_timeout_s;
  const double now = now_seconds();
  for (auto& [replica, pace] : round_->paces) {
    const size_t open = round_->dispatcher->open_groups(static_cast<uint32_t>(replica));
    if (open == 0) continue;
    ping_later();
    if (limit <= 0 || now - pace.asked < ping_period_s()) continue;
    pace.asked = now;
    if (now - pace.since > limit) {
      pace.since = now;
      judge(replica, Judgement::hung,
            fmt::format("has groups open, {}, and has not got on with them for {} s "
                        "(recovery.group_timeout_s)",
                        open, limit));
      continue;
    }
    std::pair<size_t, uint32_t> from{replica, replicas_[replica].attempt};
    send_request(
        self_, replicas_[replica].actor, std::chrono::milliseconds(std::llround(1e3 * limit)),
        [this, round = round_, from](uint64_t done) {
          auto found = round->paces.find(from.first);
          if (found == round->paces.end() || replicas_[from.first].attempt != from.second) return;
          if (std::exchange(found->second.done, done) != done) found->second.since = now_seconds();
        },
        [](caf::error&) {}, ping_atom_v);
  }
}

}  // namespace cohort::actors

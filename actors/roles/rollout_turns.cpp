// Turns of a rollout's trajectories: submitted, interrupted and taken up again, answered; and the
// commits and checkpoints that interrupt them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/roles/rollout_actor.hpp"
#include "actors/run/recorder_actor.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/base/log.hpp"
#include "runtime/control/request.hpp"
#include "runtime/tasks/stop_strings.hpp"

namespace cohort::actors {

using namespace control;

namespace {

constexpr std::chrono::milliseconds k_write_timeout{60000};

// An engine that breaks its promise is not trained on.
Expected<void> check_output(const compute::TurnOutput& output, uint64_t version) {
  using compute::TurnStop;
  const size_t count = output.tokens.size();
  if (output.stop == TurnStop::error)
    return Error{Errc::compute,
                 fmt::format("a turn ended behind {} tokens, since no next one could be drawn: the "
                             "logits of version {} are not finite (NaN or infinity, as weights "
                             "have that an update blew up: a smaller learning rate, or "
                             "max_grad_norm), or the engine has lost a rank (the log names it)",
                             count, version)};
  if (count == 0 || (output.stop != TurnStop::stop && output.stop != TurnStop::length))
    return Error{Errc::compute, fmt::format("a turn of {} tokens ended with '{}'", count,
                                            compute::to_string(output.stop))};
  if (output.logp.size() != count || output.versions.size() != count)
    return Error{Errc::compute, fmt::format("{} log-probs and {} versions for {} tokens",
                                            output.logp.size(), output.versions.size(), count)};
  const uint32_t oldest = std::ranges::min(output.versions);
  if (oldest < version)
    return Error{Errc::compute, fmt::format("PLACE-5: a token of version {}, the lease is of {}",
                                            oldest, version)};
  return {};
}

}  // namespace

/// Returns how many tokens may follow its context with the open prompt, 0 or less for none: of the
/// sequence, and of all that comes after the first prompt where the environment bounds that.
int RolloutState::room_for(const Episode& episode) const {
  const proto::Trajectory& t = episode.trajectory;
  const size_t context = t.tokens.size() - episode.context_begin + episode.prompt_tokens.size();
  return room_behind(bounds_of(t.tag), first_prompt(t.turns, episode.context_begin, context),
                     context);
}

AnswerBounds RolloutState::bounds_of(const std::string& tag) const {
  const EnvironmentOptions& world = *options_.environments.at(tag);
  return {options_.sequence_length, world.max_response_length, world.max_response_total};
}

void RolloutState::begin_turn(const Place& at, const EnvTurn& turn) {
  Episode& episode = *at.episode;
  if (turn.begins_context) {
    leave_engine(at);
    episode.context_begin = episode.trajectory.tokens.size();
  }
  episode.prompt_tokens = turn.prompt;
  if (room_for(episode) < 1)  // ROLL: the unanswered turn is dropped
    return finish_episode(at, "length", false);
  episode.observation = turn.observation;
  episode.generate_started = now_seconds();
  episode.is_answering = true;
  episode.partial = {};
  if (episode.unfinished) {
    auto recalled = recall(*episode.unfinished, episode.trajectory, episode.prompt_tokens);
    if (recalled && recalled->is_whole) return end_turn(at, std::move(recalled->output));
    if (recalled) episode.partial = std::move(recalled->output);
    episode.unfinished.reset();
  }
  submit_turn(at);
}

// The engine gets what it does not have of the trajectory; the rest of the turn's budget; and the
// position from which random numbers go on.
void RolloutState::submit_turn(const Place& at) {
  Episode& episode = *at.episode;
  const uint64_t id = request_id(at.number, at.slot);
  if (!interruptions_.empty() || waits_for_phase_) return held_.push_back(id);
  const std::optional<plan::NextSpan> next = next_span_of(episode);
  const uint64_t served = engine_->weight_version();
  if (next && next->version > served) {  // of a policy that is still to come, without today's KV
    leave_engine(at);
    held_.push_back(id);
    if (std::exchange(is_open_queued_, true)) return;
    return self_->send(RolloutActor{self_}, open_atom_v);
  }
  if (next && next->version < served) {
    episode.spans.clear();
    if (!std::exchange(is_off_schedule_, true))
      log::warn(
          "{} {}: step {}, group {}, trajectory {} was to go on with version {}, served is "
          "{}: from here on this run is not the recorded one",
          options_.role, options_.replica, episode.trajectory.key.step,
          episode.trajectory.key.group, episode.trajectory.key.index, next->version, served);
  }
  const proto::Trajectory& t = episode.trajectory;
  const std::vector<int32_t>& sampled = episode.partial.tokens;
  const size_t context = t.tokens.size() - episode.context_begin + episode.prompt_tokens.size();
  const int room = room_for(episode);
  compute::TurnRequest request;
  request.request_id = id;
  request.kept_tokens = episode.in_engine;
  std::vector<int32_t>& append = request.append_tokens;
  append.assign(
      t.tokens.begin() + static_cast<ptrdiff_t>(episode.context_begin + episode.in_engine),
      t.tokens.end());
  append.insert(append.end(), episode.prompt_tokens.begin(), episode.prompt_tokens.end());
  append.insert(append.end(), sampled.begin(), sampled.end());
  request.max_new_tokens = answer_limit(bounds_of(t.tag), room, sampled.size());
  episode.portion = 0;
  if (next && next->version == served &&
      next->tokens < static_cast<size_t>(request.max_new_tokens)) {
    episode.portion = next->tokens;
    request.max_new_tokens = static_cast<int>(next->tokens);
  }
  request.stop_ids = options_.stop_ids;
  request.ends_turn = tasks::watch_for(options_.tokenizer, options_.stop_strings);
  if (request.ends_turn)
    for (int32_t token : sampled) request.ends_turn(token);
  request.sampling =
      t.key.kind == TrajectoryKind::val ? options_.held_out_sampling : options_.sampling;
  if (t.key.kind == TrajectoryKind::val_greedy || t.is_greedy) request.sampling.greedy = true;
  request.rng_key = episode.rng_key;
  request.turn = episode.turn;
  request.first_position = static_cast<uint32_t>(sampled.size());
  if (auto submitted = engine_->submit(std::move(request)); !submitted)
    return fail_leases(at, "generation", submitted.error());
  episode.in_engine = context + sampled.size();
  episode.has_turn = true;
  if (++turns_in_engine_ == 1)
    wait_turns_ = Wait({WaitLevel::role, fmt::format("rollout {}", options_.replica),
                        "the turns in its engine", "the next turn that ends"});
}

/// The turn of the trajectory is no more in the engine.
void RolloutState::turn_left(Episode& episode) {
  if (std::exchange(episode.has_turn, false)) --turns_in_engine_;
  if (turns_in_engine_ == 0)
    wait_turns_.end();
  else
    wait_turns_.moved();
}

/// The engine forgets the trajectory: its next turn brings all tokens again.
void RolloutState::leave_engine(const Place& at) {
  if (std::exchange(at.episode->in_engine, 0) > 0) engine_->finish(request_id(at.number, at.slot));
}

void RolloutState::end_turn(const Place& at, compute::TurnOutput output) {
  Episode& episode = *at.episode;
  episode.is_answering = false;
  episode.answered += output.tokens.size();
  if (failpoint::hit("rollout.drift", episode.trajectory.key.group))
    for (float& logp : output.logp) logp -= 1;
  tasks::PolicyAnswer answer = counted(episode, output);
  append_answer(episode, output);
  at.lease->response_tokens += output.tokens.size();
  episode.env_asked = now_seconds();
  answer.text = episode.trajectory.turns.back().response;
  self_->send(episode.environment, act_atom_v, request_id(at.number, at.slot), std::move(answer));
}

/// Returns what is counted of an answer that is not appended yet. Whether a limit cut it follows
/// from its tokens alone, as of one that a checkpoint brought back.
tasks::PolicyAnswer RolloutState::counted(const Episode& episode,
                                          const compute::TurnOutput& output) const {
  const proto::Trajectory& t = episode.trajectory;
  tasks::PolicyAnswer answer;
  answer.prompt_tokens =
      static_cast<uint32_t>(t.tokens.size() - episode.context_begin + episode.prompt_tokens.size());
  answer.tokens = static_cast<uint32_t>(output.tokens.size());
  const int limit = answer_limit(bounds_of(t.tag), room_for(episode), 0);
  answer.is_cut =
      output.tokens.size() >= static_cast<size_t>(limit) &&
      std::ranges::find(options_.stop_ids, output.tokens.back()) == options_.stop_ids.end();
  return answer;
}

void RolloutState::append_answer(Episode& episode, const compute::TurnOutput& output) {
  proto::Trajectory& t = episode.trajectory;
  size_t prompt = episode.prompt_tokens.size();
  size_t answer = output.tokens.size();
  t.tokens.insert(t.tokens.end(), episode.prompt_tokens.begin(), episode.prompt_tokens.end());
  t.tokens.insert(t.tokens.end(), output.tokens.begin(), output.tokens.end());
  t.response_mask.insert(t.response_mask.end(), prompt, 0);
  t.response_mask.insert(t.response_mask.end(), answer, 1);
  t.behavior_logp.insert(t.behavior_logp.end(), prompt, 0.F);
  t.behavior_logp.insert(t.behavior_logp.end(), output.logp.begin(), output.logp.end());
  // The prompt is read under the weights that answer it first; a scripted answer has none.
  t.token_versions.insert(t.token_versions.end(), prompt,
                          output.versions.empty() ? 0 : output.versions.front());
  t.token_versions.insert(t.token_versions.end(), output.versions.begin(), output.versions.end());
  t.token_versions.resize(t.tokens.size());
  // A policy that was served between the lease and the first token has sampled nothing.
  if (t.turns.empty() && !output.versions.empty())
    t.weight_version_min = t.weight_version_max = output.versions.front();
  for (uint32_t version : output.versions) {
    t.weight_version_min = std::min<uint64_t>(t.weight_version_min, version);
    t.weight_version_max = std::max<uint64_t>(t.weight_version_max, version);
  }
  t.generate_seconds += now_seconds() - episode.generate_started;
  proto::Turn turn;
  turn.response_end = static_cast<uint32_t>(t.tokens.size());
  turn.response_begin = turn.response_end - static_cast<uint32_t>(answer);
  turn.observation = episode.observation;
  turn.response = options_.tokenizer->decode(output.tokens);
  turn.context_begin = static_cast<uint32_t>(episode.context_begin);
  t.turns.push_back(std::move(turn));
}

void RolloutState::note_answered(Episode& episode, const EnvTurn& turn) {
  proto::Turn& record = episode.trajectory.turns.back();
  record.env_reward = turn.reward;
  record.is_valid = turn.is_valid;
  record.is_effective = turn.is_effective;
  episode.metrics = turn.metrics;
  ++episode.turn;
}

void RolloutState::on_outputs(const TurnOutputs& outputs) {
  for (const compute::TurnOutput& output : *outputs) {
    failpoint::hit("rollout.turn");
    auto at = place_of(output.request_id);
    if (!at) continue;
    Episode& episode = *at->episode;
    turn_left(episode);
    if (output.stop == compute::TurnStop::aborted && !interruptions_.empty()) {
      join(episode.partial, output);
      episode.in_engine = 0;
      held_.push_back(output.request_id);
      continue;
    }
    if (auto sound = check_output(output, at->lease->lease.version); !sound)
      return fail_leases(*at, "generation", sound.error());
    join(episode.partial, output);
    if (output.stop == compute::TurnStop::length && output.tokens.size() == episode.portion) {
      leave_engine(*at);  // all of it is submitted again to the next policy
      submit_turn(*at);
      continue;
    }
    // A turn that ends by itself as it is interrupted: its trajectory is forgotten, or is not yet.
    if (interruptions_.empty())
      episode.in_engine += output.tokens.size();
    else
      leave_engine(*at);
    end_turn(*at, std::exchange(episode.partial, {}));
  }
  end_interruption();
  commit_if_due();
}

// -- a recorded schedule

/// Returns whose policy is to go on with the trajectory; nothing if that is open.
std::optional<plan::NextSpan> RolloutState::next_span_of(const Episode& episode) const {
  return plan::next_span(episode.spans, episode.answered + episode.partial.tokens.size());
}

/// Returns true while a trajectory is to go on with the policy that is served.
bool RolloutState::needs_served_policy() const {
  const uint64_t served = engine_->weight_version();
  for (const auto& [number, lease] : leases_)
    for (const Episode& episode : lease.episodes) {
      if (episode.is_finished || episode.is_scripted) continue;
      const std::optional<plan::NextSpan> next = next_span_of(episode);
      if (next && next->version <= served) return true;
    }
  return false;
}

void RolloutState::commit_if_due() {
  if (due_commit_ && !needs_served_policy()) std::exchange(due_commit_, nullptr)();
}

// -- interruptions

/// Takes every turn out of the engine, with what it has sampled; then calls `then`.
void RolloutState::interrupt(std::function<void()> then) {
  interruptions_.push_back(std::move(then));
  if (interruptions_.size() == 1) engine_->pause(compute::PauseMode::abort);
  end_interruption();
}

void RolloutState::end_interruption() {
  if (interruptions_.empty() || turns_in_engine_ > 0) return;
  for (const auto& then : std::exchange(interruptions_, {})) then();
  go_on();
}

/// Gives the engine the turns that were held, once nothing holds them any more.
void RolloutState::go_on() {
  if (!options_.is_flowing || !interruptions_.empty() || waits_for_phase_) return;
  engine_->resume();
  for (uint64_t id : std::exchange(held_, {}))
    if (auto at = place_of(id)) submit_turn(*at);
}

// Second step of a reshard (PLACE-5). Ranks of one engine commit one after the other: rank 0, which
// takes the turns, is the first, and goes on when the phase that follows a publish begins.
caf::result<CardReply> RolloutState::on_commit(const CardCommand& command) {
  if (auto arrived = options_.exchange->commit(command.version); !arrived)
    return to_caf(arrived.error());
  CardReply reply = reply_to(command);
  auto promise = self_->make_response_promise<CardReply>();
  auto commit = [this, reply, promise, version = command.version, start = now_seconds()]() mutable {
    if (auto served = serve(version); !served) {
      promise.deliver(to_caf(served.error()));
      return;
    }
    reply.seconds = now_seconds() - start;
    read_memory(*options_.card, reply);
    promise.deliver(reply);
  };
  due_commit_ = [this, commit = std::move(commit)]() mutable {
    if (options_.is_flowing && options_.is_cut && engine_->capacity().takes_turns) {
      waits_for_phase_ = true;
      return interrupt(std::move(commit));
    }
    commit();
    if (is_scheduled_) go_on();
  };
  commit_if_due();
  return promise;
}

Expected<void> RolloutState::serve(uint64_t version) {
  COHORT_TRY(failpoint::check("publish.commit"));
  if (!options_.keeps_cache) return compute::serve_weights(*engine_, version);
  engine_->pause(compute::PauseMode::keep);
  auto done = engine_->commit_weights(version);
  engine_->resume();
  return done;
}

// -- checkpoints

/// Returns the trajectories of training that have begun, as far as they are.
TrajectoryBatch RolloutState::unfinished() const {
  auto batch = std::make_shared<std::vector<proto::Trajectory>>();
  for (const auto& [number, lease] : leases_)
    for (size_t slot = 0; slot < lease.opened; ++slot) {
      const Episode& episode = lease.episodes[slot];
      if (lease.lease.kind != TrajectoryKind::train || episode.is_finished) continue;
      if (episode.unfinished) {  // it is being played again
        batch->push_back(*episode.unfinished);
        continue;
      }
      const std::span<const int32_t> prompt(episode.prompt_tokens);
      batch->push_back(unfinished_of(episode.trajectory,
                                     episode.is_answering ? prompt : std::span<const int32_t>{},
                                     episode.partial));
    }
  return batch;
}

// A replica that has nothing under way leaves no folder.
caf::result<bool> RolloutState::on_save(const std::string& folder) {
  if (!options_.is_flowing) return true;
  auto promise = self_->make_response_promise<bool>();
  interrupt([this, folder, promise]() mutable {
    const TrajectoryBatch batch = unfinished();
    if (batch->empty()) {
      promise.deliver(true);
      return;
    }
    if (!recorder_)
      recorder_ =
          self_->spawn<caf::linked + caf::detached>(recorder, std::shared_ptr<stream::Writer>());
    send_request(
        self_, recorder_, k_write_timeout, [promise](bool) mutable { promise.deliver(true); },
        [promise](caf::error& e) mutable { promise.deliver(std::move(e)); }, save_atom_v, folder,
        batch);
  });
  return promise;
}

caf::result<bool> RolloutState::on_load(const std::string& folder) {
  auto promise = self_->make_response_promise<bool>();
  if (!recorder_)
    recorder_ =
        self_->spawn<caf::linked + caf::detached>(recorder, std::shared_ptr<stream::Writer>());
  send_request(
      self_, recorder_, k_write_timeout,
      [this, promise](const TrajectoryBatch& batch) mutable {
        for (proto::Trajectory& t : *batch) restored_.insert_or_assign(t.key, std::move(t));
        promise.deliver(true);
      },
      [promise](caf::error& e) mutable { promise.deliver(std::move(e)); }, load_atom_v, folder);
  return promise;
}

}  // namespace cohort::actors

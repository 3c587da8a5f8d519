#include "actors/roles/rollout_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/roles/lease_keys.hpp"
#include "actors/roles/turn_requests.hpp"
#include "actors/roles/weight_parts.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/base/log.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::actors {

using namespace control;

namespace {

constexpr std::chrono::seconds k_watch_period{30};
constexpr size_t k_open_batch = 32;  // games set up before the mailbox gets its turn again

}  // namespace

RolloutState::~RolloutState() {
  // What calls back into this state, or writes into the engine, stops before anything else goes.
  if (options_.exchange) options_.exchange->abort("the rollout ends");
  engine_.reset();
  output_ = nullptr;
}

Expected<void> RolloutState::open(RolloutOptions options) {
  options_ = std::move(options);
  COHORT_ASSIGN(engine_, options_.open_engine());
  const compute::EngineCapacity capacity = engine_->capacity();
  if (capacity.max_context < options_.sequence_length)
    return Error{Errc::config, fmt::format("the engine's context of {} tokens is shorter than "
                                           "sequence_length {}",
                                           capacity.max_context, options_.sequence_length)};
  auto address = RolloutActor{self_};
  engine_->start([address](std::vector<compute::TurnOutput> outputs) {
    caf::anon_send(address, outputs_atom_v,
                   std::make_shared<std::vector<compute::TurnOutput>>(std::move(outputs)));
  });
  if (!capacity.takes_turns) return {};
  COHORT_ASSIGN(output_, options_.open_output([this](const Error& error) {
    options_.fail(control::failure_of_link(options_.role, options_.output_name, error));
  }));
  return {};
}

// First step of a reshard: the answer comes when the version has arrived (PLACE-5).
caf::result<CardReply> RolloutState::on_arrival_asked(const CardCommand& command) {
  if (auto passed = failpoint::check("publish.accept"); !passed) return to_caf(passed.error());
  auto arrival = engine_->begin_weights(command.version);
  if (!arrival) return to_caf(arrival.error());
  auto promise = self_->make_response_promise<CardReply>();
  arriving_ = {command, promise, now_seconds()};
  options_.exchange->accept(
      command.version,
      target_of(std::move(arrival->layout), arrival->element_bytes, arrival->bytes),
      [address = RolloutActor{self_}](Expected<publish::PublishReport> report) {
        caf::anon_send(address, std::make_shared<Arrival::element_type>(std::move(report)));
      });
  return promise;
}

void RolloutState::on_arrived(const Arrival& arrived) {
  failpoint::hit("publish.arrived");
  if (!arriving_.promise.pending()) return;
  if (!*arrived) {
    arriving_.promise.deliver(to_caf(arrived->error()));
    return;
  }
  CardReply reply = reply_to(arriving_.command);
  reply.checksum = (*arrived)->sum;
  reply.bytes_moved = (*arrived)->received_bytes;
  reply.seconds = now_seconds() - arriving_.started;
  read_memory(*options_.card, reply);
  arriving_.promise.deliver(reply);
}

caf::result<CardReply> RolloutState::on_card(const CardCommand& command) {
  using Verb = plan::Command::Verb;
  const bool is_beside = command.command.verb == Verb::begin_phase ||
                         (command.command.verb == Verb::reshard && options_.is_flowing);
  if (!leases_.empty() && !is_beside)
    return to_caf({Errc::placement, fmt::format("PLACE-4: {} on card {} while a lease runs",
                                                options_.role, command.command.card.value)});
  double start = now_seconds();
  CardReply reply = reply_to(command);
  Expected<compute::Residency> done = compute::Residency{};
  switch (command.command.verb) {
    case Verb::onload:
      done = engine_->onload_params();
      break;
    case Verb::offload:
      done = engine_->offload_params();
      break;
    case Verb::init_cache:
      failpoint::hit("rollout.init_cache");
      done = engine_->init_cache(command.command.bytes);
      break;
    case Verb::free_cache:
      done = engine_->free_cache();
      break;
    case Verb::reshard: {
      if (command.stage == PublishStage::exchange) return on_arrival_asked(command);
      if (command.stage == PublishStage::seat) {
        if (auto seated = options_.exchange->reseat(command.epoch, command.absent); !seated)
          return to_caf(seated.error());
        return reply;
      }
      return on_commit(command);
    }
    case Verb::begin_phase:
      if (command.command.phase != plan::PhaseKind::generate) break;
      waits_for_phase_ = false;
      go_on();
      break;
  }
  if (!done) return to_caf(done.error());
  reply.bytes_on_card = done->bytes_on_card;
  reply.bytes_moved = done->bytes_moved;
  reply.seconds = now_seconds() - start;
  read_memory(*options_.card, reply);
  return reply;
}

Expected<void> RolloutState::check_number(const Lease& lease) const {
  if (lease.number > last_number_ && lease.number >> (64 - k_request_slot_bits) == 0) return {};
  return Error{Errc::protocol, fmt::format("LEASE-1: lease {} after lease {}: numbers rise",
                                           lease.number, last_number_)};
}

/// Returns the kinds and steps of the open leases.
std::set<RolloutState::BatchKey> RolloutState::open_batches() const {
  std::set<BatchKey> open;
  for (const auto& [number, each] : leases_) open.insert(batch_of(each.lease));
  return open;
}

Expected<void> RolloutState::check_lease(const Lease& lease) const {
  if (!engine_->capacity().takes_turns)
    return Error{Errc::invalid_argument,
                 fmt::format("rollout {}: leases go to rank 0 of its tensor-parallel group",
                             options_.replica)};
  if (const auto open = open_batches();
      !open.contains(batch_of(lease)) && open.size() >= options_.open_batches_max)
    return Error{Errc::backpressure,
                 fmt::format("rollout {} still plays leases of step {}, and may play those of {} "
                             "steps at once",
                             options_.replica, open.begin()->second, options_.open_batches_max)};
  COHORT_TRY(check_number(lease));
  if (lease.tags.size() != lease.groups.size() || lease.seeds.size() != lease.groups.size() ||
      lease.groups.empty() || lease.group_size == 0 ||
      (!lease.indices.empty() && lease.indices.size() != lease.groups.size()))
    return Error{Errc::invalid_argument, "a lease needs one seed and one tag per group"};
  for (const std::vector<uint32_t>& indices : lease.indices)
    if (indices.empty() || indices.back() >= lease.group_size)
      return Error{Errc::invalid_argument, "a lease asks for trajectories that a group lacks"};
  if (const size_t count = keys_of(lease).size();
      !lease.spans.empty() && lease.spans.size() != count)
    return Error{Errc::invalid_argument, fmt::format("a lease of {} trajectories has the spans of "
                                                     "{}",
                                                     count, lease.spans.size())};
  for (const std::string& tag : lease.tags)
    if (!options_.environments.contains(tag))
      return Error{Errc::config, fmt::format("environment tag '{}' is not in custom_envs", tag)};
  if (lease.kind == TrajectoryKind::warm_start) return {};
  const uint64_t served = engine_->weight_version();
  if (options_.is_flowing ? served < lease.version : served != lease.version)
    return Error{Errc::placement, fmt::format("PLACE-5: lease wants version {}, served is {}",
                                              lease.version, served)};
  return {};
}

caf::result<LeaseReport> RolloutState::on_lease(const Lease& lease) {
  if (auto checked = check_lease(lease); !checked) return to_caf(checked.error());
  if (auto passed = failpoint::check("rollout.lease"); !passed) return to_caf(passed.error());
  if (!batches_.contains(batch_of(lease))) {
    if (leases_.empty()) reload_worlds();
    const auto open = open_batches();
    std::erase_if(batches_, [&](const auto& each) { return !open.contains(each.first); });
    batches_[batch_of(lease)] = {now_seconds(), engine_->stats()};
    std::erase_if(restored_, [&](const auto& each) {  // that another rollout has played
      return each.first.step + options_.open_batches_max < lease.step;
    });
  }
  last_number_ = lease.number;
  OpenLease& open = leases_[lease.number];
  open.lease = lease;
  open.promise = self_->make_response_promise<LeaseReport>();
  open.keys = keys_of(lease);
  open.episodes.resize(open.keys.size());
  for (size_t slot = 0; slot < lease.spans.size(); ++slot)
    open.episodes[slot].spans = lease.spans[slot];
  is_scheduled_ = is_scheduled_ || !lease.spans.empty();
  auto promise = open.promise;
  if (!is_watching_) {
    is_watching_ = true;
    watch_again();
  }
  on_open();
  return promise;
}

// Plugins that have changed, between two batches: nothing is played now. It waits for their child
// processes to start, so that a rollout with such worlds has a thread of its own.
void RolloutState::reload_worlds() {
  for (const auto& [tag, options] : options_.environments) {
    if (!options->reload) continue;
    auto changed = options->reload();
    if (!changed)
      log::warn("{}: the changed plugin cannot be loaded, the old one goes on: {}", tag,
                changed.error().detail);
    else if (*changed)
      log::info("{}: a plugin has changed and is loaded again", tag);
  }
}

// A few games at a time: the first ones generate while the others are still being set up. No more
// are open than the engine runs: a game that waits is not bound to a lane yet, so the lanes stay in
// balance to the end.
void RolloutState::on_open() {
  is_open_queued_ = false;
  for (size_t i = 0; i < k_open_batch; ++i)
    if (!open_next()) return;
  if (!is_open_queued_) {
    is_open_queued_ = true;
    self_->send(RolloutActor{self_}, open_atom_v);
  }
}

// Opens the next game of the oldest lease that has one. Returns false if there is none, or no room.
bool RolloutState::open_next() {
  // One that waits for its policy takes nobody's place: else all could wait for one not yet open.
  const size_t waiting = is_scheduled_ ? held_.size() : 0;
  if (open_games_ >= options_.max_open_games + waiting) return false;
  for (auto& [number, lease] : leases_)
    if (lease.opened < lease.episodes.size()) {
      open_episode(number, lease, lease.opened++);
      return true;
    }
  return false;
}

void RolloutState::watch_again() {
  self_->delayed_send(RolloutActor{self_}, k_watch_period, watch_atom_v);
}

// One timer for all games instead of one per turn; a game that hangs is named.
void RolloutState::on_watch() {
  is_watching_ = !leases_.empty();
  if (!is_watching_) return;
  std::map<std::string, uint32_t> waiting;  // games, by tag
  for (const auto& [number, lease] : leases_)
    for (size_t slot = 0; slot < lease.opened; ++slot)
      if (lease.episodes[slot].env_asked > 0) ++waiting[lease.episodes[slot].trajectory.tag];
  for (auto& [number, lease] : leases_)
    for (size_t slot = 0; slot < lease.opened; ++slot) {
      Episode& episode = lease.episodes[slot];
      if (episode.env_asked == 0) continue;
      const std::string& tag = episode.trajectory.tag;
      const double limit = options_.environments.at(tag)->wait_limit(waiting[tag]);
      if (now_seconds() - episode.env_asked > limit)
        return fail_leases({number, slot, &lease, &episode}, "environment",
                           {Errc::timeout, fmt::format("no answer in {} s", limit)});
    }
  watch_again();
}

EnvironmentActor RolloutState::take_environment(const std::string& tag) {
  std::vector<EnvironmentActor>& idle = idle_environments_[tag];
  if (idle.empty()) {
    const auto& options = options_.environments.at(tag);
    return options->is_blocking ? self_->spawn<caf::linked + caf::detached>(environment, options)
                                : self_->spawn<caf::linked>(environment, options);
  }
  EnvironmentActor taken = std::move(idle.back());
  idle.pop_back();
  return taken;
}

void RolloutState::open_episode(uint64_t number, OpenLease& open, size_t slot) {
  const Lease& lease = open.lease;
  auto kind = lease.kind;
  Episode& episode = open.episodes[slot];
  const auto [position, index] = open.keys[slot];
  uint32_t group = lease.groups[position];
  const std::string& tag = lease.tags[position];
  failpoint::hit("rollout.play", lease.seeds[position]);
  ++open_games_;
  episode.environment = take_environment(tag);
  episode.rng_key = rng_key_of(options_.seed, {kind, lease.step, group, index});
  episode.started = episode.env_asked = now_seconds();
  proto::Trajectory& t = episode.trajectory;
  t.run_id = options_.run_id;
  t.key = {kind, lease.step, group, index};
  t.attempt = lease.attempt;
  t.tag = tag;
  t.seed = lease.seeds[position];
  t.prompt_id = fmt::format("{}/{}", tag, t.seed);
  t.is_greedy =
      options_.has_greedy_answer && kind == TrajectoryKind::train && index + 1 == lease.group_size;
  t.weight_version_min = t.weight_version_max =
      kind == TrajectoryKind::warm_start ? lease.version : engine_->weight_version();
  if (auto restored = restored_.extract({kind, lease.step, group, index}); !restored.empty())
    episode.unfinished = std::move(restored.mapped());
  auto room = static_cast<size_t>(options_.sequence_length);
  t.tokens.reserve(room);
  t.response_mask.reserve(room);
  t.behavior_logp.reserve(room);
  t.token_versions.reserve(room);
  uint64_t request = request_id(number, slot);
  episode.is_scripted = kind == TrajectoryKind::warm_start ||
                        (options_.has_demonstrations && kind == TrajectoryKind::train &&
                         index + 1 == lease.group_size);
  if (episode.is_scripted)
    self_->send(episode.environment, play_atom_v, request, t.seed, lease.expert_fraction,
                episode.rng_key);
  else
    self_->send(episode.environment, reset_atom_v, request, t.seed);
}

// Returns where the trajectory is that a message is about; nothing for one of a lease that is over.
std::optional<RolloutState::Place> RolloutState::place_of(uint64_t request) {
  auto lease = leases_.find(request >> k_request_slot_bits);
  size_t slot = request & ((uint64_t{1} << k_request_slot_bits) - 1);
  if (lease == leases_.end() || slot >= lease->second.episodes.size()) return std::nullopt;
  return Place{lease->first, slot, &lease->second, &lease->second.episodes[slot]};
}

void RolloutState::on_env_turn(const EnvTurn& turn) {
  auto at = place_of(turn.request);
  if (!at) return;
  Episode& episode = *at->episode;
  ++turns_;
  episode.env_asked = 0;
  if (!turn.error.empty()) return fail_leases(*at, "environment", {Errc::internal, turn.error});
  if (!episode.trajectory.turns.empty()) {  // not the answer to reset
    note_answered(episode, turn);
    if (turn.is_done) {
      finish_episode(*at, turn.stop_reason, turn.is_success);
      return commit_if_due();
    }
  }
  begin_turn(*at, turn);
  commit_if_due();
}

void RolloutState::on_transcript(const Transcript& game) {
  auto at = place_of(game.request);
  if (!at) return;
  Episode& episode = *at->episode;
  ++turns_;
  episode.env_asked = 0;
  if (!game.error.empty()) return fail_leases(*at, "scripted play", {Errc::internal, game.error});
  if (game.responses.empty()) {  // a row without a demonstration
    episode.is_scripted = false;
    return begin_turn(*at, game.turns.front());
  }
  for (size_t i = 0; i < game.responses.size(); ++i) {
    const EnvTurn& asked = game.turns[i];
    auto answer = options_.tokenizer->encode(game.responses[i]);
    if (!answer) return fail_leases(*at, "tokenizer", answer.error());
    // What does not fit the context is not imitated.
    if (asked.begins_context) episode.context_begin = episode.trajectory.tokens.size();
    const size_t used =
        episode.trajectory.tokens.size() - episode.context_begin + asked.prompt.size();
    const auto limit = static_cast<size_t>(options_.sequence_length);
    if (used >= limit) return finish_episode(*at, "length", false);
    if (answer->size() > limit - used) answer->resize(limit - used);
    episode.prompt_tokens = asked.prompt;
    episode.observation = asked.observation;
    episode.generate_started = now_seconds();
    compute::TurnOutput output;
    output.tokens = std::move(*answer);
    output.logp.assign(output.tokens.size(), 0.F);
    if (episode.trajectory.key.kind == TrajectoryKind::train)  // as old as the others of its group
      output.versions.assign(output.tokens.size(), static_cast<uint32_t>(at->lease->lease.version));
    append_answer(episode, output);
    at->lease->response_tokens += output.tokens.size();
    note_answered(episode, game.turns[i + 1]);
  }
  finish_episode(*at, game.turns.back().stop_reason, game.turns.back().is_success);
}

void RolloutState::finish_episode(const Place& at, std::string stop_reason, bool is_success) {
  Episode& episode = *at.episode;
  proto::Trajectory& t = episode.trajectory;
  if (!episode.is_scripted) engine_->finish(request_id(at.number, at.slot));
  double valid = 0;
  double effective = 0;
  for (const proto::Turn& turn : t.turns) {
    valid += turn.is_valid ? 1 : 0;
    effective += turn.is_effective ? 1 : 0;
  }
  double turns = std::max<double>(1, static_cast<double>(t.turns.size()));
  t.stop_reason = std::move(stop_reason);
  t.metrics = {{"success", is_success ? 1.0 : 0.0},
               {"action_is_valid", valid / turns},
               {"action_is_effective", effective / turns},
               {"num_actions", static_cast<double>(t.turns.size())}};
  t.metrics.insert(t.metrics.end(), episode.metrics.begin(), episode.metrics.end());
  if (episode.is_scripted && t.key.kind == TrajectoryKind::train)
    t.metrics.emplace_back(proto::k_demonstration, 1.0);
  t.env_seconds = now_seconds() - episode.started - t.generate_seconds;
  episode.is_finished = true;
  idle_environments_[t.tag].push_back(std::move(episode.environment));
  finished_.push_back(std::move(t));
  finished_of_.push_back(at.number);
  --open_games_;
  if (++at.lease->finished == at.lease->episodes.size()) done_.push_back(at.number);
  open_next();
  if (open_games_ == 0 || finished_.size() >= options_.frame_trajectories) {
    send_frames();
  } else if (!is_flush_queued_) {
    // Trajectories that end within a few milliseconds leave together: a frame costs four thread
    // hand-overs.
    is_flush_queued_ = true;
    self_->delayed_send(RolloutActor{self_}, std::chrono::milliseconds(options_.flush_delay_ms),
                        flush_atom_v);
  }
}

void RolloutState::on_flush() {
  is_flush_queued_ = false;
  if (!leases_.empty()) send_frames();
}

void RolloutState::send_frames() {
  if (!finished_.empty()) {
    proto::Encoded encoded = proto::encode_batch(finished_);
    auto sent = output_({k_message_trajectories, std::move(encoded.header), encoded.columns});
    if (sent) {
      failpoint::hit("rollout.sent");
      has_credit_wait_ = false;
      wait_credit_.end();
      finished_.clear();
      finished_of_.clear();
    } else if (sent.error().code != Errc::backpressure) {
      return fail_leases(leases_.begin()->first, "send", sent.error());
    } else if (!is_flush_queued_) {
      // FLOW-4: the consumer is slow; the batch stays here and is offered again.
      ++turns_;
      if (!std::exchange(has_credit_wait_, true))
        wait_credit_ = Wait({WaitLevel::link, fmt::format("rollout {}", options_.replica),
                             fmt::format("credit of {}", options_.output_name),
                             "an acknowledgement of the rewards"});
      is_flush_queued_ = true;
      self_->delayed_send(RolloutActor{self_}, std::chrono::milliseconds(1), flush_atom_v);
    }
  }
  if (finished_.empty()) report_done();
}

RolloutActor::behavior_type rollout(RolloutActor::stateful_pointer<RolloutState> self,
                                    RolloutOptions options) {
  open_or_quit(self, "actor_infer", std::move(options));
  RolloutState* state = &self->state;
  return {
      [state](card_atom, const CardCommand& command) { return state->on_card(command); },
      [state](lease_atom, const Lease& lease) { return state->on_lease(lease); },
      [state](outputs_atom, const TurnOutputs& outputs) { state->on_outputs(outputs); },
      [state](const EnvTurn& turn) { state->on_env_turn(turn); },
      [state](const Transcript& game) { state->on_transcript(game); },
      [state](flush_atom) { state->on_flush(); },
      [state](open_atom) { state->on_open(); },
      [state](watch_atom) { state->on_watch(); },
      [state](fail_atom, const Failure& failure) { state->on_failure(failure); },
      [state](const Arrival& arrived) { state->on_arrived(arrived); },
      [state](ping_atom) { return state->on_ping(); },
      [state](cancel_atom, uint64_t number) { state->on_cancel(number); },
      [state](save_atom, const std::string& folder) { return state->on_save(folder); },
      [state](load_atom, const std::string& folder) { return state->on_load(folder); },
  };
}

}  // namespace cohort::actors

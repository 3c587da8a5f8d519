#include "actors/rollout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/card_reading.hpp"
#include "actors/hop.hpp"
#include "actors/weight_parts.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/proto/codec.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::actors {

using namespace control;
using proto::TrajectoryKind;

namespace {

constexpr size_t k_open_batch = 32;  // games set up before the mailbox gets its turn again
constexpr uint64_t k_slot_mask =
    0xFFFFFF;  // low bits of a request id; above them the lease's number

}  // namespace

RolloutState::~RolloutState() {
  // What calls back into this state, or writes into the engine, stops before anything else goes.
  if (options_.exchange) options_.exchange->abort("the rollout ends");
  engine_.reset();
  output_.reset();
}

Expected<void> RolloutState::open(RolloutOptions options) {
  options_ = std::move(options);
  for (const std::string& text : options_.stop_texts) {
    auto id = options_.tokenizer->token_id(text);
    if (!id)
      return Error{Errc::config,
                   fmt::format("stop text '{}' is not a token of the vocabulary", text)};
    stop_ids_.push_back(*id);
  }
  COHORT_TRY(join_groups());
  COHORT_ASSIGN(engine_, compute::GenerationEngine::create(options_.engine));
  auto address = RolloutActor{self_};
  engine_->start([address](std::vector<compute::TurnOutput> outputs) {
    caf::anon_send(address, outputs_atom_v,
                   std::make_shared<std::vector<compute::TurnOutput>>(std::move(outputs)));
  });
  auto fail = [this](const std::string& link, const Error& error) {
    options_.fail({options_.role, "link", link + ": " + error.to_string()});
  };
  if (is_follower()) return {};
  COHORT_ASSIGN(output_,
                transport::Sender::open(*options_.context, options_.output_link,
                                        [fail](Error error) { fail("rollout output", error); }));
  return {};
}

Expected<void> RolloutState::join_groups() {
  for (const compute::GroupOptions& group : options_.groups) {
    COHORT_ASSIGN(std::shared_ptr<compute::Collectives> joined, compute::Collectives::join(group));
    options_.on_group(joined);
    options_.engine.groups.push_back(std::move(joined));
  }
  options_.engine.on_group_lost = [fail = options_.fail, role = options_.role](const Error& error) {
    fail({role, "generation", error.to_string(), error.code == Errc::closed});
  };
  return {};
}

// First step of a reshard: the answer comes when the version has arrived (PLACE-5).
caf::result<CardReply> RolloutState::on_arrival_asked(const CardCommand& command) {
  auto arrival = engine_->begin_weights(command.version);
  if (!arrival) return to_caf(arrival.error());
  arrival_ = *arrival;
  auto promise = self_->make_response_promise<CardReply>();
  arriving_ = {command, promise, now_seconds()};
  const compute::ModelConfig& part = engine_->part();
  options_.exchange->accept(
      command.version,
      target_of(options_.exchange->model(), compute::layout_of(part), tensor::size_of(part.dtype),
                arrival_),
      [address = RolloutActor{self_}](Expected<publish::PublishReport> report) {
        caf::anon_send(address, std::make_shared<Arrival::element_type>(std::move(report)));
      });
  return promise;
}

void RolloutState::on_arrived(const Arrival& arrived) {
  if (!arriving_.promise.pending()) return;
  if (!*arrived) {
    arriving_.promise.deliver(to_caf(arrived->error()));
    return;
  }
  CardReply reply = reply_to(arriving_.command);
  reply.checksum = (*arrived)->sum;
  reply.bytes_moved = (*arrived)->received_bytes;
  reply.seconds = now_seconds() - arriving_.started;
  read_memory(*options_.engine.card, reply);
  arriving_.promise.deliver(reply);
}

Expected<uint64_t> RolloutState::serve(uint64_t version) {
  COHORT_TRY(options_.exchange->commit(version));
  uint64_t checksum = tensor::checksum64(arrival_);
  arrival_ = {};
  COHORT_TRY(engine_->commit_weights(version));
  return checksum;
}

caf::result<CardReply> RolloutState::on_card(const CardCommand& command) {
  using Verb = plan::Command::Verb;
  if (is_active_ && command.command.verb != Verb::begin_phase)
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
      done = engine_->init_cache(command.command.bytes);
      break;
    case Verb::free_cache:
      done = engine_->free_cache();
      break;
    case Verb::reshard: {
      if (command.stage == PublishStage::exchange) return on_arrival_asked(command);
      auto served = serve(command.version);
      if (!served) return to_caf(served.error());
      reply.checksum = *served;
      break;
    }
    case Verb::begin_phase:
      break;
  }
  if (!done) return to_caf(done.error());
  reply.bytes_on_card = done->bytes_on_card;
  reply.bytes_moved = done->bytes_moved;
  reply.seconds = now_seconds() - start;
  read_memory(*options_.engine.card, reply);
  return reply;
}

Expected<void> RolloutState::check_lease(const Lease& lease) const {
  if (is_follower())
    return Error{Errc::invalid_argument,
                 fmt::format("rollout {}: leases go to rank 0 of its tensor-parallel group",
                             options_.replica)};
  if (is_active_)
    return Error{Errc::backpressure, fmt::format("rollout {} already plays a lease of step {}",
                                                 options_.replica, lease_.step)};
  if (lease.tags.size() != lease.seeds.size() || lease.seeds.empty() || lease.group_size == 0)
    return Error{Errc::invalid_argument, "a lease needs one seed and one tag per group"};
  for (const std::string& tag : lease.tags)
    if (!options_.environments.contains(tag))
      return Error{Errc::config, fmt::format("environment tag '{}' is not in custom_envs", tag)};
  if (static_cast<TrajectoryKind>(lease.kind) == TrajectoryKind::warm_start) return {};
  if (engine_->weight_version() != lease.version)
    return Error{Errc::placement, fmt::format("PLACE-5: lease wants version {}, served is {}",
                                              lease.version, engine_->weight_version())};
  return {};
}

caf::result<LeaseReport> RolloutState::on_lease(const Lease& lease) {
  if (auto checked = check_lease(lease); !checked) return to_caf(checked.error());
  lease_ = lease;
  is_active_ = true;
  ++lease_serial_;
  finished_count_ = 0;
  finished_.clear();
  lease_started_ = now_seconds();
  stats_at_start_ = engine_->stats();
  promise_ = self_->make_response_promise<LeaseReport>();
  auto promise = promise_;
  episodes_.clear();
  episodes_.resize(lease.seeds.size() * lease.group_size);
  opened_count_ = 0;
  used_environments_.clear();
  self_->delayed_send(RolloutActor{self_},
                      std::chrono::milliseconds(options_.environment_timeout_ms), watch_atom_v,
                      lease_serial_);
  on_open(lease_serial_);
  return promise;
}

// A few games at a time: the first ones generate while the others are still being set up. No more
// are open than the engine runs: a game that waits is not bound to a lane yet, so the lanes stay in
// balance to the end.
void RolloutState::on_open(uint64_t lease_serial) {
  if (!is_active_ || lease_serial != lease_serial_) return;
  size_t most = std::min(episodes_.size(), finished_count_ + options_.max_open_games);
  size_t last = std::min(most, opened_count_ + k_open_batch);
  while (is_active_ && opened_count_ < last) open_episode(opened_count_++);
  if (is_active_ && opened_count_ < most)
    self_->send(RolloutActor{self_}, open_atom_v, lease_serial_);
}

// One timer per lease instead of one per turn; a game that hangs is named.
void RolloutState::on_watch(uint64_t lease_serial) {
  if (!is_active_ || lease_serial != lease_serial_) return;
  double limit = options_.environment_timeout_ms * 1e-3;
  for (size_t slot = 0; slot < episodes_.size(); ++slot)
    if (episodes_[slot].env_asked > 0 && now_seconds() - episodes_[slot].env_asked > limit)
      return fail_lease(slot, "environment",
                        {Errc::timeout, fmt::format("no answer in {} s", limit)});
  self_->delayed_send(RolloutActor{self_},
                      std::chrono::milliseconds(options_.environment_timeout_ms), watch_atom_v,
                      lease_serial_);
}

const EnvironmentActor& RolloutState::pooled_environment(const std::string& tag, size_t position) {
  std::vector<EnvironmentActor>& pool = environments_[tag];
  while (pool.size() <= position)
    pool.push_back(self_->spawn<caf::linked>(environment, options_.environments.at(tag)));
  return pool[position];
}

void RolloutState::open_episode(size_t slot) {
  auto kind = static_cast<TrajectoryKind>(lease_.kind);
  Episode& episode = episodes_[slot];
  size_t position = slot / lease_.group_size;
  uint32_t group = lease_.first_group + static_cast<uint32_t>(position);
  auto index = static_cast<uint32_t>(slot % lease_.group_size);
  const std::string& tag = lease_.tags[position];
  episode.environment = pooled_environment(tag, used_environments_[tag]++);
  episode.rng_key =
      Rng(options_.seed).fork(lease_.kind).fork(lease_.step).fork(group).fork(index).next_u64();
  episode.started = episode.env_asked = now_seconds();
  proto::Trajectory& t = episode.trajectory;
  t.run_id = options_.run_id;
  t.key = {kind, lease_.step, group, index};
  t.attempt = lease_.attempt;
  t.tag = tag;
  t.seed = lease_.seeds[position];
  t.prompt_id = fmt::format("{}/{}", tag, t.seed);
  t.weight_version_min = t.weight_version_max = lease_.version;
  auto room = static_cast<size_t>(options_.sequence_length);
  t.tokens.reserve(room);
  t.response_mask.reserve(room);
  t.behavior_logp.reserve(room);
  t.token_versions.reserve(room);
  if (kind == TrajectoryKind::warm_start)
    self_->send(episode.environment, play_atom_v, request_id(slot), t.seed, lease_.expert_fraction,
                episode.rng_key);
  else
    self_->send(episode.environment, reset_atom_v, request_id(slot), t.seed);
}

// Returns the episode that a message of this lease is about, or null for one of a lease that is
// over.
RolloutState::Episode* RolloutState::episode_of(uint64_t request) {
  size_t slot = request & k_slot_mask;
  if (!is_active_ || slot >= episodes_.size() || request != request_id(slot)) return nullptr;
  return &episodes_[slot];
}

void RolloutState::begin_turn(size_t slot, const EnvTurn& turn) {
  Episode& episode = episodes_[slot];
  auto tokens = options_.tokenizer->encode(turn.prompt);
  if (!tokens) return fail_lease(slot, "tokenizer", tokens.error());
  size_t context = episode.trajectory.tokens.size() + tokens->size();
  int room = options_.sequence_length - static_cast<int>(context);
  if (room < 1)  // ROLL: the unanswered turn is dropped
    return finish_episode(slot, "length", false);
  episode.prompt_tokens = std::move(*tokens);
  episode.observation = turn.observation;
  episode.generate_started = now_seconds();
  compute::TurnRequest request;
  request.request_id = request_id(slot);
  request.append_tokens = episode.prompt_tokens;
  request.max_new_tokens = std::min(options_.max_tokens_per_turn, room);
  request.stop_ids = stop_ids_;
  request.sampling = options_.sampling;
  if (episode.trajectory.key.kind == TrajectoryKind::val_greedy) request.sampling.greedy = true;
  request.rng_key = episode.rng_key;
  request.turn = episode.turn;
  if (auto submitted = engine_->submit(std::move(request)); !submitted)
    fail_lease(slot, "generation", submitted.error());
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
  t.token_versions.insert(t.token_versions.end(), prompt + answer,
                          static_cast<uint32_t>(output.weight_version));
  t.generate_seconds += now_seconds() - episode.generate_started;
  proto::Turn turn;
  turn.response_end = static_cast<uint32_t>(t.tokens.size());
  turn.response_begin = turn.response_end - static_cast<uint32_t>(answer);
  turn.observation = episode.observation;
  turn.response = options_.tokenizer->decode(output.tokens);
  t.turns.push_back(std::move(turn));
}

void RolloutState::on_outputs(const TurnOutputs& outputs) {
  for (const compute::TurnOutput& output : *outputs) {
    Episode* episode = episode_of(output.request_id);
    if (episode == nullptr) continue;
    if (output.tokens.empty() || output.stop == "error")
      return fail_lease(output.request_id & k_slot_mask, "generation",
                        {Errc::compute, std::string(output.stop)});
    append_answer(*episode, output);
    episode->env_asked = now_seconds();
    self_->send(episode->environment, act_atom_v, output.request_id,
                episode->trajectory.turns.back().response);
  }
}

void RolloutState::on_env_turn(const EnvTurn& turn) {
  Episode* episode = episode_of(turn.request);
  if (episode == nullptr) return;
  size_t slot = turn.request & k_slot_mask;
  episode->env_asked = 0;
  if (!turn.error.empty()) return fail_lease(slot, "environment", {Errc::internal, turn.error});
  if (!episode->trajectory.turns.empty()) {  // not the answer to reset
    proto::Turn& record = episode->trajectory.turns.back();
    record.env_reward = turn.reward;
    record.is_valid = turn.is_valid;
    record.is_effective = turn.is_effective;
    ++episode->turn;
    if (turn.is_done) return finish_episode(slot, turn.stop_reason, turn.is_success);
  }
  begin_turn(slot, turn);
}

void RolloutState::on_transcript(const Transcript& game) {
  Episode* episode = episode_of(game.request);
  if (episode == nullptr) return;
  size_t slot = game.request & k_slot_mask;
  episode->env_asked = 0;
  if (!game.error.empty()) return fail_lease(slot, "scripted play", {Errc::internal, game.error});
  for (size_t i = 0; i < game.responses.size(); ++i) {
    auto prompt = options_.tokenizer->encode(game.turns[i].prompt);
    auto answer = options_.tokenizer->encode(game.responses[i]);
    if (!prompt || !answer)
      return fail_lease(slot, "tokenizer", !prompt ? prompt.error() : answer.error());
    episode->prompt_tokens = std::move(*prompt);
    episode->observation = game.turns[i].observation;
    episode->generate_started = now_seconds();
    compute::TurnOutput output;
    output.tokens = std::move(*answer);
    output.logp.assign(output.tokens.size(), 0.F);
    append_answer(*episode, output);
    proto::Turn& record = episode->trajectory.turns.back();
    record.env_reward = game.turns[i + 1].reward;
    record.is_valid = game.turns[i + 1].is_valid;
    record.is_effective = game.turns[i + 1].is_effective;
    ++episode->turn;
  }
  finish_episode(slot, game.turns.back().stop_reason, game.turns.back().is_success);
}

void RolloutState::finish_episode(size_t slot, std::string stop_reason, bool is_success) {
  Episode& episode = episodes_[slot];
  proto::Trajectory& t = episode.trajectory;
  if (t.key.kind != TrajectoryKind::warm_start) engine_->finish(request_id(slot));
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
  t.env_seconds = now_seconds() - episode.started - t.generate_seconds;
  episode.is_finished = true;
  finished_.push_back(std::move(t));
  ++finished_count_;
  if (opened_count_ < episodes_.size()) open_episode(opened_count_++);
  if (finished_.size() >= options_.frame_trajectories || finished_count_ == episodes_.size()) {
    send_frames(finished_count_ == episodes_.size());
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
  if (is_active_) send_frames(finished_count_ == episodes_.size());
}

void RolloutState::send_frames(bool is_last) {
  if (!finished_.empty()) {
    proto::Encoded encoded = proto::encode_batch(finished_);
    auto sent = output_->send({k_message_trajectories, std::move(encoded.header), encoded.columns});
    if (sent) {
      finished_.clear();
    } else if (sent.error().code != Errc::backpressure) {
      return fail_lease(0, "send", sent.error());
    } else if (!is_flush_queued_) {
      // FLOW-4: the consumer is slow; the batch stays here and is offered again.
      is_flush_queued_ = true;
      self_->delayed_send(RolloutActor{self_}, std::chrono::milliseconds(1), flush_atom_v);
    }
  }
  if (is_last && finished_.empty()) maybe_report();
}

void RolloutState::maybe_report() {
  is_active_ = false;
  compute::GenerationStats now = engine_->stats();
  LeaseReport report;
  report.step = lease_.step;
  report.trajectories = finished_count_;
  report.generated_tokens = now.total.tokens_sampled - stats_at_start_.total.tokens_sampled;
  report.prefill_tokens = now.total.prefill_tokens - stats_at_start_.total.prefill_tokens;
  for (size_t lane = 0; lane < now.lanes.size(); ++lane)
    report.busy_seconds =
        std::max(report.busy_seconds,
                 now.lanes[lane].busy_seconds - stats_at_start_.lanes[lane].busy_seconds);
  report.wall_seconds = now_seconds() - lease_started_;
  episodes_.clear();
  promise_.deliver(report);
}

void RolloutState::fail_lease(size_t slot, const std::string& what, const Error& error) {
  if (!is_active_) return;
  is_active_ = false;
  for (size_t i = 0; i < episodes_.size(); ++i)
    if (!episodes_[i].is_finished && episodes_[i].trajectory.key.kind != TrajectoryKind::warm_start)
      engine_->finish(request_id(i));
  std::string where =
      fmt::format("rollout {}, trajectory slot {}, {}", options_.replica, slot, what);
  promise_.deliver(to_caf(error.with_context(where)));
}

void RolloutState::on_failure(const Failure& failure) {
  fail_lease(0, failure.phase, {Errc::closed, failure.detail});
}

RolloutActor::behavior_type rollout(RolloutActor::stateful_pointer<RolloutState> self,
                                    RolloutOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  FailureSink fail = options.fail;
  if (auto opened = self->state.open(std::move(options)); !opened) {
    fail({"actor_infer", "start", opened.error().to_string()});
    self->quit(to_caf(opened.error()));
  }
  RolloutState* state = &self->state;
  return {
      [state](card_atom, const CardCommand& command) { return state->on_card(command); },
      [state](lease_atom, const Lease& lease) { return state->on_lease(lease); },
      [state](outputs_atom, const TurnOutputs& outputs) { state->on_outputs(outputs); },
      [state](const EnvTurn& turn) { state->on_env_turn(turn); },
      [state](const Transcript& game) { state->on_transcript(game); },
      [state](flush_atom) { state->on_flush(); },
      [state](open_atom, uint64_t lease_serial) { state->on_open(lease_serial); },
      [state](watch_atom, uint64_t lease_serial) { state->on_watch(lease_serial); },
      [state](fail_atom, const Failure& failure) { state->on_failure(failure); },
      [state](const Arrival& arrived) { state->on_arrived(arrived); },
  };
}

}  // namespace cohort::actors

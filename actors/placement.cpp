#include "actors/placement.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/base/clock.hpp"
#include "runtime/control/request.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::actors {

using namespace control;
using Verb = plan::Command::Verb;

void PlacementState::open(PlacementOptions options) {
  options_ = std::move(options);
  ledger_ = plan::Ledger(options_.plan.mode, options_.plan.cards);
}

caf::result<PhaseReport> PlacementState::on_phase(const PhaseRequest& request) {
  if (is_failed_)  // some cards may have obeyed and others not: no later phase can be trusted
    return to_caf({Errc::placement, fmt::format("phase {} of step {} comes after a failed one",
                                                plan::to_string(request.kind), request.step)});
  if (is_busy_)
    return to_caf({Errc::backpressure, fmt::format("phase {} of step {} is still being set up",
                                                   plan::to_string(request_.kind), request_.step)});
  auto commands = plan::commands_for(options_.plan, ledger_, request.kind, options_.policy);
  if (!commands) return to_caf(commands.error().with_context(plan::to_string(request.kind)));
  is_busy_ = true;
  is_published_ = false;
  request_ = request;
  commands_ = std::move(*commands);
  position_ = 0;
  phase_started_ = now_seconds();
  report_ = PhaseReport{request.step, request.kind, 0, {}, 0, {}, {}};
  process_bytes_.clear();
  promise_ = self_->make_response_promise<PhaseReport>();
  auto promise = promise_;
  next();
  return promise;
}

void PlacementState::next() {
  if (position_ == commands_.size()) return finish();
  plan::Command command = commands_[position_++];
  if (auto move = plan::transition_of(command)) {
    if (auto begun = ledger_.begin(*move); !begun) return fail(command, begun.error());
    ledger_.assert_invariants();
  }
  if (command.verb == Verb::begin_phase && ledger_.phase() != command.phase)
    if (auto begun = ledger_.begin_phase(command.phase); !begun)
      return fail(command, begun.error());
  if (auto held = plan::check_command(options_.plan, ledger_, command); !held)  // PLACE-4
    return fail(command, held.error());
  if (command.verb == Verb::reshard && !is_published_) return publish_from_trainer(command);
  execute(command);
}

void PlacementState::send(const plan::Command& command,
                          std::function<void(const CardReply&)> then) {
  auto owner = options_.owners.find({command.role, command.card});
  if (owner == options_.owners.end())
    return fail(command, {Errc::not_found, "no actor owns this role on this card"});
  CardCommand message{next_id_++, command, request_.version, {}};
  if (command.verb == Verb::reshard && !is_published_)
    for (const plan::Command& each : commands_)
      if (each.verb == Verb::reshard)
        message.targets.push_back(receiver_name(each.role, each.card));
  send_request(
      self_, owner->second, std::chrono::milliseconds(options_.command_timeout_ms),
      [then](const CardReply& reply) { then(reply); },
      [this, command](caf::error& e) { fail(command, from_caf(e)); }, card_atom_v, message);
}

// The train cards send, all at once, and answer when every rollout has acknowledged what they sent;
// then each rollout commits.
void PlacementState::publish_from_trainer(const plan::Command& command) {
  const plan::RoleSpec* trainer = options_.plan.owner_of(plan::Object::train_params);
  if (trainer == nullptr) return fail(command, {Errc::placement, "no role owns train_params"});
  command_started_ = now_seconds();
  auto missing = std::make_shared<size_t>(trainer->cards.size());
  std::vector<CardId> sources = trainer->cards;
  for (CardId card : sources) {
    if (is_failed_) return;
    plan::Command source = command;
    source.role = trainer->role;
    source.card = card;
    source.object = plan::Object::train_params;
    send(source, [this, command, source, missing](const CardReply& reply) {
      on_source(source, reply);
      if (!is_failed_ && --*missing == 0) begin_version(command, reply.checksum);
    });
  }
}

// Every train card has the same version: their checksums of it must agree.
void PlacementState::on_source(const plan::Command& source, const CardReply& reply) {
  if (is_failed_) return;
  if (report_.checksum != 0 && report_.checksum != reply.checksum)
    return fail(source, {Errc::corrupt, fmt::format("PLACE-5: it published {:016x}, another train "
                                                    "card {:016x}",
                                                    reply.checksum, report_.checksum)});
  report_.checksum = reply.checksum;
  note_memory(source, reply);
  report_.transitions.push_back({source, reply.bytes_on_card, reply.bytes_moved,
                                 command_started_ - options_.run_start, reply.seconds});
}

void PlacementState::begin_version(const plan::Command& command, uint64_t checksum) {
  is_published_ = true;
  std::vector<plan::Shard> shards;
  for (const plan::Command& each : commands_)
    if (each.verb == Verb::reshard)
      shards.push_back({each.card, static_cast<uint32_t>(each.object), checksum});
  if (auto begun = versions_.begin(PolicyVersion{request_.version}, shards); !begun)
    return fail(command, begun.error());
  execute(command);
}

void PlacementState::execute(const plan::Command& command) {
  command_started_ = now_seconds();
  send(command, [this, command](const CardReply& reply) { on_reply(command, reply); });
}

void PlacementState::on_reply(const plan::Command& command, const CardReply& reply) {
  if (auto applied = apply(command, reply); !applied) return fail(command, applied.error());
  ledger_.assert_invariants();
  note_memory(command, reply);
  report_.transitions.push_back({command, reply.bytes_on_card, reply.bytes_moved,
                                 command_started_ - options_.run_start,
                                 now_seconds() - command_started_});
  next();
}

Expected<void> PlacementState::apply(const plan::Command& command, const CardReply& reply) {
  if (auto move = plan::transition_of(command)) return ledger_.commit(*move, reply.bytes_on_card);
  if (command.verb == Verb::reshard) {
    plan::Shard shard{command.card, static_cast<uint32_t>(command.object), reply.checksum};
    auto acked = versions_.ack(PolicyVersion{request_.version}, shard);
    if (!acked)
      return acked.error().with_context(fmt::format("PLACE-5: version {}", request_.version));
  }
  return {};
}

void PlacementState::note_memory(const plan::Command& command, const CardReply& reply) {
  if (reply.process.empty()) return;
  allocated_[command.card] = reply.card_bytes;
  card_peak_bytes_[std::to_string(command.card.value)] = reply.card_peak_bytes;
  process_bytes_[reply.process] = reply.process_bytes;
}

// The numbers of the ledger against real memory: the allocator's of each card, and each process.
void PlacementState::watch_memory() {
  for (const auto& [card, bytes] : allocated_)
    if (auto alarm = leaks_.card(card, request_.kind, ledger_.bytes_on(card), bytes))
      report_.alarms.push_back(*alarm);
  for (const auto& [process, bytes] : process_bytes_)
    if (auto alarm = leaks_.process(process, request_.kind, bytes))
      report_.alarms.push_back(*alarm);
}

void PlacementState::finish() {
  for (const plan::RoleSpec& role : options_.plan.roles) {
    if (plan::required_objects(role, request_.kind).empty()) continue;
    if (auto held = plan::check_compute(options_.plan, ledger_, role.role, request_.kind); !held)
      return fail({Verb::begin_phase, request_.kind, role.role, role.cards.front()}, held.error());
  }
  if (request_.kind == plan::PhaseKind::publish &&
      !versions_.is_servable(PolicyVersion{request_.version}))
    return fail({Verb::reshard, request_.kind, "actor_infer", {}},
                {Errc::placement, fmt::format("PLACE-5: version {} lacks {} shards",
                                              request_.version, versions_.missing_shards())});
  for (const plan::CardSpec& card : options_.plan.cards)
    report_.bytes_per_card.emplace_back(card.id.value, ledger_.bytes_on(card.id));
  watch_memory();
  report_.seconds = now_seconds() - phase_started_;
  is_busy_ = false;
  nlohmann::json cards = nlohmann::json::array();
  for (const control::Transition& t : report_.transitions)
    cards.push_back({{"card", t.command.card.value},
                     {"role", t.command.role},
                     {"verb", plan::to_string(t.command.verb)},
                     {"object", plan::to_string(t.command.object)},
                     {"to", plan::to_string(t.command.to)},
                     {"planned_bytes", t.command.bytes},
                     {"bytes", t.bytes_on_card},
                     {"moved_bytes", t.bytes_moved},
                     {"start_s", t.start_seconds},
                     {"seconds", t.seconds}});
  nlohmann::json record = {
      {"step", request_.step},           {"phase", plan::to_string(request_.kind)},
      {"version", request_.version},     {"cards", cards},
      {"process_bytes", process_bytes_}, {"card_peak_bytes", card_peak_bytes_},
      {"alarms", report_.alarms},        {"seconds", report_.seconds}};
  send_request(
      self_, options_.recorder, std::chrono::seconds(60),
      [this](bool) { promise_.deliver(report_); },
      [this](caf::error& e) { promise_.deliver(std::move(e)); }, record_atom_v,
      static_cast<uint16_t>(stream::RecordType::phase), record.dump());
}

void PlacementState::fail(const plan::Command& command, const Error& error) {
  if (is_failed_) return;  // the first cause is told
  is_busy_ = false;
  is_failed_ = true;
  versions_.abandon();
  promise_.deliver(to_caf(
      error.with_context(fmt::format("phase {} of step {}: {}", plan::to_string(request_.kind),
                                     request_.step, plan::to_text(command)))));
}

PlacementActor::behavior_type placement(PlacementActor::stateful_pointer<PlacementState> self,
                                        PlacementOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  return {
      [self](phase_atom, const PhaseRequest& request) { return self->state.on_phase(request); }};
}

}  // namespace cohort::actors

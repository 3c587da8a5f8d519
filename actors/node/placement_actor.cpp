#include "actors/node/placement_actor.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/control/request.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::actors {

using namespace control;
using Verb = plan::Command::Verb;

void PlacementState::open(PlacementOptions options) {
  options_ = std::move(options);
  ledger_ = plan::Ledger(options_.plan.mode, options_.plan.cards);
  living_ = options_.plan;
}

caf::result<PhaseReport> PlacementState::on_phase(const PhaseRequest& request) {
  if (is_failed_)  // some cards may have obeyed and others not: no later phase can be trusted
    return to_caf({Errc::placement, fmt::format("phase {} of step {} comes after a failed one",
                                                plan::to_string(request.kind), request.step)});
  if (is_refreshing_ && !next_request_) {
    next_request_.emplace(request, self_->make_response_promise<PhaseReport>());
    return next_request_->second;
  }
  if (is_busy_)
    return to_caf({Errc::backpressure, fmt::format("phase {} of step {} is still being set up",
                                                   plan::to_string(request_.kind), request_.step)});
  promise_ = self_->make_response_promise<PhaseReport>();
  auto promise = promise_;
  if (auto begun = begin(request); !begun) promise.deliver(to_caf(begun.error()));
  return promise;
}

Expected<void> PlacementState::begin(const PhaseRequest& request) {
  request_ = request;
  is_waiting_ = must_wait();
  if (!is_waiting_) COHORT_TRY(prepare());
  is_busy_ = true;
  phase_started_ = now_seconds();
  report_ = PhaseReport{request.step, request.kind, 0, {}, 0, {}, {}};
  process_bytes_.clear();
  reseats_ = 0;
  if (!is_waiting_) next();
  return {};
}

Expected<void> PlacementState::prepare() {
  if (request_.kind == plan::PhaseKind::publish)
    fresh_.clear();  // they have a part in it, and from then on in everything
  plan::RolesOfCards absent = fresh_;
  for (const plan::RoleSpec& role : options_.plan.roles)
    for (CardId card : role.cards)
      if (lost_.contains(card)) absent.insert({card, role.role});
  living_ = plan::without_roles(options_.plan, absent);
  living_epoch_ = epoch_;
  auto commands = plan::commands_for(living_, ledger_, request_.kind, options_.policy);
  if (!commands) return commands.error().with_context(plan::to_string(request_.kind));
  commands_ = std::move(*commands);
  position_ = 0;
  exchanged_.clear();
  is_cut_ = false;
  return {};
}

void PlacementState::next() {
  if (is_cut_) return again();
  if (position_ == commands_.size()) return finish();
  plan::Command command = commands_[position_++];
  if (auto move = plan::transition_of(command)) {
    if (auto begun = ledger_.begin(*move); !begun) return fail(command, begun.error());
    ledger_.assert_invariants();
  }
  if (command.verb == Verb::begin_phase && ledger_.phase() != command.phase)
    if (auto begun = ledger_.begin_phase(command.phase); !begun)
      return fail(command, begun.error());
  if (auto held = plan::check_command(living_, ledger_, command); !held)  // PLACE-4
    return fail(command, held.error());
  if (command.verb == Verb::reshard && !exchanged_.contains(command.role))
    return seated_[command.role] == living_epoch_ ? exchange(command) : seat(command);
  execute(command);
}

void PlacementState::send(const plan::Command& command, PublishStage stage,
                          const std::string& receiver, std::function<void(const CardReply&)> then) {
  auto owner = options_.owners.find({command.role, command.card});
  if (owner == options_.owners.end())
    return fail(command, {Errc::not_found, "no actor owns this role on this card"});
  CardCommand message{next_id_++, command, request_.version, stage, receiver, living_epoch_, {}};
  if (stage == PublishStage::seat) message.absent = absent_of(receiver);
  asked_[message.id] = command.card;
  send_request(
      self_, owner->second, std::chrono::milliseconds(options_.command_timeout_ms),
      [this, then, id = message.id](const CardReply& reply) {
        if (asked_.erase(id) > 0) then(reply);
      },
      [this, command, id = message.id](caf::error& e) {
        if (asked_.erase(id) > 0) on_error(command, from_caf(e));
      },
      card_atom_v, message);
}

/// Returns the commands of all cards that the exchange for the role of `first` needs: those that
/// receive, as they are in the list, and the ones that train.
Expected<std::vector<plan::Command>> PlacementState::all_of_exchange(
    const plan::Command& first) const {
  const plan::RoleSpec* trainer = living_.owner_of(plan::Object::train_params);
  if (trainer == nullptr) return Error{Errc::placement, "no role owns train_params"};
  std::vector<plan::Command> all;
  for (const plan::Command& each : commands_)
    if (each.verb == Verb::reshard && each.role == first.role) {
      COHORT_TRY(plan::check_command(living_, ledger_, each));
      all.push_back(each);
    }
  for (CardId card : trainer->cards) {
    plan::Command source = first;
    source.role = trainer->role;
    source.card = card;
    source.object = plan::Object::train_params;
    all.push_back(source);
  }
  return all;
}

// A seat of an older epoch knows an endpoint that is gone, or lacks one that is back: all open
// again, then the exchange begins. Who is back since prepare() has no part in it, and none in its
// epoch: the next publish finds them all in an older one.
void PlacementState::seat(const plan::Command& first) {
  auto all = all_of_exchange(first);
  if (!all) return fail(first, all.error());
  auto missing = std::make_shared<size_t>(all->size());
  for (const plan::Command& command : *all)
    if (!is_failed_)
      send(command, PublishStage::seat, first.role, [this, first, missing](const CardReply&) {
        if (is_failed_) return;
        if (is_cut_) return again();
        if (--*missing > 0) return;
        seated_[first.role] = living_epoch_;
        versions_[first.role].renew();
        exchange(first);
      });
}

// All cards of both layouts at once: each sends, receives, or both.
void PlacementState::exchange(const plan::Command& first) {
  auto all = all_of_exchange(first);
  if (!all) return fail(first, all.error());
  command_started_ = now_seconds();
  auto exchange = std::make_shared<Exchange>();
  exchange->first = first;
  exchange->missing = all->size();
  for (const plan::Command& command : *all)
    if (command.role == first.role) exchange->receivers.push_back(command);
  for (const plan::Command& command : *all)
    if (!is_failed_)
      send(command, PublishStage::exchange, first.role,
           [this, exchange, command](const CardReply& reply) {
             on_exchanged(exchange, command, reply);
           });
}

void PlacementState::on_exchanged(const std::shared_ptr<Exchange>& exchange,
                                  const plan::Command& command, const CardReply& reply) {
  if (is_failed_) return;
  if (is_cut_) return again();
  note_memory(command, reply);
  report_.transitions.push_back({command, reply.bytes_on_card, reply.bytes_moved,
                                 command_started_ - options_.run_start, reply.seconds});
  if (command.role == exchange->first.role) exchange->got[command.card] = reply.checksum;
  for (auto [card, sum] : reply.sent) exchange->sent[CardId{card}] += sum;  // wraps, as theirs do
  if (--exchange->missing == 0) complete(*exchange);
}

void PlacementState::complete(const Exchange& exchange) {
  plan::VersionTable& versions = versions_[exchange.first.role];
  PolicyVersion version{request_.version};
  auto shard = [](const plan::Command& x, uint64_t sum) {
    return plan::Shard{x.card, static_cast<uint32_t>(x.object), sum};
  };
  std::vector<plan::Shard> shards;
  for (const plan::Command& each : exchange.receivers) {
    auto sent = exchange.sent.find(each.card);
    shards.push_back(shard(each, sent == exchange.sent.end() ? 0 : sent->second));
  }
  if (auto begun = versions.begin(version, shards); !begun)
    return fail(exchange.first, begun.error());
  for (const plan::Command& each : exchange.receivers)
    if (auto acked = versions.ack(version, shard(each, exchange.got.at(each.card))); !acked)
      return fail(each,
                  acked.error().with_context(fmt::format("PLACE-5: version {}", version.value)));
  exchanged_.insert(exchange.first.role);
  failpoint::hit("placement.exchanged");
  execute(exchange.first);
}

void PlacementState::execute(const plan::Command& command) {
  failpoint::hit("placement.command");
  command_started_ = now_seconds();
  send(command, PublishStage::commit, command.role,
       [this, command](const CardReply& reply) { on_reply(command, reply); });
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
  if (command.verb == Verb::reshard && report_.checksum == 0) report_.checksum = reply.checksum;
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
  for (const plan::RoleSpec& role : living_.roles) {
    if (role.cards.empty() || plan::required_objects(role, request_.kind).empty()) continue;
    if (auto held = plan::check_compute(living_, ledger_, role.role, request_.kind); !held)
      return fail({Verb::begin_phase, request_.kind, role.role, role.cards.front()}, held.error());
  }
  for (const std::string& role : exchanged_)
    if (!versions_[role].is_servable(PolicyVersion{request_.version}))
      return fail(
          {Verb::reshard, request_.kind, role, {}},
          {Errc::placement, fmt::format("PLACE-5: version {} lacks {} shards", request_.version,
                                        versions_[role].missing_shards())});
  for (const plan::CardSpec& card : options_.plan.cards)
    report_.bytes_per_card.emplace_back(card.id.value, ledger_.bytes_on(card.id));
  watch_memory();
  report_.seconds = now_seconds() - phase_started_;
  is_busy_ = false;
  if (std::exchange(is_refreshing_, false)) return refresh();
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
      [promise = promise_, report = report_](bool) mutable { promise.deliver(report); },
      [promise = promise_](caf::error& e) mutable { promise.deliver(std::move(e)); }, record_atom_v,
      static_cast<uint16_t>(stream::RecordType::phase), record.dump());
}

void PlacementState::fail(const plan::Command& command, const Error& error) {
  if (is_failed_) return;  // the first cause is told
  is_busy_ = false;
  is_failed_ = true;
  for (auto& [role, versions] : versions_) versions.abandon();
  promise_.deliver(to_caf(
      error.with_context(fmt::format("phase {} of step {}: {}", plan::to_string(request_.kind),
                                     request_.step, plan::to_text(command)))));
}

PlacementActor::behavior_type placement(PlacementActor::stateful_pointer<PlacementState> self,
                                        PlacementOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  PlacementState* state = &self->state;
  return {[state](phase_atom, const PhaseRequest& request) { return state->on_phase(request); },
          [state](lost_atom, const CardsLost& lost) { state->on_lost(lost); },
          [state](back_atom, const CardsBack& back) { state->on_back(back); },
          [state](watch_atom, uint64_t number) { state->on_watch(number); }};
}

}  // namespace cohort::actors

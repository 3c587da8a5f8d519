#include "runtime/plan/place/phase_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace cohort::plan {

using Verb = Command::Verb;
using phase::Orders;

namespace {

constexpr uint32_t k_reseats_max = 2;  // of a phase, without a loss

/// Returns true for an error that a peer's death would explain.
bool may_be_loss(Errc code) {
  return code == Errc::closed || code == Errc::cancelled || code == Errc::timeout;
}

}  // namespace

PhaseMachine::PhaseMachine(PhaseMachineOptions options)
    : options_(std::move(options)),
      ledger_(options_.plan.mode, options_.plan.cards),
      seats_(options_.plan, options_.plant) {}

Orders PhaseMachine::ask(uint64_t number, const PhaseRequest& request, double now) {
  now_ = now;
  auto deny = [&](std::string why, Errc code) {
    out_.push_back(phase::Deny{number, {code, std::move(why)}});
  };
  if (state_ == State::failed)
    deny(fmt::format("phase {} of step {} comes after a failed one", to_string(request.kind),
                     request.step),
         Errc::placement);
  else if (is_busy() && !asker_ && !next_request_)
    next_request_.emplace(number, request);
  else if (is_busy())
    deny(fmt::format("phase {} of step {} is still being set up", to_string(request_.kind),
                     request_.step),
         Errc::backpressure);
  else
    begin(number, request);
  return flush();
}

void PhaseMachine::begin(Asker asker, const PhaseRequest& request) {
  asker_ = asker;
  request_ = request;
  const bool waits = seats_.must_wait(request.kind, now_);
  if (!waits)
    if (auto prepared = prepare(); !prepared) {
      if (!asker_)
        return fail({Verb::begin_phase, request.kind, "placement", {}}, prepared.error());
      out_.push_back(phase::Deny{*asker_, prepared.error()});
      return;
    }
  state_ = waits ? State::waiting : State::running;
  phase_started_ = now_;
  report_ = PhaseReport{request.step, request.kind, 0, {}, {}, {}};
  process_bytes_.clear();
  reseats_ = 0;
  if (!waits) next();
}

Expected<void> PhaseMachine::prepare() {
  const PlacementPlan& living = seats_.begin(request_.kind);
  auto commands = commands_for(living, ledger_, request_.kind, options_.policy);
  if (!commands) return commands.error().with_context(to_string(request_.kind));
  commands_ = std::move(*commands);
  position_ = 0;
  exchanged_.clear();
  return {};
}

void PhaseMachine::next() {
  if (state_ == State::cut) return again();
  if (position_ == commands_.size()) return finish();
  const Command command = commands_[position_++];
  if (auto move = transition_of(command)) {
    if (auto begun = ledger_.begin(*move); !begun) return fail(command, begun.error());
    ledger_.assert_invariants();
  }
  if (command.verb == Verb::begin_phase && ledger_.phase() != command.phase)
    if (auto begun = ledger_.begin_phase(command.phase); !begun)
      return fail(command, begun.error());
  if (auto held = check_command(seats_.plan(), ledger_, command); !held)  // PLACE-4
    return fail(command, held.error());
  if (command.verb != Verb::reshard || exchanged_.contains(command.role)) return execute(command);
  first_ = command;
  seats_.are_open(command.role) ? exchange_all() : seat_all();
}

void PhaseMachine::send(const Command& command, PublishStage stage) {
  CardCommand message{next_id_++,     command, request_.version, stage, command.role,
                      seats_.epoch(), {}};
  if (stage != PublishStage::commit) message.receiver = first_.role;
  if (stage == PublishStage::seat) message.absent = seats_.absent_of(message.receiver);
  asked_[message.id] = {command, stage};
  out_.push_back(phase::Send{std::move(message)});
}

void PhaseMachine::execute(const Command& command) {
  command_started_ = now_;
  send(command, PublishStage::commit);
}

/// Returns the commands of all cards that the exchange for the role of `first_` needs: those that
/// receive, as they are in the list, and the ones that train.
Expected<std::vector<Command>> PhaseMachine::all_of_exchange() const {
  const RoleSpec* trainer = seats_.plan().owner_of(Object::train_params);
  if (trainer == nullptr) return Error{Errc::placement, "no role owns train_params"};
  std::vector<Command> all;
  for (const Command& each : commands_)
    if (each.verb == Verb::reshard && each.role == first_.role) {
      COHORT_TRY(check_command(seats_.plan(), ledger_, each));
      all.push_back(each);
    }
  for (CardId card : trainer->cards) {
    Command source = first_;
    source.role = trainer->role;
    source.card = card;
    source.object = Object::train_params;
    all.push_back(source);
  }
  return all;
}

// A seat of an older epoch knows an endpoint that is gone, or lacks one that is back: all open
// again, then the exchange begins.
void PhaseMachine::seat_all() {
  auto all = all_of_exchange();
  if (!all) return fail(first_, all.error());
  for (const Command& command : *all) send(command, PublishStage::seat);
}

// All cards of both layouts at once: each sends, receives, or both.
void PhaseMachine::exchange_all() {
  auto all = all_of_exchange();
  if (!all) return fail(first_, all.error());
  command_started_ = now_;
  exchange_ = {};
  for (const Command& command : *all) {
    if (command.role == first_.role) exchange_.receivers.push_back(command);
    send(command, PublishStage::exchange);
  }
}

Orders PhaseMachine::reply(uint64_t id, const CardReply& reply, double now) {
  now_ = now;
  auto found = asked_.extract(id);
  if (found.empty() || state_ == State::failed) return flush();  // of a card that was lost
  const Asked& asked = found.mapped();
  if (asked.stage == PublishStage::commit)
    take_commit(asked.command, reply);
  else if (state_ == State::cut)
    again();
  else
    take(asked, reply);
  return flush();
}

void PhaseMachine::take(const Asked& asked, const CardReply& reply) {
  const bool is_batch_done = asked_.empty() && !suspect_;
  if (asked.stage == PublishStage::seat) {
    if (!is_batch_done) return;
    seats_.opened(first_.role);
    versions_[first_.role].renew();
    return exchange_all();
  }
  note_memory(asked.command, reply);
  report_.transitions.push_back({asked.command, reply.bytes_on_card, reply.bytes_moved,
                                 command_started_ - options_.run_start, reply.seconds});
  const bool receives = asked.command.role == first_.role;
  if (receives) exchange_.got[asked.command.card] = reply.checksum;
  for (auto [card, sum] : reply.sent) exchange_.sent[CardId{card}] += sum;  // wraps, as theirs do
  if (is_batch_done || (receives && options_.plant == Plant::version_before_whole))
    complete_exchange();
}

void PhaseMachine::complete_exchange() {
  VersionTable& versions = versions_[first_.role];
  const PolicyVersion version{request_.version};
  const bool is_planted = options_.plant == Plant::version_before_whole;
  if (is_planted) asked_.clear();  // whose answers it does not wait for
  auto shard = [](const Command& x, uint64_t sum) {
    return Shard{x.card, static_cast<uint32_t>(x.object), sum};
  };
  std::vector<Shard> shards;
  for (const Command& each : exchange_.receivers)
    shards.push_back(shard(each, exchange_.sent[each.card]));
  if (auto begun = versions.begin(version, shards); !begun) return fail(first_, begun.error());
  for (const Command& each : exchange_.receivers) {
    const uint64_t sum = is_planted ? exchange_.sent[each.card] : exchange_.got.at(each.card);
    if (auto acked = versions.ack(version, shard(each, sum)); !acked)
      return fail(each,
                  acked.error().with_context(fmt::format("PLACE-5: version {}", version.value)));
  }
  exchanged_.insert(first_.role);
  execute(first_);
}

void PhaseMachine::take_commit(const Command& command, const CardReply& reply) {
  if (auto move = transition_of(command)) {
    if (auto held = ledger_.commit(*move, reply.bytes_on_card); !held)
      return fail(command, held.error());
  }
  ledger_.assert_invariants();
  note_memory(command, reply);
  report_.transitions.push_back({command, reply.bytes_on_card, reply.bytes_moved,
                                 command_started_ - options_.run_start, now_ - command_started_});
  next();
}

void PhaseMachine::note_memory(const Command& command, const CardReply& reply) {
  if (reply.process.empty()) return;
  allocated_[command.card] = reply.card_bytes;
  card_peak_bytes_[std::to_string(command.card.value)] = reply.card_peak_bytes;
  process_bytes_[reply.process] = reply.process_bytes;
}

// The numbers of the ledger against real memory: the allocator's of each card, and each process.
void PhaseMachine::watch_memory() {
  for (const auto& [card, bytes] : allocated_)
    if (auto alarm = leaks_.card(card, request_.kind, ledger_.bytes_on(card), bytes))
      report_.alarms.push_back(*alarm);
  for (const auto& [process, bytes] : process_bytes_)
    if (auto alarm = leaks_.process(process, request_.kind, bytes))
      report_.alarms.push_back(*alarm);
}

void PhaseMachine::finish() {
  for (const RoleSpec& role : seats_.plan().roles) {
    if (role.cards.empty() || required_objects(role, request_.kind).empty()) continue;
    if (auto held = check_compute(seats_.plan(), ledger_, role.role, request_.kind); !held)
      return fail({Verb::begin_phase, request_.kind, role.role, role.cards.front()}, held.error());
  }
  for (const std::string& role : exchanged_)
    if (!versions_[role].is_servable(PolicyVersion{request_.version}))
      return fail(
          {Verb::reshard, request_.kind, role, {}},
          {Errc::placement, fmt::format("PLACE-5: version {} lacks {} shards", request_.version,
                                        versions_[role].missing_shards())});
  for (const CardSpec& card : options_.plan.cards)
    report_.bytes_per_card.emplace_back(card.id.value, ledger_.bytes_on(card.id));
  watch_memory();
  report_.seconds = now_ - phase_started_;
  state_ = State::idle;
  if (asker_) out_.push_back(phase::Grant{*asker_, request_.version, report_});
  if (!next_request_) return;
  const auto [number, request] = *std::exchange(next_request_, std::nullopt);
  begin(number, request);
}

void PhaseMachine::fail(const Command& command, const Error& error) {
  state_ = State::failed;
  suspect_.reset();
  for (auto& [role, versions] : versions_) versions.abandon();
  const Error told = error.with_context(fmt::format(
      "phase {} of step {}: {}", to_string(request_.kind), request_.step, to_text(command)));
  if (asker_) out_.push_back(phase::Deny{*asker_, told});
  if (next_request_) out_.push_back(phase::Deny{next_request_->first, told});
  next_request_.reset();
}

// -- losses

Orders PhaseMachine::lost(const std::vector<uint32_t>& cards, bool is_away, double now) {
  now_ = now;
  std::vector<CardId> ids;
  for (uint32_t card : cards) ids.push_back({card});
  const std::vector<CardId> news = seats_.lose(ids, is_away ? 0 : now + options_.grace_s);
  for (CardId card : news) {
    ledger_.forget(card);
    allocated_.erase(card);
    std::erase_if(asked_, [card](const auto& each) { return each.second.command.card == card; });
  }
  ledger_.assert_invariants();
  if (!news.empty() && state_ == State::running) {
    state_ = State::cut;
    suspect_.reset();
  }
  if (state_ == State::cut || state_ == State::waiting) again();
  return flush();
}

Orders PhaseMachine::back(const std::vector<RoleOnCard>& roles, double now) {
  now_ = now;
  for (const auto& [role, card] : roles) {
    const RoleSpec* spec = options_.plan.find(role);
    const bool has_weights = spec != nullptr && spec->has(Object::ref_params);
    if (has_weights) ledger_.adopt(role, card, Object::ref_params);
    seats_.back(role, card, !has_weights);
  }
  // A publish that is on its way goes on without it: the next one is soon enough.
  if (state_ == State::running && request_.kind != PhaseKind::publish) state_ = State::cut;
  if (state_ == State::cut || state_ == State::waiting)
    again();
  else if (state_ == State::idle && ledger_.phase() == PhaseKind::generate)
    begin(std::nullopt, request_);
  return flush();
}

// Once nothing is under way: from the state in which the ledger is.
void PhaseMachine::again() {
  if (!asked_.empty()) return;
  state_ = seats_.must_wait(request_.kind, now_) ? State::waiting : State::running;
  if (state_ == State::waiting) return;
  // What was published is published again; what moved on a card that lives has moved.
  std::erase_if(report_.transitions, [this](const DoneCommand& x) {
    return x.command.verb == Verb::reshard || seats_.is_lost(x.command.card) ||
           seats_.is_fresh(x.command.role, x.command.card);
  });
  for (auto& [role, versions] : versions_) versions.abandon();
  if (auto prepared = prepare(); !prepared)
    return fail({Verb::begin_phase, request_.kind, "placement", {}}, prepared.error());
  next();
}

Orders PhaseMachine::error(uint64_t id, const Error& error, double now) {
  now_ = now;
  auto found = asked_.extract(id);
  if (found.empty() || state_ == State::failed) return flush();
  const Command& command = found.mapped().command;
  if (state_ == State::cut && may_be_loss(error.code))
    again();
  else if (suspect_)
    ;  // the first error stands for the others
  else if (options_.loss_wait_s > 0 && may_be_loss(error.code))
    suspect_.emplace(Suspect{command, error, now + options_.loss_wait_s});
  else
    fail(command, error);
  return flush();
}

Orders PhaseMachine::pass(double now) {
  now_ = now;
  if (state_ == State::waiting) again();
  if (!suspect_ || now < suspect_->until) return flush();
  const Suspect suspect = *std::exchange(suspect_, std::nullopt);
  if (suspect.command.verb != Verb::reshard || reseats_ == k_reseats_max) {
    fail(suspect.command, suspect.error);
    return flush();
  }
  // All processes live, so it was a connection: the seats open anew, and with them their links.
  ++reseats_;
  seats_.open_anew();
  out_.push_back(phase::Note{fmt::format("publish of version {}: {}: all seats open anew",
                                         request_.version, suspect.error.detail)});
  state_ = State::cut;
  again();
  return flush();
}

Orders PhaseMachine::flush() {
  constexpr double k_never = std::numeric_limits<double>::infinity();
  double next = suspect_ ? suspect_->until : k_never;
  if (const double end = seats_.next_end(now_); state_ == State::waiting && end > 0)
    next = std::min(next, end);
  if (now_ >= wakes_at_) wakes_at_ = k_never;
  if (next < wakes_at_) out_.push_back(phase::WakeAt{wakes_at_ = next});
  return std::exchange(out_, {});
}

}  // namespace cohort::plan

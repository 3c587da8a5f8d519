// Cards that placement loses and gets back.
#include "actors/placement.hpp"

namespace cohort::actors {

using namespace control;
using Verb = plan::Command::Verb;

namespace {

/// Returns true for an error that a peer's death would explain.
bool may_be_loss(Errc code) {
  return code == Errc::closed || code == Errc::cancelled || code == Errc::timeout;
}

}  // namespace

bool PlacementState::must_wait() const {
  return request_.kind == plan::PhaseKind::publish && !lost_.empty();
}

void PlacementState::on_lost(const CardsLost& lost) {
  ++epoch_;
  for (uint32_t value : lost.cards) {
    const CardId card{value};
    lost_.insert(card);
    std::erase_if(fresh_, [card](const auto& x) { return x.first == card; });
    ledger_.forget(card);
    allocated_.erase(card);
    std::erase_if(options_.owners, [card](const auto& x) { return x.first.second == card; });
    std::erase_if(asked_, [card](const auto& x) { return x.second == card; });
  }
  ledger_.assert_invariants();
  if (!is_busy_ || is_failed_ || is_waiting_) return;
  is_cut_ = true;
  suspect_.reset();
  again();
}

void PlacementState::on_back(const CardsBack& back) {
  for (const RoleHandle& role : back.roles) {
    const CardId card{role.card};
    options_.owners[{role.role, card}] = caf::actor_cast<CardActor>(role.actor);
    lost_.erase(card);
    const plan::RoleSpec* spec = options_.plan.find(role.role);
    if (spec != nullptr && spec->has(plan::Object::ref_params))
      ledger_.adopt(role.role, card, plan::Object::ref_params);
    else
      fresh_.insert({card, role.role});
  }
  if (is_failed_) return;
  if (is_busy_) {
    is_cut_ = !is_waiting_ || lost_.empty();
    return is_cut_ ? again() : void();
  }
  if (ledger_.phase() != plan::PhaseKind::generate) return;  // the next phase will do
  is_refreshing_ = true;
  if (auto begun = begin(request_); !begun)
    fail({Verb::begin_phase, request_.kind, "placement", {}}, begun.error());
}

// Behind the phase that nobody has asked for: what was asked for meanwhile.
void PlacementState::refresh() {
  if (!next_request_) return;
  auto [request, promise] = *std::exchange(next_request_, std::nullopt);
  promise_ = promise;
  if (auto begun = begin(request); !begun) promise_.deliver(to_caf(begun.error()));
}

// Once nothing is under way: from the state in which the ledger is.
void PlacementState::again() {
  if (is_failed_ || !asked_.empty()) return;
  is_waiting_ = must_wait();
  if (is_waiting_) return;
  // What was published is published again; what moved on a card that lives has moved.
  std::erase_if(report_.transitions, [this](const Transition& x) {
    return x.command.verb == Verb::reshard || lost_.contains(x.command.card) ||
           fresh_.contains({x.command.card, x.command.role});
  });
  report_.checksum = 0;
  for (auto& [role, versions] : versions_) versions.abandon();
  if (auto prepared = prepare(); !prepared)
    return fail({Verb::begin_phase, request_.kind, "placement", {}}, prepared.error());
  next();
}

void PlacementState::on_error(const plan::Command& command, const Error& error) {
  const bool is_explained = is_cut_ && may_be_loss(error.code);
  if (is_explained) return again();
  if (is_failed_ || suspect_) return;
  if (options_.loss_wait_ms == 0 || !may_be_loss(error.code)) return fail(command, error);
  suspect_.emplace(command, error);
  self_->delayed_send(PlacementActor{self_}, std::chrono::milliseconds(options_.loss_wait_ms),
                      watch_atom_v, ++suspicion_);
}

void PlacementState::on_suspicion(uint64_t number) {
  if (!suspect_ || number != suspicion_) return;
  auto [command, error] = *std::exchange(suspect_, std::nullopt);
  fail(command, error);
}

}  // namespace cohort::actors

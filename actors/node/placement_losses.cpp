// Cards that placement loses and gets back.
#include <algorithm>

#include "actors/node/placement_actor.hpp"
#include "runtime/base/log.hpp"

namespace cohort::actors {

using namespace control;
using Verb = plan::Command::Verb;

namespace {

constexpr uint32_t k_reseats_max = 2;  // of a phase, without a loss

/// Returns true for an error that a peer's death would explain.
bool may_be_loss(Errc code) {
  return code == Errc::closed || code == Errc::cancelled || code == Errc::timeout;
}

}  // namespace

// A wait ends with the card, with its timer, or by the node, which bounds how long nobody lives.
bool PlacementState::must_wait() const {
  if (request_.kind != plan::PhaseKind::publish || lost_.empty()) return false;
  const plan::RoleSpec* receiver = options_.plan.owner_of(plan::Object::infer_params);
  return !awaited_.empty() ||
         (receiver != nullptr && std::ranges::all_of(receiver->cards, [this](CardId card) {
            return lost_.contains(card);
          }));
}

/// Returns the cards of a role that have no part in this phase.
std::vector<uint32_t> PlacementState::absent_of(const std::string& role) const {
  std::vector<uint32_t> absent;
  const plan::RoleSpec* all = options_.plan.find(role);
  const plan::RoleSpec* living = living_.find(role);
  for (CardId card : all->cards)
    if (std::ranges::find(living->cards, card) == living->cards.end()) absent.push_back(card.value);
  return absent;
}

void PlacementState::forget(CardId card) {
  std::erase_if(fresh_, [card](const auto& x) { return x.first == card; });
  ledger_.forget(card);
  allocated_.erase(card);
  std::erase_if(options_.owners, [card](const auto& x) { return x.first.second == card; });
  std::erase_if(asked_, [card](const auto& x) { return x.second == card; });
}

void PlacementState::on_lost(const CardsLost& lost) {
  const bool is_awaited = !lost.is_away && options_.restart_grace_ms > 0;
  const uint64_t timer = is_awaited ? ++timers_ : 0;
  bool is_news = false;
  for (uint32_t value : lost.cards) {
    const CardId card{value};
    if (lost_.insert(card).second) {
      is_news = true;
      forget(card);
    }
    awaited_.erase(card);
    if (is_awaited) awaited_[card] = timer;
  }
  if (is_awaited)
    self_->delayed_send(PlacementActor{self_}, std::chrono::milliseconds(options_.restart_grace_ms),
                        watch_atom_v, timer);
  if (is_news) ++epoch_;
  ledger_.assert_invariants();
  if (!is_busy_ || is_failed_) return;
  if (is_news && !is_waiting_) {
    is_cut_ = true;
    suspect_.reset();
  }
  if (is_cut_ || is_waiting_) again();
}

void PlacementState::on_back(const CardsBack& back) {
  ++epoch_;
  for (const RoleHandle& role : back.roles) {
    const CardId card{role.card};
    options_.owners[{role.role, card}] = caf::actor_cast<CardActor>(role.actor);
    lost_.erase(card);
    awaited_.erase(card);
    const plan::RoleSpec* spec = options_.plan.find(role.role);
    if (spec != nullptr && spec->has(plan::Object::ref_params))
      ledger_.adopt(role.role, card, plan::Object::ref_params);
    else
      fresh_.insert({card, role.role});
  }
  if (is_failed_) return;
  if (is_waiting_) return again();
  if (is_busy_) {
    // A publish that is on its way goes on without it: the next one is soon enough.
    is_cut_ = is_cut_ || request_.kind != plan::PhaseKind::publish;
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
                      watch_atom_v, suspicion_ = ++timers_);
}

void PlacementState::on_watch(uint64_t timer) {
  if (std::erase_if(awaited_, [timer](const auto& x) { return x.second == timer; }) > 0 &&
      is_waiting_)
    again();
  if (!suspect_ || timer != suspicion_) return;
  auto [command, error] = *std::exchange(suspect_, std::nullopt);
  if (command.verb != Verb::reshard || reseats_ == k_reseats_max) return fail(command, error);
  // All processes live, so it was a connection: the seats open anew, and with them their links.
  ++reseats_;
  ++epoch_;
  log::warn("publish of version {}: {}: all seats open anew", request_.version, error.detail);
  is_cut_ = true;
  again();
}

}  // namespace cohort::actors

#include "runtime/plan/membership/seats.hpp"

#include <algorithm>

namespace cohort::plan {

Seats::Seats(PlacementPlan plan, Plant plant)
    : whole_(std::move(plan)), living_(whole_), plant_(plant) {}

std::vector<CardId> Seats::lose(std::span<const CardId> cards, double until) {
  std::vector<CardId> news;
  for (CardId card : cards) {
    if (lost_.insert(card).second) news.push_back(card);
    awaited_[card] = until;
    std::erase_if(fresh_, [card](const auto& each) { return each.first == card; });
  }
  if (!news.empty()) ++epoch_;
  return news;
}

void Seats::back(const std::string& role, CardId card, bool is_fresh) {
  ++epoch_;
  lost_.erase(card);
  awaited_.erase(card);
  if (is_fresh) fresh_.insert({card, role});
}

bool Seats::must_wait(PhaseKind kind, double now) const {
  if (kind != PhaseKind::publish || lost_.empty()) return false;
  if (next_end(now) > 0) return true;
  const RoleSpec* receiver = whole_.owner_of(Object::infer_params);
  return receiver != nullptr &&
         std::ranges::all_of(receiver->cards, [this](CardId card) { return lost_.contains(card); });
}

double Seats::next_end(double now) const {
  double next = 0;
  for (const auto& [card, until] : awaited_)
    if (until > now && (next == 0 || until < next)) next = until;
  return next;
}

const PlacementPlan& Seats::begin(PhaseKind kind) {
  if (kind == PhaseKind::publish) fresh_.clear();  // from then on they have a part in everything
  RolesOfCards absent = fresh_;
  for (const RoleSpec& role : whole_.roles)
    for (CardId card : role.cards)
      if (lost_.contains(card)) absent.insert({card, role.role});
  living_ = without_roles(whole_, absent);
  living_epoch_ = epoch_;
  return living_;
}

std::vector<uint32_t> Seats::absent_of(const std::string& role) const {
  std::vector<uint32_t> absent;
  const std::vector<CardId>& living = living_.find(role)->cards;
  for (CardId card : whole_.find(role)->cards)
    if (std::ranges::find(living, card) == living.end()) absent.push_back(card.value);
  return absent;
}

void Seats::opened(const std::string& receiver) {
  seated_[receiver] = plant_ == Plant::reseat_takes_back ? epoch_ : living_epoch_;
}

}  // namespace cohort::plan

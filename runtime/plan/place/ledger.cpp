#include "runtime/plan/place/ledger.hpp"

#include <algorithm>

namespace cohort::plan {
namespace {

std::string describe(const Transition& x) {
  return x.role + "." + std::string(to_string(x.object)) + " on card " +
         std::to_string(x.card.value);
}

std::string describe(const Ledger::Key& x) {
  return x.role + "." + std::string(to_string(x.object));
}

Ledger::Key key_of(const Transition& x) { return {x.card, x.role, x.object}; }

/// Returns true if the object is on its card, or may be until its transition is acknowledged.
bool may_be_on_card(const Ledger::Entry& entry) {
  return entry.place == Place::card || (entry.in_flight && entry.in_flight->to == Place::card);
}

/// Returns the most bytes that the entry may have on the card now.
uint64_t held_bytes(const Ledger::Entry& entry) {
  uint64_t coming =
      entry.in_flight && entry.in_flight->to == Place::card ? entry.in_flight->bytes : 0;
  return std::max(entry.card_bytes, coming);
}

bool are_reshard_pair(Object a, Object b) {
  return (a == Object::train_params && b == Object::infer_params) ||
         (a == Object::infer_params && b == Object::train_params);
}

}  // namespace

Ledger::Ledger(PlacementMode mode, const std::vector<CardSpec>& cards) : mode_(mode) {
  for (const CardSpec& card : cards) {
    cards_[card.id] = card;
    peaks_[card.id] = 0;
  }
}

Ledger::Span Ledger::entries_on(CardId card) const {
  auto end = entries_.lower_bound({card, {}, {}});
  auto begin = end;
  while (end != entries_.end() && end->first.card == card) ++end;
  return {begin, end};
}

Expected<void> Ledger::check_classes(const Transition& x) const {
  if (mode_ != PlacementMode::separate) return {};
  for (const auto& [key, entry] : entries_on(x.card)) {
    if (!may_be_on_card(entry)) continue;
    if (is_train_class(key.object) == is_train_class(x.object)) continue;
    return Error{Errc::placement,
                 "PLACE-1: " + describe(x) + " would join " + describe(key) +
                     ": in separate mode train-class and infer-class objects never "
                     "share a card"};
  }
  return {};
}

Expected<void> Ledger::check_reshard_pair(const Transition& x) const {
  if (mode_ != PlacementMode::timeshare || phase_ == PhaseKind::publish) return {};
  for (const auto& [key, entry] : entries_on(x.card)) {
    if (!may_be_on_card(entry) || !are_reshard_pair(key.object, x.object)) continue;
    return Error{Errc::placement, "PLACE-3: " + describe(x) + " would join " + describe(key) +
                                      " outside reshard (phase " +
                                      std::string(phase_ ? to_string(*phase_) : "none") + ")"};
  }
  return {};
}

Expected<void> Ledger::check_bytes(const Transition& x, uint64_t bytes) const {
  const CardSpec& card = cards_.at(x.card);
  auto found = entries_.find(key_of(x));
  uint64_t mine = found == entries_.end() ? 0 : held_bytes(found->second);
  uint64_t others = bytes_on(x.card) - mine;
  if (uint64_t budget = card.budget_bytes(); others > budget || bytes > budget - others)
    return Error{Errc::capacity, "PLACE-2: " + describe(x) + ": " + with_thousands(bytes) +
                                     " bytes + " + with_thousands(others) + " already there > " +
                                     with_thousands(budget) + " (capacity " +
                                     with_thousands(card.capacity_bytes) + " - reserve " +
                                     with_thousands(card.reserve_bytes) + ")"};
  return {};
}

Expected<void> Ledger::plan_transition(const Transition& x) const {
  if (!cards_.contains(x.card))
    return Error{Errc::not_found, "ledger: " + describe(x) + ": no such card"};
  if (auto found = entries_.find(key_of(x));
      found != entries_.end() && found->second.in_flight && *found->second.in_flight != x)
    return Error{Errc::protocol, "ledger: " + describe(x) + " to " + std::string(to_string(x.to)) +
                                     ": its move to " +
                                     std::string(to_string(found->second.in_flight->to)) +
                                     " is not acknowledged yet"};
  if (x.to != Place::card) return {};
  COHORT_TRY(check_classes(x));
  COHORT_TRY(check_reshard_pair(x));
  return check_bytes(x, x.bytes);
}

Expected<void> Ledger::begin(const Transition& x) {
  COHORT_TRY(plan_transition(x));
  entries_[key_of(x)].in_flight = x;
  note_peak(x.card);
  return {};
}

Expected<void> Ledger::commit(const Transition& x, uint64_t measured_bytes) {
  auto found = entries_.find(key_of(x));
  if (found == entries_.end() || !found->second.in_flight) {
    if (found != entries_.end() && found->second.place == x.to &&
        found->second.card_bytes == measured_bytes)
      return {};  // the acknowledgement came twice
    return Error{Errc::protocol, "ledger: " + describe(x) + " to " + std::string(to_string(x.to)) +
                                     " is acknowledged but was not begun"};
  }
  Entry& entry = found->second;
  if (*entry.in_flight != x)
    return Error{Errc::protocol, "ledger: " + describe(x) + " to " + std::string(to_string(x.to)) +
                                     " is acknowledged, but its move to " +
                                     std::string(to_string(entry.in_flight->to)) + " was begun"};
  if (x.to == Place::card) {
    if (auto fits = check_bytes(x, measured_bytes); !fits)
      return fits.error().with_context("measured, where " + with_thousands(x.bytes) +
                                       " bytes were predicted");
  } else if (measured_bytes != 0) {
    return Error{Errc::capacity,
                 "PLACE-2: " + describe(x) + " left " + with_thousands(measured_bytes) +
                     " bytes behind when it moved to " + std::string(to_string(x.to))};
  }
  entry = {x.to, measured_bytes, std::nullopt};
  note_peak(x.card);
  return {};
}

Expected<void> Ledger::abort(const Transition& x) {
  auto found = entries_.find(key_of(x));
  if (found == entries_.end() || found->second.in_flight != x)
    return Error{Errc::protocol, "ledger: " + describe(x) + ": nothing to abort"};
  found->second.in_flight.reset();
  return {};
}

void Ledger::forget(CardId card) {
  std::erase_if(entries_, [card](const auto& x) { return x.first.card == card; });
}

void Ledger::adopt(const std::string& role, CardId card, Object object) {
  COHORT_CHECK(place_of(role, card, object) == Place::absent,
               "ledger: an object that is known cannot be adopted");
  entries_[{card, role, object}].place = Place::host;
}

Expected<void> Ledger::begin_phase(PhaseKind phase) {
  if (phase_ == phase) return {};
  for (const auto& [key, entry] : entries_)
    if (entry.in_flight)
      return Error{Errc::protocol, "ledger: phase " + std::string(to_string(phase)) +
                                       " cannot begin: " + describe(*entry.in_flight) +
                                       " is not acknowledged yet"};
  if (mode_ == PlacementMode::timeshare && phase != PhaseKind::publish) {
    for (const auto& [key, entry] : entries_)
      for (const auto& [other, other_entry] : entries_on(key.card))
        if (key.object == Object::train_params && other.object == Object::infer_params &&
            entry.place == Place::card && other_entry.place == Place::card)
          return Error{Errc::placement, "PLACE-3: " + describe(key) + " and " + describe(other) +
                                            " are both on card " + std::to_string(key.card.value) +
                                            " when phase " + std::string(to_string(phase)) +
                                            " begins; they may share it only inside reshard"};
  }
  phase_ = phase;
  return {};
}

Place Ledger::place_of(const std::string& role, CardId card, Object object) const {
  auto found = entries_.find(Key{card, role, object});
  return found == entries_.end() ? Place::absent : found->second.place;
}

uint64_t Ledger::bytes_on(CardId card) const {
  uint64_t sum = 0;
  for (const auto& [key, entry] : entries_on(card)) sum += held_bytes(entry);
  return sum;
}

uint64_t Ledger::peak_bytes_on(CardId card) const {
  auto found = peaks_.find(card);
  return found == peaks_.end() ? 0 : found->second;
}

bool Ledger::has_in_flight() const {
  return std::ranges::any_of(entries_,
                             [](const auto& x) { return x.second.in_flight.has_value(); });
}

void Ledger::note_peak(CardId card) { peaks_[card] = std::max(peaks_[card], bytes_on(card)); }

void Ledger::assert_invariants() const {
  for (const auto& [id, card] : cards_) {
    bool has_train = false, has_infer = false, has_train_params = false, has_infer_params = false;
    for (const auto& [key, entry] : entries_on(id)) {
      if (!may_be_on_card(entry)) continue;
      (is_train_class(key.object) ? has_train : has_infer) = true;
      has_train_params |= key.object == Object::train_params;
      has_infer_params |= key.object == Object::infer_params;
    }
    std::string where = " on card " + std::to_string(id.value);
    COHORT_CHECK(mode_ != PlacementMode::separate || !(has_train && has_infer),
                 "PLACE-1: train-class and infer-class objects" + where);
    COHORT_CHECK(bytes_on(id) <= card.budget_bytes(), "PLACE-2: " + with_thousands(bytes_on(id)) +
                                                          " bytes" + where + ", budget " +
                                                          with_thousands(card.budget_bytes()));
    COHORT_CHECK(mode_ != PlacementMode::timeshare || phase_ == PhaseKind::publish ||
                     !(has_train_params && has_infer_params),
                 "PLACE-3: train_params and infer_params" + where + " outside reshard");
  }
}

}  // namespace cohort::plan

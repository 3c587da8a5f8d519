#pragma once
/// Which cards have a part in a phase, and which plan of an exchange seats whom. Pure; owner: the
/// phases (phase_machine.hpp). Not thread-safe.
///
/// A card that is lost has no part until its process is back; then it is fresh until the next
/// publish brings it up. The epoch rises with every loss, every return and every order to open the
/// seats anew. A phase is planned for the cards that are there when it begins, in the epoch of that
/// moment; the seats that a publish opens are of the epoch of its plan, whatever came since
/// (SEAT-1), so that a card which is back later finds, at the next publish, all seats in an older
/// epoch and has one of its own opened.
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/place/placement.hpp"
#include "runtime/plan/run/planted.hpp"

namespace cohort::plan {

class Seats {
 public:
  Seats() = default;
  /// Plant::reseat_takes_back: seats open in the epoch of the moment, not in their plan's.
  explicit Seats(PlacementPlan plan, Plant plant = Plant::none);

  /// Returns the cards that were not lost before. `until`: a publish waits for them until then.
  std::vector<CardId> lose(std::span<const CardId> cards, double until);
  /// A role of a card is back. `is_fresh`: the next publish brings it up.
  void back(const std::string& role, CardId card, bool is_fresh);
  bool is_lost(CardId card) const { return lost_.contains(card); }
  bool is_fresh(const std::string& role, CardId card) const {
    return fresh_.contains({card, role});
  }
  /// Returns true if a phase of this kind is to wait, now: for cards that were just lost, or
  /// because no receiver of weights is there at all.
  bool must_wait(PhaseKind kind, double now) const;
  /// Returns when a wait for cards ends next; 0: none.
  double next_end(double now) const;

  /// A phase is planned: for the cards that are there. In a publish fresh ones have their part.
  const PlacementPlan& begin(PhaseKind kind);
  /// Returns the plan of the present phase, and its epoch.
  const PlacementPlan& plan() const { return living_; }
  uint64_t epoch() const { return living_epoch_; }
  /// Returns the cards of a role that have no part in the present phase.
  std::vector<uint32_t> absent_of(const std::string& role) const;
  bool are_open(const std::string& receiver) { return seated_[receiver] == living_epoch_; }
  void opened(const std::string& receiver);
  /// A connection was lost and no process: all seats open anew in the next plan.
  void open_anew() { ++epoch_; }

 private:
  PlacementPlan whole_, living_;
  Plant plant_ = Plant::none;
  std::set<CardId> lost_;
  std::map<CardId, double> awaited_;  // of these, by a publish, until then
  RolesOfCards fresh_;
  uint64_t epoch_ = 0, living_epoch_ = 0;
  std::map<std::string, uint64_t> seated_;  // epoch of the open seats, by receiving role
};

}  // namespace cohort::plan

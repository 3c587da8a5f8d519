#pragma once
/// The residency ledger: what each card holds, kept by the placement actor alone (not thread-safe).
///
/// A transition is begun (checked, its bytes reserved), executed by its role, and committed with
/// the bytes that the role measured. From begin to commit the object counts as on the card with the
/// larger of its old and new bytes, so that the rules hold at any point between the two messages,
/// whatever the order in which several roles answer.
///
/// PLACE-1: in separate mode no card ever holds train-class and infer-class objects at once.
/// PLACE-2: the bytes on a card plus its reserve never exceed its capacity.
/// PLACE-3: in timeshare mode train_params and infer_params are on one card only in phase publish.
/// Bound: one entry per (card, role, object).
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/place/residency.hpp"

namespace cohort::plan {

/// "`role` moves its `object` on `card` to `to`". Idempotent: the state asked for, not a
/// difference.
struct Transition {
  std::string role;
  CardId card;
  Object object = Object::train_params;
  Place to = Place::absent;
  uint64_t bytes = 0;  // predicted bytes on the card when `to` is card; else ignored
  bool operator==(const Transition&) const = default;
};

class Ledger {
 public:
  /// What one role holds of one object on one card.
  struct Entry {
    Place place = Place::absent;
    uint64_t card_bytes = 0;              // measured; 0 unless place is card
    std::optional<Transition> in_flight;  // begun, not yet committed
  };
  struct Key {
    CardId card;
    std::string role;
    Object object = Object::train_params;
    auto operator<=>(const Key&) const = default;
  };

  Ledger() = default;
  Ledger(PlacementMode mode, const std::vector<CardSpec>& cards);

  /// Returns Errc::placement if the transition would break PLACE-1 or PLACE-3 (names both roles and
  /// the card), Errc::capacity for PLACE-2 (with the arithmetic), Errc::protocol if another
  /// transition of this object is in flight, Errc::not_found for an unknown card. Changes nothing.
  Expected<void> plan_transition(const Transition& transition) const;
  /// Checks as plan_transition does, then reserves. Beginning the same transition twice is one
  /// begin.
  Expected<void> begin(const Transition& transition);
  /// Takes the acknowledgement: the object is at `to` with `measured_bytes` on the card. A repeated
  /// acknowledgement is accepted; one for a transition never begun is Errc::protocol; bytes that
  /// break PLACE-2, or that stayed on the card after an offload, are Errc::capacity (the transition
  /// stays open).
  Expected<void> commit(const Transition& transition, uint64_t measured_bytes);
  /// The role failed and says that it left the object where it was. Returns Errc::protocol if not
  /// begun.
  Expected<void> abort(const Transition& transition);
  /// The process of this card is gone, and with it whatever was there or on its way. Its peak
  /// stays.
  void forget(CardId card);
  /// A role says that it holds the object on the host, of which nothing was known. REQUIRES: it is
  /// absent.
  void adopt(const std::string& role, CardId card, Object object);

  /// Enters a phase. Returns Errc::placement if PLACE-3 would not hold in it, Errc::protocol while
  /// a transition is in flight.
  Expected<void> begin_phase(PhaseKind phase);
  std::optional<PhaseKind> phase() const { return phase_; }
  PlacementMode mode() const { return mode_; }

  Place place_of(const std::string& role, CardId card, Object object) const;
  /// Returns bytes on the card now, those of transitions in flight included.
  uint64_t bytes_on(CardId card) const;
  /// Returns the largest bytes_on(card) so far.
  uint64_t peak_bytes_on(CardId card) const;
  bool has_in_flight() const;
  const std::map<Key, Entry>& entries() const { return entries_; }

  /// Aborts the process if PLACE-1, PLACE-2 or PLACE-3 does not hold.
  void assert_invariants() const;

 private:
  Expected<void> check_classes(const Transition& transition) const;
  Expected<void> check_reshard_pair(const Transition& transition) const;
  Expected<void> check_bytes(const Transition& transition, uint64_t bytes) const;
  void note_peak(CardId card);
  using Entries = std::map<Key, Entry>;
  struct Span {  // std::ranges::subrange does not compile under clang 14
    Entries::const_iterator first, last;
    Entries::const_iterator begin() const { return first; }
    Entries::const_iterator end() const { return last; }
  };
  Span entries_on(CardId card) const;

  PlacementMode mode_ = PlacementMode::separate;
  std::map<CardId, CardSpec> cards_;
  Entries entries_;
  std::map<CardId, uint64_t> peaks_;
  std::optional<PhaseKind> phase_;
};

}  // namespace cohort::plan

#pragma once
/// One card's part of a plan: its sends and receives, with their peers and turns. Pure; every card
/// computes the same from the same plan. Internal to runtime/publish. Memory: 32 bytes per own
/// transfer.
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/plan/reshard/reshard_apply.hpp"

namespace cohort::publish {

inline constexpr uint32_t k_none = std::numeric_limits<uint32_t>::max();

struct Outgoing {
  uint32_t transfer = 0;       // index of ReshardPlan::transfers
  uint32_t staged = k_none;    // index of Program::receives whose bytes are passed on
  uint32_t receives_done = 0;  // that many of Program::receives must be complete before
  uint32_t turn = k_none;      // own turn that it keeps staged
  uint32_t group = 0;          // sends of one group carry the same bytes
  uint64_t bytes = 0;
};

struct Incoming {
  uint32_t transfer = 0;
  uint32_t turn = 0;
  uint64_t bytes = 0;
  bool is_passed_on = false;  // from staging
};

/// A round in which the card receives.
struct Turn {
  uint32_t round = 0;
  uint32_t receives_end = 0;  // receives before it belong to this turn or earlier ones
  uint32_t staged_sends = 0;  // must be gone before what the turn keeps staged is
  uint64_t bytes = 0;
  uint64_t passed_on_bytes = 0;   // of them
  std::vector<uint32_t> senders;  // indices of Program::senders
};

/// A send that carries a group's bytes.
struct Use {
  uint32_t destination = 0;  // index of Program::destinations
  uint32_t send = 0;         // of Destination::sends
};

struct Destination {
  uint32_t card = 0;  // index of plan.cards
  std::vector<Outgoing> sends;
};

struct Sender {
  uint32_t card = 0;
  std::vector<uint32_t> receives;  // indices of Program::receives, in order
  uint64_t bytes = 0;
};

struct Program {
  uint32_t card = 0;
  uint64_t fingerprint = 0;            // of the plan: model, layouts, transfers
  uint64_t bucket_bytes = 0;           // the plan's, or its largest round of any card
  std::vector<uint32_t> local_copies;  // transfers
  std::vector<Incoming> receives;      // in the plan's order
  std::vector<Turn> turns;
  std::vector<Destination> destinations;  // ascending cards
  std::vector<std::vector<Use>> groups;   // by Outgoing::group
  std::vector<Sender> senders;            // ascending cards
};

/// REQUIRES: plan.transfers are there. Aborts if the plan breaks RESHARD-4.
Program make_program(const plan::ReshardCopies& copies, uint32_t card);
/// Returns all cards that the program's card exchanges with, ascending.
std::vector<uint32_t> peers_of(const Program& program);

}  // namespace cohort::publish

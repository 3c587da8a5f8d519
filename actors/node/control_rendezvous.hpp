#pragma once
/// The rendezvous of a run's ranks over control messages: the table is the node's, requests are
/// (table, TableRequest) messages to it. So nothing listens for it, and it is as private as the
/// control plane.
#include <memory>

#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/control/messages.hpp"

namespace cohort::actors {

/// An actor that keeps a table; a NodeActor is one. (table, TableRequest) -> TableReply
using TableActor = caf::typed_actor<
    caf::replies_to<control::table_atom, control::TableRequest>::with<control::TableReply>>;

inline constexpr int k_table_limit_ms = 10000;

/// Thread-safe: callable from any thread but the one that the table's actor runs on; every call
/// ends after `limit_ms`. Errc::closed when the keeper is gone, Errc::timeout when it is silent.
std::shared_ptr<compute::Rendezvous> control_rendezvous(caf::actor_system& system, TableActor table,
                                                        int limit_ms = k_table_limit_ms);

/// What the keeper answers. Not blocking: `table` is one in this process.
control::TableReply answer_table(compute::Rendezvous& table, const control::TableRequest& request);

}  // namespace cohort::actors

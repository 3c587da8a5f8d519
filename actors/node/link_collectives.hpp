#pragma once
/// Collectives over the links of the data plane (CollectiveBackend::links), for ranks in several
/// processes and on several hosts: with credentials their bytes are authenticated and encrypted
/// (CURVE), which Gloo's are not. Each rank has a Receiver, whose endpoint it puts into the
/// rendezvous, and a Sender to every other rank. A body goes in pieces, straight from the caller's
/// bytes; the piece is acknowledged when its receiver has copied it to where it belongs, and the
/// operation returns when nothing holds the caller's bytes any more.
/// Owner and threads: as compute::Collectives; one pump thread a link end.
/// Bound: credit_bytes of each other rank are here and not yet asked for (FLOW-4).
/// COLL-1 and COLL-2 hold; a rank that dies is seen when its connection has been closed for
/// k_group_grace_ms, one that is stopped or cut off after the link's peer_timeout_ms.
#include <functional>
#include <memory>
#include <string>

#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::actors {

inline constexpr int k_group_grace_ms = 500;

struct LinkGroupOptions {
  std::shared_ptr<transport::Context> context;
  /// The options of a link whose name is unique in the run: endpoint to bind (a port may be "*"; it
  /// must be one that the other ranks reach), run id, keys, timeouts.
  std::function<transport::LinkOptions(const std::string& endpoint, const std::string& name)> link;
};

/// Returns what GroupOptions::open takes. Its errors: Errc::io (cannot bind), Errc::timeout (names
/// the ranks that did not come), what the rendezvous says.
std::function<Expected<std::unique_ptr<compute::Collectives>>(const compute::GroupOptions&)>
link_groups(LinkGroupOptions options);

}  // namespace cohort::actors

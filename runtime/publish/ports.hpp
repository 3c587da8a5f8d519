#pragma once
/// The three kinds of Port. Each returns a port that is open and has an endpoint, but no peers yet.
///
/// inproc: cards are threads of one process and share its memory; names live in an InprocHub.
/// shared: cards are processes of one host and one user. A window is a memfd, handed over a Unix
///   socket in the abstract namespace: nothing has a name in a file system, so a kill -9 leaves
///   nothing behind, and the kernel closes the socket of a process that dies: its peers know at
///   once. A window is sealed against shrinking; peers of another user are turned away.
/// link: cards are anywhere; notes and bytes go over runtime/transport links (tcp, CURVE beyond
///   loopback), which resend what the wire loses; a body that it damages fails its version. A peer
///   counts as gone after a second without a connection (LinkOptions::disconnect_grace_ms), or
///   peer_timeout_ms of silence.
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/publish/port.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::publish {

/// Thread-safe. Names of inproc ports; outlives none of them: they share it.
class InprocHub {
 public:
  struct Seat;
  std::shared_ptr<Seat> add();
  std::shared_ptr<Seat> find(const std::string& name) const;

 private:
  mutable std::mutex mutex_;
  uint64_t next_ = 1;
  std::map<std::string, std::weak_ptr<Seat>> seats_;
};

Expected<std::unique_ptr<Port>> open_inproc_port(std::shared_ptr<InprocHub> hub);
Expected<std::unique_ptr<Port>> open_shared_port();

struct LinkPortOptions {
  transport::Context* context = nullptr;  // outlives the port
  /// Of all links of the port: run_id, curve, heartbeat_ms, peer_timeout_ms, and as endpoint where
  /// to listen, e.g. "tcp://127.0.0.1:*". The sizes are set by the port.
  transport::LinkOptions link;
};
Expected<std::unique_ptr<Port>> open_link_port(LinkPortOptions options);

}  // namespace cohort::publish

#pragma once
/// Configuration of the CAF actor system of one node. One per process, made by main.
#include <caf/all.hpp>
#include <optional>

#include "runtime/control/credentials.hpp"

namespace cohort::control {

struct SystemOptions {
  int scheduler_threads = 2;
  bool has_network = false;  // actors of other processes can be reached (caf::io)
  /// Of the network: TLS with them, loopback only without.
  std::optional<Credentials> credentials = {};
  bool is_insecure = false;     // without credentials: may be reached from beyond loopback
  bool is_test = false;         // one thread and a fake clock (caf::scheduler::test_coordinator)
  int heartbeat_ms = 1000;      // of a connection that has nothing else to say
  int peer_timeout_ms = 10000;  // silence after which a connection, and its node, count as lost
};

/// Registers the message types and the error category; sets the scheduler.
/// The "sharing" policy is chosen over CAF's default "stealing", whose idle workers sleep up to 10
/// ms between polls: that would be longer than a whole generation turn of a small policy.
class SystemConfig : public caf::actor_system_config {
 public:
  explicit SystemConfig(const SystemOptions& options);
  const SystemOptions& options() const { return options_; }

 private:
  const SystemOptions options_;
};

}  // namespace cohort::control

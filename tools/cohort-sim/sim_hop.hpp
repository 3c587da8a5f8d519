#pragma once
/// Reward or reference, simulated around the real Relay: a frame goes on when all of it is worked
/// on, and is acknowledged when the next has acknowledged it. One thread. Bound: the credit of its
/// producers.
#include <set>
#include <string>

#include "runtime/transport/relay.hpp"
#include "tools/cohort-sim/link_ends.hpp"
#include "tools/cohort-sim/sim_job.hpp"

namespace cohort::sim {

class SimHop {
 public:
  /// `label`: what its link to `output` is called, up to the arrow. The hop "reward" scores.
  SimHop(Stage& stage, const Job& job, Process& self, const std::string& label,
         const std::string& input, const std::string& output, SimReceiver::OnPeerLost on_peer_lost);

 private:
  void on_delivery(const SimTicket& ticket);
  void finish(const SimTicket& ticket);
  void flush();

  Stage& stage_;
  Process& self_;
  const bool is_reward_;
  SimSender output_;
  transport::Relay<SimSender, SimTicket> relay_;
  SimReceiver input_;
};

}  // namespace cohort::sim

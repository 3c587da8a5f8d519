#pragma once
/// What a simulated process of a slot holds: a card of the rollout or of the reference, which does
/// what placement commands after a while. It dies with its process. One thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/plan/place/card_messages.hpp"
#include "tools/cohort-sim/sim_hop.hpp"
#include "tools/cohort-sim/sim_publish.hpp"
#include "tools/cohort-sim/sim_rollout.hpp"

namespace cohort::sim {

inline constexpr const char* k_train_role = "actor_train";
inline constexpr const char* k_rollout_role = "actor_infer";
inline constexpr const char* k_reference_role = "reference";

/// Publishes go to the rollouts and to the reference, over wires of their own.
struct PublishWires {
  explicit PublishWires(Stage& stage) : rollouts(stage), reference(stage) {}
  PublishWire& to(const std::string& receiver) {
    return receiver == k_rollout_role ? rollouts : reference;
  }
  PublishWire rollouts, reference;
};
/// Opens the seat that a command asks for.
Expected<void> sit(PublishWires& wires, const Job& job, uint32_t card, Process& process,
                   const plan::CardCommand& command);
/// Returns the cards of the group of seats, without `absent`: the one that trains, and the
/// receiver's.
std::vector<uint32_t> seats_of(const Job& job, const std::string& receiver,
                               const std::vector<uint32_t>& absent);

using CardAnswer = std::function<void(Expected<plan::CardReply>)>;

class SimCard {
 public:
  SimCard(Stage& stage, const Job& job, PublishWires& wires, Process& self, uint32_t slot,
          uint32_t attempt, std::function<void()> end_process,
          SimReceiver::OnPeerLost on_peer_lost);
  void on_command(const plan::CardCommand& command, CardAnswer answer);
  SimRollout* rollout() { return rollout_.get(); }

 private:
  void arrive(const plan::CardCommand& command, CardAnswer answer);
  void commit(const plan::CardCommand& command);

  Stage& stage_;
  const Job& job_;
  PublishWires& wires_;
  Process& self_;
  const uint32_t card_;
  struct Arrived {
    uint64_t version = 0, parameters = 0;
  };
  std::optional<Arrived> arrived_;  // all of it, not served yet
  std::unique_ptr<SimRollout> rollout_;
  std::unique_ptr<SimHop> reference_;
};

}  // namespace cohort::sim

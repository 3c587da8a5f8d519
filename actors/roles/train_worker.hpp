#pragma once
/// The trainer's compute side on one card, one rank of the train cards' group: owns the
/// TrainEngine, updates the policy, publishes weights, writes checkpoints. Owner: node. Thread: its
/// own (detached), because a handler computes for seconds; nobody waits on it without a time limit.
/// Holds one batch at a time. PLACE-4: an update without train_params, grads and optimizer on the
/// card is refused by the engine. PLACE-5: a reshard sends what this card has to send, and answers
/// with the sums over it when its receivers have it.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/roles/policy_update.hpp"
#include "actors/roles/role_parts.hpp"
#include "actors/roles/weight_exchange.hpp"
#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace cohort::actors {

struct TrainWorkerOptions {
  compute::TrainEngineOptions engine;
  std::optional<compute::GroupOptions> group;  // of the train cards; none: this is the only one
  /// Told of the group once it is joined: the node ends waiting ranks through it at the run's end.
  std::function<void(std::shared_ptr<compute::Collectives>)> on_group;
  UpdateOptions update;
  std::map<std::string, std::shared_ptr<WeightExchange>> exchanges;  // by receiving role
  std::string pretrain;  // checkpoint folder to start from, or empty
  std::string adapter;   // PEFT folder to start from, or empty
  /// Whose distribution the policy learns, on the same card; none: nobody's.
  std::optional<compute::TrainEngineOptions> teacher = {};
  std::string teacher_from = {};      // its folder
  bool has_critic = false;            // its part is there when this one saves (critic_worker.hpp)
  std::shared_ptr<const void> keeps;  // card and context: an actor may end after its node
  FailureSink fail;
};

TrainWorkerActor spawn_train_worker(caf::actor_system& system, TrainWorkerOptions options);

}  // namespace cohort::actors

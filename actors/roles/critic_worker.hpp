#pragma once
/// The critic's compute side on one card, one rank of the critic's cards: owns a TrainEngine with a
/// value head. Asked for values (UpdateStage::values) it computes those of the batch, keeps the
/// batch with them, and its first rank sends them to the trainer; asked for the update it learns
/// from what it kept. Owner: node. Thread: its own (detached). Bound: the batch of one step.
/// PLACE-4: the engine refuses both without its objects on the card.
/// Checkpoints: its part of step_N is step_N/critic. It writes that beside the folder
/// (critic_part()); the policy's first rank moves it in before the folder gets its name.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/roles/role_parts.hpp"
#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort::actors {

struct CriticWorkerOptions {
  compute::TrainEngineOptions engine;          // with a value head
  std::optional<compute::GroupOptions> group;  // of the critic's cards; none: this is the only one
  std::function<void(std::shared_ptr<compute::Collectives>)> on_group;  // told once it is joined
  config::RunConfig config;
  std::string weights_from;  // folder to start from, or empty: drawn
  transport::Context* context = nullptr;
  transport::LinkOptions values;      // to the trainer; of the first rank
  std::shared_ptr<const void> keeps;  // card and context: an actor may end after its node
  FailureSink fail;
};

/// Returns where the critic's part of a checkpoint waits until the folder gets its name.
std::string critic_part(const std::string& checkpoint);

TrainWorkerActor spawn_critic_worker(caf::actor_system& system, CriticWorkerOptions options);

}  // namespace cohort::actors

#pragma once
/// One text environment as an actor: it owns the world of one trajectory at a time and renders what
/// the policy reads. Owner: the rollout actor that spawned it (pooled over leases). Thread: CAF's
/// scheduler; no thread of its own, so thousands are cheap (about 1 KiB each). Holds one game.
/// Messages and errors: EnvironmentActor in roles.hpp.
#include <memory>
#include <optional>
#include <string>

#include "actors/roles.hpp"
#include "runtime/tasks/frozen_lake.hpp"
#include "runtime/tasks/prompt.hpp"

namespace cohort::actors {

/// What one tag of custom_envs says.
struct EnvironmentOptions {
  tasks::FrozenLakeConfig lake;
  tasks::PromptTemplate prompt;
  std::optional<std::string> instructions;  // none: the environment's own text
  int max_response_length = 0;              // [tokens] shown to the model
};

/// A game and its prompts; no CAF, so that it is tested alone.
class EnvironmentState {
 public:
  static inline const char* name = "environment";
  Expected<void> configure(std::shared_ptr<const EnvironmentOptions> options);
  Expected<EnvTurn> on_reset(uint64_t seed);
  Expected<EnvTurn> on_act(std::string_view response);
  Expected<Transcript> on_play(uint64_t seed, double expert_fraction, uint64_t rng_key);

 private:
  tasks::PromptFields fields(std::string_view observation, std::string_view event) const;
  std::shared_ptr<const EnvironmentOptions> options_;
  std::unique_ptr<tasks::FrozenLake> lake_;
  int turn_ = 0;  // answers given
};

EnvironmentActor::behavior_type environment(
    EnvironmentActor::stateful_pointer<EnvironmentState> self,
    std::shared_ptr<const EnvironmentOptions> options);

}  // namespace cohort::actors

#pragma once
/// One text environment as an actor: it owns the world of one trajectory at a time and gives the
/// ids that the policy reads. Owner: the rollout actor that spawned it (pooled over leases).
/// Thread: CAF's scheduler; no thread of its own, so thousands are cheap (about 1 KiB each); the
/// world of a plugin waits for its child process and has a thread. Holds one game. In pipeline rlvr
/// the world is a row (PromptSet). Messages and errors:
/// EnvironmentActor in role_handles.hpp.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/roles/role_handles.hpp"
#include "runtime/tasks/chat_format.hpp"
#include "runtime/tasks/dialogue_text.hpp"
#include "runtime/tasks/frozen_lake.hpp"
#include "runtime/tasks/prompt.hpp"
#include "runtime/tasks/step_prompt.hpp"

namespace cohort::actors {

/// What one tag of custom_envs says, or one domain of pipeline rlvr.
struct EnvironmentOptions {
  std::function<Expected<std::unique_ptr<tasks::Environment>>()> make;
  std::optional<tasks::FrozenLakeConfig> lake;   // of a frozen_lake: its maps can be held out
  bool is_blocking = false;                      // a turn waits for another process
  double wait_limit_s = 60;                      // of a turn; beyond it the world hangs
  double call_limit_s = 0;                       // of a call of that process, and
  uint32_t processes = 1;                        // how many there are: calls of one take turns
  std::function<Expected<bool>()> reload;        // of a plugin: takes its newer version
  int max_turns = 0;                             // the manager's cap; 0: the world has its own
  std::optional<tasks::PromptTemplate> prompt;   // of a dialogue that grows by turns
  std::optional<tasks::StepPrompt> step_prompt;  // each turn is asked anew; neither: the world
                                                 // brings tokens, or
  bool writes_dialogues = false;                 // an observation is a dialogue (dialogue_text.hpp)
  std::shared_ptr<const tasks::ChatFormat> chat;  // of the prompts
  std::optional<std::string> instructions;        // none: the environment's own text
  int max_response_length = 0;                    // [tokens] of an answer, shown to the model
  int max_response_total = 0;  // [tokens] behind the first prompt; 0: the context is the bound

  /// Returns how long a turn may take [s] while so many games wait for theirs: those of one process
  /// wait for each other, each call at most for its deadline, and a reset makes two.
  double wait_limit(uint32_t waiting) const {
    return wait_limit_s + 2 * call_limit_s * ((waiting + processes - 1) / processes);
  }
};

/// A game and its prompts; no CAF, so that it is tested alone.
class EnvironmentState {
 public:
  static inline const char* name = "environment";
  Expected<void> configure(std::shared_ptr<const EnvironmentOptions> options);
  Expected<EnvTurn> on_reset(uint64_t seed);
  Expected<EnvTurn> on_act(const tasks::PolicyAnswer& answer);
  Expected<Transcript> on_play(uint64_t seed, double expert_fraction, uint64_t rng_key);

 private:
  tasks::PromptFields fields(std::string_view observation, std::string_view event) const;
  std::string instructions() const;
  tasks::StepResult play(const tasks::PolicyAnswer& answer);
  Expected<void> ask_anew(EnvTurn& turn) const;
  Expected<void> ask_dialogue(EnvTurn& turn, std::string_view answer);
  Expected<std::vector<int32_t>> read(EnvTurn& turn, std::string_view answer);
  std::shared_ptr<const EnvironmentOptions> options_;
  std::unique_ptr<tasks::Environment> world_;
  bool is_over_ = true;
  int turn_ = 0;                           // answers given
  std::vector<tasks::PlayedTurn> played_;  // of step_prompt
  std::string observation_;                // before the next answer
  tasks::WrittenDialogue dialogue_;        // that the next answer goes on from
  std::string failure_;                    // of a dialogue that cannot be read
};

EnvironmentActor::behavior_type environment(
    EnvironmentActor::stateful_pointer<EnvironmentState> self,
    std::shared_ptr<const EnvironmentOptions> options);

}  // namespace cohort::actors

#pragma once
/// Judge: a language model on cards of the run that reads answers and says what they are worth
/// (pipeline rlvr's rewards of type llm_judge, judge_model_type inference; docs/judges.md). A hop
/// of the trajectory path: each answer that its entry scores becomes a question in the judge's own
/// ids, and the verdict of the reply a part of the trajectory's reward. Owner: node, or the process
/// of its card. Thread: its own (detached): its weights are read from the folder in one call.
/// Bound: the credit of its input link; at_once replies under way, further ones wait here. Where it
/// takes turns on its cards, questions wait for phase reference, their frames unacknowledged.
/// REWARD-3: an answer without a verdict masks its own trajectory. PLACE-4: nothing is asked before
/// ref_params, which are its weights and its cache, are on the card.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actors/roles/reward_actor.hpp"
#include "actors/roles/role_parts.hpp"
#include "actors/run/judge_setup.hpp"
#include "runtime/compute/generate/generation_engine.hpp"

namespace cohort::actors {

struct JudgeOptions {
  HopOptions hop;
  std::string role;   // "rewards.x"
  std::string name;   // of its entry in `rewards`
  double weight = 1;  // of its part
  JudgeSetup setup;
  uint64_t seed = 0;
  std::shared_ptr<const PromptSet> prompts;
  std::shared_ptr<const tasks::ChatFormat> chat;  // of the policy: ends its answers
  compute::CardMemory* card = nullptr;
  std::function<Expected<std::unique_ptr<compute::GenerationEngine>>(
      std::function<void(const Error&)> on_lost)>
      open_engine;
  bool takes_turns = false;           // it has the card in phase reference only
  std::shared_ptr<const void> keeps;  // card and context: an actor may end after its node
  FailureSink fail;
};

JudgeActor spawn_judge(caf::actor_system& system, JudgeOptions options);

}  // namespace cohort::actors

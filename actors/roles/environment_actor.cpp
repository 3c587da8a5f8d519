#include "actors/roles/environment_actor.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/rng.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/tasks/dialogue_text.hpp"

namespace cohort::actors {

using namespace control;

Expected<void> EnvironmentState::configure(std::shared_ptr<const EnvironmentOptions> options) {
  options_ = std::move(options);
  COHORT_ASSIGN(world_, options_->make());
  return {};
}

tasks::PromptFields EnvironmentState::fields(std::string_view observation,
                                             std::string_view event) const {
  return {turn_ + 1, observation, world_->actions_left(), options_->max_response_length, event};
}

std::string EnvironmentState::instructions() const {
  return options_->instructions.value_or(world_->instructions());
}

Expected<void> EnvironmentState::ask_anew(EnvTurn& turn) const {
  turn.begins_context = true;
  COHORT_ASSIGN(turn.prompt,
                options_->chat->opening(options_->step_prompt->turn(
                    instructions(), played_, turn.observation, options_->max_response_length)));
  return {};
}

// A dialogue that goes on from the last one, and what was answered, is the same context, whose ids
// are never made from text again. Any other one is asked anew.
Expected<std::vector<int32_t>> EnvironmentState::read(EnvTurn& turn, std::string_view answer) {
  COHORT_ASSIGN(tasks::WrittenDialogue next, tasks::read_dialogue(turn.observation));
  const auto behind = tasks::messages_behind(dialogue_, options_->chat->without_end(answer), next);
  dialogue_ = std::move(next);
  turn.begins_context = !behind.has_value();
  return behind ? options_->chat->following(*behind, answer) : options_->chat->opening(dialogue_);
}

// A dialogue that cannot be read ends its game: what another program says is no fault of the run.
Expected<void> EnvironmentState::ask_dialogue(EnvTurn& turn, std::string_view answer) {
  auto ids = read(turn, answer);
  if (ids) {
    turn.prompt = std::move(*ids);
    return {};
  }
  failure_ = "plugin_error: " + ids.error().detail;
  turn.begins_context = true;
  COHORT_ASSIGN(const tasks::WrittenDialogue nothing, tasks::read_dialogue(""));
  COHORT_ASSIGN(turn.prompt, options_->chat->opening(nothing));
  return {};
}

Expected<EnvTurn> EnvironmentState::on_reset(uint64_t seed) {
  turn_ = 0;
  failure_.clear();
  dialogue_ = {};
  is_over_ = false;
  played_.clear();
  if (const uint64_t count = world_->seed_count(); count > 0 && seed >= count)
    return Error{Errc::protocol, fmt::format("there is no row {}: {} are loaded", seed, count)};
  EnvTurn turn;
  Wait wait({WaitLevel::role, "a game", "the reset of its environment", "its first observation"});
  turn.observation = world_->reset(seed);
  wait.end();
  observation_ = turn.observation;
  if (options_->writes_dialogues) {
    COHORT_TRY(ask_dialogue(turn, ""));
    return turn;
  }
  if (options_->step_prompt) {
    COHORT_TRY(ask_anew(turn));
    return turn;
  }
  if (!options_->prompt) {
    const std::span<const int32_t> tokens = world_->prompt_tokens();
    turn.prompt.assign(tokens.begin(), tokens.end());
    return turn;
  }
  COHORT_ASSIGN(turn.prompt,
                options_->chat->opening(options_->prompt->first_turn(
                    instructions(), fields(turn.observation, world_->initial_event()))));
  return turn;
}

// A world that writes dialogues is told the text, not how its turn ended.
tasks::StepResult EnvironmentState::play(const tasks::PolicyAnswer& answer) {
  if (!options_->writes_dialogues) return world_->step(answer);
  tasks::PolicyAnswer told = answer;
  told.text = options_->chat->without_end(answer.text);
  return world_->step(told);
}

Expected<EnvTurn> EnvironmentState::on_act(const tasks::PolicyAnswer& answer) {
  if (is_over_) return Error{Errc::protocol, "action for a game that is over or was never reset"};
  const std::string& response = answer.text;
  EnvTurn turn;
  Wait wait({WaitLevel::role, "a game", "a step of its environment", "its next observation"});
  tasks::StepResult result;
  if (failure_.empty()) result = play(answer);
  wait.end();
  const bool is_action = result.messages.empty();  // else tools have answered
  if (is_action) ++turn_;
  if (is_action && options_->max_turns > 0 && turn_ >= options_->max_turns && !result.is_done) {
    result.is_done = true;
    result.stop_reason = "max_turns";
  }
  turn.observation = result.observation;
  turn.reward = result.reward;
  is_over_ = turn.is_done = result.is_done;
  turn.is_valid = result.is_valid;
  turn.is_effective = result.is_effective;
  turn.is_success = result.is_success;
  turn.stop_reason = result.stop_reason;
  turn.metrics = std::move(result.metrics);
  if (!turn.is_done && options_->writes_dialogues) COHORT_TRY(ask_dialogue(turn, response));
  if (!failure_.empty()) {
    is_over_ = turn.is_done = true;
    turn.stop_reason = failure_;
  }
  if (turn.is_done || options_->writes_dialogues) return turn;
  if (is_action && options_->step_prompt) {
    const std::string_view said = options_->chat->without_end(response);
    played_.push_back({std::exchange(observation_, turn.observation),
                       result.action.empty() ? std::string(said) : result.action});
    COHORT_TRY(ask_anew(turn));
    return turn;
  }
  if (is_action)
    result.messages.push_back(options_->prompt->next_turn(fields(turn.observation, result.event)));
  COHORT_ASSIGN(turn.prompt, options_->chat->following(result.messages, response));
  return turn;
}

Expected<Transcript> EnvironmentState::on_play(uint64_t seed, double expert_fraction,
                                               uint64_t rng_key) {
  Transcript game;
  COHORT_ASSIGN(EnvTurn first, on_reset(seed));
  game.turns.push_back(std::move(first));
  Rng rng(rng_key);
  while (!game.turns.back().is_done && world_->has_scripted_answer()) {
    COHORT_ASSIGN(std::string answer, world_->scripted_answer(expert_fraction, rng));
    game.responses.push_back(std::move(answer));
    COHORT_ASSIGN(EnvTurn turn, on_act(game.responses.back()));
    game.turns.push_back(std::move(turn));
  }
  return game;
}

namespace {

template <class Answer>
Answer answer(uint64_t request, Expected<Answer> made) {
  Answer result;
  if (made)
    result = std::move(*made);
  else
    result.error = made.error().to_string();
  result.request = request;
  return result;
}

}  // namespace

EnvironmentActor::behavior_type environment(
    EnvironmentActor::stateful_pointer<EnvironmentState> self,
    std::shared_ptr<const EnvironmentOptions> options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  if (auto configured = self->state.configure(std::move(options)); !configured)
    self->quit(to_caf(configured.error()));
  EnvironmentState* state = &self->state;
  return {
      [state](reset_atom, uint64_t request, uint64_t seed) {
        return answer(request, state->on_reset(seed));
      },
      [state](act_atom, uint64_t request, const tasks::PolicyAnswer& said) {
        return answer(request, state->on_act(said));
      },
      [state](play_atom, uint64_t request, uint64_t seed, double expert_fraction,
              uint64_t rng_key) {
        return answer(request, state->on_play(seed, expert_fraction, rng_key));
      },
  };
}

}  // namespace cohort::actors

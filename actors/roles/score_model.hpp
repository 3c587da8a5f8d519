#pragma once
/// What a reward model makes of answers (docs/preference.md): pipeline rlvr's rewards of type
/// reward_model, which have a card. The trajectory's prompt and last answer are written as the
/// model's own dialogue, and its score at the answer's end becomes a part of the trajectory's
/// reward. No actor in it; the thread of the role. REWARD-3: an answer that cannot be scored masks
/// its own trajectory.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/roles/reference_actor.hpp"
#include "actors/run/prompt_set.hpp"
#include "actors/run/row_encoder.hpp"

namespace cohort::actors {

struct ScoreModelOptions {
  std::string name;   // of its entry in `rewards`
  double weight = 1;  // of its part
  std::shared_ptr<const PromptSet> prompts;
  std::shared_ptr<const tasks::ChatFormat> chat;  // of the policy: ends its answers
  RowEncoder encode;                              // writes dialogues in the model's own ids
  std::optional<int64_t> pad_id;                  // no score is read at this token
  int64_t tokens_max = 0;                         // of a dialogue
};

/// Returns the work of the role: it scores what is trained on and what is held out, not scripted
/// answers.
FrozenWork score_work(ScoreModelOptions options);

}  // namespace cohort::actors

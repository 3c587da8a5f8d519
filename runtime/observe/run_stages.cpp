#include "runtime/observe/run_stages.hpp"

#include <algorithm>

namespace cohort::observe {

const std::vector<RunStage>& run_stages() {
  static const std::vector<RunStage> k_stages = {
      {"rollout",
       {"generate", "rows", "wait_for_batch"},
       {"actor_infer", "rollout"},
       {{"generate_tokens_per_s", "tokens/s"},
        {"rollout/idle_ratio", "idle"},
        {"rollout/response_length/mean", "tokens each"}}},
      {"reward", {"reward"}, {"reward"}, {{"reward/mean", "score"}, {"reward/masked", "masked"}}},
      {"reference",
       {"reference", "old_log_probs", "values", "teacher"},
       {"reference", "critic", "teacher"},
       {}},
      {"trainer",
       {"update", "critic_update", "advantage"},
       {"actor_train"},
       {{"train_tokens_per_s", "tokens/s"}, {"loss", "loss"}, {"policy_version", "version"}}},
      {"publish", {"publish"}, {}, {}}};
  return k_stages;
}

bool has_role(const RunStage& stage, const CardView& card) {
  return std::ranges::any_of(stage.roles, [&](std::string_view role) {
    return card.role.find(role) != std::string::npos;
  });
}

bool works_now(const RunStage& stage, const RunView& run) {
  return !is_over(run) &&
         std::ranges::any_of(stage.phases, [&](std::string_view p) { return run.phase == p; });
}

std::map<uint32_t, std::map<std::string, uint64_t>> objects_on_cards(const RunView& run) {
  std::map<uint32_t, std::map<std::string, uint64_t>> cards;
  auto take = [&](const Transition& move) {
    if (move.to == "card") {  // a reshard may move nothing: the object is what it was
      uint64_t& bytes = cards[move.card][move.object];
      if (move.bytes > 0 || move.from != "card") bytes = move.bytes;
    } else {
      cards[move.card].erase(move.object);
    }
  };
  if (run.held != nullptr) std::ranges::for_each(*run.held, take);
  for (const auto& move : run.transitions) take(*move);
  return cards;
}

}  // namespace cohort::observe

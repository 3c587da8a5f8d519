#include "runtime/query/fields.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace cohort::query {
namespace {

using T = proto::Trajectory;

constexpr double k_absent = std::numeric_limits<double>::quiet_NaN();

double to_number(uint64_t n) { return static_cast<double>(n); }

uint64_t sampled_tokens(const T& x) {
  return static_cast<uint64_t>(
      std::count(x.response_mask.begin(), x.response_mask.end(), uint8_t{1}));
}

/// Returns the mean of `column` over sampled tokens; NaN without column or sampled token.
double sampled_mean(const T& x, const std::vector<float>& column) {
  if (column.size() != x.response_mask.size()) return k_absent;
  double sum = 0;
  uint64_t n = 0;
  for (size_t i = 0; i < column.size(); ++i)
    if (x.response_mask[i] == 1) sum += column[i], ++n;
  return n == 0 ? k_absent : sum / static_cast<double>(n);
}

double lowest_logp(const T& x) {
  double lowest = k_absent;
  if (x.behavior_logp.size() != x.response_mask.size()) return lowest;
  for (size_t i = 0; i < x.behavior_logp.size(); ++i)
    if (x.response_mask[i] == 1 && !(lowest <= x.behavior_logp[i])) lowest = x.behavior_logp[i];
  return lowest;
}

std::string joined(const T& x, bool with_observations, bool with_responses) {
  std::string text;
  for (const proto::Turn& turn : x.turns) {
    if (with_observations) (text += turn.observation) += '\n';
    if (with_responses) (text += turn.response) += '\n';
  }
  if (!text.empty()) text.pop_back();
  return text;
}

using enum Type;
const std::array k_fields = {
    Field{"attempt", number, "re-runs before it",
          [](const T& x) -> Value { return to_number(x.attempt); }},
    Field{"data_source", text, "of the prompt's row",
          [](const T& x) -> Value { return x.data_source; }},
    Field{"env_seconds", number, "[s] in the environment",
          [](const T& x) -> Value { return x.env_seconds; }},
    Field{"generate_seconds", number, "[s] in generation",
          [](const T& x) -> Value { return x.generate_seconds; }},
    Field{"greedy", truth, "its score is a baseline",
          [](const T& x) -> Value { return x.is_greedy; }},
    Field{"ground_truth", text, "of the prompt's row",
          [](const T& x) -> Value { return x.ground_truth; }},
    Field{"group", number, "the prompt's place in its step",
          [](const T& x) -> Value { return to_number(x.key.group); }},
    Field{"index", number, "its place in its group",
          [](const T& x) -> Value { return to_number(x.key.index); }},
    Field{"kind", text, "train, val, val_greedy or warm_start",
          [](const T& x) -> Value { return std::string(proto::to_string(x.key.kind)); }},
    Field{"length", number, "[tokens] prompt and answers",
          [](const T& x) -> Value { return to_number(x.tokens.size()); }, true},
    Field{"logp_mean", number, "[nats] sampling policy, mean over sampled tokens",
          [](const T& x) -> Value { return sampled_mean(x, x.behavior_logp); }, true},
    Field{"logp_min", number, "[nats] of the least likely sampled token",
          [](const T& x) -> Value { return lowest_logp(x); }, true},
    Field{"mask_reason", text, "why nobody trains on it; else empty",
          [](const T& x) -> Value { return x.mask_reason; }},
    Field{"masked", truth, "nobody trains on it",
          [](const T& x) -> Value { return !x.mask_reason.empty(); }},
    Field{"observation", text, "prompt and later observations",
          [](const T& x) -> Value { return joined(x, true, false); }, true},
    Field{"prompt_id", text, "of the prompt's row",
          [](const T& x) -> Value { return x.prompt_id; }},
    Field{"ref_logp_mean", number, "[nats] reference, mean over sampled tokens",
          [](const T& x) -> Value { return sampled_mean(x, x.ref_logp); }, true},
    Field{"response", text, "answers of all turns",
          [](const T& x) -> Value { return joined(x, false, true); }, true},
    Field{"sampled", number, "[tokens] that the policy sampled",
          [](const T& x) -> Value { return to_number(sampled_tokens(x)); }, true},
    Field{"score", number, "weighted sum of the reward parts",
          [](const T& x) -> Value { return x.score; }},
    Field{"seed", number, "of the environment",
          [](const T& x) -> Value { return to_number(x.seed); }},
    Field{"step", number, "training step",
          [](const T& x) -> Value { return to_number(x.key.step); }},
    Field{"stop_reason", text, "goal, length, max_turns, ...",
          [](const T& x) -> Value { return x.stop_reason; }},
    Field{"tag", text, "of the environment", [](const T& x) -> Value { return x.tag; }},
    Field{"text", text, "observations and answers in order",
          [](const T& x) -> Value { return joined(x, true, true); }, true},
    Field{"turns", number, "answers", [](const T& x) -> Value { return to_number(x.turns.size()); },
          true},
    Field{"version", number, "newest weight version that sampled it",
          [](const T& x) -> Value { return to_number(x.weight_version_max); }},
    Field{"version_min", number, "oldest weight version that sampled it",
          [](const T& x) -> Value { return to_number(x.weight_version_min); }},
};

}  // namespace

std::string_view to_string(Type type) {
  return type == number ? "number" : type == text ? "text" : "truth";
}

std::span<const Field> fields() { return k_fields; }

const Field* find_field(std::string_view name) {
  for (const Field& field : k_fields)
    if (field.name == name) return &field;
  return nullptr;
}

double reward_part(const T& trajectory, std::string_view name) {
  for (const proto::RewardPart& part : trajectory.reward_parts)
    if (part.name == name) return part.value;
  return k_absent;
}

double metric(const T& trajectory, std::string_view name) {
  for (const auto& [key, value] : trajectory.metrics)
    if (key == name) return value;
  return k_absent;
}

}  // namespace cohort::query

#include "tools/traj/import_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace cohort::traj {
namespace {

using Json = nlohmann::ordered_json;
using proto::Trajectory;

constexpr std::array k_keys = {
    "group",          "index",           "step",         "tokens",      "mask",
    "logprobs",       "rewards",         "ref_logprobs", "values",      "prompt",
    "response",       "ground_truth",    "tag",          "data_source", "stop_reason",
    "weight_version", "teacher_logprobs"};

/// A text as a message shows it: its beginning, if it is long.
std::string short_text(const std::string& text) {
  constexpr size_t k_shown_max = 60;
  if (text.size() <= k_shown_max) return text;
  size_t end = k_shown_max;  // not inside a character of UTF-8
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return fmt::format("{}… ({} bytes)", text.substr(0, end), text.size());
}
std::string shown(const Json& value) {
  return short_text(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// One row while it is read; the first fault stays.
class RowReader {
 public:
  RowReader(const Json& row, std::string where) : row_(row), where_(std::move(where)) {}

  Error fault(const std::string& what) const {
    return {Errc::config, fmt::format("{}: {}", where_, what)};
  }
  const Json* find(const char* key) const {
    const auto found = row_.find(key);
    return found == row_.end() || found->is_null() ? nullptr : &*found;
  }
  Expected<void> check_keys() const {
    for (const auto& [key, value] : row_.items())
      if (std::ranges::find(k_keys, key) == k_keys.end())
        return fault(
            fmt::format("unknown key '{}'; known: {}", short_text(key), fmt::join(k_keys, ", ")));
    return {};
  }
  Expected<const Json*> list(const char* key) const {
    const Json* found = find(key);
    if (found == nullptr) return fault(fmt::format("'{}' is missing", key));
    if (!found->is_array()) return fault(fmt::format("'{}' is no list", key));
    return found;
  }
  Expected<uint64_t> count(const char* key, uint64_t fallback, uint64_t max) const {
    const Json* found = find(key);
    if (found == nullptr) return fallback;
    if (!found->is_number_unsigned() || found->get<uint64_t>() > max)
      return fault(fmt::format("'{}' is {}, no whole number up to {}", key, shown(*found), max));
    return found->get<uint64_t>();
  }
  Expected<std::string> text(const char* key, std::string fallback) const {
    const Json* found = find(key);
    if (found == nullptr) return fallback;
    if (found->is_string()) return found->get<std::string>();
    if (found->is_structured())
      return fault(fmt::format("'{}' is {}, no text", key, found->type_name()));
    return found->dump();
  }

  Expected<std::vector<int32_t>> tokens() const {
    COHORT_ASSIGN(const Json* list, this->list("tokens"));
    std::vector<int32_t> ids;
    for (const Json& id : *list) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<int32_t>::max())
        return fault(fmt::format("'tokens': entry {} is {}, no token id", ids.size(), shown(id)));
      ids.push_back(id.get<int32_t>());
    }
    if (ids.size() < 2) return fault("'tokens' has fewer than 2 entries: a prompt and an answer");
    return ids;
  }

  Expected<std::vector<uint8_t>> mask(size_t tokens) const {
    COHORT_ASSIGN(const Json* list, this->list("mask"));
    std::vector<uint8_t> mask;
    for (const Json& entry : *list) {
      const bool is_bit = entry.is_boolean() || entry == 0 || entry == 1;
      if (!is_bit)
        return fault(
            fmt::format("'mask': entry {} is {}, neither 0 nor 1", mask.size(), shown(entry)));
      mask.push_back(entry == true || entry == 1 ? 1 : 0);
    }
    if (mask.size() != tokens)
      return fault(fmt::format("'mask' has {} entries, 'tokens' has {}", mask.size(), tokens));
    if (mask.front() != 0) return fault("'mask': entry 0 is 1, but the first token has no prefix");
    return mask;
  }

  /// One number per token, or per token with mask 1. What stands where the mask is 0 is not read.
  Expected<std::vector<float>> column(const char* key, const std::vector<uint8_t>& mask) const {
    COHORT_ASSIGN(const Json* list, this->list(key));
    const auto sampled = static_cast<size_t>(std::ranges::count(mask, uint8_t{1}));
    if (list->size() != mask.size() && list->size() != sampled)
      return fault(
          fmt::format("'{}' has {} entries; wanted: {} (one per token) or {} (one per "
                      "token with mask 1)",
                      key, list->size(), mask.size(), sampled));
    const bool is_whole = list->size() == mask.size();
    std::vector<float> column(mask.size(), 0.0f);
    for (size_t t = 0, next = 0; t < mask.size(); ++t) {
      const size_t at = is_whole ? t : next;
      if (mask[t] == 0) continue;
      ++next;
      const Json& value = (*list)[at];
      if (!value.is_number() || !std::isfinite(value.get<double>()))
        return fault(fmt::format("'{}': entry {} is {}, no finite number", key, at, shown(value)));
      column[t] = value.get<float>();
    }
    return column;
  }

  Expected<std::vector<proto::RewardPart>> rewards() const {
    const Json* found = find("rewards");
    if (found == nullptr) return fault("'rewards' is missing: a number, or one per name");
    std::vector<proto::RewardPart> parts;
    const Json named = found->is_object() ? *found : Json{{"reward", *found}};
    for (const auto& [name, value] : named.items()) {
      if (!value.is_number() || !std::isfinite(value.get<double>()))
        return fault(
            fmt::format("'rewards': {} is {}, no finite number", short_text(name), shown(value)));
      parts.push_back({name, value.get<double>(), 1, ""});
    }
    if (parts.empty()) return fault("'rewards' is empty");
    return parts;
  }

 private:
  const Json& row_;
  std::string where_;
};

/// Each run of sampled tokens is a turn; the texts are those of the first and the last.
void add_turns(std::string prompt, std::string response, Trajectory& t) {
  for (uint32_t i = 0; i < t.response_mask.size(); ++i) {
    if (t.response_mask[i] == 0) continue;
    if (t.response_mask[i - 1] == 0) {
      proto::Turn& turn = t.turns.emplace_back();
      turn.response_begin = i;
      turn.is_valid = true;
    }
    t.turns.back().response_end = i + 1;
  }
  if (t.turns.empty()) return;
  t.turns.front().observation = std::move(prompt);
  t.turns.back().response = std::move(response);
}

Expected<void> read_columns(const RowReader& row, Trajectory& t) {
  COHORT_ASSIGN(t.tokens, row.tokens());
  COHORT_ASSIGN(t.response_mask, row.mask(t.tokens.size()));
  COHORT_ASSIGN(t.behavior_logp, row.column("logprobs", t.response_mask));
  if (row.find("ref_logprobs") != nullptr) {
    COHORT_ASSIGN(t.ref_logp, row.column("ref_logprobs", t.response_mask));
  }
  if (row.find("teacher_logprobs") != nullptr) {
    COHORT_ASSIGN(t.teacher_logp, row.column("teacher_logprobs", t.response_mask));
  }
  if (row.find("values") != nullptr) {
    COHORT_ASSIGN(t.values, row.column("values", t.response_mask));
  }
  return {};
}

Expected<void> read_texts(const RowReader& row, Trajectory& t) {
  COHORT_ASSIGN(std::string prompt, row.text("prompt", ""));
  COHORT_ASSIGN(std::string response, row.text("response", ""));
  COHORT_ASSIGN(t.ground_truth, row.text("ground_truth", ""));
  COHORT_ASSIGN(t.data_source, row.text("data_source", ""));
  COHORT_ASSIGN(t.tag, row.text("tag", "imported"));
  COHORT_ASSIGN(t.stop_reason, row.text("stop_reason", ""));
  add_turns(std::move(prompt), std::move(response), t);
  return {};
}

}  // namespace

Expected<void> ImportedRows::add(std::string_view text, uint64_t line) {
  const Json json = Json::parse(text, nullptr, false);
  const RowReader row(json, fmt::format("{}:{}", file_, line));
  if (!json.is_object())
    return row.fault("not a JSON object (NaN and Infinity are no JSON: write null)");
  COHORT_TRY(row.check_keys());
  Trajectory t;
  t.run_id = run_id_;
  COHORT_TRY(read_columns(row, t));
  COHORT_ASSIGN(t.reward_parts, row.rewards());
  for (const proto::RewardPart& part : t.reward_parts) t.score += part.value;
  COHORT_TRY(read_texts(row, t));
  if (row.find("group") == nullptr)
    return row.fault("'group' is missing: what the rows of one prompt share, a number or a text");
  COHORT_ASSIGN(t.prompt_id, row.text("group", ""));
  COHORT_ASSIGN(t.key.step, row.count("step", 1, std::numeric_limits<uint32_t>::max()));
  t.key.group =
      groups_.try_emplace(t.prompt_id, static_cast<uint32_t>(groups_.size())).first->second;
  uint32_t& next = next_index_[{t.key.step, t.key.group}];
  COHORT_ASSIGN(const uint64_t index, row.count("index", next, 1u << 20));
  t.key.index = static_cast<uint32_t>(index);
  next = std::max(next, t.key.index + 1);
  COHORT_ASSIGN(t.weight_version_min, row.count("weight_version", 0, UINT32_MAX));
  t.weight_version_max = t.weight_version_min;
  if (t.key.step == 0) return row.fault("'step' is 0: steps are counted from 1");
  if (!keys_.insert(t.key).second)
    return row.fault(fmt::format("group {} of step {} has an index {} already", t.prompt_id,
                                 t.key.step, t.key.index));
  if (!trajectories_.empty())
    for (const auto& [name, column] : {std::pair{"ref_logprobs", &Trajectory::ref_logp},
                                       std::pair{"teacher_logprobs", &Trajectory::teacher_logp},
                                       std::pair{"values", &Trajectory::values}})
      if ((trajectories_.front().*column).empty() != (t.*column).empty())
        return row.fault(fmt::format("'{}': all rows have it, or none", name));
  trajectories_.push_back(std::move(t));
  return {};
}

ImportedShape shape_of(const std::vector<Trajectory>& trajectories) {
  std::map<uint64_t, std::map<uint32_t, uint64_t>> sizes;  // by step and group
  ImportedShape shape;
  for (const Trajectory& t : trajectories) {
    shape.group_size = std::max(shape.group_size, ++sizes[t.key.step][t.key.group]);
    shape.tokens = std::max<uint64_t>(shape.tokens, t.tokens.size());
  }
  for (const auto& [step, groups] : sizes)
    shape.groups = std::max<uint64_t>(shape.groups, groups.size());
  return shape;
}

std::string imported_config(const ImportedShape& shape, ImportDialect dialect) {
  if (dialect == ImportDialect::verl)
    return fmt::format(
        "dialect: verl\n"
        "platform: cpu\n"
        "data: {{train_batch_size: {0}, max_prompt_length: 1, max_response_length: {2}}}\n"
        "actor_rollout_ref:\n"
        "  model: {{path: none}}\n"
        "  actor: {{ppo_mini_batch_size: {0}, use_dynamic_bsz: true}}\n"
        "  rollout: {{name: vllm, n: {1}, tensor_model_parallel_size: 1, "
        "log_prob_use_dynamic_bsz: true}}\n"
        "algorithm: {{adv_estimator: grpo}}\n"
        "trainer: {{n_gpus_per_node: 1}}\n",
        shape.groups, shape.group_size, shape.tokens);
  return fmt::format(
      "pipeline: rlvr\n"
      "exp_name: imported\n"
      "max_steps: 1\n"
      "eval_steps: -1\n"
      "rollout_batch_size: {0}\n"
      "num_return_sequences_in_group: {1}\n"
      "prompt_length: 1\n"
      "response_length: {2}\n"
      "adv_estimator: grpo\n"
      "init_kl_coef: 0.0\n"
      "model: {{hidden_size: 64}}\n"
      "actor_train:\n"
      "  training_args: {{per_device_train_batch_size: {3}, gradient_accumulation_steps: 1}}\n"
      "  device_mapping: [0]\n"
      "actor_infer: {{device_mapping: [1]}}\n"
      "rewards:\n"
      "  reward: {{type: exact}}\n",
      shape.groups, shape.group_size, shape.tokens, shape.groups * shape.group_size);
}

}  // namespace cohort::traj

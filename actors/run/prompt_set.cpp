#include "actors/run/prompt_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tasks/demo_data.hpp"
#include "runtime/tasks/prompt_filter.hpp"
#include "runtime/tasks/rule_rewards.hpp"
#include "runtime/tasks/stop_strings.hpp"

namespace cohort::actors {
namespace {

Expected<std::shared_ptr<const tasks::Dataset>> load_rows(const config::RunConfig& config,
                                                          const std::string& file,
                                                          const config::DataArgs& data) {
  if (file.starts_with(tasks::k_builtin_prefix)) {
    COHORT_ASSIGN(std::vector<tasks::Sample> rows, tasks::builtin_rows(file));
    return tasks::Dataset::of(std::move(rows));
  }
  tasks::DatasetOptions options;
  options.files = {file};
  if (!data.messages.empty()) options.messages_key = data.messages;
  if (!data.prompt.empty()) options.prompt_key = data.prompt;
  const bool is_verl = config.dialect == config::Dialect::verl;
  if (!data.tag.empty()) (is_verl ? options.source_key : options.tag_key) = data.tag;
  options.answer_key = config.rlvr.demonstration_key;
  options.skips_bad_rows = data.skip_bad_rows;
  return tasks::Dataset::load(options);
}

/// verl's table has this row's data_source, with a rule that is built in.
bool has_rule(const tasks::Sample& sample) {
  const std::string_view name = tasks::scorer_for_data_source(sample.data_source);
  return !name.empty() && tasks::make_rule_reward(std::string(name), "{}").has_value();
}

bool scores(const config::RewardConfig& reward, const std::string& name,
            const tasks::Sample& sample) {
  if (reward.type == config::RewardType::data_source && !has_rule(sample)) return false;
  for (const std::string& tag : reward.tag_included)
    if (tag == sample.data_source || tag == "*") return true;
  if (!sample.domain.empty()) return sample.domain == name;
  return reward.tag_included.empty();
}

Error unscored(const tasks::Sample& sample, bool is_verl) {
  std::string_view known = tasks::scorer_for_data_source(sample.data_source);
  const std::string remedy =
      is_verl ? "give custom_reward_function.path"
              : fmt::format("add it to tag_included of an entry of rewards{}",
                            known.empty() ? "" : fmt::format(" (type {} is made for it)", known));
  return {Errc::config,
          fmt::format("{}: no reward scores data_source '{}'{}: {}", sample.id, sample.data_source,
                      sample.domain.empty() ? "" : fmt::format(" of domain '{}'", sample.domain),
                      remedy)};
}

/// The domain is the first of the row's scorers that domain_interleave_probs names, else the first
/// of those that weigh most.
Expected<void> assign_rewards(const config::RunConfig& config, Prompt& prompt) {
  for (const auto& [name, reward] : config.rewards)
    if (scores(reward, name, *prompt.sample)) prompt.scorers.push_back(name);
  if (prompt.scorers.empty())
    return unscored(*prompt.sample, config.dialect == config::Dialect::verl);
  prompt.domain = *std::ranges::max_element(
      prompt.scorers, {}, [&](const std::string& name) { return config.rewards.at(name).weight; });
  for (const auto& [domain, share] : config.actor_train.data_args.domain_interleave_probs)
    if (std::ranges::find(prompt.scorers, domain) != prompt.scorers.end()) {
      prompt.domain = domain;
      break;
    }
  return {};
}

class PromptWorld final : public tasks::Environment {
 public:
  explicit PromptWorld(std::shared_ptr<const PromptSet> prompts) : prompts_(std::move(prompts)) {}

  std::string reset(uint64_t seed) override {
    row_ = seed;
    is_over_ = false;
    scripted_ = 0;
    return prompts_->text(row_);
  }
  tasks::StepResult step(const tasks::PolicyAnswer& answer) override {
    is_over_ = true;
    tasks::StepResult result;
    result.is_done = true;
    const bool is_ended = prompts_->chat().is_ended(answer.text);
    const bool is_stopped = tasks::has_stop_string(answer.text, prompts_->stop_strings());
    result.is_valid = result.is_effective = is_ended || is_stopped;
    result.stop_reason = is_ended ? "answered" : is_stopped ? "stop_string" : "length";
    return result;
  }
  std::string instructions() const override { return ""; }
  int actions_left() const override { return is_over_ ? 0 : 1; }
  tasks::EpisodeMetrics metrics() const override { return {}; }
  std::span<const int32_t> prompt_tokens() const override { return prompts_->at(row_).tokens; }
  uint64_t seed_count() const override { return prompts_->size(); }
  bool has_scripted_answer() const override { return !prompts_->at(row_).sample->answer.empty(); }
  Expected<std::string> scripted_answer(double, Rng&) override {
    const tasks::Sample& row = *prompts_->at(row_).sample;
    const std::string& said = scripted_ < row.calls.size() ? row.calls[scripted_++] : row.answer;
    return said + prompts_->chat().usual_end();
  }

 private:
  std::shared_ptr<const PromptSet> prompts_;
  uint64_t row_ = 0;
  size_t scripted_ = 0;  // of the row's calls
  bool is_over_ = true;
};

}  // namespace

std::unique_ptr<tasks::Environment> make_prompt_world(std::shared_ptr<const PromptSet> prompts) {
  return std::make_unique<PromptWorld>(std::move(prompts));
}

std::vector<tasks::ChatMessage> PromptSet::dialogue(const tasks::Sample& sample) const {
  std::vector<tasks::ChatMessage> messages = sample.messages;
  if (!system_prompt_.empty() && messages.front().role != "system")
    messages.insert(messages.begin(), {"system", system_prompt_});
  return messages;
}

std::string PromptSet::text(size_t row) const {
  auto text = chat_->text(dialogue(*prompts_[row].sample));
  return text ? *std::move(text) : "";  // open() has rendered it before
}

Expected<void> PromptSet::add(const config::RunConfig& config, const config::DataArgs& data,
                              const std::string& key) {
  const auto room = static_cast<size_t>(config.prompt_length);
  COHORT_ASSIGN(const tasks::Truncation truncation,
                tasks::truncation_of(config::to_string(data.truncation)));
  for (const std::string& file : data.file_name) {
    auto loaded = load_rows(config, file, data);
    if (!loaded) return Error{Errc::config, fmt::format("{}: {}", key, loaded.error().detail)};
    std::shared_ptr<const tasks::Dataset> rows = std::move(*loaded);
    files_.push_back(rows);
    counts_.rows += rows->size() + rows->bad_row_count();
    counts_.bad += rows->bad_row_count();
    for (const tasks::Sample& sample : rows->samples()) {
      Prompt prompt;
      prompt.sample = &sample;
      COHORT_TRY(assign_rewards(config, prompt));
      auto tokens = chat_->opening(dialogue(sample));
      if (!tokens)
        return Error{Errc::config,
                     fmt::format("{}: the prompt: {}", sample.id, tokens.error().detail)};
      if (tokens->size() > room) {
        if (data.filter_overlong_prompts) {
          ++counts_.overlong;
          continue;
        }
        ++counts_.truncated;
      }
      COHORT_ASSIGN(prompt.tokens,
                    tasks::fit_prompt(std::move(*tokens), room, truncation, sample.id));
      prompts_.push_back(std::move(prompt));
    }
  }
  return {};
}

Expected<std::shared_ptr<const PromptSet>> PromptSet::open(
    const config::RunConfig& config, std::shared_ptr<const tasks::ChatFormat> chat) {
  const config::DataArgs& data = config.actor_train.data_args;
  const bool is_verl = config.dialect == config::Dialect::verl;
  const std::string key = is_verl ? "data.train_files" : "actor_train.data_args.file_name";
  const std::string val_key = is_verl ? "data.val_files" : "validation.data_args.file_name";
  if (data.file_name.empty())
    return Error{Errc::config,
                 "actor_train.data_args.file_name: missing; pipeline rlvr needs prompts, e.g. "
                 "file_name: [data/gsm8k_train.jsonl]"};
  std::shared_ptr<PromptSet> set(new PromptSet(std::move(chat)));
  set->system_prompt_ = data.system_prompt;
  set->stop_strings_ = config.actor_infer.generating_args.stop_strings;
  COHORT_TRY(set->add(config, data, key));
  set->train_rows_ = set->prompts_.size();
  if (set->train_rows_ == 0)
    return Error{
        Errc::config,
        fmt::format("{}: none of {} rows is left ({} of them have more than the prompt's {} "
                    "tokens)",
                    key, set->counts_.rows, set->counts_.overlong, config.prompt_length)};
  if (config.eval_steps > 0) {
    COHORT_TRY(set->add(config, config.validation.data_args, val_key));
    if (set->prompts_.size() == set->train_rows_)
      return Error{Errc::config, val_key + ": no row is left"};
  }
  return std::shared_ptr<const PromptSet>(std::move(set));
}

}  // namespace cohort::actors

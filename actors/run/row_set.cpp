#include "actors/run/row_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/run/row_encoder.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/tasks/demo_data.hpp"
#include "runtime/tasks/row_lines.hpp"

namespace cohort::actors {
namespace {

tasks::SftColumns columns_of(const config::RunConfig& config, const config::DataArgs& data) {
  const config::SftSection& keys = config.sft;
  tasks::SftColumns columns;
  columns.messages = data.messages;
  columns.system = keys.system_key;
  columns.prompt = keys.prompt_key.empty() ? data.prompt : keys.prompt_key;
  columns.query = keys.query_key;
  columns.response = keys.response_key;
  if (config.pipeline == config::Pipeline::distill) {
    if (data.messages.empty() && columns.prompt.empty())
      columns.prompt = config.distill.question_key;
    else
      columns.query = config.distill.question_key;
    columns.response = config.distill.answer_key;
  }
  if (columns.response.empty() && data.response != config::DataArgs{}.response)
    columns.response = data.response;
  columns.tools = keys.tools_key;
  return columns;
}

tasks::RowCut cut_of(config::PromptTruncation truncation) {
  if (truncation == config::PromptTruncation::left) return tasks::RowCut::left;
  return truncation == config::PromptTruncation::right ? tasks::RowCut::right
                                                       : tasks::RowCut::error;
}

}  // namespace

/// Fills a set from one list of files.
class RowSet::Reader {
 public:
  Reader(RowSet& set, const config::RunConfig& config, const config::DataArgs& data,
         const RowEncoder& encode)
      : set_(set),
        data_(data),
        columns_(columns_of(config, data)),
        pair_{config.preference.chosen_key, config.preference.rejected_key},
        encode_(encode),
        counts_prompts_(config.pipeline == config::Pipeline::distill &&
                        config.distill.is_on_prompt),
        room_(static_cast<size_t>(config.sequence_length)) {}

  Expected<void> read(const std::string& file) {
    if (!file.starts_with(tasks::k_builtin_prefix))
      return tasks::for_each_row(file, [this](std::string_view text, std::string where) {
        return add(encode(text), where);
      });
    COHORT_ASSIGN(const std::vector<tasks::Sample> samples, tasks::builtin_rows(file));
    for (const tasks::Sample& sample : samples)
      COHORT_TRY(add(set_.answers_ == 2 ? encode_pair(tasks::pair_row_of(sample))
                                        : encode_one(tasks::sft_row_of(sample)),
                     sample.id));
    return {};
  }

 private:
  using Dialogues = std::vector<tasks::MaskedTokens>;  // of a row

  Expected<Dialogues> encode(std::string_view text) {
    if (set_.answers_ == 2) {
      COHORT_ASSIGN(const tasks::PairRow pair, tasks::read_pair_row(text, columns_, pair_));
      return encode_pair(pair);
    }
    COHORT_ASSIGN(const tasks::SftRow row, tasks::read_sft_row(text, columns_));
    return encode_one(row);
  }
  Expected<Dialogues> encode_one(const tasks::SftRow& row) {
    COHORT_ASSIGN(tasks::MaskedTokens dialogue, encode_(with_system(row)));
    if (counts_prompts_ && !dialogue.mask.empty())
      std::fill(dialogue.mask.begin() + 1, dialogue.mask.end(), uint8_t{1});
    return Dialogues{std::move(dialogue)};
  }
  Expected<Dialogues> encode_pair(const tasks::PairRow& pair) {
    Dialogues out;
    for (const tasks::SftRow* row : {&pair.chosen, &pair.rejected}) {
      COHORT_ASSIGN(tasks::MaskedTokens dialogue, encode_(with_system(*row)));
      COHORT_TRY(tasks::count_behind(dialogue, row->messages, pair.prompt_turns));
      out.push_back(std::move(dialogue));
    }
    return out;
  }

  Expected<void> add(Expected<Dialogues> row, const std::string& where) {
    ++set_.counts_.rows;
    if (!row) {
      ++set_.counts_.bad;
      if (data_.skip_bad_rows) return {};
      return Error{Errc::config, fmt::format("{}: {}", where, row.error().detail)};
    }
    for (tasks::MaskedTokens& dialogue : *row) {
      if (auto fits = tasks::fit_row(dialogue, room_, cut_of(data_.truncation)); !fits)
        return Error{Errc::config, fmt::format("{}: {}", where, fits.error().detail)};
      set_.counts_.truncated += dialogue.is_truncated ? 1 : 0;
      set_.counts_.without_end += dialogue.has_lost_end ? 1 : 0;
      set_.counts_.uncounted += dialogue.counted() == 0 ? 1 : 0;
      set_.dialogues_.push_back(std::move(dialogue));
    }
    set_.ids_.push_back(where);
    return {};
  }

  tasks::SftRow with_system(tasks::SftRow row) const {
    const tasks::RowJson& first = row.messages.front();
    const bool has_one =
        first.is_object() && first.contains("role") && first.at("role") == "system";
    if (!data_.system_prompt.empty() && !has_one)
      row.messages.insert(row.messages.begin(),
                          {{"role", "system"}, {"content", data_.system_prompt}});
    return row;
  }

  RowSet& set_;
  const config::DataArgs& data_;
  tasks::SftColumns columns_;
  tasks::PairColumns pair_;
  const RowEncoder& encode_;
  bool counts_prompts_;
  size_t room_;
};

Expected<std::shared_ptr<const RowSet>> RowSet::open(
    const config::RunConfig& config, std::shared_ptr<const tasks::Tokenizer> tokenizer) {
  auto set = std::make_shared<RowSet>();
  set->answers_ = static_cast<size_t>(config.derived.group_size);
  set->tag_ = config::to_string(config.pipeline);
  const std::string role = config::train_section(config);
  const config::DataArgs& train = config.actor_train.data_args;
  const config::DataArgs& held_out = config.validation.data_args;
  if (train.file_name.empty())
    return Error{
        Errc::config,
        fmt::format("{}.data_args.file_name: missing; pipeline {} needs {}, e.g. "
                    "file_name: [data/chats.jsonl]",
                    role, set->tag_, set->answers_ == 2 ? "pairs of answers" : "rows to imitate")};
  for (const auto& [key, data] :
       {std::pair{role, &train}, std::pair{std::string("validation"), &held_out}}) {
    if (data == &held_out && config.eval_steps <= 0) break;
    const size_t before = set->size();
    const std::string section = key + ".data_args";
    COHORT_ASSIGN(const RowEncoder encode, row_encoder_of(config, *data, section, tokenizer));
    Reader reader(*set, config, *data, encode);
    for (const std::string& file : data->file_name)
      if (auto read = reader.read(file); !read)
        return Error{Errc::config,
                     fmt::format("{}.data_args.file_name: {}", key, read.error().detail)};
    if (set->size() == before)
      return Error{Errc::config, fmt::format("{}.data_args.file_name: no row is left", key)};
    if (data == &train) set->train_rows_ = set->size();
  }
  if (set->counts_.uncounted == set->dialogues_.size())
    return Error{Errc::config,
                 fmt::format("sequence_length {}: nothing of what the assistant says is left of "
                             "any row; give more, or truncation: left",
                             config.sequence_length)};
  set->tokenizer_ = std::move(tokenizer);
  return std::shared_ptr<const RowSet>(std::move(set));
}

uint64_t RowSet::steps_of(const config::RunConfig& config) const {
  const double rows =
      config.actor_train.training_args.num_train_epochs * static_cast<double>(train_rows_);
  const auto batch = static_cast<double>(std::max<int64_t>(config.derived.groups_per_step, 1));
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(rows / batch - 1e-9)));
}

}  // namespace cohort::actors

#include "actors/run/row_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/tasks/folder_tokenizer.hpp"
#include "runtime/text/chat_encoder.hpp"
#include "runtime/text/local_time.hpp"

namespace cohort::actors {
namespace {

/// As the built-in ChatML of a run's prompts, for folders without a template of their own.
constexpr const char* k_chatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}"
    "{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}";
/// The contents alone, behind the tokenizer's own beginning; the end token ends an answer.
constexpr const char* k_plain =
    "{{ bos }}{% for m in messages %}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}";

bool is_plain_name(const std::string& name) { return name == "empty" || name == "base"; }

/// What the tokenizer puts in front of a text, if it is the beginning's token.
std::string bos_of(const text::TokenizerFolder& folder) {
  const auto nothing = folder.tokenizer.encode("");
  if (!nothing || !folder.bos_id || nothing->ids.empty() || nothing->ids.front() != *folder.bos_id)
    return "";
  const auto text = folder.special_tokens.find("bos_token");
  return text == folder.special_tokens.end() ? "" : text->second;
}

/// The rows of a folder's policy.
class FolderRows {
 public:
  static Expected<std::shared_ptr<FolderRows>> open(
      const config::RunConfig& config, const std::string& name,
      std::shared_ptr<const tasks::FolderTokenizer> tokenizer) {
    text::ChatEncoder::Options options;
    options.folder = &tokenizer->folder();
    const std::string& date = config.sft_train.data_args.chat_template_date;
    if (!date.empty()) {
      auto day = text::local_time_of(date);
      if (!day) return day.error().with_context("sft_train.data_args.chat_template_date");
      options.local_time = *day;
    }
    if (name == "chatml")
      options.source = k_chatml;
    else if (is_plain_name(name))
      options.source = k_plain;
    else if (auto own = options.folder->chat_template(false); !own)
      return Error{Errc::config,
                   fmt::format("{}: {}; data_args.template: chatml or empty writes rows without "
                               "one",
                               tokenizer->path(), own.error().detail)};
    return std::shared_ptr<FolderRows>(
        new FolderRows(config, name, std::move(tokenizer), std::move(options)));
  }

  Expected<tasks::MaskedTokens> encode(const tasks::SftRow& row) {
    text::ChatInput input;
    COHORT_ASSIGN(input.messages, text::with_parsed_arguments(row.messages));
    input.tools = row.tools;
    input.kwargs = variables_;
    input.kwargs.update(row.variables);
    COHORT_ASSIGN(const text::EncodedChat chat, encoder_.imitate(std::move(input), ignores_));
    tasks::MaskedTokens out;
    out.tokens.assign(chat.ids.begin(), chat.ids.end());
    out.mask.assign(chat.mask.begin(), chat.mask.end());
    if (std::ranges::count(out.mask, uint8_t{1}) == 0)
      return Error{Errc::invalid_argument,
                   "the template writes nothing of what the assistant says"};
    out.mask.front() = 0;
    return out;
  }

 private:
  FolderRows(const config::RunConfig& config, const std::string& name,
             std::shared_ptr<const tasks::FolderTokenizer> tokenizer,
             text::ChatEncoder::Options options)
      : tokenizer_(std::move(tokenizer)),
        encoder_(std::move(options)),
        ignores_(config.sft.ignore_input_ids_mismatch) {
    variables_ = tasks::RowJson::parse(config.sft_train.data_args.chat_template_kwargs);
    if (name == "qwen3" && !variables_.contains("enable_thinking"))
      variables_["enable_thinking"] = true;  // what ROLL's template of this name sets
    if (is_plain_name(name)) variables_["bos"] = bos_of(tokenizer_->folder());
  }

  std::shared_ptr<const tasks::FolderTokenizer> tokenizer_;
  text::ChatEncoder encoder_;
  tasks::RowJson variables_;  // of the template, of every row
  bool ignores_;
};

}  // namespace

Expected<RowEncoder> row_encoder_of(const config::RunConfig& config,
                                    std::shared_ptr<const tasks::Tokenizer> tokenizer) {
  const std::string& name = config.sft_train.data_args.template_name;
  if (auto of_folder = std::dynamic_pointer_cast<const tasks::FolderTokenizer>(tokenizer)) {
    COHORT_ASSIGN(auto rows, FolderRows::open(config, name, std::move(of_folder)));
    return RowEncoder([rows](const tasks::SftRow& row) { return rows->encode(row); });
  }
  return RowEncoder(
      [tokenizer = std::move(tokenizer), is_plain = is_plain_name(name)](const tasks::SftRow& row) {
        return tasks::mask_of_chatml(row, *tokenizer, is_plain);
      });
}

}  // namespace cohort::actors

#include "actors/run/row_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/tasks/chat_format.hpp"
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

/// qwen2_5 and qwen3 are the folder's own, as native.
bool is_known_name(const std::string& name) {
  return is_plain_name(name) || name.empty() || name == "native" || name == "chatml" ||
         name == "qwen2_5" || name == "qwen3";
}

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
      const config::RunConfig& config, const config::DataArgs& data, const std::string& key,
      std::shared_ptr<const tasks::FolderTokenizer> tokenizer) {
    const std::string& name = data.template_name;
    text::ChatEncoder::Options options;
    options.folder = &tokenizer->folder();
    const std::string& date = data.chat_template_date;
    if (!date.empty()) {
      auto day = text::local_time_of(date);
      if (!day) return day.error().with_context(key + ".chat_template_date");
      options.local_time = *day;
    }
    if (!is_known_name(name))
      return Error{Errc::config, fmt::format("{}.template: '{}' is not built in; use native, "
                                             "chatml, empty or base",
                                             key, name)};
    if (name == "chatml")
      options.source = k_chatml;
    else if (is_plain_name(name))
      options.source = k_plain;
    else if (auto own = options.folder->chat_template(false); !own)
      return Error{Errc::config, fmt::format("{}: {}; {}.template: chatml or empty writes rows "
                                             "without one",
                                             tokenizer->path(), own.error().detail, key)};
    return std::shared_ptr<FolderRows>(
        new FolderRows(config, data, std::move(tokenizer), std::move(options)));
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
  FolderRows(const config::RunConfig& config, const config::DataArgs& data,
             std::shared_ptr<const tasks::FolderTokenizer> tokenizer,
             text::ChatEncoder::Options options)
      : tokenizer_(std::move(tokenizer)),
        encoder_(std::move(options)),
        ignores_(config.sft.ignore_input_ids_mismatch) {
    variables_ = tasks::RowJson::parse(
        tasks::template_variables(data.template_name, data.chat_template_kwargs));
    if (is_plain_name(data.template_name)) variables_["bos"] = bos_of(tokenizer_->folder());
  }

  std::shared_ptr<const tasks::FolderTokenizer> tokenizer_;
  text::ChatEncoder encoder_;
  tasks::RowJson variables_;  // of the template, of every row
  bool ignores_;
};

}  // namespace

Expected<RowEncoder> row_encoder_of(const config::RunConfig& config, const config::DataArgs& data,
                                    const std::string& key,
                                    std::shared_ptr<const tasks::Tokenizer> tokenizer) {
  if (auto of_folder = std::dynamic_pointer_cast<const tasks::FolderTokenizer>(tokenizer)) {
    COHORT_ASSIGN(auto rows, FolderRows::open(config, data, key, std::move(of_folder)));
    return RowEncoder([rows](const tasks::SftRow& row) { return rows->encode(row); });
  }
  return RowEncoder([tokenizer = std::move(tokenizer),
                     is_plain = is_plain_name(data.template_name)](const tasks::SftRow& row) {
    return tasks::mask_of_chatml(row, *tokenizer, is_plain);
  });
}

}  // namespace cohort::actors

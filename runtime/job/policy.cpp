#include "runtime/job/policy.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/job/vocabulary.hpp"
#include "runtime/model/hf_folder.hpp"
#include "runtime/tasks/folder_tokenizer.hpp"
#include "runtime/text/local_time.hpp"

namespace cohort::job {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using FolderPointer = std::shared_ptr<const tasks::FolderTokenizer>;

bool has_file(const std::string& folder, const char* name) {
  std::error_code ignored;
  return !folder.empty() && fs::is_regular_file(fs::path(folder) / name, ignored);
}

/// What config.json says, or the shape of the `model` section.
Expected<model::HfConfig> file_of(const config::RunConfig& config, const model::ModelSource& source,
                                  std::vector<std::string>& notices) {
  if (source.is_random && source.config.empty()) {
    auto named = model::find_model(config.pretrain);
    if (!named) return named.error().with_context("pretrain");
    return model::HfConfig{.shape = *std::move(named)};
  }
  if (config.pretrain.empty() || (!source.is_random && config.model.is_configured &&
                                  !has_file(config.pretrain, "tokenizer.json")))
    return model::HfConfig{.shape = config.model.shape};
  if (!source.is_random && config.model.is_configured)
    return Error{Errc::config,
                 "model: the shape is that of pretrain's config.json; remove the section"};
  COHORT_ASSIGN(model::HfConfig read, source.is_random ? model::read_hf_file(source.config)
                                                       : model::read_hf_folder(config.pretrain));
  if (read.head != model::HfConfig::Head::language)
    return Error{Errc::config,
                 fmt::format("pretrain: {} holds a classifier; the policy is a language model",
                             config.pretrain)};
  notices.insert(notices.end(), read.notices.begin(), read.notices.end());
  return read;
}

/// The folder whose tokenizer.json is the policy's; empty: the words are ours.
std::string text_folder_of(const config::RunConfig& config, const model::ModelSource& source) {
  const std::string beside = source.config.parent_path().string();
  for (const std::string& folder : {beside, config.model.tokenizer})
    if (has_file(folder, "tokenizer.json")) return fs::absolute(folder).lexically_normal().string();
  return "";
}

Expected<std::shared_ptr<const tasks::Tokenizer>> words_of(const config::RunConfig& config) {
  COHORT_ASSIGN(const tasks::WordVocabulary vocabulary, vocabulary_of(config));
  COHORT_ASSIGN(std::shared_ptr<const tasks::Tokenizer> words,
                tasks::make_word_tokenizer(vocabulary));
  return words;
}

Expected<tasks::FolderChatOptions> chat_options(const config::DataArgs& data) {
  tasks::FolderChatOptions options;
  Json kwargs = Json::parse(data.chat_template_kwargs);
  // What ROLL's template of this name sets.
  if (data.template_name == "qwen3" && !kwargs.contains("enable_thinking"))
    kwargs["enable_thinking"] = true;
  options.kwargs = kwargs.dump();
  if (!data.chat_template_date.empty()) {
    auto date = text::local_time_of(data.chat_template_date);
    if (!date) return date.error().with_context("actor_train.data_args.chat_template_date");
    options.date = *date;
  }
  return options;
}

/// `folder` is null where the words are ours.
Expected<std::shared_ptr<const tasks::ChatFormat>> chat_of(
    const config::RunConfig& config, const std::shared_ptr<const tasks::Tokenizer>& tokenizer,
    const FolderPointer& folder) {
  const config::DataArgs& data = config.actor_train.data_args;
  const std::string& name = data.template_name;
  tasks::ChatmlOptions chatml;
  chatml.is_plain = name == "empty" || name == "base";
  if (!folder) return tasks::make_chatml(tokenizer, std::move(chatml));
  if (chatml.is_plain || name == "chatml") {
    chatml.more_ends = folder->folder().eos_ids;
    return tasks::make_chatml(tokenizer, std::move(chatml));
  }
  if (name != "native" && name != "qwen2_5" && name != "qwen3" && !name.empty())
    return Error{Errc::config,
                 fmt::format("actor_train.data_args.template: '{}' is not built in; native takes "
                             "the chat template of {}, chatml, empty and base need none",
                             name, folder->path())};
  COHORT_ASSIGN(const tasks::FolderChatOptions options, chat_options(data));
  return tasks::make_folder_chat(folder, options);
}

}  // namespace

Expected<Policy> policy_of(const config::RunConfig& config) {
  Policy policy;
  FolderPointer folder;
  const model::ModelSource source = model::source_of(config.pretrain);
  COHORT_ASSIGN(policy.file, file_of(config, source, policy.notices));
  policy.shape = policy.file.shape;
  if (policy.file.name_or_path = text_folder_of(config, source);
      !policy.file.name_or_path.empty()) {
    COHORT_ASSIGN(folder, tasks::FolderTokenizer::open(policy.file.name_or_path));
    policy.tokenizer = folder;
  } else {
    COHORT_ASSIGN(policy.tokenizer, words_of(config));
  }
  COHORT_ASSIGN(policy.chat, chat_of(config, policy.tokenizer, folder));
  const int64_t ids = policy.tokenizer->vocab_size();
  const bool is_section = config.pretrain.empty();
  if (folder && !is_section && policy.shape.vocab_size < ids)
    return Error{Errc::config,
                 fmt::format("{}: tokenizer.json has ids up to {}, config.json's vocab_size is {}: "
                             "the tokenizer is another model's",
                             policy.file.name_or_path, ids - 1, policy.shape.vocab_size)};
  if (!folder || is_section) {
    config::ModelSection rows = config.model;
    rows.shape.vocab_size = policy.shape.vocab_size;
    COHORT_ASSIGN(policy.shape.vocab_size, vocab_size_of(rows, ids));
  }
  return policy;
}

}  // namespace cohort::job

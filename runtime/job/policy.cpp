#include "runtime/job/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "runtime/config/role_weights.hpp"
#include "runtime/job/vocabulary.hpp"
#include "runtime/model/hf_folder.hpp"
#include "runtime/tasks/folder_tokenizer.hpp"
#include "runtime/text/local_time.hpp"

namespace cohort::job {
namespace {

namespace fs = std::filesystem;
using FolderPointer = std::shared_ptr<const tasks::FolderTokenizer>;

bool has_file(const std::string& folder, const char* name) {
  std::error_code ignored;
  return !folder.empty() && fs::is_regular_file(fs::path(folder) / name, ignored);
}

/// Whether the `model` section says more than the words to speak.
bool has_section_shape(const config::RunConfig& config) {
  return config.model.is_configured && std::ranges::any_of(config.origins, [](const auto& each) {
           return each.first.starts_with("model.") && each.first != "model.tokenizer";
         });
}

/// What config.json says, or the shape of the `model` section.
Expected<model::HfConfig> file_of(const config::RunConfig& config, const model::ModelSource& source,
                                  std::vector<std::string>& notices) {
  if (source.is_random && source.config.empty()) {
    auto named = model::find_model(config.pretrain);
    if (!named) return named.error().with_context("pretrain");
    if (const std::string gap = model::engine_gap(*named); !gap.empty())
      return Error{Errc::config, "pretrain: " + gap};
    return model::HfConfig{.shape = *std::move(named)};
  }
  const bool is_folder = !config.pretrain.empty() && !source.is_random,
             has_text = has_file(config.pretrain, "tokenizer.json");
  if (config.pretrain.empty() || (is_folder && !has_text && has_section_shape(config)))
    return model::HfConfig{.shape = config.model.shape};
  if (is_folder && has_text && config.model.is_configured)
    return Error{Errc::config,
                 "model: the shape is that of pretrain's config.json; remove the section"};
  COHORT_ASSIGN(model::HfConfig read, source.is_random ? model::read_hf_file(source.config)
                                                       : model::read_hf_folder(config.pretrain));
  const bool is_classifier = read.head != model::HfConfig::Head::language;
  const bool may_be_one = config.pipeline == config::Pipeline::rm && read.labels == 1;
  if (is_classifier && !may_be_one)
    return Error{Errc::config,
                 fmt::format("pretrain: {} holds a classifier with {} labels; {}", config.pretrain,
                             read.labels,
                             config.pipeline == config::Pipeline::rm
                                 ? "a reward model has one, or starts from a language model"
                                 : "the policy is a language model")};
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

std::string data_key(const config::RunConfig& config) {
  return config::train_section(config) + ".data_args";
}

Expected<tasks::FolderChatOptions> chat_options(const config::RunConfig& config) {
  const config::DataArgs& data = config.actor_train.data_args;
  tasks::FolderChatOptions options;
  options.kwargs = tasks::template_variables(data.template_name, data.chat_template_kwargs);
  if (!data.chat_template_date.empty()) {
    auto date = text::local_time_of(data.chat_template_date);
    if (!date) return date.error().with_context(data_key(config) + ".chat_template_date");
    options.date = *date;
  }
  return options;
}

/// `folder` is null where the words are ours.
Expected<std::shared_ptr<const tasks::ChatFormat>> chat_of(
    const config::RunConfig& config, const std::shared_ptr<const tasks::Tokenizer>& tokenizer,
    const FolderPointer& folder, const std::string& tools) {
  const config::DataArgs& data = config.actor_train.data_args;
  const std::string& name = data.template_name;
  tasks::ChatmlOptions chatml;
  chatml.is_plain = name == "empty" || name == "base";
  chatml.tools = tools;
  if (!folder) return tasks::make_chatml(tokenizer, std::move(chatml));
  if (chatml.is_plain || name == "chatml") {
    chatml.more_ends = folder->folder().eos_ids;
    return tasks::make_chatml(tokenizer, std::move(chatml));
  }
  if (name != "native" && name != "qwen2_5" && name != "qwen3" && !name.empty())
    return Error{Errc::config,
                 fmt::format("{}.template: '{}' is not built in; native takes the chat template "
                             "of {}, chatml, empty and base need none",
                             data_key(config), name, folder->path())};
  COHORT_ASSIGN(tasks::FolderChatOptions options, chat_options(config));
  options.tools = tools;
  return tasks::make_folder_chat(folder, options);
}

}  // namespace

Expected<Policy> policy_of(const config::RunConfig& config, const std::string& tools) {
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
  COHORT_ASSIGN(policy.chat, chat_of(config, policy.tokenizer, folder, tools));
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

const char* pretrain_key(const config::RunConfig& config) {
  return config.dialect == config::Dialect::verl ? "actor_rollout_ref.model.path" : "pretrain";
}

const char* frozen_key(const config::RunConfig& config, Role role) {
  const bool is_verl = config.dialect == config::Dialect::verl;
  if (role == Role::reference)
    return is_verl ? "actor_rollout_ref.ref.model.path" : "reference.model_args.model_name_or_path";
  if (is_verl) return "distillation.teacher_model.model_path";
  return config.teacher.model_args.model_name_or_path.empty()
             ? "teacher_pretrain"
             : "teacher.model_args.model_name_or_path";
}

std::string critic_key(const config::RunConfig& config) {
  if (config.dialect == config::Dialect::verl) return "critic.model.path";
  if (!config.critic.model_args.model_name_or_path.empty())
    return "critic.model_args.model_name_or_path";
  return config.reward_pretrain.empty() ? "pretrain" : "reward_pretrain";
}

namespace {

/// Errors name the first id that stands for two tokens.
Expected<void> check_same_ids(const text::Tokenizer& policy, const text::Tokenizer& other,
                              const std::string& folder) {
  const text::TokenId end = std::max(policy.id_end(), other.id_end());
  for (text::TokenId id = 0; id < end; ++id) {
    const auto a = policy.token(id), b = other.token(id);
    if (a == b) continue;
    return Error{
        Errc::config,
        fmt::format("{}: id {} is '{}', and of the policy's tokenizer '{}'; this role reads "
                    "the policy's ids, so that its tokenizer must be the same",
                    folder, id, b.value_or("none"), a.value_or("none"))};
  }
  return {};
}

Expected<void> check_tokenizer(const Policy& policy, const std::string& folder,
                               const std::string& name_or_path) {
  const std::string& own = policy.file.name_or_path;
  std::string text;
  for (const std::string& each : {folder, name_or_path})
    if (text.empty() && has_file(each, "tokenizer.json")) text = each;
  if (own.empty() && text.empty()) return {};  // words: rows are all that can be compared
  if (own.empty() || text.empty())
    return Error{Errc::config,
                 own.empty()
                     ? fmt::format("{} has a tokenizer.json, and the policy speaks the words of "
                                   "model.tokenizer",
                                   text)
                     : fmt::format("{} has no tokenizer.json to hold against the policy's; copy "
                                   "the one that it was trained with into it",
                                   folder)};
  std::error_code ignored;
  if (fs::equivalent(fs::path(own) / "tokenizer.json", fs::path(text) / "tokenizer.json", ignored))
    return {};
  COHORT_ASSIGN(const FolderPointer ours, tasks::FolderTokenizer::open(own));
  COHORT_ASSIGN(const FolderPointer theirs, tasks::FolderTokenizer::open(text));
  return check_same_ids(ours->folder().tokenizer, theirs->folder().tokenizer, text);
}

/// What the config.json of a folder says that reads the policy's ids. `role` is for errors.
Expected<model::HfConfig> read_role(const std::string& folder, const Policy& policy,
                                    const std::string& role) {
  if (!has_file(folder, "config.json"))
    return Error{Errc::config,
                 fmt::format("no folder '{}' with a config.json (nothing is downloaded)", folder)};
  COHORT_ASSIGN(model::HfConfig read, model::read_hf_folder(folder));
  COHORT_TRY(check_tokenizer(policy, folder, read.name_or_path));
  if (read.shape.vocab_size < policy.shape.vocab_size)
    return Error{Errc::config,
                 fmt::format("{}/config.json: vocab_size {} is below the policy's {}: the policy "
                             "may sample an id that the {} has no row for",
                             folder, read.shape.vocab_size, policy.shape.vocab_size, role)};
  return read;
}

Expected<FrozenModel> read_frozen(const std::string& folder, const Policy& policy, Role role) {
  const std::string name(to_string(role));
  if (folder.starts_with(model::k_random))
    return Error{Errc::config, fmt::format("'{}': a {} has weights; give a folder", folder, name)};
  COHORT_ASSIGN(const model::HfConfig read, read_role(folder, policy, name));
  if (read.head != model::HfConfig::Head::language)
    return Error{Errc::config,
                 fmt::format("{} holds a classifier; a {} is a language model", folder, name)};
  return FrozenModel{folder, read.shape};
}

Expected<CriticStart> read_critic(const std::string& start, const Policy& policy) {
  if (!start.starts_with(model::k_random)) {
    COHORT_ASSIGN(model::HfConfig read, read_role(start, policy, "critic"));
    if (read.head != model::HfConfig::Head::language && read.labels != 1)
      return Error{Errc::config,
                   fmt::format("{}/config.json: a classifier with {} labels; a critic has one, or "
                               "is a language model",
                               start, read.labels)};
    return CriticStart{start, read.shape, read};
  }
  const model::ModelSource source = model::source_of(start);
  CriticStart drawn;
  if (source.config.empty()) {
    COHORT_ASSIGN(drawn.shape, model::find_model(start));
    if (const std::string gap = model::engine_gap(drawn.shape); !gap.empty())
      return Error{Errc::config, gap};
  } else {
    COHORT_ASSIGN(const model::HfConfig read, model::read_hf_file(source.config));
    drawn.shape = read.shape;
  }
  drawn.shape.vocab_size = std::max(drawn.shape.vocab_size, policy.shape.vocab_size);
  drawn.file = policy.file;
  return drawn;
}

}  // namespace

Expected<std::optional<FrozenModel>> frozen_model_of(const config::RunConfig& config,
                                                     const Policy& policy, Role role) {
  const std::string folder =
      role == Role::teacher ? config::teacher_folder(config) : config::own_reference(config);
  if (folder.empty()) return std::optional<FrozenModel>();
  auto found = read_frozen(folder, policy, role);
  if (!found) return found.error().with_context(frozen_key(config, role));
  return std::optional(*std::move(found));
}

Expected<CriticStart> critic_start_of(const config::RunConfig& config, const Policy& policy) {
  const std::string start = config::critic_start(config);
  if (start == config.pretrain)
    return CriticStart{start.starts_with(model::k_random) ? "" : start, policy.shape, policy.file};
  auto found = read_critic(start, policy);
  if (!found) return found.error().with_context(critic_key(config));
  return found;
}

}  // namespace cohort::job

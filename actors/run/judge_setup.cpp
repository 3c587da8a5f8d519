#include "actors/run/judge_setup.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "actors/roles/turn_requests.hpp"
#include "runtime/compute/train/weight_folder.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/model/hf_folder.hpp"
#include "runtime/tasks/folder_tokenizer.hpp"
#include "runtime/tasks/json_options.hpp"

namespace cohort::actors {
namespace {

/// The tokenizer beside the weights, or where their config.json says that they came from.
Expected<std::shared_ptr<const tasks::FolderTokenizer>> tokenizer_of(const std::string& folder,
                                                                     const model::HfConfig& file) {
  std::error_code failure;
  for (const std::string& each : {folder, file.name_or_path})
    if (!each.empty() && std::filesystem::is_regular_file(each + "/tokenizer.json", failure))
      return tasks::FolderTokenizer::open(each);
  return Error{Errc::config, fmt::format("{} has no tokenizer.json; copy the one that it was "
                                         "trained with into it",
                                         folder)};
}

/// `args`: what a judge behind a server is told in the same words.
Expected<void> read_args(const std::string& role, const std::string& args, JudgeSetup& judge) {
  COHORT_ASSIGN(tasks::Options options, tasks::Options::parse(role + ".args", args));
  judge.system = options.text("system", "");
  judge.scale = options.number("scale", 0);
  constexpr double k_scale_max = 1e6;
  if (!(judge.scale >= 0 && judge.scale <= k_scale_max))
    options.reject("scale", "is not in 0..1000000");
  auto prompt =
      plugin::JudgeTemplate::create(options.text("template", plugin::default_judge_template()));
  COHORT_TRY(options.finish());
  if (!prompt) return Error{Errc::config, role + ".args: " + prompt.error().detail};
  judge.prompt = *std::move(prompt);
  return {};
}

/// Errors are of the key model_args.model_name_or_path.
Expected<void> read_folder(const config::WorkerConfig& worker, tensor::Dtype dtype,
                           JudgeSetup& judge) {
  const std::string& folder = judge.folder;
  std::error_code failure;
  if (!std::filesystem::is_regular_file(folder + "/config.json", failure))
    return Error{Errc::config,
                 fmt::format("no folder '{}' with a config.json (nothing is downloaded); give the "
                             "folder of a language model with a chat template",
                             folder)};
  COHORT_ASSIGN(const model::HfConfig file, model::read_hf_folder(folder));
  if (file.head != model::HfConfig::Head::language)
    return Error{Errc::config, folder +
                                   "/config.json: a classifier, which says nothing; a reward "
                                   "of type reward_model reads its score"};
  judge.model = {file.shape, dtype};
  COHORT_TRY(compute::validate(judge.model));
  COHORT_ASSIGN(const compute::WeightFolder weights, compute::WeightFolder::open(folder));
  COHORT_TRY(weights.check(judge.model, compute::layout_of(judge.model)));
  COHORT_ASSIGN(const auto tokenizer, tokenizer_of(folder, file));
  if (file.shape.vocab_size < tokenizer->vocab_size())
    return Error{Errc::config,
                 fmt::format("{}/config.json: vocab_size {} is below the {} ids of its tokenizer",
                             folder, file.shape.vocab_size, tokenizer->vocab_size())};
  tasks::FolderChatOptions options;
  options.kwargs = worker.data_args.chat_template_kwargs;
  COHORT_ASSIGN(judge.chat, tasks::make_folder_chat(tokenizer, options));
  judge.tokenizer = tokenizer;
  return {};
}

}  // namespace

Expected<std::map<std::string, JudgeSetup>> open_judges(const config::RunConfig& config,
                                                        tensor::Dtype dtype) {
  std::map<std::string, JudgeSetup> judges;
  for (const auto& [name, reward] : config.rewards) {
    if (!config::is_judge_on_cards(reward)) continue;
    const std::string role = "rewards." + name;
    JudgeSetup judge;
    const std::string& own = reward.worker.model_args.model_name_or_path;
    judge.folder = own.empty() ? config.reward_pretrain : own;
    if (auto read = read_folder(reward.worker, dtype, judge); !read)
      return Error{Errc::config, role + ".model_args.model_name_or_path: " + read.error().detail};
    COHORT_TRY(read_args(role, reward.plugin.args, judge));
    judge.context = job::judge_context(config, reward, judge.model);
    judge.model.max_position = judge.context;
    judge.sampling = sampling_of(reward.worker.generating_args);
    judge.max_new_tokens = static_cast<int>(reward.worker.generating_args.max_new_tokens);
    judge.at_once = static_cast<uint32_t>(reward.plugin.workers);
    judges.emplace(role, std::move(judge));
  }
  return judges;
}

}  // namespace cohort::actors

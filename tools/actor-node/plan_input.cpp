#include "tools/actor-node/plan_input.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "runtime/base/read_file.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/verl/verl_load.hpp"
#include "runtime/job/policy.hpp"
#include "runtime/model/hf_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t k_config_json_max = uintmax_t{4} << 20;

/// Shapes of the checkpoints that are folders here. A name that is none is the planner's to know.
Expected<std::map<std::string, model::ModelShape>> read_shapes(const config::RunConfig& config) {
  std::map<std::string, model::ModelShape> shapes;
  for (const std::string& name : job::model_names(config)) {
    const fs::path file = model::source_of(name).config;
    if (file.empty()) continue;
    COHORT_ASSIGN(std::string text, read_file(file, k_config_json_max));
    COHORT_ASSIGN(model::HfConfig read, model::read_hf_config(text, file.string()));
    shapes[name] = std::move(read.shape);
  }
  return shapes;
}

/// Rows of the `model` section; 0 when the policy starts from a checkpoint.
Expected<int64_t> vocabulary_size(const config::RunConfig& config) {
  if (!config.pretrain.empty() || !config.actor_train.model_args.model_name_or_path.empty())
    return int64_t{0};
  COHORT_ASSIGN(const job::Policy policy, job::policy_of(config));
  return policy.shape.vocab_size;
}

/// Places of the cards that a refused plan names.
Error with_places(const config::RunConfig& config, Error error) {
  std::string places;
  for (const auto& [key, place] : config.origins) {
    const size_t dot = key.rfind(".device_mapping");
    const bool is_named = dot != std::string::npos && dot + 15 == key.size() &&
                          error.detail.find(key.substr(0, dot) + " [") != std::string::npos;
    if (is_named) places += fmt::format("{}{}", places.empty() ? "" : ", ", place);
  }
  if (!places.empty() && error.code == Errc::placement) error.detail = places + ": " + error.detail;
  return error;
}

std::vector<std::string> verl_words(const PlanInput& input) {
  std::vector<std::string> words;
  if (!input.config_folder.empty()) words.push_back("--config-path=" + input.config_folder);
  if (!input.config_name.empty()) words.push_back("--config-name=" + input.config_name);
  if (!input.config_path.empty()) words.push_back(input.config_path);
  words.insert(words.end(), input.overrides.begin(), input.overrides.end());
  return words;
}

}  // namespace

Expected<config::RunConfig> load_config(const PlanInput& input, bool check_files) {
  config::LoadOptions options;
  options.check_files = check_files;
  if (input.dialect == "verl") return config::load_verl(verl_words(input), options);
  if (input.dialect != "roll")
    return Error{Errc::invalid_argument,
                 fmt::format("--dialect {}: one of roll, verl", input.dialect)};
  if (!input.config_folder.empty() || !input.config_name.empty())
    return Error{Errc::invalid_argument,
                 "--config-path and --config-name belong to --dialect verl; a ROLL config is named "
                 "by its path"};
  if (input.config_path.empty())
    return Error{Errc::invalid_argument, "no config; name a YAML file (or --dialect verl …)"};
  return config::load(input.config_path, input.overrides, options);
}

Expected<PlannedJob> plan_input(const PlanInput& input) {
  PlannedJob out;
  COHORT_ASSIGN(out.config, load_config(input, false));
  job::JobOptions options;
  options.card = input.card;
  options.config_name = fs::path(input.config_path).filename().string();
  COHORT_ASSIGN(options.models, read_shapes(out.config));
  COHORT_ASSIGN(options.vocab_size, vocabulary_size(out.config));
  COHORT_ASSIGN(out.job, job::job_of(out.config, options));
  auto plan = plan::plan_job(out.job.spec);
  if (!plan) return with_places(out.config, plan.error());
  out.plan = *std::move(plan);
  return out;
}

}  // namespace cohort

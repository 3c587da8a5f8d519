#include "tools/actor-node/logprobs_command.hpp"

#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "runtime/base/outside_json.hpp"
#include "runtime/base/read_file.hpp"
#include "runtime/compute/model/language_model.hpp"

namespace cohort {
namespace {

using compute::LanguageModel;
using Json = nlohmann::ordered_json;

/// One number with one label, else the list.
Json of_labels(const std::vector<float>& values) {
  return values.size() == 1 ? Json(values.front()) : Json(values);
}

Expected<std::vector<int32_t>> read_ids(std::string_view line) {
  const Expected<Json> parsed = parse_outside_object<Json>(line);
  if (!parsed) return Error{Errc::config, "the row " + parsed.error().detail};
  const Json& row = *parsed;
  auto found = row.find("ids");
  if (found == row.end()) found = row.find("tokens");
  if (found == row.end() || !found->is_array())
    return Error{Errc::config, "the row has no list 'ids' or 'tokens'"};
  std::vector<int32_t> ids;
  for (const Json& id : *found) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<int32_t>::max())
      return Error{Errc::config, "'ids' has an entry that is no token id: " + id.dump()};
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Expected<Json> answer(const LanguageModel& model, const LogprobsCommand& command,
                      std::string_view line) {
  COHORT_ASSIGN(const std::vector<int32_t> ids, read_ids(line));
  Json out;
  if (model.config().head != model::HfConfig::Head::language) {
    COHORT_ASSIGN(const LanguageModel::HeadScores scores, model.head_scores(ids));
    out["score"] = of_labels(scores.pooled);
    for (const std::vector<float>& value : scores.values) out["values"].push_back(of_labels(value));
    return out;
  }
  COHORT_ASSIGN(const LanguageModel::Scores scores, model.score(ids, command.temperature));
  out["logprobs"] = scores.log_probs;
  out["entropy"] = scores.entropy;
  if (command.greedy > 0) {
    COHORT_ASSIGN(out["greedy"], model.greedy(ids, command.greedy));
  }
  return out;
}

}  // namespace

CLI::App* add_logprobs_command(CLI::App& app, LogprobsCommand& command) {
  CLI::App* sub = app.add_subcommand(
      "logprobs", "log-probabilities, entropies and greedy tokens that a model folder computes");
  sub->add_option("folder", command.folder, "Hugging Face folder: config.json and safetensors")
      ->required();
  sub->add_option("rows", command.rows,
                  "rows.jsonl: {\"ids\": […]} a line, or {\"tokens\": […]} as traj export writes")
      ->required();
  sub->add_option("--adapter", command.adapter, "PEFT folder of a LoRA adapter");
  sub->add_option("--greedy", command.greedy, "also the N tokens that follow, most likely first")
      ->check(CLI::Range(0, 1 << 20));
  sub->add_option("--temperature", command.temperature, "divides the logits")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--dtype", command.dtype, "what products are computed in")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  return sub;
}

int logprobs_command(const LogprobsCommand& command) {
  const auto unusable = [](const std::string& what) {
    std::fprintf(stderr, "error: %s\n", what.c_str());
    return 2;
  };
  // Before the model, which may take minutes to read.
  if (std::error_code ignored; !std::filesystem::exists(command.rows, ignored))
    return unusable(command.rows + ": no such file");
  const auto model = LanguageModel::open(
      {.folder = command.folder,
       .adapter = command.adapter,
       .dtype = command.dtype == "bf16" ? tensor::Dtype::bf16 : tensor::Dtype::f32});
  if (!model) return unusable(model.error().detail);
  for (const std::string& notice : (*model)->notices())
    std::fprintf(stderr, "notice: %s\n", notice.c_str());
  bool has_error = false;
  const auto take = [&](std::string_view line, uint64_t number) -> Expected<void> {
    auto found = answer(**model, command, line);
    if (!found) {
      has_error = true;
      found = Json{
          {"error", command.rows + ":" + std::to_string(number) + ": " + found.error().detail}};
    }
    std::printf("%s\n", found->dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    std::fflush(stdout);
    return {};
  };
  if (const auto read = for_each_line(command.rows, take); !read)
    return unusable(read.error().detail);
  return has_error ? 1 : 0;
}

}  // namespace cohort

#include "runtime/tasks/data_gsm8k.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/check.hpp"
#include "runtime/tasks/scorers/answer_text.hpp"

namespace cohort::tasks {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view k_placeholder = "{question}";
constexpr std::string_view k_mark = "#### ";

Error bad_field(std::string reason) { return {Errc::config, std::move(reason)}; }

Expected<std::string> text_column(const Json& row, const char* name) {
  auto found = row.find(name);
  if (found == row.end() || !found->is_string())
    return bad_field(
        fmt::format("no text {}: GSM8K's rows are {{\"question\": …, \"answer\": …}}", name));
  if (found->get_ref<const std::string&>().empty())
    return bad_field(fmt::format("{} is empty", name));
  return found->get<std::string>();
}

/// The first match of #### (\-?[0-9\.\,]+), without its commas.
std::optional<std::string> final_number(std::string_view answer) {
  for (size_t at = 0; (at = answer.find(k_mark, at)) != std::string_view::npos;) {
    at += k_mark.size();
    std::string_view number = number_at(answer.substr(at));
    if (!number.empty()) return replace_all(number, ",", "");
  }
  return std::nullopt;
}

}  // namespace

Expected<void> check_gsm8k_template(std::string_view prompt_template) {
  const size_t at = prompt_template.find(k_placeholder);
  if (at == std::string_view::npos ||
      prompt_template.find(k_placeholder, at + 1) != std::string_view::npos)
    return Error{Errc::invalid_argument,
                 fmt::format("template \"{}\": {} has to be in it exactly once", prompt_template,
                             k_placeholder)};
  return {};
}

Expected<std::string> gsm8k_line(const Gsm8kRow& row, std::string_view prompt_template) {
  const Json source = Json::parse(row.line, nullptr, false);
  if (!source.is_object()) return bad_field("no JSON object");
  COHORT_ASSIGN(std::string question, text_column(source, "question"));
  COHORT_ASSIGN(std::string answer, text_column(source, "answer"));
  std::optional<std::string> truth = final_number(answer);
  if (!truth) return bad_field("no number behind \"#### \" in answer");
  std::string prompt(prompt_template);
  const size_t at = prompt.find(k_placeholder);
  COHORT_CHECK(at != std::string::npos, "gsm8k_line without check_gsm8k_template");
  prompt.replace(at, k_placeholder.size(), question);
  const Json line{{"data_source", "openai/gsm8k"},
                  {"prompt", Json::array({{{"role", "user"}, {"content", std::move(prompt)}}})},
                  {"ability", "math"},
                  {"reward_model", {{"style", "rule"}, {"ground_truth", *truth}}},
                  {"extra_info",
                   {{"split", row.split},
                    {"index", row.index},
                    {"answer", std::move(answer)},
                    {"question", std::move(question)}}}};
  return line.dump();
}

}  // namespace cohort::tasks

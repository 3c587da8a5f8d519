// ifeval: does a response follow the instructions that its row lists.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/tasks/scorers/answer_text.hpp"
#include "runtime/tasks/scorers/ifeval_checks.hpp"
#include "runtime/tasks/scorers/rules.hpp"

namespace cohort::tasks {
namespace {

using Json = nlohmann::json;

/// The instructions of one row.
struct Instructions {
  std::vector<std::string> ids;
  std::vector<Json> kwargs;  // one object per id
};

const Json* instruction_holder(const Json& root) {
  if (!root.is_object()) return nullptr;
  if (root.contains("instruction_id_list")) return &root;
  auto extra = root.find("extra_info");
  return extra == root.end() ? nullptr : instruction_holder(*extra);
}

/// A text that holds JSON, or JSON itself.
Json unpacked(const Json& value) {
  return value.is_string() ? Json::parse(value.get<std::string>(), nullptr, false) : value;
}

Expected<Instructions> instructions_of(const RewardRow& row) {
  Instructions found;
  Json columns = Json::parse(row.columns, nullptr, false);
  Json truth = Json::parse(row.ground_truth, nullptr, false);
  const Json* holder = instruction_holder(columns);
  if (holder == nullptr) holder = instruction_holder(truth);
  if (holder == nullptr)
    return Error{Errc::invalid_argument, "the row has no column 'instruction_id_list'"};
  Json ids = unpacked((*holder)["instruction_id_list"]);
  Json kwargs = holder->contains("kwargs") ? unpacked((*holder)["kwargs"]) : Json::array();
  if (!ids.is_array() || ids.empty())
    return Error{Errc::invalid_argument, "'instruction_id_list' is no list of names"};
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!ids[i].is_string())
      return Error{Errc::invalid_argument, "'instruction_id_list' is no list of names"};
    found.ids.push_back(ids[i].get<std::string>());
    bool has = kwargs.is_array() && i < kwargs.size() && kwargs[i].is_object();
    found.kwargs.push_back(has ? kwargs[i] : Json::object());
  }
  return found;
}

/// IFEval's loose reading: without the first line, the last line, both; each also without '*'.
std::vector<std::string> loose_readings(std::string_view response) {
  std::vector<std::string> readings;
  size_t first = response.find('\n'), last = response.rfind('\n');
  std::string_view behind = first == std::string_view::npos ? "" : response.substr(first + 1);
  std::string_view before = last == std::string_view::npos ? "" : response.substr(0, last);
  std::string_view middle =
      first == last ? std::string_view() : response.substr(first + 1, last - first - 1);
  for (std::string_view text : {response, behind, before, middle}) {
    readings.emplace_back(trim(text));
    readings.push_back(replace_all(trim(text), "*", ""));
  }
  return readings;
}

class IfEval final : public RowRule {
 public:
  explicit IfEval(Options& options)
      : is_share_(options.choice("score", {"all", "share"}) == "share"),
        is_loose_(options.flag("loose", false)) {}

 protected:
  RewardResult judge(const RewardRow& row) const override {
    RewardResult result;
    auto instructions = instructions_of(row);
    if (!instructions) return without_score(instructions.error().detail);
    Answer answer = after_thoughts(row.response, trim(row.prompt).ends_with("<think>"));
    std::vector<std::string> readings = loose_readings(answer.text);
    size_t total = instructions->ids.size(), strict = 0, loose = 0;
    for (size_t i = 0; i < total; ++i) {
      bool is_strict = false, is_loose = false;
      for (size_t k = 0; k < readings.size() && !is_loose; ++k) {
        if (k > 0 && readings[k].empty()) continue;
        auto verdict = follows(instructions->ids[i], instructions->kwargs[i],
                               k == 0 ? answer.text : std::string_view(readings[k]));
        if (!verdict) return without_score(verdict.error().detail);
        is_loose = *verdict && !trim(answer.text).empty();
        if (k == 0) is_strict = is_loose;
      }
      if (!is_strict && result.detail.size() < 500)
        result.detail += (result.detail.empty() ? "not followed: " : ", ") + instructions->ids[i];
      strict += is_strict ? 1 : 0;
      loose += is_loose ? 1 : 0;
    }
    auto share = [&](size_t n) { return static_cast<double>(n) / static_cast<double>(total); };
    size_t followed = is_loose_ ? loose : strict;
    result.score = is_share_ ? share(followed) : followed == total ? 1 : 0;
    result.parts = {{"strict", share(strict)}, {"loose", share(loose)}};
    return result;
  }

 private:
  bool is_share_;
  bool is_loose_;
};

}  // namespace

RulePtr make_ifeval(Options& options) { return rule_of<IfEval>(options); }

}  // namespace cohort::tasks

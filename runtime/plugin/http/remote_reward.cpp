#include "runtime/plugin/http/remote_reward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cohort::plugin {
namespace {

using Json = nlohmann::json;

tasks::RewardResult no_result(std::string_view reason) {
  return tasks::without_score(fmt::format("remote: {}", reason));
}

/// JSON out of a text column; empty or damaged: null.
Json parsed(const std::string& text) {
  Json value = text.empty() ? Json() : Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json() : value;
}

tasks::RewardResult result_of(const Json& value) {
  tasks::RewardResult result;
  if (value.is_number()) {
    result.score = value.get<double>();
    return result;
  }
  if (!value.is_object())
    return no_result("a result is neither a number nor an object: " + value.dump().substr(0, 80));
  if (auto error = value.find("error");
      error != value.end() && error->is_string() && !error->get_ref<const std::string&>().empty())
    return no_result(error->get_ref<const std::string&>());
  auto score = value.find("score");
  if (score == value.end() || !score->is_number())
    return no_result("a result has no number \"score\"");
  result.score = score->get<double>();
  if (auto detail = value.find("detail"); detail != value.end() && detail->is_string())
    result.detail = detail->get<std::string>();
  if (auto parts = value.find("parts"); parts != value.end() && parts->is_object()) {
    for (const auto& [name, part] : parts->items()) {
      if (!part.is_number()) return no_result(fmt::format("part \"{}\" is no number", name));
      result.parts.emplace_back(name, part.get<double>());
    }
  }
  return result;
}

}  // namespace

std::string remote_request(std::span<const tasks::RewardRow> rows) {
  Json list = Json::array();
  for (const tasks::RewardRow& row : rows)
    list.push_back({{"id", row.id},
                    {"response", row.response},
                    {"prompt", row.prompt},
                    {"messages", parsed(row.messages)},
                    {"ground_truth", row.ground_truth},
                    {"data_source", row.data_source},
                    {"columns", parsed(row.columns)},
                    {"response_tokens", row.response_tokens},
                    {"is_finished", row.is_finished}});
  // A response may have been cut inside of a character.
  return Json{{"rows", std::move(list)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<tasks::RewardResult> remote_results(std::string_view reply, size_t count) {
  const Json value = Json::parse(reply, nullptr, false);
  const Json* list = nullptr;
  for (const char* name : {"results", "scores"}) {
    if (list == nullptr && value.is_object() && value.contains(name)) list = &value[name];
  }
  if (list == nullptr || !list->is_array())
    return {count, no_result("the reply is no JSON object with a list \"results\": " +
                             shown_reply(reply))};
  if (list->size() != count)
    return {count, no_result(fmt::format("{} results for {} rows", list->size(), count))};
  std::vector<tasks::RewardResult> results;
  for (const Json& item : *list) results.push_back(result_of(item));
  return results;
}

RemoteReward::RemoteReward(uint32_t batch_rows, HttpPoolOptions server,
                           const HttpWorkersOptions& workers)
    : batch_rows_(std::max<uint32_t>(batch_rows, 1)), workers_(std::move(server), workers) {}

std::vector<tasks::RewardResult> RemoteReward::score(std::span<const tasks::RewardRow> rows) {
  std::vector<tasks::RewardResult> results(rows.size());
  size_t left = (rows.size() + batch_rows_ - 1) / batch_rows_;
  for (size_t begin = 0; begin < rows.size(); begin += batch_rows_) {
    const size_t count = std::min<size_t>(batch_rows_, rows.size() - begin);
    workers_.post(
        remote_request(rows.subspan(begin, count)), [&, begin, count](Expected<std::string> reply) {
          std::vector<tasks::RewardResult> part =
              reply ? remote_results(*reply, count)
                    : std::vector<tasks::RewardResult>(count, no_result(reply.error().detail));
          std::lock_guard lock(mutex_);
          std::move(part.begin(), part.end(), results.begin() + static_cast<ptrdiff_t>(begin));
          --left;
          answered_.notify_all();
        });
  }
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [&left] { return left == 0; });  // HTTP-1
  return results;
}

}  // namespace cohort::plugin

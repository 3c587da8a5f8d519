#define XXH_INLINE_ALL
#include "runtime/plugin/http/judge_reward.hpp"

#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "runtime/base/text.hpp"

namespace cohort::plugin {
namespace {

using Json = nlohmann::json;

/// choices[0].message.content; nothing if there is no such text.
const std::string* content_of(const Json& reply) {
  const Json::json_pointer at("/choices/0/message/content");
  return reply.contains(at) ? reply[at].get_ptr<const std::string*>() : nullptr;
}

bool is_cut(const Json& reply) {
  const Json& choice = reply["choices"].front();
  return choice.contains("finish_reason") && choice["finish_reason"] == "length";
}

tasks::RewardResult failed(const std::string& reason) {
  return tasks::without_score("llm_judge: " + reason);
}

}  // namespace

JudgeReward::JudgeReward(JudgeOptions options, JudgeTemplate prompt, HttpPoolOptions server,
                         const HttpWorkersOptions& workers)
    : options_(std::move(options)),
      prompt_(std::move(prompt)),
      workers_(std::move(server), workers) {}

std::string JudgeReward::request_of(const tasks::RewardRow& row) const {
  Json messages = Json::array();
  if (!options_.system.empty())
    messages.push_back({{"role", "system"}, {"content", options_.system}});
  messages.push_back({{"role", "user"}, {"content", prompt_.fill(row)}});
  const Json body{{"model", options_.model},
                  {"messages", std::move(messages)},
                  {"temperature", options_.temperature},
                  {"max_tokens", options_.max_tokens}};
  // A response may have been cut inside of a character.
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

tasks::RewardResult JudgeReward::result_of(const Expected<std::string>& reply) const {
  if (!reply) return failed(reply.error().detail);
  const Json parsed = Json::parse(*reply, nullptr, false);
  if (!parsed.is_object()) return failed("the reply is no JSON object: " + shortened(*reply, 200));
  const std::string* content = content_of(parsed);
  if (content == nullptr)
    return failed("the reply has no text at choices[0].message.content: " + shortened(*reply, 200));
  return judged(*content, options_.scale, is_cut(parsed), options_.max_tokens);
}

bool JudgeReward::begin(const Key& key, Waiter waiter) {
  std::lock_guard lock(mutex_);
  if (auto known = cache_.find(key); known != cache_.end()) {
    *waiter.result = known->second;
    --*waiter.left;
    return false;
  }
  std::vector<Waiter>& waiters = asked_[key];
  waiters.push_back(waiter);
  return waiters.size() == 1;
}

void JudgeReward::finish(const Key& key, const Expected<std::string>& reply) {
  tasks::RewardResult result = result_of(reply);
  std::lock_guard lock(mutex_);
  for (const Waiter& waiter : asked_[key]) {
    *waiter.result = result;
    --*waiter.left;
  }
  asked_.erase(key);
  answered_.notify_all();
  if (!result.error.empty() || options_.cache_rows == 0) return;
  if (cached_.size() >= options_.cache_rows) {
    cache_.erase(cached_.front());
    cached_.pop_front();
  }
  if (cache_.emplace(key, std::move(result)).second) cached_.push_back(key);
}

std::vector<tasks::RewardResult> JudgeReward::score(std::span<const tasks::RewardRow> rows) {
  std::vector<tasks::RewardResult> results(rows.size());
  size_t left = rows.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string body = request_of(rows[i]);
    const XXH128_hash_t hash = XXH3_128bits(body.data(), body.size());
    const Key key{hash.low64, hash.high64};
    if (begin(key, {&results[i], &left}))
      workers_.post(std::move(body),
                    [this, key](Expected<std::string> reply) { finish(key, reply); });
  }
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [&left] { return left == 0; });  // HTTP-1
  return results;
}

}  // namespace cohort::plugin

#include "tools/traj/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>

namespace cohort::traj {
namespace {

using T = proto::Trajectory;

template <class V>
bool is_same(const V& a, const V& b) {
  if constexpr (std::is_floating_point_v<V>)
    return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
  else
    return a == b;
}

/// Shortest digits that give the same bits back; texts on one line.
template <class V>
std::string text_of(const V& value) {
  if constexpr (std::is_same_v<V, std::string>)
    return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  else
    return fmt::format("{}", value);
}

class Comparison {
 public:
  Comparison(const T& a, const T& b) : a_(a), b_(b) {}

  std::optional<Difference> run() {
    value("prompt_id", a_.prompt_id, b_.prompt_id);
    value("tag", a_.tag, b_.tag);
    value("seed", a_.seed, b_.seed);
    column("tokens", a_.tokens, b_.tokens);
    column("response_mask", a_.response_mask, b_.response_mask);
    turns();
    value("stop_reason", a_.stop_reason, b_.stop_reason);
    column("token_versions", a_.token_versions, b_.token_versions);
    column("behavior_logp", a_.behavior_logp, b_.behavior_logp);
    pairs("reward", parts_of(a_), parts_of(b_));
    value("score", a_.score, b_.score);
    value("mask_reason", a_.mask_reason, b_.mask_reason);
    column("token_rewards", a_.token_rewards, b_.token_rewards);
    column("ref_logp", a_.ref_logp, b_.ref_logp);
    column("teacher_logp", a_.teacher_logp, b_.teacher_logp);
    column("values", a_.values, b_.values);
    pairs("metric", a_.metrics, b_.metrics);
    return found_;
  }

 private:
  using Pairs = std::vector<std::pair<std::string, double>>;

  static Pairs parts_of(const T& x) {
    Pairs parts;
    for (const proto::RewardPart& part : x.reward_parts) parts.emplace_back(part.name, part.value);
    return parts;
  }

  std::optional<uint64_t> turn_of(uint64_t token) const {
    for (uint64_t turn = 0; turn < a_.turns.size(); ++turn)
      if (token < a_.turns[turn].response_end) return turn;
    return std::nullopt;
  }

  template <class V>
  void value(std::string what, const V& a, const V& b, std::optional<uint64_t> turn = {}) {
    if (found_ || is_same(a, b)) return;
    found_ = Difference{std::move(what), turn, std::nullopt, text_of(a), text_of(b)};
  }

  template <class V>
  void column(const char* what, const std::vector<V>& a, const std::vector<V>& b) {
    if (found_) return;
    const size_t n = std::max(a.size(), b.size());
    for (size_t i = 0; i < n; ++i) {
      if (i < a.size() && i < b.size() && is_same(a[i], b[i])) continue;
      found_ = Difference{what, turn_of(i), i, i < a.size() ? text_of(a[i]) : "absent",
                          i < b.size() ? text_of(b[i]) : "absent"};
      return;
    }
  }

  void turns() {
    value("turns", a_.turns.size(), b_.turns.size());
    for (size_t i = 0; i < std::min(a_.turns.size(), b_.turns.size()); ++i) {
      const proto::Turn &a = a_.turns[i], &b = b_.turns[i];
      value("response_begin", a.response_begin, b.response_begin, i);
      value("response_end", a.response_end, b.response_end, i);
      value("context_begin", a.context_begin, b.context_begin, i);
      value("observation", a.observation, b.observation, i);
      value("response", a.response, b.response, i);
      value("env_reward", a.env_reward, b.env_reward, i);
      value("is_valid", a.is_valid, b.is_valid, i);
      value("is_effective", a.is_effective, b.is_effective, i);
    }
  }

  void pairs(const char* family, const Pairs& a, const Pairs& b) {
    for (size_t i = 0; i < std::max(a.size(), b.size()) && !found_; ++i) {
      const bool is_named = i < a.size() && i < b.size() && a[i].first == b[i].first;
      const std::string name = i < a.size() ? a[i].first : b[i].first;
      if (is_named && is_reading(name)) continue;
      if (is_named)
        value(fmt::format("{} {}", family, name), a[i].second, b[i].second);
      else
        found_ = Difference{fmt::format("names of {}s", family), std::nullopt, std::nullopt,
                            i < a.size() ? text_of(a[i].first) : "absent",
                            i < b.size() ? text_of(b[i].first) : "absent"};
    }
  }

  const T& a_;
  const T& b_;
  std::optional<Difference> found_;
};

std::string text_of_key(const nlohmann::json& object, const std::string& key) {
  return object.contains(key) ? object.at(key).dump() : "absent";
}

}  // namespace

bool is_reading(std::string_view metric) {
  return metric.starts_with("time/") || metric.starts_with("compute/") || metric.ends_with("_s") ||
         metric.ends_with("_seconds") || metric == "seconds" || metric == "orchestrator_share" ||
         metric == "rollout/idle_ratio" || metric == "staleness/queued" ||
         metric.find("bytes") != std::string_view::npos;
}

std::optional<Difference> compare(const T& a, const T& b) { return Comparison(a, b).run(); }

std::vector<Difference> compare_results(const nlohmann::json& a, const nlohmann::json& b) {
  static const std::string k_hash = "param_hash";
  std::set<std::string> names;
  for (const auto* object : {&a, &b})
    for (const auto& [name, unused] : object->items()) names.insert(name);
  std::vector<Difference> all;
  for (const std::string& name : names) {
    if (is_reading(name)) continue;
    Difference each{name, std::nullopt, std::nullopt, text_of_key(a, name), text_of_key(b, name)};
    if (each.a != each.b) all.insert(name == k_hash ? all.begin() : all.end(), std::move(each));
  }
  return all;
}

}  // namespace cohort::traj

#pragma once
/// Runs in which a process dies at a failpoint, and what their stream says afterwards.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/proto/trajectory.hpp"
#include "runtime/stream/reader.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort::test {

/// `command` with `count` processes that hold the cards.
inline std::vector<std::string> in_processes(std::vector<std::string> command, int count) {
  command.insert(command.begin() + 2, {"--processes", std::to_string(count)});
  return command;
}

/// `command` with a failpoint that one process alone obeys, which leaves `claim` behind.
inline std::vector<std::string> with_failpoint(std::vector<std::string> command,
                                               const std::string& point,
                                               const std::filesystem::path& claim) {
  command.insert(command.begin(),
                 {"/usr/bin/env", "COHORT_FAILPOINT=" + point + ":" + claim.string()});
  return command;
}

/// When the process of `claim` acted, in microseconds of wall time; nothing if none did.
inline std::optional<int64_t> claimed_at(const std::filesystem::path& claim) {
  std::string text = slurp(claim);
  if (text.empty()) return std::nullopt;
  return std::stoll(text.substr(text.rfind(' ') + 1));
}

/// What a run's stream says of its trajectories and its losses.
struct StreamFacts {
  std::vector<nlohmann::json> events;
  /// Of the training steps that count, (group, index) -> how often they are in the stream. A step
  /// that was cut short by the end of a run counts when it was played again.
  std::map<uint64_t, std::map<std::pair<uint32_t, uint32_t>, int>> trained;
  std::string error;

  std::vector<nlohmann::json> of_kind(const std::string& kind) const {
    std::vector<nlohmann::json> found;
    std::copy_if(events.begin(), events.end(), std::back_inserter(found),
                 [&](const nlohmann::json& x) { return x.value("kind", "") == kind; });
    return found;
  }
};

/// Where a resumed run begins again, what came after its checkpoint is not used: the same steps are
/// played anew under a higher attempt.
inline StreamFacts read_stream(const std::string& run) {
  StreamFacts facts;
  auto reader = stream::Reader::open(run + "/stream");
  if (!reader) return {{}, {}, reader.error().detail};
  for (;;) {
    auto record = reader->next();
    if (!record) return {{}, {}, record.error().detail};
    if (!*record) return facts;
    if ((*record)->info.type == stream::RecordType::event) {
      facts.events.push_back(nlohmann::json::parse((*record)->text()));
      if (facts.events.back().value("kind", "") != "resume") continue;
      facts.trained.erase(facts.trained.upper_bound(facts.events.back()["step"].get<uint64_t>()),
                          facts.trained.end());
    } else if ((*record)->info.type == stream::RecordType::trajectory) {
      auto trajectory = (*record)->trajectory();
      if (!trajectory) return {{}, {}, trajectory.error().detail};
      const proto::TrajectoryKey& key = trajectory->key;
      if (key.kind == proto::TrajectoryKind::train)
        ++facts.trained[key.step][{key.group, key.index}];
    }
  }
}

/// A small run of configs/`config` that pays answers for a 7 in them: a signal now and then, of a
/// policy that has learnt little.
inline std::vector<std::string> paid_for_a_seven(const std::string& config,
                                                 const TempFolder& folder,
                                                 std::vector<std::string> overrides,
                                                 const std::vector<std::string>& more) {
  overrides.insert(
      overrides.end(),
      {"rollout_batch_size=8", "num_return_sequences_in_group=4", "eval_steps=-1",
       "~rewards.answer", "+rewards.answer.type=format", "+rewards.answer.args={pattern: '7'}"});
  overrides.insert(overrides.end(), more.begin(), more.end());
  return small_run(std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/" + config, folder,
                   overrides);
}

/// FLOW-1: returns what is wrong with the trajectories of `steps` steps, or nothing.
inline std::string flow_1(const StreamFacts& facts, uint64_t steps, uint32_t groups,
                          uint32_t group_size) {
  if (!facts.error.empty()) return facts.error;
  for (uint64_t step = 1; step <= steps; ++step) {
    auto found = facts.trained.find(step);
    if (found == facts.trained.end()) return "step " + std::to_string(step) + " has none";
    if (found->second.size() != size_t{groups} * group_size)
      return "step " + std::to_string(step) + " has " + std::to_string(found->second.size());
    for (const auto& [key, count] : found->second)
      if (count != 1)
        return "step " + std::to_string(step) + ", group " + std::to_string(key.first) +
               ", index " + std::to_string(key.second) + " is there " + std::to_string(count) +
               " times";
  }
  return "";
}

}  // namespace cohort::test

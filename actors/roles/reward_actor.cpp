#include "actors/roles/reward_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/failpoint.hpp"
#include "runtime/tasks/tools/tool_world.hpp"

namespace cohort::actors {

using namespace control;
using Json = nlohmann::ordered_json;

namespace {

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string messages_of(const tasks::Sample& sample) {
  Json list = Json::array();
  for (const tasks::ChatMessage& message : sample.messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return dump(list);
}

std::string turns_of(const proto::Trajectory& t, const tasks::ChatFormat& chat) {
  Json turns = Json::array();
  for (const proto::Turn& turn : t.turns)
    turns.push_back({{"observation", turn.observation},
                     {"response", chat.without_end(turn.response)},
                     {"reward", turn.env_reward},
                     {"is_valid", turn.is_valid}});
  Json metrics = Json::object();
  for (const auto& [name, value] : t.metrics) metrics[name] = value;
  return dump({{"turns", turns}, {"metrics", metrics}, {"stop_reason", t.stop_reason}});
}

/// The row's columns and, where answers may call tools, verl's num_turns: the prompt, the answers,
/// and what tools said between them.
std::string columns_of(const proto::Trajectory& t, const tasks::Sample& sample) {
  const bool has_tools =
      std::ranges::any_of(t.metrics, [](const auto& x) { return x.first == tasks::k_tool_calls; });
  if (!has_tools) return sample.columns;
  Json columns = Json::parse(sample.columns, nullptr, false);
  if (!columns.is_object()) columns = Json::object();
  const size_t turns = 2 * t.turns.size();
  columns["num_turns"] = turns;
  if (auto extra = columns.find("extra_info"); extra != columns.end() && extra->is_object())
    (*extra)["num_turns"] = turns;
  return dump(columns);
}

}  // namespace

tasks::RewardRow reward_row(const proto::Trajectory& t, const PromptSet* prompts,
                            const tasks::ChatFormat& chat) {
  tasks::RewardRow row;
  row.id = proto::to_string(t.key);
  if (!t.turns.empty()) {
    const proto::Turn& last = t.turns.back();
    row.response = chat.without_end(last.response);
    row.is_finished = chat.is_ended(last.response);
    row.prompt = t.turns.front().observation;
  }
  row.response_tokens =
      static_cast<uint32_t>(std::count(t.response_mask.begin(), t.response_mask.end(), uint8_t{1}));
  row.data_source = t.tag;
  if (prompts == nullptr) {
    row.columns = turns_of(t, chat);
    return row;
  }
  const tasks::Sample& sample = *prompts->at(t.seed).sample;
  row.messages = messages_of(sample);
  row.ground_truth = sample.ground_truth;
  row.data_source = sample.data_source;
  row.columns = columns_of(t, sample);
  return row;
}

std::vector<size_t> rewards_of(const proto::Trajectory& t,
                               const std::vector<RewardFunction>& rewards,
                               const PromptSet* prompts) {
  std::vector<size_t> found;
  for (size_t i = 0; i < rewards.size(); ++i) {
    const RewardFunction& reward = rewards[i];
    bool is_meant = true;
    if (prompts != nullptr) {
      const auto& scorers = prompts->at(t.seed).scorers;
      is_meant = std::ranges::find(scorers, reward.name) != scorers.end();
    } else if (!reward.tags.empty()) {
      is_meant = std::ranges::find(reward.tags, t.tag) != reward.tags.end();
    }
    if (is_meant) found.push_back(i);
  }
  return found;
}

void add_result(const RewardFunction& reward, const tasks::RewardResult& result,
                proto::Trajectory& t) {
  std::string error = result.error;
  if (error.empty() && !std::isfinite(result.score)) error = "it gave a score that is no number";
  if (!error.empty()) {
    if (t.mask_reason.empty()) t.mask_reason = fmt::format("rewards.{}: {}", reward.name, error);
    t.reward_parts.push_back({reward.name, 0, 0, error});
    return;
  }
  t.reward_parts.push_back({reward.name, result.score, reward.weight, result.detail});
  for (const auto& [name, value] : result.parts)
    if (std::isfinite(value)) t.reward_parts.push_back({reward.name + "/" + name, value, 0, ""});
}

void finish_score(proto::Trajectory& t, bool is_row) {
  t.score = 0;
  if (t.mask_reason.empty())
    for (const proto::RewardPart& part : t.reward_parts) t.score += part.weight * part.value;
  if (!is_row) return;
  double success = std::clamp(t.score, 0.0, 1.0);
  if (t.mask_reason.empty()) success = proto::accuracy_of(t).value_or(success);
  for (auto& [name, value] : t.metrics)
    if (name == proto::k_success) value = success;
}

namespace {

class RewardState {
 public:
  static inline const char* name = "reward";
  explicit RewardState(RewardActor::pointer self) : self_(self) {}
  Expected<void> open(RewardOptions options) {
    options_ = std::move(options);
    auto address = RewardActor{self_};
    for (size_t i = 0; i < options_.rewards.size(); ++i)
      if (auto& scorer = options_.rewards[i].scorer; scorer && scorer->concurrency() > 0)
        pools_[i] = std::make_unique<RewardPool>(
            options_.rewards[i].name, scorer, [address](std::vector<Scored> scored) {
              caf::anon_send(address, std::make_shared<std::vector<Scored>>(std::move(scored)));
            });
    COHORT_ASSIGN(hop_, open_hop(options_.hop, "rewards", address, options_.fail));
    return {};
  }
  void on_delivery(const DeliveryHandle& delivery) {
    if (options_.fenced.contains(delivery->peer)) {
      options_.notice("rewards", fmt::format("a frame of {} is dropped: that process was given up",
                                             delivery->peer));
      return delivery->ack();
    }
    const Wait wait({WaitLevel::call, "rewards", "a frame that it takes in", "its end"});
    failpoint::hit("reward.delivery");
    auto batch = hop_->decode(*delivery);
    if (!batch) return options_.fail({"rewards", "score", batch.error().to_string()});
    if (!batch->empty()) reload_between_steps(batch->front().key);
    uint64_t id = next_frame_++;
    Frame& frame = frames_[id];
    frame.delivery = delivery;
    frame.trajectories = std::move(*batch);
    frame.results.resize(frame.trajectories.size());
    start(id, frame);
    if (frame.missing == 0) finish(id);
  }
  void on_scored(const ScoredBatch& scored) {
    for (Scored& each : *scored) {
      auto frame = frames_.find(each.place.frame);
      if (frame == frames_.end()) continue;
      take(frame->second, each.place, std::move(each.result));
      if (--frame->second.missing == 0) finish(each.place.frame);
    }
  }
  void on_flush() {
    if (auto left = hop_->flush(); !left)
      options_.fail({"rewards", "forward", left.error().to_string()});
  }
  /// What comes from this producer from here on is dropped: it was given up, and its groups are
  /// with others.
  void on_fence(const std::string& producer) { options_.fenced.insert(producer); }

 private:
  struct Frame {
    DeliveryHandle delivery;
    std::vector<proto::Trajectory> trajectories;
    std::vector<std::map<size_t, tasks::RewardResult>> results;  // [trajectory][reward]
    size_t missing = 0;
  };
  // Only where nothing is under way: all answers of a step are scored by one version.
  void reload_between_steps(const proto::TrajectoryKey& key) {
    std::pair<TrajectoryKind, uint64_t> batch{key.kind, key.step};
    if (batch == batch_ || !frames_.empty()) return;
    batch_ = batch;
    noticed_.clear();
    for (const RewardFunction& reward : options_.rewards) {
      if (!reward.scorer) continue;
      auto changed = reward.scorer->reload();
      if (!changed)
        options_.notice(
            "rewards." + reward.name,
            fmt::format("step {}: the changed plugin cannot be loaded, the old one goes "
                        "on: {}",
                        key.step, changed.error().detail));
      else if (*changed)
        options_.notice(
            "rewards." + reward.name,
            fmt::format("step {}: the plugin has changed and is loaded again", key.step));
    }
  }
  // What is arithmetic is done here; the rest goes to the pools.
  void start(uint64_t id, Frame& frame) {
    std::map<size_t, std::vector<ScoreJob>> jobs;  // by reward
    for (size_t i = 0; i < frame.trajectories.size(); ++i) {
      proto::Trajectory& t = frame.trajectories[i];
      if (options_.prompts) {
        const tasks::Sample& sample = *options_.prompts->at(t.seed).sample;
        t.prompt_id = sample.id;
        t.data_source = sample.data_source;
        t.ground_truth = sample.ground_truth;
      }
      // A world that failed has nothing to score.
      if (t.stop_reason.starts_with("plugin_error"))
        t.mask_reason = "environment: " + t.stop_reason;
      if (!t.mask_reason.empty()) continue;
      for (size_t index : rewards_of(t, options_.rewards, options_.prompts.get())) {
        const RewardFunction& reward = options_.rewards[index];
        ScorePlace place{id, i, index};
        if (!reward.scorer) {
          take(frame, place, {reward.of_trajectory(t), {}, "", ""});
        } else if (t.key.kind != TrajectoryKind::warm_start) {  // scripted play is imitated
          jobs[index].push_back({place, reward_row(t, options_.prompts.get(), *options_.chat)});
        }
      }
    }
    for (auto& [index, rows] : jobs) {
      if (auto pool = pools_.find(index); pool != pools_.end()) {
        frame.missing += rows.size();
        pool->second->submit(std::move(rows));
        continue;
      }
      for (ScoreJob& job : rows)
        take(frame, job.place, options_.rewards[index].scorer->score({&job.row, 1}).front());
    }
  }
  static void take(Frame& frame, const ScorePlace& place, tasks::RewardResult result) {
    frame.results[place.trajectory][place.reward] = std::move(result);
  }
  void finish(uint64_t id) {
    Frame frame = std::move(frames_.at(id));
    frames_.erase(id);
    for (size_t i = 0; i < frame.trajectories.size(); ++i) {
      proto::Trajectory& t = frame.trajectories[i];
      t.reward_parts.clear();
      for (const auto& [index, result] : frame.results[i])
        add_result(options_.rewards[index], result, t);
      finish_score(t, options_.prompts != nullptr);
      if (!t.mask_reason.empty() && noticed_.insert(t.mask_reason).second)
        options_.notice("rewards",
                        fmt::format("{} is masked: {}", proto::to_string(t.key), t.mask_reason));
    }
    failpoint::hit("reward.scored");
    if (auto sent = hop_->forward(std::move(frame.trajectories), frame.delivery); !sent)
      options_.fail({"rewards", "forward", sent.error().to_string()});
  }

  RewardActor::pointer self_;
  RewardOptions options_;
  std::unique_ptr<Hop> hop_;
  std::map<uint64_t, Frame> frames_;
  uint64_t next_frame_ = 0;
  std::pair<TrajectoryKind, uint64_t> batch_{TrajectoryKind::train,
                                             ~uint64_t{0}};  // kind and step of the last frame
  std::set<std::string> noticed_;  // a failure is told once a reason and step
  std::map<size_t, std::unique_ptr<RewardPool>>
      pools_;  // of the rewards that wait; last: ends first
};

RewardActor::behavior_type reward(RewardActor::stateful_pointer<RewardState> self,
                                  RewardOptions options) {
  open_or_quit(self, "rewards", std::move(options));
  return {
      [self](deliver_atom, const DeliveryHandle& delivery) { self->state.on_delivery(delivery); },
      [self](const ScoredBatch& scored) { self->state.on_scored(scored); },
      [self](flush_atom) { self->state.on_flush(); },
      [self](fence_atom, const std::string& producer) { self->state.on_fence(producer); }};
}

}  // namespace

RewardActor spawn_reward(caf::actor_system& system, RewardOptions options) {
  const bool waits = std::ranges::any_of(options.rewards, [](const RewardFunction& each) {
    return each.scorer && each.scorer->concurrency() > 0;
  });
  return waits ? system.spawn<caf::detached>(reward, std::move(options))
               : system.spawn(reward, std::move(options));
}

}  // namespace cohort::actors

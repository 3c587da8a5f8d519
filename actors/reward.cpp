#include "actors/reward.hpp"

#include <fmt/format.h>

namespace cohort::actors {

using namespace control;

Expected<RewardFunction> make_reward(const std::string& name, const std::string& type,
                                     double weight) {
  if (type == "env_return")
    return RewardFunction{name, weight, [](const proto::Trajectory& t) {
                            double sum = 0;
                            for (const proto::Turn& turn : t.turns) sum += turn.env_reward;
                            return sum;
                          }};
  if (type == "success")
    return RewardFunction{name, weight, [](const proto::Trajectory& t) {
                            for (const auto& [key, value] : t.metrics)
                              if (key == "success") return value;
                            return 0.0;
                          }};
  if (type == "num_turns")
    return RewardFunction{name, weight, [](const proto::Trajectory& t) {
                            return static_cast<double>(t.turns.size());
                          }};
  return Error{Errc::config,
               fmt::format("rewards.{}.type: unknown reward '{}'; built in are env_return, "
                           "success, num_turns",
                           name, type)};
}

void score_trajectory(const std::vector<RewardFunction>& rewards, proto::Trajectory& trajectory) {
  trajectory.reward_parts.clear();
  trajectory.score = 0;
  for (const RewardFunction& reward : rewards) {
    double value = reward.score(trajectory);
    trajectory.reward_parts.push_back({reward.name, value, reward.weight});
    trajectory.score += reward.weight * value;
  }
  trajectory.token_rewards.assign(trajectory.tokens.size(), 0.F);
  if (!trajectory.token_rewards.empty())
    trajectory.token_rewards.back() = static_cast<float>(trajectory.score);
}

Expected<void> RewardState::open(RewardOptions options) {
  options_ = std::move(options);
  auto address = RewardActor{self_};
  FailureSink fail = options_.fail;
  COHORT_ASSIGN(hop_, Hop::open(
                          options_.hop,
                          [address](DeliveryHandle delivery) {
                            caf::anon_send(address, deliver_atom_v, delivery);
                          },
                          [fail](const std::string& link, const Error& error) {
                            fail({"rewards", "link", link + ": " + error.to_string()});
                          }));
  return {};
}

void RewardState::on_delivery(const DeliveryHandle& delivery) {
  auto batch = hop_->decode(*delivery);
  if (!batch) return options_.fail({"rewards", "score", batch.error().to_string()});
  for (proto::Trajectory& trajectory : *batch) score_trajectory(options_.rewards, trajectory);
  if (auto sent = hop_->forward(std::move(*batch), delivery); !sent)
    options_.fail({"rewards", "forward", sent.error().to_string()});
}

RewardActor::behavior_type reward(RewardActor::stateful_pointer<RewardState> self,
                                  RewardOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  FailureSink fail = options.fail;
  if (auto opened = self->state.open(std::move(options)); !opened) {
    fail({"rewards", "start", opened.error().to_string()});
    self->quit(to_caf(opened.error()));
  }
  return {
      [self](deliver_atom, const DeliveryHandle& delivery) { self->state.on_delivery(delivery); }};
}

}  // namespace cohort::actors

#pragma once
/// Replicas that play groups at a modelled speed, in virtual time: an iteration of a replica gives
/// one token to each of its running trajectories and takes 1 + running / k_saturation units, over
/// its speed. The dispatcher is the real one. Everything is a function of the seed.
#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/plan/flow/dispatch.hpp"
#include "runtime/plan/flow/stragglers.hpp"

namespace cohort::tests {

struct SimGroup {
  plan::DispatchGroup spec;
  std::vector<uint64_t> lengths;  // response tokens of its trajectories, which nobody knows before
};

inline double standard_normal(Rng& rng) {
  const double u = 1.0 - rng.uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * rng.uniform());
}

/// Groups whose lengths are skewed between prompts and, less, inside one.
/// `is_known`: what a group says of itself is what its prompt took in an earlier epoch.
inline std::vector<SimGroup> skewed_groups(uint64_t seed, size_t count, uint32_t group_size,
                                           bool is_known) {
  std::vector<SimGroup> groups;
  Rng rng(seed);
  for (size_t g = 0; g < count; ++g) {
    SimGroup group;
    group.spec = {g, g, group_size, 20 + rng.below(100), 0};
    const double prompt = 5.0 + 1.0 * standard_normal(rng);
    for (uint32_t i = 0; i < group_size; ++i)
      group.lengths.push_back(static_cast<uint64_t>(
          std::clamp(std::exp(prompt + 0.5 * standard_normal(rng)), 1.0, 1024.0)));
    if (is_known)
      group.spec.response_tokens = static_cast<uint64_t>(
          std::clamp(std::exp(prompt + 0.3 * standard_normal(rng)), 1.0, 1024.0));
    groups.push_back(std::move(group));
  }
  return groups;
}

class DispatchSim {
 public:
  static constexpr double k_saturation = 64;
  static constexpr size_t k_slots = 64;

  DispatchSim(std::vector<SimGroup> groups, std::vector<double> speeds)
      : groups_(std::move(groups)), speeds_(std::move(speeds)), replicas_(speeds_.size()) {}

  /// Every replica gets an equal run of consecutive groups at the start, as one lease.
  double even_split() {
    const size_t n = replicas_.size();
    for (size_t r = 0; r < n; ++r)
      for (size_t g = groups_.size() * r / n; g < groups_.size() * (r + 1) / n; ++g)
        for (uint32_t i = 0; i < groups_[g].lengths.size(); ++i)
          replicas_[r].queue.push_back({g, i, 0});
    return run([](const Game&, uint32_t) {});
  }

  double dispatched(const plan::DispatchOptions& options) {
    plan::Dispatcher dispatcher(options);
    for (const SimGroup& group : groups_) dispatcher.add(group.spec).value();
    hand_out(dispatcher);
    return run([&](const Game& game, uint32_t replica) {
      const auto ended = dispatcher.end(game.group, game.index, replica, length(game));
      if (ended.is_first) ++ended_;
      hand_out(dispatcher);
      dispatcher.assert_invariants();
    });
  }

  /// Groups as leases: each ends as a whole, on the replica that is first to have played all of it;
  /// what is late is hedged.
  double leased(const plan::DispatchOptions& options, const plan::StragglerOptions& late) {
    plan::Dispatcher dispatcher(options);
    plan::GroupClock clock(late);
    std::map<std::pair<uint64_t, uint32_t>, size_t> left;  // games by group and replica
    for (const SimGroup& group : groups_) dispatcher.add(group.spec).value();
    const auto give = [&](const plan::DispatchPart& part) {
      left[{part.group, part.replica}] = part.indices.size();
      for (uint32_t index : part.indices)
        replicas_[part.replica].queue.push_back({part.group, index, 0});
    };
    const auto assign = [&](double now) {
      for (const plan::DispatchPart& part : dispatcher.assign()) {
        clock.opened(part.group, now);
        give(part);
      }
    };
    assign(0);
    on_tick_ = [&](double now) {
      for (uint64_t group : clock.late(now))
        if (auto part = dispatcher.hedge(group)) {
          give(*part);
          ++moved_;
        }
    };
    return run([&](const Game& game, uint32_t replica) {
      if (--left.at({game.group, replica}) > 0) return;
      for (uint32_t index = 0; index < groups_[game.group].lengths.size(); ++index) {
        const auto end = dispatcher.end(game.group, index, replica, length({game.group, index, 0}));
        if (end.is_first) ++ended_;
        for (uint32_t other : end.still_on) cancel({game.group, other, {}});
      }
      clock.ended(game.group, now_);
      assign(now_);
      dispatcher.assert_invariants();
    });
  }
  /// Of all tokens, those of games that were given up.
  double wasted_share() const {
    double tokens = 0;
    for (const SimGroup& group : groups_)
      for (uint64_t n : group.lengths) tokens += static_cast<double>(n);
    return wasted_ / (tokens + wasted_);
  }

  /// No schedule ends earlier: all replicas full from begin to end, or the longest one alone.
  double bound() const {
    double tokens = 0, longest = 0;
    for (const SimGroup& group : groups_)
      for (uint64_t n : group.lengths) {
        tokens += static_cast<double>(n);
        longest = std::max(longest, static_cast<double>(n));
      }
    const double speed = std::accumulate(speeds_.begin(), speeds_.end(), 0.0);
    const double rate = k_slots / (1 + k_slots / k_saturation);
    const double fastest = *std::max_element(speeds_.begin(), speeds_.end());
    return std::max(tokens / (rate * speed), longest * (1 + 1 / k_saturation) / fastest);
  }
  size_t ended() const { return ended_; }
  size_t moved() const { return moved_; }

 private:
  struct Game {
    uint64_t group = 0;
    uint32_t index = 0;
    uint64_t sampled = 0;
  };
  struct Replica {
    std::deque<Game> queue;
    std::vector<Game> running;
    double clock = 0;
    double ready = std::numeric_limits<double>::infinity();  // end of the iteration under way
  };

  uint64_t length(const Game& game) const { return groups_[game.group].lengths[game.index]; }

  void begin_iteration(uint32_t r, double now) {
    Replica& replica = replicas_[r];
    while (replica.running.size() < k_slots && !replica.queue.empty()) {
      replica.running.push_back(replica.queue.front());
      replica.queue.pop_front();
    }
    replica.ready = std::numeric_limits<double>::infinity();
    if (!replica.running.empty())
      replica.ready =
          now + (1 + static_cast<double>(replica.running.size()) / k_saturation) / speeds_[r];
  }

  void hand_out(plan::Dispatcher& dispatcher) {
    for (const plan::DispatchPart& part : dispatcher.assign())
      for (uint32_t index : part.indices)
        replicas_[part.replica].queue.push_back({part.group, index, 0});
  }

  void cancel(const plan::DispatchPart& part) {
    const auto is_of = [&](const Game& game) { return game.group == part.group; };
    for (const Game& game : replicas_[part.replica].running)
      if (is_of(game)) wasted_ += static_cast<double>(game.sampled);
    std::erase_if(replicas_[part.replica].queue, is_of);
    std::erase_if(replicas_[part.replica].running, is_of);
  }

  template <class OnEnd>
  double run(OnEnd on_end) {
    double now = 0;
    for (;;) {
      for (uint32_t r = 0; r < replicas_.size(); ++r)
        if (std::isinf(replicas_[r].ready)) begin_iteration(r, now);
      auto next =
          std::min_element(replicas_.begin(), replicas_.end(),
                           [](const Replica& a, const Replica& b) { return a.ready < b.ready; });
      if (std::isinf(next->ready)) return now;
      now = now_ = next->ready;
      if (on_tick_) on_tick_(now);
      std::vector<Game> over;
      for (Game& game : next->running)
        if (++game.sampled >= length(game)) over.push_back(game);
      std::erase_if(next->running, [&](const Game& game) { return game.sampled >= length(game); });
      const auto r = static_cast<uint32_t>(next - replicas_.begin());
      for (const Game& game : over) on_end(game, r);
      begin_iteration(r, now);
    }
  }

  std::vector<SimGroup> groups_;
  std::vector<double> speeds_;
  std::vector<Replica> replicas_;
  size_t ended_ = 0, moved_ = 0;
  double now_ = 0, wasted_ = 0;
  std::function<void(double)> on_tick_;  // before each end of an iteration
};

}  // namespace cohort::tests

#pragma once
/// A simulated rollout: it plays the trajectories of leases for a while each, and hands them to the
/// reward link in frames, as actors/roles/rollout_actor.cpp does; it serves the version that was
/// committed last. What it keeps is what its process loses in a crash. One thread. Bound: its
/// leases.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/run/commands.hpp"
#include "tools/cohort-sim/link_ends.hpp"
#include "tools/cohort-sim/sim_job.hpp"

namespace cohort::sim {

class SimRollout {
 public:
  using Reply = std::function<void(Expected<plan::run::LeaseEnded>)>;
  /// `end_process`: what it plays kills it. Called at the end of an event of its own.
  SimRollout(Stage& stage, const Job& job, Process& self, const std::string& label,
             uint32_t replica, std::function<void()> end_process)
      : stage_(stage),
        job_(job),
        self_(self),
        replica_(replica),
        end_process_(std::move(end_process)),
        output_(stage, self, "reward", named(job.link, label + "reward", "reward")) {}
  void on_lease(const plan::run::Lease& order, Reply reply) {
    stage_.world.note("leased", replica_, order.number, order.round.step);
    const bool is_warm = order.round.kind == Kind::warm_start;
    if (!is_warm)
      stage_.audit.on_play(parameters_ == 0 ? ~0ULL : version_, order.version, job_.is_flowing);
    if (!is_warm && !has_cache_)
      stage_.world.violate("PLACE-4", self_.name + " has a lease, and no cache");
    Lease lease{order, std::move(reply), 0, {order.number, 0, 0}};
    for (size_t i = 0; i < order.groups.size(); ++i)
      for (uint32_t index = 0; index < order.group_size; ++index) {
        if (!order.indices.empty() && !std::ranges::binary_search(order.indices[i], index))
          continue;
        Item item;
        item.step = order.round.step;
        item.kind = static_cast<uint32_t>(order.round.kind);
        item.group = order.groups[i];
        item.index = index;
        item.attempt = order.attempt;
        item.replica = replica_;
        games_.push_back({next_serial_++, order.number, item, false});
        ++lease.missing;
      }
    if (!leases_.emplace(order.number, std::move(lease)).second)
      stage_.world.violate("LEASE-1", "two leases have one number");
    begin_games();
  }
  /// The lease ends with Errc::cancelled, unless it has ended.
  void on_cancel(const plan::run::Cancel& cancel) {
    auto lease = leases_.find(cancel.number);
    if (cancel.number == 0)  // planted: books by group, in which a later lease takes the place
      for (auto each = leases_.begin(); each != leases_.end(); ++each)
        if (each->second.order.round == cancel.round &&
            each->second.order.groups == std::vector<uint32_t>{cancel.group})
          lease = each;
    if (lease == leases_.end()) return;
    const uint64_t number = lease->first;
    stage_.world.note("cancelled", replica_, number);
    std::erase_if(games_, [number](const Game& game) { return game.lease == number; });
    std::erase_if(finished_, [number](const auto& each) { return each.first == number; });
    Reply reply = std::move(lease->second.reply);
    leases_.erase(lease);
    reply(Error{Errc::cancelled, "another has played it"});
    begin_games();
  }
  /// Says a number that rises while it gets on with what it plays.
  uint64_t on_ping() const { return moves_; }
  /// The parameters of `version` are here, all of them or not.
  void serve(uint64_t version, uint64_t parameters) {
    stage_.world.note("serves", replica_, version, parameters % 1000);
    stage_.audit.on_served("a rollout serves", version, parameters);
    version_ = version;
    parameters_ = parameters;
    // A replica of several cards goes on when all of them have the version.
    is_held_ = job_.is_flowing && job_.tensor_parallel > 1;
  }
  /// A phase begins on its card.
  void on_phase(plan::PhaseKind kind) {
    if (kind != plan::PhaseKind::generate && kind != plan::PhaseKind::evaluate) return;
    is_held_ = false;
    begin_games();
    for (const uint64_t serial : std::exchange(due_, {})) end_game(serial);
  }
  /// Its card is moved: PLACE-4. A version may come under a lease, if rollouts play on over it.
  void on_card_moves(const plan::Command& command) {
    const bool is_version = command.verb == plan::Command::Verb::reshard;
    if (!leases_.empty() && !(is_version && job_.is_flowing))
      stage_.world.violate("PLACE-4", self_.name + " is asked to move its card under a lease");
    if (!is_version && command.object == plan::Object::kv_cache)
      has_cache_ = command.to == plan::Place::card;
  }
  /// It plays on for ever and ends nothing.
  void hang() { is_hung_ = true; }

 private:
  static constexpr size_t k_games = 4;  // at once
  struct Game {
    uint64_t serial = 0, lease = 0;
    Item item;
    bool is_open = false;
  };
  struct Lease {
    plan::run::Lease order;
    Reply reply;
    size_t missing = 0;  // trajectories that have not left
    plan::run::LeaseEnded report;
  };
  void begin_games() {
    auto open = static_cast<size_t>(std::ranges::count_if(games_, &Game::is_open));
    for (Game& game : games_) {
      if (open >= k_games || is_held_) return;
      if (std::exchange(game.is_open, true)) continue;
      ++open;
      ++moves_;
      if (game.item.kind != static_cast<uint32_t>(Kind::warm_start)) {  // else a script plays it
        game.item.version = version_;
        game.item.parameters = parameters_;
      }
      if (game.item.kind == static_cast<uint32_t>(Kind::train) &&
          job_.killers.contains({game.item.step, game.item.group})) {
        stage_.world.post(self_, stage_.world.pick(1, 50), [this, serial = game.serial] {
          const bool is_played = std::ranges::any_of(
              games_, [serial](const Game& each) { return each.serial == serial; });
          if (is_played) end_process_();
        });
        continue;
      }
      stage_.world.post(self_, game_ms(), [this, serial = game.serial] { end_game(serial); });
    }
  }
  void end_game(uint64_t serial) {
    auto game = std::ranges::find(games_, serial, &Game::serial);
    if (game == games_.end() || is_hung_) return;  // cancelled
    if (is_held_) return due_.push_back(serial);
    ++moves_;
    Item& item = game->item;
    item.last_version = item.parameters == 0 ? 0 : version_;
    item.last_parameters = item.parameters == 0 ? 0 : parameters_;
    item.content = content_of(item);
    if (item.kind == static_cast<uint32_t>(Kind::val) ||
        item.kind == static_cast<uint32_t>(Kind::val_greedy))
      stage_.audit.on_evaluated(item);
    finished_.emplace_back(game->lease, item);
    games_.erase(game);
    send_later(5);
    begin_games();
  }
  int64_t game_ms() {
    if (job_.length_sigma > 0)
      return std::llround(Job::k_median_ms * std::exp(job_.length_sigma * stage_.world.normal()));
    const int64_t longer = stage_.world.chance(job_.long_games) ? 20 : 1;
    return longer * stage_.world.pick(5, 150);
  }
  void send_frames() {
    while (!finished_.empty() && !is_hung_) {
      auto count = std::min(finished_.size(), static_cast<size_t>(stage_.world.pick(1, 3)));
      std::vector<std::pair<uint64_t, Item>> left(
          finished_.begin(), finished_.begin() + static_cast<ptrdiff_t>(count));
      std::vector<Item> frame;
      for (const auto& [lease, item] : left) frame.push_back(item);
      auto body = tensor::Buffer::allocate(static_cast<size_t>(stage_.world.pick(0, 2600)));
      std::ranges::fill(body.mutable_bytes(), static_cast<std::byte>(frame.front().content));
      auto sent = output_.send({1, pack(frame), body},
                               [this, frame](uint64_t) { stage_.audit.on_source_acked(frame); });
      if (!sent) {
        ++moves_;  // it waits for a slow consumer: see RolloutState::on_ping
        if (sent.error().code != Errc::backpressure)
          stage_.world.violate("FLOW-4", sent.error().to_string());
        return send_later(10);
      }
      finished_.erase(finished_.begin(), finished_.begin() + static_cast<ptrdiff_t>(count));
      leave(left);
    }
  }
  void send_later(int64_t delay_ms) {
    if (std::exchange(is_sending_, true)) return;
    stage_.world.post(self_, delay_ms, [this] {
      is_sending_ = false;
      send_frames();
    });
  }
  void leave(const std::vector<std::pair<uint64_t, Item>>& left) {
    for (const auto& [number, item] : left) {
      auto lease = leases_.find(number);
      if (lease == leases_.end()) continue;
      ++lease->second.report.trajectories;
      lease->second.report.response_tokens += 1 + item.content % 8;
      if (--lease->second.missing > 0) continue;
      Lease over = std::move(lease->second);
      leases_.erase(lease);
      over.reply(over.report);
    }
  }

  Stage& stage_;
  const Job& job_;
  Process& self_;
  const uint32_t replica_;
  const std::function<void()> end_process_;
  uint64_t version_ = 0, parameters_ = 0;  // that it serves; parameters 0: none
  uint64_t next_serial_ = 1, moves_ = 0;
  bool is_hung_ = false, is_sending_ = false;
  bool has_cache_ = false, is_held_ = false;
  std::vector<uint64_t> due_;         // games that have ended while it was held
  std::map<uint64_t, Lease> leases_;  // by number
  std::deque<Game> games_;
  std::deque<std::pair<uint64_t, Item>> finished_;  // by lease
  SimSender output_;
};

}  // namespace cohort::sim

#include "tools/cohort-sim/sim_rollout.hpp"

#include <algorithm>
#include <utility>

namespace cohort::sim {

SimRollout::SimRollout(Stage& stage, const Job& job, Process& self, const std::string& label,
                       uint32_t replica, std::function<void()> end_process)
    : stage_(stage),
      job_(job),
      self_(self),
      replica_(replica),
      end_process_(std::move(end_process)),
      output_(stage, self, "reward", named(job.link, label + "reward", "reward")) {}

void SimRollout::serve(uint64_t version, uint64_t parameters) {
  stage_.world.note("serves", replica_, version, parameters % 1000);
  stage_.audit.on_served("a rollout serves", version, parameters);
  version_ = version;
  parameters_ = parameters;
}

void SimRollout::on_card_moves() {
  if (!leases_.empty())
    stage_.world.violate("PLACE-4", self_.name + " is asked to move its card under a lease");
}

void SimRollout::on_lease(const plan::run::Lease& order, Reply reply) {
  stage_.world.note("leased", replica_, order.number, order.round.step);
  const bool is_warm = order.round.kind == Kind::warm_start;
  if (!is_warm) stage_.audit.on_play(parameters_ == 0 ? ~0ULL : version_, order.version);
  Lease lease{order, std::move(reply), 0, {order.number, 0, 0}};
  for (size_t i = 0; i < order.groups.size(); ++i)
    for (uint32_t index = 0; index < order.group_size; ++index) {
      if (!order.indices.empty() && !std::ranges::binary_search(order.indices[i], index)) continue;
      Item item;
      item.step = order.round.step;
      item.kind = static_cast<uint32_t>(order.round.kind);
      item.group = order.groups[i];
      item.index = index;
      item.attempt = order.attempt;
      item.replica = replica_;
      item.version = is_warm ? 0 : version_;  // else a script plays it
      item.parameters = is_warm ? 0 : parameters_;
      item.content = content_of(item.parameters, key_of(item));
      games_.push_back({next_serial_++, order.number, item, false});
      ++lease.missing;
    }
  if (!leases_.emplace(order.number, std::move(lease)).second)
    stage_.world.violate("LEASE-1", "two leases have one number");
  begin_games();
}

void SimRollout::begin_games() {
  auto open = static_cast<size_t>(std::ranges::count_if(games_, &Game::is_open));
  for (Game& game : games_) {
    if (open >= k_games) return;
    if (std::exchange(game.is_open, true)) continue;
    ++open;
    ++moves_;
    if (game.item.kind == static_cast<uint32_t>(Kind::train) &&
        job_.killers.contains({game.item.step, game.item.group})) {
      stage_.world.post(self_, stage_.world.pick(1, 50), [this, serial = game.serial] {
        const bool is_played = std::ranges::any_of(
            games_, [serial](const Game& each) { return each.serial == serial; });
        if (is_played) end_process_();
      });
      continue;
    }
    const int64_t longer = stage_.world.chance(job_.long_games) ? 20 : 1;
    stage_.world.post(self_, longer * stage_.world.pick(5, 150),
                      [this, serial = game.serial] { end_game(serial); });
  }
}

void SimRollout::end_game(uint64_t serial) {
  auto game = std::ranges::find(games_, serial, &Game::serial);
  if (game == games_.end() || is_hung_) return;  // cancelled
  ++moves_;
  finished_.emplace_back(game->lease, game->item);
  games_.erase(game);
  send_later(5);
  begin_games();
}

void SimRollout::send_later(int64_t delay_ms) {
  if (std::exchange(is_sending_, true)) return;
  stage_.world.post(self_, delay_ms, [this] {
    is_sending_ = false;
    send_frames();
  });
}

void SimRollout::send_frames() {
  while (!finished_.empty() && !is_hung_) {
    auto count = std::min(finished_.size(), static_cast<size_t>(stage_.world.pick(1, 3)));
    std::vector<std::pair<uint64_t, Item>> left(finished_.begin(),
                                                finished_.begin() + static_cast<ptrdiff_t>(count));
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

void SimRollout::leave(const std::vector<std::pair<uint64_t, Item>>& left) {
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

void SimRollout::on_cancel(const plan::run::Cancel& cancel) {
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

}  // namespace cohort::sim

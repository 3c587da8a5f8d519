#include "tools/cohort-sim/sim_roles.hpp"

#include <algorithm>
#include <utility>

namespace cohort::sim {

namespace {

constexpr int64_t k_beat_ms = 200, k_silence_ms = 1000, k_lease_again_ms = 400;

transport::LinkOptions named(const Job& job, std::string name, std::string service) {
  transport::LinkOptions options = job.link;
  options.name = std::move(name);
  options.service = std::move(service);
  return options;
}

}  // namespace

Rollout::Rollout(Stage& stage, Roles& roles, const Job& job, Process& self, uint32_t replica)
    : stage_(stage),
      roles_(roles),
      self_(self),
      replica_(replica),
      incarnation_(roles.next_incarnation()),
      output_(stage, self, "reward", named(job, self.name + "->reward", "reward")) {
  beat();
}

void Rollout::beat() {
  roles_.beat({replica_, incarnation_, term_, last_lease_});
  stage_.world.post(self_, k_beat_ms, [this] { beat(); });
}

void Rollout::on_publish(const Publish& publish) {
  if (publish.incarnation != incarnation_ || publish.term <= term_) return;
  stage_.world.note("serves", replica_, publish.term.attempt, publish.term.step);
  term_ = publish.term;
  if (stage_.plant != Plant::stale_served || version_ == 0) version_ = publish.version;
  last_lease_ = 0;
  games_.clear();
}

void Rollout::on_lease(const SimLease& lease) {
  if (lease.incarnation != incarnation_ || lease.term != term_ || lease.number != last_lease_ + 1)
    return;  // of another life, or one that comes again
  last_lease_ = lease.number;
  stage_.world.note("leased", replica_, lease.group, lease.number);
  stage_.audit.on_play(version_, lease.version);
  for (uint32_t index : lease.indices) {
    Item item{lease.term.step, lease.group, index, static_cast<uint32_t>(lease.term.attempt),
              replica_,        version_,    0,     0};
    item.content = content_of(version_, key_of(item));
    games_.push_back({next_serial_++, lease.number, item, false});
  }
  begin_games();
}

void Rollout::begin_games() {
  size_t open = static_cast<size_t>(
      std::count_if(games_.begin(), games_.end(), [](const Game& game) { return game.is_open; }));
  for (Game& game : games_) {
    if (open >= k_games) return;
    if (std::exchange(game.is_open, true)) continue;
    ++open;
    stage_.world.post(self_, stage_.world.pick(5, 150),
                      [this, serial = game.serial] { end_game(serial); });
  }
}

void Rollout::end_game(uint64_t serial) {
  auto game = std::find_if(games_.begin(), games_.end(),
                           [&](const Game& each) { return each.serial == serial; });
  if (game == games_.end()) return;  // cancelled
  finished_.push_back(game->item);
  games_.erase(game);
  if (finished_.size() == 1) stage_.world.post(self_, 5, [this] { send_frames(); });
  begin_games();
}

void Rollout::send_frames() {
  while (!finished_.empty()) {
    size_t count = std::min(finished_.size(), static_cast<size_t>(stage_.world.pick(1, 3)));
    std::vector<Item> frame(finished_.begin(), finished_.begin() + static_cast<ptrdiff_t>(count));
    auto body = tensor::Buffer::allocate(static_cast<size_t>(stage_.world.pick(0, 2600)));
    std::fill(body.mutable_bytes().begin(), body.mutable_bytes().end(),
              static_cast<std::byte>(frame.front().content));
    auto sent = output_.send({1, pack(frame), body},
                             [this, frame](uint64_t) { stage_.audit.on_source_acked(frame); });
    if (!sent) {
      if (sent.error().code != Errc::backpressure)
        stage_.world.violate("FLOW-4", sent.error().to_string());
      return stage_.world.post(self_, 10, [this] { send_frames(); });
    }
    finished_.erase(finished_.begin(), finished_.begin() + static_cast<ptrdiff_t>(count));
  }
}

void Rollout::on_cancel(const Cancel& cancel) {
  if (cancel.incarnation != incarnation_ || cancel.term != term_) return;
  std::erase_if(games_, [&](const Game& game) {
    return game.lease == cancel.lease && game.item.index == cancel.index;
  });
  begin_games();
}

void Rollout::on_rejoin(uint64_t incarnation) {
  if (incarnation != incarnation_) return;
  incarnation_ = roles_.next_incarnation();
  term_ = {};
  version_ = last_lease_ = 0;
  games_.clear();
  stage_.world.note("rejoins", replica_, incarnation_);
}

MiddleHop::MiddleHop(Stage& stage, const Job& job, Process& self, bool is_reward,
                     const std::string& input, const std::string& output)
    : stage_(stage),
      self_(self),
      is_reward_(is_reward),
      output_(stage, self, output, named(job, self.name + "->" + output, output)),
      relay_([this] {
        if (stage_.plant != Plant::hop_never_flushes)
          stage_.world.post(self_, 0, [this] { flush(); });
      }),
      input_(stage, self, input, named(job, input, stage.plant == Plant::wrong_door ? "" : input),
             [this](const SimTicket& ticket) { on_delivery(ticket); }) {}

void MiddleHop::on_delivery(const SimTicket& ticket) {
  // Scored side by side: the frame leaves when the last of it has its score.
  int64_t longest = 0;
  for (size_t i = 0; i < ticket->message.header.size() / sizeof(Item); ++i)
    longest = std::max(longest, stage_.world.pick(0, 30));
  stage_.world.post(self_, longest, [this, ticket] { finish(ticket); });
}

void MiddleHop::finish(const SimTicket& ticket) {
  std::vector<Item> items = unpack(ticket->message.header);
  if (is_reward_)
    for (Item& item : items) item.score = mix64(item.content) | 1;
  auto sent = relay_.forward(output_, {1, pack(items), ticket->message.body}, ticket);
  if (!sent) stage_.world.violate("FLOW-4", sent.error().to_string());
}

void MiddleHop::flush() {
  if (auto left = relay_.flush(output_); !left)
    stage_.world.violate("FLOW-4", left.error().to_string());
}

Head::Head(Stage& stage, Roles& roles, const Job& job, Process& self, Disk& disk)
    : stage_(stage),
      roles_(roles),
      job_(job),
      self_(self),
      disk_(disk),
      seats_(job.rollouts),
      input_(stage, self, "collector",
             named(job, "collector", stage.plant == Plant::wrong_door ? "" : "collector"),
             [this](const SimTicket& ticket) { on_delivery(ticket); }) {
  term_.attempt = disk.open();
  term_.step = disk.checkpoint().steps;
  version_ = disk.checkpoint().version;
  stage_.world.note("head begins", term_.attempt, term_.step);
  begin_step();
  watch();
}

void Head::begin_step() {
  if (term_.step == job_.steps) return roles_.run_ends(version_);
  ++term_.step;
  batch_.clear();
  plan::DispatchOptions options;
  options.replicas = job_.rollouts;
  options.open_tokens_max = 2 * job_.group_size;
  dispatcher_.emplace(options);
  for (uint32_t r = 0; r < job_.rollouts; ++r) {
    dispatcher_->lose(r);  // until it serves the version
    seats_[r].is_here = false;
    seats_[r].leases.clear();
  }
  collector_.open_step({0, term_.step}, job_.groups, job_.group_size).value();
  for (uint32_t group = 0; group < job_.groups; ++group)
    dispatcher_->add({group, group, job_.group_size, 0, 1}).value();
  take_recorded();
  maybe_train();
}

/// What an earlier life has recorded of this step need not be played again.
void Head::take_recorded() {
  const std::vector<Item>& records = disk_.records();
  for (const Item& item : records)
    if (item.step == term_.step && item.version == version_ &&
        collector_.offer({0, item.step, item.group, item.index}) == plan::Verdict::accepted)
      collect(item);
}

void Head::on_beat(const Beat& beat) {
  Seat& seat = seats_[beat.replica];
  if (beat.incarnation < seat.incarnation) return;
  if (beat.incarnation > seat.incarnation) {
    leave(beat.replica);
    seat = {};
    seat.incarnation = beat.incarnation;
  }
  if (seat.is_fenced) return roles_.rejoin(beat.replica, beat.incarnation);
  seat.heard = stage_.world.now();
  if (beat.term != term_) return roles_.publish(beat.replica, {beat.incarnation, term_, version_});
  if (!std::exchange(seat.is_here, true)) {
    dispatcher_->restore(beat.replica);
    hand_out();
  }
  if (seat.heard - seat.leased <= k_lease_again_ms) return;
  seat.leased = seat.heard;
  for (size_t i = beat.last_lease; i < seat.leases.size(); ++i)
    roles_.lease(beat.replica, seat.leases[i]);
}

void Head::leave(uint32_t replica) {
  if (!std::exchange(seats_[replica].is_here, false)) return;
  stage_.world.note("loses rollout", replica);
  if (stage_.plant != Plant::requeue_off) dispatcher_->lose(replica);
}

void Head::watch() {
  for (uint32_t r = 0; r < job_.rollouts; ++r) {
    if (!seats_[r].is_here || stage_.world.now() - seats_[r].heard <= k_silence_ms) continue;
    leave(r);
    seats_[r].is_fenced = true;
  }
  hand_out();
  stage_.world.post(self_, 100, [this] { watch(); });
}

void Head::hand_out() {
  do {
    for (const plan::DispatchPart& part : dispatcher_->assign()) {
      Seat& seat = seats_[part.replica];
      SimLease lease{seat.incarnation,
                     term_,
                     seat.leases.size() + 1,
                     version_,
                     static_cast<uint32_t>(part.group),
                     part.indices};
      seat.leases.push_back(lease);
      seat.leased = stage_.world.now();
      roles_.lease(part.replica, lease);
    }
    auto taken = dispatcher_->take_from_slow();
    if (!taken) break;
    stage_.world.note("takes from slow", taken->replica, taken->group);
    for (uint32_t index : taken->indices)
      cancel(taken->replica, static_cast<uint32_t>(taken->group), index);
  } while (true);
  dispatcher_->assert_invariants();
}

void Head::cancel(uint32_t replica, uint32_t group, uint32_t index) {
  const Seat& seat = seats_[replica];
  for (const SimLease& lease : seat.leases)
    if (lease.group == group)
      roles_.cancel(replica, {seat.incarnation, term_, lease.number, index});
}

void Head::on_delivery(const SimTicket& ticket) {
  std::vector<Item> fresh;
  for (const Item& item : unpack(ticket->message.header)) {
    plan::Verdict verdict = collector_.offer({0, item.step, item.group, item.index}, item.attempt);
    bool is_duplicate = verdict == plan::Verdict::duplicate;
    if (verdict == plan::Verdict::accepted || (is_duplicate && stage_.plant == Plant::dedupe_off)) {
      fresh.push_back(item);
    } else {
      stage_.world.note("refused", item.step, item.group, item.index);
      if (!is_duplicate) stage_.audit.on_refused(item);
    }
  }
  if (stage_.plant == Plant::ack_before_record) ticket->ack();
  disk_.append(self_, fresh, [this, fresh, ticket](bool is_written) {
    if (!is_written) return roles_.head_ends();
    ticket->ack();  // FLOW-2: only here
    on_recorded(fresh);
  });
}

void Head::on_recorded(const std::vector<Item>& fresh) {
  for (const Item& item : fresh)
    if (item.step == term_.step) collect(item);
  collector_.assert_invariants();
  maybe_train();
  if (!is_training_) hand_out();
}

void Head::collect(const Item& item) {
  stage_.world.note("collected", item.step, item.group, item.index);
  batch_.push_back(item);
  plan::DispatchEnd end = dispatcher_->end(item.group, item.index, item.replica, 1);
  for (uint32_t replica : end.still_on) cancel(replica, item.group, item.index);
}

void Head::maybe_train() {
  if (is_training_ || !collector_.is_step_complete({0, term_.step}) ||
      batch_.size() < uint64_t{job_.groups} * job_.group_size)
    return;
  is_training_ = true;
  stage_.world.post(self_, stage_.world.pick(20, 200), [this] { train(); });
}

void Head::train() {
  stage_.world.note("trains", term_.step, version_);
  collector_.close_step({0, term_.step}).value();
  std::sort(batch_.begin(), batch_.end(),
            [](const Item& a, const Item& b) { return key_of(a) < key_of(b); });
  stage_.audit.on_trained(term_.step, version_, batch_, job_.groups, job_.group_size);
  version_ = next_version(version_, batch_);
  auto next = [this](bool is_saved) {
    if (!is_saved) return roles_.head_ends();
    is_training_ = false;
    begin_step();
  };
  if (term_.step % job_.save_every != 0 && term_.step != job_.steps) return next(true);
  disk_.save(self_, {term_.step, version_}, next);
}

}  // namespace cohort::sim

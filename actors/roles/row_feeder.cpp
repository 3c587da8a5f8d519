#include "actors/roles/row_feeder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/roles/hop.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::actors {

using namespace control;

namespace {

bool is_asked(const Lease& lease, size_t group, uint32_t answer) {
  return lease.indices.empty() || std::ranges::count(lease.indices.at(group), answer) > 0;
}

constexpr int k_again_ms = 1;    // after which a full link is offered a frame again
constexpr int k_pace_ms = 1000;  // a feeder that waits for the time says so often that it lives

double played_seconds(const proto::Trajectory& t) { return t.generate_seconds + t.env_seconds; }

class RowFeederState {
 public:
  static inline const char* name = "rows";
  explicit RowFeederState(PlayerActor::pointer self) : self_(self) {}
  Expected<void> open(RowFeederOptions options) {
    options_ = std::move(options);
    COHORT_ASSIGN(outputs_,
                  Outlets::open(*options_.context, options_.outputs,
                                [fail = options_.fail](const std::string& link, const Error& e) {
                                  fail(failure_of_link("rows", link, e));
                                }));
    return {};
  }
  caf::result<LeaseReport> on_lease(const Lease& lease) {
    if (lease.number <= last_number_)
      return to_caf({Errc::protocol, fmt::format("LEASE-1: lease {} after lease {}: numbers rise",
                                                 lease.number, last_number_)});
    last_number_ = lease.number;
    Open open;
    open.report.number = lease.number;
    open.report.step = lease.step;
    for (size_t i = 0; i < lease.groups.size(); ++i) {
      auto group = options_.read(lease, i);
      if (!group) return to_caf(group.error());
      for (proto::Trajectory& t : *group) {
        t.run_id = options_.run_id;
        t.attempt = lease.attempt;
        open.report.response_tokens += static_cast<uint64_t>(
            std::ranges::count_if(t.response_mask, [](uint8_t x) { return x != 0; }));
        open.trajectories.push_back(std::move(t));
      }
    }
    open.report.trajectories = open.trajectories.size();
    open.started = now_seconds();
    if (options_.is_paced) std::ranges::stable_sort(open.trajectories, {}, played_seconds);
    open.promise = self_->make_response_promise<LeaseReport>();
    auto promise = open.promise;
    leases_.push_back(std::move(open));
    send();
    return promise;
  }
  uint64_t on_ping() const { return sent_; }
  void on_cancel(uint64_t number) {
    for (auto lease = leases_.begin(); lease != leases_.end(); ++lease) {
      if (lease->report.number != number) continue;
      lease->promise.deliver(to_caf({Errc::cancelled, "another has played the group"}));
      leases_.erase(lease);
      return;
    }
  }
  void on_flush() {
    flush_at_ = 0;
    send();
  }

 private:
  struct Open {
    LeaseReport report;
    std::vector<proto::Trajectory> trajectories;  // is_paced: the first to leave first
    size_t sent = 0;
    double started = 0;
    caf::typed_response_promise<LeaseReport> promise;
  };
  // A lease is over when the last of its rows has left.
  void send() {
    const double now = now_seconds();
    double due = k_pace_ms * 1e-3;  // [s] until the next trajectory may leave
    for (auto lease = leases_.begin(); lease != leases_.end();) {
      while (const size_t count = count_due(*lease, now)) {
        const size_t to = outputs_.least_busy();
        auto sent = send_frame(*lease, count, outputs_.link(to));
        ++sent_;  // a wait for a slow consumer is no standstill, either
        if (!sent && sent.error().code == Errc::backpressure) return send_later(k_again_ms);
        if (!sent) return options_.fail(failure_of_link("rows", outputs_.name(to), sent.error()));
        lease->sent += count;
      }
      if (lease->sent < lease->trajectories.size()) {
        due =
            std::min(due, lease->started + played_seconds(lease->trajectories[lease->sent]) - now);
        ++lease;
        continue;
      }
      lease->promise.deliver(lease->report);
      lease = leases_.erase(lease);
    }
    if (leases_.empty()) return;
    ++sent_;
    send_later(1 + static_cast<int>(due * 1e3));
  }
  /// How many trajectories of the lease go into its next frame.
  size_t count_due(const Open& lease, double now) const {
    const auto left = std::span(lease.trajectories).subspan(lease.sent);
    const size_t most = std::min(options_.frame_trajectories, left.size());
    if (!options_.is_paced) return most;
    const auto end = std::ranges::find_if(left.first(most), [&](const proto::Trajectory& t) {
      return lease.started + played_seconds(t) > now;
    });
    return static_cast<size_t>(end - left.begin());
  }
  static Expected<uint64_t> send_frame(const Open& lease, size_t count, transport::Sender& to) {
    proto::Encoded encoded =
        proto::encode_batch(std::span(lease.trajectories).subspan(lease.sent, count));
    return to.send({k_message_trajectories, std::move(encoded.header), encoded.columns});
  }
  void send_later(int delay_ms) {
    const double at = now_seconds() + delay_ms * 1e-3;
    if (flush_at_ != 0 && flush_at_ <= at) return;
    flush_at_ = at;
    self_->delayed_send(PlayerActor{self_}, std::chrono::milliseconds(delay_ms), flush_atom_v);
  }

  PlayerActor::pointer self_;
  RowFeederOptions options_;
  Outlets outputs_;
  std::deque<Open> leases_;  // by number
  uint64_t last_number_ = 0;
  uint64_t sent_ = 0;
  double flush_at_ = 0;  // when the next one comes; 0: none does
};

PlayerActor::behavior_type row_feeder(PlayerActor::stateful_pointer<RowFeederState> self,
                                      RowFeederOptions options) {
  open_or_quit(self, "rows", std::move(options));
  RowFeederState* state = &self->state;
  return {
      [state](lease_atom, const Lease& lease) { return state->on_lease(lease); },
      [state](ping_atom) { return state->on_ping(); },
      [state](cancel_atom, uint64_t number) { state->on_cancel(number); },
      [state](flush_atom) { state->on_flush(); },
  };
}

}  // namespace

LeaseReader reader_of(std::shared_ptr<const RowSet> rows) {
  return [rows = std::move(rows)](const Lease& lease,
                                  size_t position) -> Expected<std::vector<proto::Trajectory>> {
    const uint64_t row = lease.seeds.at(position);
    if (row >= rows->size())
      return Error{Errc::invalid_argument, fmt::format("row {} of {}", row, rows->size())};
    failpoint::hit("rows.read", row);
    std::vector<proto::Trajectory> group;
    for (uint32_t answer = 0; answer < rows->answers(); ++answer)
      if (is_asked(lease, position, answer))
        group.push_back(trajectory_of(
            *rows, row, {lease.kind, lease.step, lease.groups[position], answer}, lease.version));
    return group;
  };
}

LeaseReader reader_of(std::shared_ptr<RecordedGroups> recorded) {
  return [recorded = std::move(recorded)](
             const Lease& lease, size_t position) -> Expected<std::vector<proto::Trajectory>> {
    std::vector<proto::Trajectory> group;
    const uint32_t number = lease.groups[position];
    for (uint32_t i = 0; i < recorded->size_of(lease.kind, lease.step, number); ++i) {
      if (!is_asked(lease, position, i)) continue;
      COHORT_ASSIGN(proto::Trajectory t, recorded->read({lease.kind, lease.step, number, i}));
      group.push_back(std::move(t));
    }
    return group;
  };
}

proto::Trajectory trajectory_of(const RowSet& rows, uint64_t row, const proto::TrajectoryKey& key,
                                uint64_t version) {
  const tasks::MaskedTokens& read = rows.at(row, key.index);
  proto::Trajectory t;
  t.key = key;
  t.tag = rows.tag();
  t.seed = row;
  t.prompt_id = rows.id(row);
  t.weight_version_min = t.weight_version_max = version;
  t.stop_reason = "row";
  t.tokens = read.tokens;
  t.response_mask = read.mask;
  t.metrics = {{std::string(k_row_truncated), read.is_truncated ? 1.0 : 0.0},
               {std::string(k_row_without_end), read.has_lost_end ? 1.0 : 0.0}};
  for (size_t begin = 0; begin < read.mask.size();) {
    size_t end = begin;
    while (end < read.mask.size() && read.mask[end] != 0) ++end;
    if (end > begin) {
      proto::Turn turn;
      turn.response_begin = static_cast<uint32_t>(begin);
      turn.response_end = static_cast<uint32_t>(end);
      turn.response = rows.text(std::span(read.tokens).subspan(begin, end - begin));
      turn.is_valid = true;
      t.turns.push_back(std::move(turn));
    }
    begin = end + 1;
  }
  return t;
}

PlayerActor spawn_row_feeder(caf::actor_system& system, RowFeederOptions options) {
  return system.spawn(row_feeder, std::move(options));
}

}  // namespace cohort::actors

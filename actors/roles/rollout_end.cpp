// How leases of a rollout end: reported, failed, or cancelled because another has played the group.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/roles/rollout_actor.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"

namespace cohort::actors {

using namespace control;

LeaseReport RolloutState::report_of(const OpenLease& lease) const {
  compute::GenerationStats now = engine_->stats();
  LeaseReport report;
  report.number = lease.lease.number;
  report.step = step_;
  report.trajectories = lease.finished;
  report.response_tokens = lease.response_tokens;
  report.generated_tokens = now.total.tokens_sampled - stats_at_start_.total.tokens_sampled;
  report.prefill_tokens = now.total.prefill_tokens - stats_at_start_.total.prefill_tokens;
  for (size_t lane = 0; lane < now.lanes.size(); ++lane)
    report.busy_seconds =
        std::max(report.busy_seconds,
                 now.lanes[lane].busy_seconds - stats_at_start_.lanes[lane].busy_seconds);
  report.wall_seconds = now_seconds() - batch_started_;
  return report;
}

// A lease is over when the last of its trajectories has left.
void RolloutState::report_done() {
  for (uint64_t serial : done_) {
    auto found = leases_.find(serial);
    found->second.promise.deliver(report_of(found->second));
    failpoint::hit("rollout.reported");
    leases_.erase(found);
  }
  done_.clear();
}

/// Gives up what of the lease is not finished. What is still said of it is not heard (place_of).
void RolloutState::release(uint64_t serial, OpenLease& lease) {
  for (size_t slot = 0; slot < lease.opened; ++slot) {
    Episode& episode = lease.episodes[slot];
    if (episode.is_finished) continue;
    idle_environments_[episode.trajectory.tag].push_back(std::move(episode.environment));
    if (episode.trajectory.key.kind != TrajectoryKind::warm_start)
      engine_->finish(request_id(serial, slot));
    --open_games_;
  }
}

// Another replica was first. A lease that is over is not there any more (LEASE-1). A group that is
// cancelled has one lease here at a time.
void RolloutState::on_cancel(uint64_t number) {
  auto found = leases_.find(number);
  if (found == leases_.end()) return;
  const std::vector<uint32_t> groups = found->second.lease.groups;
  release(found->first, found->second);
  found->second.promise.deliver(to_caf({Errc::cancelled, "another has played the group"}));
  std::erase(done_, found->first);
  leases_.erase(found);
  std::erase_if(finished_, [&](const proto::Trajectory& t) {
    return std::ranges::find(groups, t.key.group) != groups.end();
  });
  on_open();
  if (!leases_.empty() && open_games_ == 0) send_frames();
}

void RolloutState::fail_leases(const Place& at, const std::string& what, const Error& error) {
  const proto::TrajectoryKey& key = at.episode->trajectory.key;
  fail_leases(at.serial, fmt::format("group {}, trajectory {}, {}", key.group, key.index, what),
              error);
}

// The run ends with it: what the other leases play is of no use. The cause is told first.
void RolloutState::fail_leases(uint64_t serial, const std::string& what, const Error& error) {
  auto leases = std::exchange(leases_, {});
  done_.clear();
  finished_.clear();
  leases.at(serial).promise.deliver(
      to_caf(error.with_context(fmt::format("rollout {}, {}", options_.replica, what))));
  for (auto& [each, lease] : leases) {
    release(each, lease);
    if (each != serial)
      lease.promise.deliver(to_caf({Errc::cancelled, "another lease of this rollout has failed"}));
  }
}

uint64_t RolloutState::on_ping() const {
  const compute::GenerationStats stats = engine_->stats();
  return stats.total.tokens_sampled + stats.total.prefill_tokens + turns_;
}

void RolloutState::on_failure(const Failure& failure) {
  if (!leases_.empty())
    fail_leases(leases_.begin()->first, failure.phase, {Errc::closed, failure.detail});
}

}  // namespace cohort::actors

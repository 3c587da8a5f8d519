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
  compute::EngineStats now = engine_->stats();
  const Batch& batch = batches_.at(batch_of(lease.lease));
  LeaseReport report;
  report.number = lease.lease.number;
  report.step = lease.lease.step;
  report.trajectories = lease.finished;
  report.response_tokens = lease.response_tokens;
  report.generated_tokens = now.total.tokens_sampled - batch.before.total.tokens_sampled;
  report.prefill_tokens = now.total.prefill_tokens - batch.before.total.prefill_tokens;
  report.busy_seconds = now.busiest_since(batch.before);
  report.wall_seconds = now_seconds() - batch.started;
  return report;
}

// A lease is over when the last of its trajectories has left.
void RolloutState::report_done() {
  for (uint64_t number : done_) {
    auto found = leases_.find(number);
    found->second.promise.deliver(report_of(found->second));
    failpoint::hit("rollout.reported");
    leases_.erase(found);
  }
  done_.clear();
}

/// Gives up what of the lease is not finished. What is still said of it is not heard (place_of).
void RolloutState::release(uint64_t number, OpenLease& lease) {
  for (size_t slot = 0; slot < lease.opened; ++slot) {
    Episode& episode = lease.episodes[slot];
    if (episode.is_finished) continue;
    turn_left(episode);
    idle_environments_[episode.trajectory.tag].push_back(std::move(episode.environment));
    if (!episode.is_scripted) engine_->finish(request_id(number, slot));
    --open_games_;
  }
}

// Another replica was first. A lease that is over is not there any more (LEASE-1).
void RolloutState::on_cancel(uint64_t number) {
  auto found = leases_.find(number);
  if (found == leases_.end()) return;
  release(number, found->second);
  found->second.promise.deliver(to_caf({Errc::cancelled, "another has played the group"}));
  leases_.erase(found);
  drop_finished(number);
  on_open();
  if (!leases_.empty() && open_games_ == 0) send_frames();
  end_interruption();
  commit_if_due();
}

/// What the lease has finished and not sent is not sent.
void RolloutState::drop_finished(uint64_t number) {
  std::erase(done_, number);
  size_t kept = 0;
  for (size_t i = 0; i < finished_.size(); ++i) {
    if (finished_of_[i] == number) continue;
    if (kept != i) finished_[kept] = std::move(finished_[i]);
    finished_of_[kept++] = finished_of_[i];
  }
  finished_.resize(kept);
  finished_of_.resize(kept);
}

void RolloutState::fail_leases(const Place& at, const std::string& what, const Error& error) {
  const proto::TrajectoryKey& key = at.episode->trajectory.key;
  fail_leases(at.number, fmt::format("group {}, trajectory {}, {}", key.group, key.index, what),
              error);
}

// The run ends with it: what the other leases play is of no use. The cause is told first.
void RolloutState::fail_leases(uint64_t number, const std::string& what, const Error& error) {
  auto leases = std::exchange(leases_, {});
  done_.clear();
  finished_.clear();
  finished_of_.clear();
  leases.at(number).promise.deliver(
      to_caf(error.with_context(fmt::format("rollout {}, {}", options_.replica, what))));
  for (auto& [each, lease] : leases) {
    release(each, lease);
    if (each != number)
      lease.promise.deliver(to_caf({Errc::cancelled, "another lease of this rollout has failed"}));
  }
  commit_if_due();
}

// A game that waits for its policy is not hung: the run publishes that, or ends.
uint64_t RolloutState::on_ping() {
  const compute::EngineStats stats = engine_->stats();
  if (is_scheduled_ && !held_.empty()) ++turns_;
  return stats.total.tokens_sampled + stats.total.prefill_tokens + turns_;
}

void RolloutState::on_failure(const Failure& failure) {
  if (!leases_.empty())
    fail_leases(leases_.begin()->first, failure.phase, {Errc::closed, failure.detail});
}

}  // namespace cohort::actors

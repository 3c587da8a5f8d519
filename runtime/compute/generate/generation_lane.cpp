#include "runtime/compute/generate/generation_lane.hpp"

#include <chrono>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"

namespace cohort::compute {

void ServeGate::enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pauses_ == 0; });
  ++inside_;
}

void ServeGate::leave() {
  std::lock_guard lock(mutex_);
  --inside_;
  if (pauses_ > 0 && inside_ == 0) changed_.notify_all();
}

void ServeGate::lock() {
  std::unique_lock lock(mutex_);
  ++pauses_;
  changed_.wait(lock, [this] { return inside_ == 0; });
}

void ServeGate::unlock() {
  std::lock_guard lock(mutex_);
  COHORT_CHECK(pauses_ > 0, "serve gate: resumed without a pause");
  --pauses_;
  changed_.notify_all();
}

GenerationLane::GenerationLane(const SchedulerOptions& options, LaneHooks hooks)
    : hooks_(std::move(hooks)), scheduler_(options) {}

GenerationLane::~GenerationLane() {
  request_stop();
  join();
}

void GenerationLane::start() {
  COHORT_CHECK(!thread_.joinable(), "generation lane started twice");
  thread_ = std::thread([this] { run(); });
}

void GenerationLane::request_stop() {
  std::lock_guard lock(mutex_);
  is_stopping_ = true;
  wake_.notify_all();
}

void GenerationLane::join() {
  if (thread_.joinable()) thread_.join();
}

void GenerationLane::post(Command command) {
  std::lock_guard lock(mutex_);
  inbox_.push_back(std::move(command));
  if (inbox_.size() == 1) wake_.notify_one();
}

WorkerStats GenerationLane::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void GenerationLane::set_cache(std::unique_ptr<LaneRunner> runner, int32_t block_count) {
  runner_ = std::move(runner);
  scheduler_.set_cache(block_count);
  publish_stats(0);
  std::lock_guard lock(mutex_);
  is_kicked_ = true;
  wake_.notify_one();
}

void GenerationLane::publish_stats(double busy_seconds) {
  std::lock_guard lock(mutex_);
  scheduler_.report(stats_);
  stats_.busy_seconds += busy_seconds;
}

/// Sleeps until there is something to do. Returns false when the lane is to end.
bool GenerationLane::wait_for_work(std::vector<Command>& commands) {
  std::unique_lock lock(mutex_);
  auto is_ready = [this] { return is_stopping_ || is_kicked_ || has_rows_ || !inbox_.empty(); };
  while (hooks_.beat &&
         !wake_.wait_for(lock, std::chrono::milliseconds(hooks_.beat_ms), is_ready)) {
    lock.unlock();
    hooks_.beat();
    lock.lock();
  }
  wake_.wait(lock, is_ready);
  is_kicked_ = false;
  commands.swap(inbox_);
  return !is_stopping_;
}

std::vector<LaneOutput> GenerationLane::iterate(std::vector<Command>& commands) {
  for (Command& command : commands) {
    if (command.kind == Command::Kind::turn)
      scheduler_.add(std::move(command.turn));
    else if (command.kind == Command::Kind::finish)
      scheduler_.remove(command.request_id);
    else
      scheduler_.abort(command.request_id, now_seconds());
  }
  commands.clear();
  const std::span<const BatchChunk> batch = scheduler_.plan(now_seconds());
  has_rows_ = !batch.empty();
  if (has_rows_) {
    if (auto logits = runner_->forward(batch)) {
      scheduler_.complete(*logits, hooks_.weight_version(), now_seconds(), runner_.get());
    } else {
      log::error("generation iteration of {} sequences failed: {}", batch.size(),
                 logits.error().to_string());
      scheduler_.fail(now_seconds());
    }
  }
  return scheduler_.take_outputs();
}

void GenerationLane::run() {
  std::vector<Command> commands;
  while (wait_for_work(commands)) {
    hooks_.gate->enter();
    const double begin = now_seconds();
    std::vector<LaneOutput> outputs = iterate(commands);
    publish_stats(has_rows_ ? now_seconds() - begin : 0);
    hooks_.gate->leave();
    if (!outputs.empty()) hooks_.deliver(std::move(outputs));
  }
  if (hooks_.leave) hooks_.leave();
}

}  // namespace cohort::compute

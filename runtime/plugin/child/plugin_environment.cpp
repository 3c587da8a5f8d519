#include "runtime/plugin/child/plugin_environment.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/plugin/child/gem_spec.hpp"
#include "runtime/plugin/child/plugin_pool.hpp"
#include "runtime/plugin/child/plugin_version.hpp"

namespace cohort::plugin {
namespace {

/// One child and the worlds in it. A seat outlives reload() as long as a world sits in it.
class Seat {
 public:
  Seat(std::shared_ptr<PluginPool> pool, double timeout_s)
      : pool_(std::move(pool)), timeout_s_(timeout_s) {}
  ~Seat() {
    if (worker_) pool_->give_back(std::move(worker_));
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  /// Starts an episode; `life` becomes that of the child it runs in.
  Expected<World> reset(uint64_t world, uint64_t seed, uint64_t& life) {
    std::lock_guard lock(mutex_);
    if (!worker_) {
      COHORT_ASSIGN(worker_, pool_->take());
    }
    life = life_;
    return call(Op::reset, reset_payload(world, seed));
  }

  Expected<World> step(uint64_t world, const tasks::PolicyAnswer& answer, uint64_t life) {
    std::lock_guard lock(mutex_);
    if (life != life_ || !worker_)
      return Error{Errc::closed, "the child that held this episode has died"};
    return call(Op::step, step_payload(world, answer));
  }

  /// Has the child forget a world; behind the call that is under way, which nobody waits for.
  void close(uint64_t world, uint64_t life) {
    {
      std::lock_guard lock(left_mutex_);
      left_.push_back({world, life});
    }
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) close_left();
  }

 private:
  void close_left() {
    std::lock_guard lock(left_mutex_);
    for (const auto& [world, life] : left_)
      if (life == life_ && worker_) worker_->begin(Op::close, close_payload(world));
    left_.clear();
  }
  Expected<World> call(Op op, const std::string& payload) {
    close_left();
    worker_->begin(op, payload);
    auto frame = worker_->next(timeout_s_);
    if (frame) close_left();
    if (!frame) return lost(frame.error());
    if (frame->kind == static_cast<uint8_t>(Answer::failed)) {
      auto failure = read_failure(frame->payload);
      return failure ? Error{failure->code, failure->reason} : lost(failure.error());
    }
    if (frame->kind != static_cast<uint8_t>(Answer::world))
      return lost({Errc::protocol, "answered garbage"});
    auto world = read_world(frame->payload);
    return world ? std::move(world) : lost(world.error());
  }

  Error lost(Error error) {
    ++life_;
    pool_->drop(std::move(worker_));
    return error;
  }

  std::shared_ptr<PluginPool> pool_;
  double timeout_s_;
  std::mutex mutex_;
  PluginPool::Worker worker_;
  uint64_t life_ = 0;  // children before this one
  std::mutex left_mutex_;
  std::vector<std::pair<uint64_t, uint64_t>> left_;  // worlds to forget, with their lives
};

class Source;

class PluginWorld final : public tasks::Environment {
 public:
  PluginWorld(std::shared_ptr<Source> source, int max_steps, uint64_t id)
      : source_(std::move(source)), max_steps_(max_steps), id_(id) {}
  ~PluginWorld() override { leave(); }

  std::string reset(uint64_t seed) override;
  tasks::StepResult step(const tasks::PolicyAnswer& answer) override;
  std::string instructions() const override { return instructions_; }
  std::string_view initial_event() const override { return event_; }
  int actions_left() const override { return actions_left_; }
  tasks::EpisodeMetrics metrics() const override { return metrics_; }

 private:
  void leave() {
    if (seat_) seat_->close(id_, life_);
    seat_.reset();
  }
  void count(const World& world) {
    int by_steps = std::max(max_steps_ - turns_, 0);
    actions_left_ = world.actions_left < 0 ? by_steps : std::min(world.actions_left, by_steps);
    metrics_ = world.metrics;
  }
  static tasks::StepResult broken(const std::string& why) {
    tasks::StepResult result;
    result.is_done = true;
    result.stop_reason = "plugin_error: " + why;
    result.event = "plugin_error";
    return result;
  }

  std::shared_ptr<Source> source_;
  int max_steps_;
  uint64_t id_;
  std::shared_ptr<Seat> seat_;
  uint64_t life_ = 0;
  int turns_ = 0;
  int actions_left_ = 0;
  std::string instructions_, event_, failure_;
  tasks::EpisodeMetrics metrics_;
};

class Source final : public EnvironmentSource, public std::enable_shared_from_this<Source> {
 public:
  Source(PluginSpec file, std::string fingerprint, std::shared_ptr<PluginPool> pool)
      : file_(std::move(file)), fingerprint_(std::move(fingerprint)), pool_(std::move(pool)) {
    fill_seats();
  }

  std::unique_ptr<tasks::Environment> make() override {
    return std::make_unique<PluginWorld>(shared_from_this(), file_.max_steps, next_id_++);
  }

  Expected<bool> reload() override {
    COHORT_ASSIGN(PluginVersion version, read_version(file_));
    if (version.fingerprint == fingerprint_) return false;
    COHORT_TRY(pool_->renew(std::move(version.launch)));
    fingerprint_ = std::move(version.fingerprint);
    std::lock_guard lock(mutex_);
    fill_seats();
    return true;
  }

  void stop() override { pool_->stop(); }

  /// Returns the seat for an episode that starts now.
  std::shared_ptr<Seat> seat() {
    std::lock_guard lock(mutex_);
    return seats_[next_seat_++ % seats_.size()];
  }

 private:
  void fill_seats() {
    seats_.clear();
    for (uint32_t i = 0; i < pool_->workers(); ++i)
      seats_.push_back(std::make_shared<Seat>(pool_, file_.timeout_s));
  }

  PluginSpec file_;
  std::string fingerprint_;
  std::shared_ptr<PluginPool> pool_;
  std::atomic<uint64_t> next_id_{1};
  std::mutex mutex_;  // of the seats
  std::vector<std::shared_ptr<Seat>> seats_;
  size_t next_seat_ = 0;
};

std::string PluginWorld::reset(uint64_t seed) {
  leave();
  turns_ = 0;
  failure_.clear();
  metrics_.clear();
  std::optional<World> world;
  for (int attempt = 0; attempt < 2 && !world; ++attempt) {
    seat_ = source_->seat();
    auto found = seat_->reset(id_, seed, life_);
    if (found)
      world = std::move(*found);
    else
      failure_ = found.error().detail;
  }
  if (!world) {
    actions_left_ = 0;
    return "";
  }
  failure_.clear();
  instructions_ = world->instructions;
  event_ = world->step.event;
  count(*world);
  return std::move(world->step.observation);
}

tasks::StepResult PluginWorld::step(const tasks::PolicyAnswer& answer) {
  if (!failure_.empty()) return broken(failure_);
  if (!seat_) return broken("was not reset");
  auto world = seat_->step(id_, answer, life_);
  if (!world) {
    failure_ = world.error().detail;
    return broken(failure_);
  }
  ++turns_;
  count(*world);
  if (!world->step.is_done && turns_ >= max_steps_) {
    world->step.is_done = true;
    world->step.stop_reason = "max_turns";
  }
  if (world->step.is_done) leave();  // an agent that is still at work is told so
  return std::move(world->step);
}

}  // namespace

Expected<std::shared_ptr<EnvironmentSource>> open_environment(const PluginSpec& spec) {
  if (!is_python_plugin(spec.plugin) && !is_native_plugin(spec.plugin) && !is_shipped(spec.plugin))
    return Error{Errc::config, spec.plugin + ": a plugin is path.py:Class or path.so"};
  PluginSpec file = spec;
  file.kind = PluginKind::environment;
  COHORT_ASSIGN(PluginVersion version, read_version(file));
  COHORT_ASSIGN(std::unique_ptr<PluginPool> pool,
                PluginPool::open(std::move(version.launch), spec.workers));
  return std::shared_ptr<EnvironmentSource>(
      std::make_shared<Source>(std::move(file), std::move(version.fingerprint), std::move(pool)));
}

}  // namespace cohort::plugin

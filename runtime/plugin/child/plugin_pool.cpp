#include "runtime/plugin/child/plugin_pool.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace cohort::plugin {
namespace {

constexpr uint32_t k_give_up_after = 3;  // failed starts in a row
constexpr auto k_pause_after_failure = std::chrono::milliseconds(200);

}  // namespace

PluginPool::PluginPool(LaunchSpec spec, uint32_t workers)
    : spec_(std::move(spec)), workers_(std::max(workers, uint32_t{1})) {}

Expected<PluginPool::Set> PluginPool::start_set(const LaunchSpec& spec, size_t count) {
  Set set;
  for (size_t i = 0; i < count; ++i) {
    COHORT_ASSIGN(Worker worker, PluginWorker::launch(spec));
    set.workers.push_back(std::move(worker));
  }
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_) return Error{Errc::cancelled, "stopped"};
    for (const Worker& worker : set.workers) loading_.push_back(worker.get());
  }
  auto loaded = await_all(set);
  {
    std::lock_guard lock(mutex_);
    for (const Worker& worker : set.workers) std::erase(loading_, worker.get());
    if (is_stopped_) return Error{Errc::cancelled, "stopped"};
  }
  if (!loaded) return loaded.error();
  return set;
}

Expected<void> PluginPool::await_all(Set& set) {
  for (const Worker& worker : set.workers) {
    COHORT_ASSIGN(set.loaded, worker->await_loaded());
  }
  return {};
}

Expected<std::unique_ptr<PluginPool>> PluginPool::open(LaunchSpec spec, uint32_t workers) {
  std::unique_ptr<PluginPool> pool(new PluginPool(std::move(spec), workers));
  COHORT_ASSIGN(Set set, pool->start_set(pool->spec_, pool->workers_ + size_t{1}));
  pool->loaded_ = std::move(set.loaded);
  for (Worker& worker : set.workers) pool->idle_.push_back(std::move(worker));
  pool->keeper_ = std::thread([p = pool.get()] { p->keep(); });
  return pool;
}

PluginPool::~PluginPool() {
  stop();
  if (keeper_.joinable()) keeper_.join();
}

Expected<PluginPool::Worker> PluginPool::take() {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  queue_.push_back(ticket);
  changed_.wait(lock, [&] {
    bool is_hopeless = idle_.empty() && starting_ == 0 && failures_ >= k_give_up_after;
    return is_stopped_ ||
           (queue_.front() == ticket && busy() < workers_ && (!idle_.empty() || is_hopeless));
  });
  std::erase(queue_, ticket);
  changed_.notify_all();  // the next in the queue may have its child already
  if (is_stopped_) return Error{Errc::cancelled, "stopped"};
  if (idle_.empty()) {
    failures_ = k_give_up_after - 1;  // the next call is one more try
    return last_failure_->with_context("no child is left and none starts");
  }
  Worker worker = std::move(idle_.front());
  idle_.pop_front();
  taken_.emplace_back(worker.get(), generation_);
  return worker;
}

void PluginPool::give_back(Worker worker) {
  {
    std::lock_guard lock(mutex_);
    auto seat = std::find_if(taken_.begin(), taken_.end(),
                             [&](const auto& x) { return x.first == worker.get(); });
    bool is_current = seat->second == generation_ && !is_stopped_;
    taken_.erase(seat);
    if (is_current) idle_.push_front(std::move(worker));  // the warmest first
  }
  changed_.notify_all();
}

void PluginPool::drop(Worker worker) {
  {
    std::lock_guard lock(mutex_);
    std::erase_if(taken_, [&](const auto& x) { return x.first == worker.get(); });
  }
  changed_.notify_all();
  worker->kill();
}

Expected<void> PluginPool::renew(LaunchSpec spec) {
  COHORT_ASSIGN(Set set, start_set(spec, workers_ + size_t{1}));
  std::deque<Worker> old;
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_) return Error{Errc::cancelled, "stopped"};
    spec_ = std::move(spec);
    loaded_ = std::move(set.loaded);
    ++generation_;
    failures_ = 0;
    old.swap(idle_);
    for (Worker& worker : set.workers) idle_.push_back(std::move(worker));
  }
  changed_.notify_all();
  return {};
}

void PluginPool::stop() {
  std::deque<Worker> old;
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
    old.swap(idle_);
    for (const auto& [worker, generation] : taken_) worker->kill();
    for (PluginWorker* worker : loading_) worker->kill();
  }
  changed_.notify_all();
}

Loaded PluginPool::loaded() const {
  std::lock_guard lock(mutex_);
  return loaded_;
}

size_t PluginPool::idle() const {
  std::lock_guard lock(mutex_);
  return idle_.size();
}

size_t PluginPool::busy() const {
  return static_cast<size_t>(std::count_if(
      taken_.begin(), taken_.end(), [&](const auto& seat) { return seat.second == generation_; }));
}

void PluginPool::keep() {
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    changed_.wait(lock, [&] {
      return is_stopped_ ||
             (idle_.size() + busy() < workers_ + size_t{1} && failures_ < k_give_up_after);
    });
    if (!is_stopped_) start_missing(lock);
  }
}

void PluginPool::start_missing(std::unique_lock<std::mutex>& lock) {
  starting_ = workers_ + size_t{1} - idle_.size() - busy();
  const uint64_t generation = generation_;
  const LaunchSpec spec = spec_;
  lock.unlock();
  auto set = start_set(spec, starting_);
  lock.lock();
  starting_ = 0;
  if (!set) {
    ++failures_;
    last_failure_ = set.error();
    changed_.notify_all();
    changed_.wait_for(lock, k_pause_after_failure, [&] { return is_stopped_; });
    return;
  }
  failures_ = 0;
  if (generation == generation_ && !is_stopped_)
    for (Worker& worker : set->workers) idle_.push_back(std::move(worker));
  changed_.notify_all();
}

}  // namespace cohort::plugin

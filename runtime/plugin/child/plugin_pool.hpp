#pragma once
/// Children of one plugin: `workers` that may be busy at once and one spare, loaded and idle, which
/// takes the slot of a child that died. Owner: a reward or an environment source. Threads: all
/// calls from any; a keeper thread of its own starts children. Bound: workers + 1 children of the
/// present version, and those of an older one that are taken still.
/// PLUGIN-3: a slot is free again as soon as its child is given up, before that child is dead: with
/// the spare at hand that is no later than deadline + the time to notice.
/// PLUGIN-4: renew() changes nothing unless every new child has loaded the plugin.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/plugin/child/plugin_worker.hpp"

namespace cohort::plugin {

class PluginPool {
 public:
  /// Starts all children at once and waits until each has loaded the plugin.
  static Expected<std::unique_ptr<PluginPool>> open(LaunchSpec spec, uint32_t workers);
  ~PluginPool();
  PluginPool(const PluginPool&) = delete;
  PluginPool& operator=(const PluginPool&) = delete;

  using Worker = std::unique_ptr<PluginWorker>;
  /// Waits for a slot and an idle child, first come, first served. Returns why the last child could
  /// not be started when there is none left, Errc::cancelled after stop(). Each child taken is
  /// given back or dropped.
  Expected<Worker> take();
  void give_back(Worker worker);
  /// Frees the slot, then ends the child; the keeper starts another.
  void drop(Worker worker);

  /// Starts a whole new set of children by `spec`, and swaps the idle ones for them. Children that
  /// are taken meanwhile are ended when they are given back.
  Expected<void> renew(LaunchSpec spec);
  /// Ends every child; take() fails from now on. Any thread.
  void stop();

  Loaded loaded() const;
  uint32_t workers() const { return workers_; }
  /// Returns the number of idle children; for tests and benches.
  size_t idle() const;

 private:
  struct Set {
    std::vector<Worker> workers;
    Loaded loaded;
  };
  PluginPool(LaunchSpec spec, uint32_t workers);
  Expected<Set> start_set(const LaunchSpec& spec, size_t count);
  Expected<void> await_all(Set& set);
  size_t busy() const;
  void keep();
  void start_missing(std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  LaunchSpec spec_;
  Loaded loaded_;
  uint32_t workers_;
  uint64_t generation_ = 0;  // of spec_
  std::deque<Worker> idle_;
  std::deque<uint64_t> queue_;  // callers that wait in take()
  uint64_t next_ticket_ = 0;
  std::vector<std::pair<PluginWorker*, uint64_t>> taken_;  // with the generation of each
  std::vector<PluginWorker*> loading_;                     // to be ended by stop()
  size_t starting_ = 0;
  uint32_t failures_ = 0;  // starts that failed in a row
  std::optional<Error> last_failure_;
  bool is_stopped_ = false;
  std::thread keeper_;
};

}  // namespace cohort::plugin

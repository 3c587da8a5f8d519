#pragma once
/// One worker thread of the generation engine, its inbox, its slots and its share of the cache.
/// The thread alone touches the scheduler, inside the ServeGate; a thread that has paused the gate
/// may touch it too. Bound: the inbox holds what the engine lets in (max_running + max_waiting
/// turns).
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "runtime/compute/generate/generation_scheduler.hpp"

namespace cohort::compute {

/// Lets iterations in, or those who pause it: pauses nest. Thread-safe. Unlike a shared_mutex it
/// cannot starve the pauser: after pause() no new iteration begins.
class ServeGate {
 public:
  void enter();
  void leave();
  void lock();  // pauses: returns when no iteration runs
  void unlock();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  int pauses_ = 0;
};

struct LaneHooks {
  ServeGate* gate = nullptr;
  std::function<uint64_t()> weight_version;  // called inside the gate
  std::function<void(std::vector<LaneOutput>)> deliver;
  std::function<void()> beat;   // if set: called when the lane has been idle for beat_ms
  std::function<void()> leave;  // if set: called when the thread ends
  int beat_ms = 0;
};

class GenerationLane {
  struct Command {
    enum class Kind : uint8_t { turn, finish, abort };
    LaneTurn turn;
    Kind kind = Kind::turn;
    uint64_t request_id = 0;  // to finish or abort
  };

 public:
  GenerationLane(const SchedulerOptions& options, LaneHooks hooks);
  ~GenerationLane();  // stops
  GenerationLane(const GenerationLane&) = delete;
  GenerationLane& operator=(const GenerationLane&) = delete;

  void start();
  /// Asks the thread to end after its iteration; join() waits for it.
  void request_stop();
  void join();
  void push(LaneTurn turn) { post({std::move(turn), Command::Kind::turn, 0}); }
  void push_finish(uint64_t request_id) { post({{}, Command::Kind::finish, request_id}); }
  void push_abort(uint64_t request_id) { post({{}, Command::Kind::abort, request_id}); }
  WorkerStats stats() const;
  /// REQUIRES: the gate is paused, or the thread has not started. An empty runner means no cache.
  void set_cache(std::unique_ptr<LaneRunner> runner, int32_t block_count);
  /// REQUIRES: the gate is paused.
  void forget_cache() { scheduler_.forget_cache(); }
  bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  void post(Command command);
  void run();
  bool wait_for_work(std::vector<Command>& commands);
  std::vector<LaneOutput> iterate(std::vector<Command>& commands);
  void publish_stats(double busy_seconds);

  LaneHooks hooks_;
  LaneScheduler scheduler_;
  std::unique_ptr<LaneRunner> runner_;
  bool has_rows_ = false;  // the last plan was not empty: do not sleep

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Command> inbox_;
  WorkerStats stats_;
  bool is_kicked_ = false;  // something outside the inbox changed
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace cohort::compute

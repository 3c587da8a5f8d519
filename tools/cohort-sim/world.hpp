#pragma once
/// The simulator's world: a virtual clock, an event queue, processes that crash, stop and are slow,
/// random numbers from one seed, a trace, and the first violation. One thread; everything is a
/// function of the seed. Bound: the events under way; k_trace_lines of trace.
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/rng.hpp"

namespace cohort::sim {

/// A process of the cluster. A crash begins a new life; what an old life had scheduled never runs.
struct Process {
  std::string name;
  uint64_t life = 1;
  bool is_up = true;
  int64_t stopped_until = 0;  // SIGSTOP: its events wait
  int64_t slow_until = 0;     // its delays are k_slow_factor times as long
};

struct Violation {
  std::string label;  // FLOW-1, LINK-2, LIVENESS, …
  std::string text;
};

class World {
 public:
  static constexpr int64_t k_slow_factor = 20;
  static constexpr size_t k_trace_lines = 64;

  explicit World(uint64_t seed) : rng_(seed) {}
  int64_t now() const { return now_; }  // [ms]
  /// Uniform in [from, to].
  int64_t pick(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(rng_.below(static_cast<uint64_t>(to - from + 1)));
  }
  bool chance(double probability) { return probability > 0 && rng_.uniform() < probability; }
  uint64_t fresh_id() { return rng_.next_u64() | 1; }

  /// Runs `what` in `process` after `delay_ms`, if it lives that long.
  void post(Process& process, int64_t delay_ms, std::function<void()> what);
  /// The same, without a stretch for slow processes: a frame that arrives.
  void deliver(Process& process, int64_t at, std::function<void()> what);
  /// Runs `what` at a time of nobody's.
  void at(int64_t time, std::function<void()> what);
  /// Runs events until the queue is empty, stop() or a violation.
  void run();
  void stop() { is_over_ = true; }

  /// Prints every line of the trace.
  bool is_loud = false;
  /// A line of the trace that is no literal.
  void remember(std::string text);
  /// A line of the trace; `what` is a literal.
  void note(const char* what, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0);
  void violate(std::string label, std::string text);
  bool is_violated() const { return !violation_.label.empty(); }
  const Violation& violation() const { return violation_; }
  std::vector<std::string> trace_tail() const;
  /// A hash over all that was noted and when: equal for equal runs.
  uint64_t digest() const { return digest_; }
  uint64_t events() const { return events_; }

 private:
  struct Event {
    int64_t time = 0;
    int64_t due = 0;  // before its process stood still: these keep their order
    uint64_t serial = 0;
    Process* process = nullptr;
    uint64_t life = 0;
    std::function<void()> what;
  };
  struct Line {
    int64_t time = 0;
    const char* what = "";
    uint64_t a = 0, b = 0, c = 0;
  };
  static std::string text_of(const Line& line);
  static bool is_later(const Event& x, const Event& y) {
    return std::tie(x.time, x.due, x.serial) > std::tie(y.time, y.due, y.serial);
  }
  void push(Event event);

  Rng rng_;
  int64_t now_ = 1;
  uint64_t serial_ = 0, events_ = 0, digest_ = 0, lines_ = 0;
  bool is_over_ = false;
  std::vector<Event> queue_;  // a heap
  std::array<Line, k_trace_lines> trace_;
  std::deque<std::string> texts_;  // that lines refer to
  Violation violation_;
};

}  // namespace cohort::sim

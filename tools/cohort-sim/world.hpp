#pragma once
/// The simulator's world: a virtual clock, an event queue, processes that crash, stop and are slow,
/// random numbers from one seed, a trace, and the first violation. One thread; everything is a
/// function of the seed. Bound: the events under way; k_trace_lines of trace.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
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

  void end() {
    is_up = false;
    ++life;
    stopped_until = slow_until = 0;
  }
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
  size_t index_of(const auto& container) {
    return static_cast<size_t>(pick(0, static_cast<int64_t>(container.size()) - 1));
  }
  /// Standard normal (Box-Muller).
  double normal() {
    constexpr double k_two_pi = 6.283185307179586;
    const double radius = std::sqrt(-2 * std::log(1 - rng_.uniform()));
    return radius * std::cos(k_two_pi * rng_.uniform());
  }
  bool chance(double probability) { return probability > 0 && rng_.uniform() < probability; }
  uint64_t fresh_id() { return rng_.next_u64() | 1; }

  /// Runs `what` in `process` after `delay_ms`, if it lives that long.
  void post(Process& process, int64_t delay_ms, std::function<void()> what) {
    if (process.slow_until > now_) delay_ms *= k_slow_factor;
    deliver(process, now_ + delay_ms, std::move(what));
  }
  /// The same, without a stretch for slow processes: a frame that arrives.
  void deliver(Process& process, int64_t at, std::function<void()> what) {
    push({at, at, serial_++, &process, process.life, std::move(what)});
  }
  /// Runs `what` at a time of nobody's.
  void at(int64_t time, std::function<void()> what) {
    push({time, time, serial_++, nullptr, 0, std::move(what)});
  }
  /// Runs events until the queue is empty, stop() or a violation.
  void run() {
    while (!queue_.empty() && !is_over_ && !is_violated()) {
      std::pop_heap(queue_.begin(), queue_.end(), is_later);
      Event event = std::move(queue_.back());
      queue_.pop_back();
      now_ = event.time;
      if (Process* process = event.process) {
        if (process->life != event.life) continue;
        if (process->stopped_until > now_) {
          event.time = process->stopped_until;
          push(std::move(event));
          continue;
        }
      }
      ++events_;
      event.what();
    }
  }
  void stop() { is_over_ = true; }

  /// Prints every line of the trace.
  bool is_loud = false;
  /// A line of the trace that is no literal.
  void remember(std::string text) {
    texts_.push_back(std::move(text));
    note(texts_.back().c_str());
  }
  /// A line of the trace; `what` is a literal.
  void note(const char* what, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) {
    trace_[lines_ % k_trace_lines] = {now_, what, a, b, c};
    if (is_loud) fmt::print("{}\n", text_of(trace_[lines_ % k_trace_lines]));
    ++lines_;
    uint64_t name = 0;  // of the text, not of its address: that changes from process to process
    for (const char* at = what; *at != '\0'; ++at) name = name * 131 + static_cast<uint8_t>(*at);
    digest_ = mix64(digest_ ^ mix64(name ^ static_cast<uint64_t>(now_)) ^ mix64(a + 3 * b + 7 * c));
  }
  void violate(std::string label, std::string text) {
    if (is_violated()) return;
    note("violation");
    violation_ = {std::move(label), std::move(text)};
  }
  bool is_violated() const { return !violation_.label.empty(); }
  const Violation& violation() const { return violation_; }
  std::vector<std::string> trace_tail() const {
    std::vector<std::string> lines;
    uint64_t first = lines_ > k_trace_lines ? lines_ - k_trace_lines : 0;
    for (uint64_t i = first; i < lines_; ++i) lines.push_back(text_of(trace_[i % k_trace_lines]));
    return lines;
  }
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
  static std::string text_of(const Line& line) {
    return fmt::format("{:>8} ms  {:<28} {} {} {}", line.time, line.what, line.a, line.b, line.c);
  }
  static bool is_later(const Event& x, const Event& y) {
    return std::tie(x.time, x.due, x.serial) > std::tie(y.time, y.due, y.serial);
  }
  void push(Event event) {
    queue_.push_back(std::move(event));
    std::push_heap(queue_.begin(), queue_.end(), is_later);
  }

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

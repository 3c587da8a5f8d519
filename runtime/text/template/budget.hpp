#pragma once
/// What one rendering of a template may cost: steps, bytes that are alive, depth of calls. A
/// template comes with a model and is untrusted: each loop, copy and allocation pays here, so that
/// an endless or huge template ends with an error. One thread: the rendering's.
#include <cstddef>
#include <cstdint>
#include <string>

namespace cohort::text::jinja {

/// Ends a compilation or a rendering. Thrown inside this folder only: an expression fails at any
/// depth of its tree. ChatTemplate catches it and returns an Error.
struct Failure {
  std::string kind;  // Python's name for it, e.g. "TypeError"
  std::string what;
  int line = 0;  // of the template; 0: not known
};
[[noreturn]] void fail(std::string kind, std::string what, int line = 0);

struct Limits {
  int64_t steps = 10'000'000;
  size_t live_bytes = size_t{256} << 20;   // of all values
  size_t output_bytes = size_t{64} << 20;  // of the text, and of each text value
  int depth = 4000;                        // of nested evaluations
  // Of the thread's stack, which has 8 MiB: 4000 evaluations take some 1.5 MiB, in a build with
  // sanitizers several times as much.
  size_t stack_bytes = size_t{5} << 20;
};

class Budget {
 public:
  explicit Budget(const Limits& limits = {}) : limits_(limits), steps_(limits.steps) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(size_t n = 1) {
    steps_ -= static_cast<int64_t>(n);
    if (steps_ < 0) out_of_steps();
  }
  /// For work on each character of `bytes` bytes.
  void scan(size_t bytes) { step(1 + bytes / 16); }
  void take(size_t bytes) {
    step(1 + bytes / 512);
    if (bytes > limits_.live_bytes - live_) out_of_memory();
    live_ += bytes;
  }
  void give(size_t bytes) { live_ -= bytes; }
  /// Refuses what take() would refuse, before it is made.
  void check_room(size_t count, size_t item_bytes) const {
    if (count > (limits_.live_bytes - live_) / item_bytes) out_of_memory();
  }
  /// Refuses a text of more than output_bytes before it is made.
  void check_text(size_t bytes) const {
    if (bytes > limits_.output_bytes) text_too_long();
  }

  /// Counts one level of evaluation.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
      if (budget_.depth_ == 0) budget_.stack_begin_ = here;
      const uintptr_t begin = budget_.stack_begin_;
      if (budget_.depth_ >= budget_.limits_.depth ||
          (begin > here ? begin - here : here - begin) > budget_.limits_.stack_bytes)
        budget_.too_deep();
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  [[noreturn]] void out_of_steps() const;
  [[noreturn]] void out_of_memory() const;
  [[noreturn]] void text_too_long() const;
  [[noreturn]] void too_deep() const;

  Limits limits_;
  int64_t steps_;
  size_t live_ = 0;
  int depth_ = 0;
  uintptr_t stack_begin_ = 0;  // where the outermost level stands
};

}  // namespace cohort::text::jinja

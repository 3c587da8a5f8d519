#pragma once
/// The terminal's view of a run. Three modes: live (a panel redrawn in place), plain (one aligned
/// line per step, for log files and pipes) and quiet (warnings, errors and the last line only).
/// Console is a thread-safe facade: any thread may call it; it owns one drawing thread in live
/// mode, which draws at most 10 times a second. The picture is a pure function of ConsoleState
/// (render, plain_line). Bound: one ConsoleState; histories are cut to k_console_history values.
/// OBS-3: no terminal mode is ever changed (no hidden cursor, no alternate screen, no raw input)
/// and every frame ends
///        with the style reset and the cursor on a fresh line below the panel: whatever kills the
///        process, kill -9 and Ctrl-Z included, the terminal is left as it was found.
/// No other code should write to that terminal: send log lines below error to a file.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/observe/reference_line.hpp"

namespace cohort::observe {

inline constexpr size_t k_console_history = 240;  // wider than any sparkline we draw

enum class ConsoleMode : uint8_t { live, plain, quiet };
enum class EventLevel : uint8_t { info, warning, error };

struct PhaseTime {
  std::string name;  // "generate", "update", …
  double seconds = 0;
};

struct CardMemory {
  std::string name;  // "card 0"
  std::string role;  // "actor_train"
  uint64_t used_bytes = 0;
  uint64_t peak_bytes = 0;  // 0 = not measured
  uint64_t budget_bytes = 0;
};

struct ConsoleState {
  std::string run_name;
  std::string stage;       // the present stage: "warm start", "step", "evaluate", "finishing", …
  std::string phase;       // inside a step: "generate", "update", …; may be empty
  double stage_done = -1;  // 0..1 inside the stage if known (e.g. the warm start), else negative
  uint64_t step = 0;       // finished steps
  uint64_t total_steps = 0;  // 0: no end
  // held-out success, fractions; the first value is that of the start
  std::vector<double> success_sampled;
  std::vector<double> success_greedy;
  uint64_t success_step = 0;  // step of the last value
  std::vector<ReferenceLine> references;
  // of the last finished step
  std::optional<double> reward_mean, entropy, kl, clip_fraction, grad_norm, learning_rate;
  bool is_supervised = false;  // rows are imitated: losses stand where success and reward would
  std::optional<double> loss, held_out_loss;
  std::optional<double> generate_tokens_per_s, train_tokens_per_s, step_seconds;
  std::vector<double> reward_history;
  std::vector<PhaseTime> phases;
  std::vector<CardMemory> cards;
  uint64_t trajectories = 0;          // trained on so far
  double elapsed_seconds = 0;         // set by Console
  std::optional<double> eta_seconds;  // set by Console
  EventLevel event_level = EventLevel::info;
  std::string event;         // last event or warning
  bool is_stopping = false;  // Ctrl-C was seen: the step is finished first
};
/// Returns "3/10", or "3" where the run has no end.
std::string step_of(const ConsoleState& state);

/// Returns the panel: lines of at most `columns` cells, each ended by "\n"; no cursor movement.
/// Pure. Below 60 columns a narrow layout is used; 20 is the least that is honoured.
std::string render(const ConsoleState& state, int columns, bool color);
/// Returns the event on a line, "warning: …" for a warning; control characters are spaces.
std::string event_text(EventLevel level, std::string_view text);
/// Returns the column heads of plain_line, without a line end.
std::string plain_header(const ConsoleState& state);
/// Returns one line for the last finished step, aligned with plain_header, without a line end.
std::string plain_line(const ConsoleState& state);

struct ConsoleOptions {
  ConsoleMode mode = ConsoleMode::plain;
  int out_fd = 1;
  int error_fd = 2;
  bool color = false;
  int columns = 0;  // 0: ask the terminal at every redraw
};

/// Returns live if `fd` is a terminal (and TERM is not "dumb"), plain if not; quiet if `is_quiet`.
/// Colour is on in live mode unless NO_COLOR is set.
ConsoleOptions choose_console(bool is_quiet, int fd = 1);

class Console {
 public:
  explicit Console(ConsoleOptions options);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();

  /// Changes the state under the lock and asks for a redraw. `change` must be short.
  void update(const std::function<void(ConsoleState&)>& change);
  /// As update, then counts a finished step: feeds the ETA, and in plain mode prints its line.
  void step_done(const std::function<void(ConsoleState&)>& change);
  /// Live: shown in the panel, warnings and errors also kept above it. Plain: a line. Quiet:
  /// warnings and errors on the error fd.
  void event(EventLevel level, std::string_view text);
  /// Prints `text` (may have several lines) above the panel or as it is; quiet prints nothing.
  void note(std::string_view text);
  /// Draws the last picture, leaves it standing and prints `last_line` in every mode. Idempotent.
  void finish(std::string_view last_line);
  /// Returns a copy of the state.
  ConsoleState state() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::observe

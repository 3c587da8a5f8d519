#include "runtime/observe/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/terminal.hpp"
#include "runtime/observe/terminal_io.hpp"

namespace cohort::observe {
namespace {

constexpr std::chrono::milliseconds k_redraw_interval{100};  // at most 10 frames a second
constexpr std::chrono::milliseconds k_idle_redraw{1000};     // the clock goes on without news
constexpr size_t k_panel_columns_max = 120;                  // wider bars are not easier to read
constexpr size_t k_lines_waiting_max = 200;  // kept while the terminal does not take output
constexpr uint64_t k_header_every = 40;      // plain lines between two headers

void cut_history(std::vector<double>& values) {
  // the first value stays: it is what the change is counted from
  if (values.size() > k_console_history)
    values.erase(
        values.begin() + 1,
        values.begin() + 1 + static_cast<std::ptrdiff_t>(values.size() - k_console_history));
}

TerminalSize size_of(const ConsoleOptions& options) {
  TerminalSize size = terminal_size(options.out_fd);
  if (options.columns > 0) size.columns = static_cast<size_t>(options.columns);
  return size;
}

}  // namespace

struct Console::Impl {
  explicit Impl(ConsoleOptions wanted) : options(wanted), start_s(now_seconds()) {
    eta.start(start_s);
    if (options.mode == ConsoleMode::live)
      drawer = std::jthread([this](const std::stop_token& stop) { draw_loop(stop); });
  }

  // -- called with `mutex` held ---------------------------------------------
  void after_change() {
    cut_history(state.success_sampled);
    cut_history(state.success_greedy);
    cut_history(state.reward_history);
    is_dirty = true;
    wake.notify_one();
  }
  void refresh_times() {
    double now_s = now_seconds();
    state.elapsed_seconds = now_s - start_s;
    uint64_t left = state.total_steps > state.step ? state.total_steps - state.step : 0;
    state.eta_seconds = eta.remaining_seconds(left, now_s);
  }
  void keep_line(std::string line) {
    if (waiting.size() < k_lines_waiting_max) waiting.push_back(std::move(line));
  }
  /// Returns the bytes that turn the screen's present picture into the next one.
  std::string next_frame() {
    refresh_times();
    TerminalSize size = size_of(options);
    std::string out;
    size_t rows_up = 0;  // the terminal may have been resized: long lines now take more rows
    for (size_t cells : drawn_cells)
      rows_up += std::max<size_t>(1, (cells + size.columns - 1) / size.columns);
    rows_up = std::min(rows_up, size.rows - 1);
    if (rows_up > 0) out += fmt::format("\x1b[{}A\r", rows_up);
    // each line is cleared before it is written (after it, a full line would lose its last cell)
    for (const std::string& line : waiting) out += "\x1b[2K" + line + "\n";
    waiting.clear();
    drawn_cells.clear();
    size_t columns = std::min(size.columns, k_panel_columns_max);
    std::string panel = render(state, static_cast<int>(columns), options.color);
    std::string_view rest = panel;
    while (!rest.empty() && drawn_cells.size() + 1 < size.rows) {
      size_t end = rest.find('\n');
      out += "\x1b[2K";
      out += rest.substr(0, end + 1);
      drawn_cells.push_back(cell_count(rest.substr(0, end)));
      rest.remove_prefix(end + 1);
    }
    out += "\x1b[J";
    is_dirty = false;
    return out;
  }

  void draw_loop(const std::stop_token& stop) {
    auto last = std::chrono::steady_clock::now() - k_redraw_interval;
    while (!stop.stop_requested()) {
      std::string frame;
      {
        std::unique_lock lock(mutex);
        wake.wait_until(lock, stop, last + k_idle_redraw, [this] { return is_dirty; });
        wake.wait_until(lock, stop, last + k_redraw_interval, [] { return false; });
        if (stop.stop_requested()) return;
        frame = next_frame();
      }
      last = std::chrono::steady_clock::now();
      write_text(options.out_fd,
                 frame);  // outside the lock: a stopped terminal (Ctrl-S) stops nobody
    }
  }

  ConsoleOptions options;
  double start_s;
  mutable std::mutex mutex;
  std::condition_variable_any wake;
  ConsoleState state;
  EtaEstimator eta;
  std::vector<std::string> waiting;  // lines to print above the panel
  std::vector<size_t> drawn_cells;   // cells of each line of the picture on the screen
  uint64_t plain_lines = 0;
  bool is_dirty = true;
  bool is_finished = false;
  std::jthread drawer;  // last: it uses all of the above
};

ConsoleOptions choose_console(bool is_quiet, int fd) {
  ConsoleOptions options;
  options.out_fd = fd;
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  bool is_terminal =
      ::isatty(fd) == 1 && term != nullptr && std::string_view(term) != "dumb" && *term != '\0';
  options.mode = is_quiet      ? ConsoleMode::quiet
                 : is_terminal ? ConsoleMode::live
                               : ConsoleMode::plain;
  options.color = is_terminal && (no_color == nullptr || *no_color == '\0');
  return options;
}

std::string step_of(const ConsoleState& state) {
  return state.total_steps > 0 ? fmt::format("{}/{}", state.step, state.total_steps)
                               : fmt::format("{}", state.step);
}

std::string event_text(EventLevel level, std::string_view text) {
  return (level == EventLevel::error     ? "error: "
          : level == EventLevel::warning ? "warning: "
                                         : "") +
         printable(text);
}

Console::Console(ConsoleOptions options) : impl_(std::make_unique<Impl>(options)) {}

Console::~Console() { finish(""); }

void Console::update(const std::function<void(ConsoleState&)>& change) {
  std::lock_guard lock(impl_->mutex);
  change(impl_->state);
  impl_->after_change();
}

void Console::step_done(const std::function<void(ConsoleState&)>& change) {
  std::lock_guard lock(impl_->mutex);
  impl_->eta.step_done(now_seconds());
  change(impl_->state);
  impl_->after_change();
  if (impl_->options.mode != ConsoleMode::plain || impl_->is_finished) return;
  impl_->refresh_times();
  std::string text;
  if (impl_->plain_lines++ % k_header_every == 0) text = plain_header(impl_->state) + "\n";
  write_text(impl_->options.out_fd, text + plain_line(impl_->state) + "\n");
}

void Console::event(EventLevel level, std::string_view text) {
  std::lock_guard lock(impl_->mutex);
  impl_->state.event_level = level;
  impl_->state.event = std::string(text);
  impl_->after_change();
  std::string line = event_text(level, text);
  bool is_info = level == EventLevel::info;
  if (impl_->options.mode == ConsoleMode::live && !impl_->is_finished) {
    if (!is_info)
      impl_->keep_line(styled(line, level == EventLevel::error ? Style::red : Style::yellow,
                              impl_->options.color));
  } else if (impl_->options.mode == ConsoleMode::plain || !is_info) {
    write_text(is_info ? impl_->options.out_fd : impl_->options.error_fd, line + "\n");
  }
}

void Console::note(std::string_view text) {
  std::lock_guard lock(impl_->mutex);
  if (impl_->options.mode == ConsoleMode::live && !impl_->is_finished) {
    impl_->keep_line(std::string(text));
    impl_->after_change();
  } else if (impl_->options.mode != ConsoleMode::quiet) {
    write_text(impl_->options.out_fd, std::string(text) + "\n");
  }
}

void Console::finish(std::string_view last_line) {
  if (impl_->drawer.joinable()) {
    impl_->drawer.request_stop();
    impl_->drawer.join();
  }
  std::lock_guard lock(impl_->mutex);
  if (std::exchange(impl_->is_finished, true)) return;
  std::string out;
  if (impl_->options.mode == ConsoleMode::live) out = impl_->next_frame();
  if (!last_line.empty()) out += std::string(last_line) + "\n";
  write_text(impl_->options.out_fd, out);
}

ConsoleState Console::state() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->state;
}

}  // namespace cohort::observe

#include "tools/cohort-sim/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::sim {

void World::push(Event event) {
  queue_.push_back(std::move(event));
  std::push_heap(queue_.begin(), queue_.end(), is_later);
}

void World::post(Process& process, int64_t delay_ms, std::function<void()> what) {
  if (process.slow_until > now_) delay_ms *= k_slow_factor;
  deliver(process, now_ + delay_ms, std::move(what));
}

void World::deliver(Process& process, int64_t at, std::function<void()> what) {
  push({at, at, serial_++, &process, process.life, std::move(what)});
}

void World::at(int64_t time, std::function<void()> what) {
  push({time, time, serial_++, nullptr, 0, std::move(what)});
}

void World::run() {
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

void World::note(const char* what, uint64_t a, uint64_t b, uint64_t c) {
  trace_[lines_ % k_trace_lines] = {now_, what, a, b, c};
  if (is_loud) fmt::print("{}\n", text_of(trace_[lines_ % k_trace_lines]));
  ++lines_;
  uint64_t name = 0;  // of the text, not of its address: that changes from process to process
  for (const char* at = what; *at != '\0'; ++at) name = name * 131 + static_cast<uint8_t>(*at);
  digest_ = mix64(digest_ ^ mix64(name ^ static_cast<uint64_t>(now_)) ^ mix64(a + 3 * b + 7 * c));
}

void World::remember(std::string text) {
  texts_.push_back(std::move(text));
  note(texts_.back().c_str());
}

void World::violate(std::string label, std::string text) {
  if (is_violated()) return;
  note("violation");
  violation_ = {std::move(label), std::move(text)};
}

std::string World::text_of(const Line& line) {
  return fmt::format("{:>8} ms  {:<28} {} {} {}", line.time, line.what, line.a, line.b, line.c);
}

std::vector<std::string> World::trace_tail() const {
  std::vector<std::string> lines;
  uint64_t first = lines_ > k_trace_lines ? lines_ - k_trace_lines : 0;
  for (uint64_t i = first; i < lines_; ++i) lines.push_back(text_of(trace_[i % k_trace_lines]));
  return lines;
}

}  // namespace cohort::sim

#include "runtime/observe/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/observe/metrics.hpp"
#include "runtime/observe/output_file.hpp"

namespace cohort::observe {
namespace {

constexpr size_t k_trace_bytes = 64 * 1024;
constexpr size_t k_spans_kept = 64;  // of a row, to see what overlaps
using nlohmann::json;

std::string args_text(std::span<const TraceArg> args) {
  std::string out = "{";
  for (const TraceArg& arg : args) {
    if (out.size() > 1) out += ',';
    out += json_text(arg.name);
    out += ':';
    const auto* number = std::get_if<double>(&arg.value);
    out +=
        number != nullptr ? json_number(*number) : json_text(std::get<std::string_view>(arg.value));
  }
  return out + "}";
}

struct Interval {
  int64_t start_us = 0, end_us = 0;
};

/// Whether a viewer would drop `added`, which comes after `drawn` in the file, from the same row.
bool is_dropped_beside(const Interval& drawn, const Interval& added) {
  if (added.start_us < drawn.start_us)
    return added.end_us > drawn.start_us && added.end_us < drawn.end_us;
  return added.start_us < drawn.end_us && added.end_us > drawn.end_us;
}

}  // namespace

struct TraceWriter::Impl {
  std::mutex mutex;
  File file;
  std::string buffer;
  uint64_t next_flow = 1;
  bool has_events = false;  // whether the next event needs a comma before it
  std::optional<Error> failed;
  std::map<std::string, uint32_t, std::less<>> processes;
  std::map<std::pair<uint32_t, std::string>, uint32_t> threads;
  // The last spans of each row, by process and thread.
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Interval>> drawn;

  uint32_t thread_of(uint32_t process, std::string_view name) {
    const auto [known, is_new] = threads.try_emplace({process, std::string(name)},
                                                     static_cast<uint32_t>(threads.size()) + 1);
    if (is_new) add_metadata("thread", {process, known->second}, name);
    return known->second;
  }
  std::string thread_name(TrackId track) const {
    for (const auto& [key, thread] : threads)
      if (key.first == track.process && thread == track.thread) return key.second;
    return "";
  }
  void draw(TrackId row, const Interval& span) {
    std::deque<Interval>& of_row = drawn[{row.process, row.thread}];
    of_row.push_back(span);
    if (of_row.size() > k_spans_kept) of_row.pop_front();
  }
  /// Draws the span on the first row of the track on which it is seen; returns the row.
  TrackId place(TrackId track, const Interval& span) {
    TrackId row = track;
    const auto is_dropped = [&](const Interval& other) { return is_dropped_beside(other, span); };
    for (int nth = 2; std::ranges::any_of(drawn[{row.process, row.thread}], is_dropped); ++nth)
      row.thread = thread_of(track.process, fmt::format("{} ({})", thread_name(track), nth));
    draw(row, span);
    return row;
  }
  void add(std::string_view event) {
    if (!file.is_open()) return;
    buffer += has_events ? ",\n" : "";
    buffer += event;
    has_events = true;
    if (buffer.size() >= k_trace_bytes) write_out();
  }
  Expected<void> take_failure() {
    auto taken = std::exchange(failed, std::nullopt);
    return taken ? Expected<void>(*taken) : Expected<void>();
  }
  void write_out() {
    auto written = file.write(buffer);
    buffer.clear();
    if (!written && !failed) failed = written.error();
  }
  void add_metadata(std::string_view kind, TrackId track, std::string_view name) {
    add(fmt::format(R"({{"ph":"M","name":"{}_name","pid":{},"tid":{},"args":{{"name":{}}}}})", kind,
                    track.process, track.thread, json_text(name)));
    uint32_t order = kind == "process" ? track.process : track.thread;
    add(fmt::format(
        R"({{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", kind,
        track.process, track.thread, order));
  }
  /// Takes tracks, spans and numbers of flows from a line of an earlier session. Returns false if
  /// it is no event.
  bool restore(std::string_view line) {
    if (line.ends_with(',')) line.remove_suffix(1);
    json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object() || !event.contains("ph")) return false;
    if (event.value("cat", "") == "flow")
      next_flow = std::max(next_flow, event.value("id", uint64_t{0}) + 1);
    auto process = event.value("pid", 0U);
    auto thread = event.value("tid", 0U);
    if (event.value("ph", "") == "X") {
      const auto start = event.value("ts", int64_t{0});
      draw({process, thread}, {start, start + event.value("dur", int64_t{0})});
    }
    if (event.value("ph", "") != "M" || !event.contains("args")) return true;
    std::string kind = event.value("name", "");
    std::string name = event["args"].value("name", "");
    if (kind == "process_name")
      processes.emplace(name, process);
    else if (kind == "thread_name")
      threads.emplace(std::pair(process, name), thread);
    return true;
  }
};

TraceWriter::TraceWriter() : impl_(std::make_unique<Impl>()) {}

namespace {

/// Calls restore(line) for the event lines of `text`; returns the bytes up to the end of the last
/// good one, without its comma, or nothing if there is none.
template <class F>
std::optional<size_t> scan_events(std::string_view text, F restore) {
  std::optional<size_t> good_end;
  size_t begin = text.find('\n');
  while (begin != std::string_view::npos && begin + 1 < text.size()) {
    ++begin;
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.starts_with(']') || !restore(line)) break;
    good_end = line.ends_with(',') ? end - 1 : end;
    begin = end == text.size() ? std::string_view::npos : end;
  }
  return good_end;
}

}  // namespace

Expected<std::unique_ptr<TraceWriter>> TraceWriter::open(const std::filesystem::path& path,
                                                         bool append) {
  std::unique_ptr<TraceWriter> writer(new TraceWriter());
  Impl& impl = *writer->impl_;
  std::optional<size_t> kept;
  if (append && std::filesystem::exists(path)) {
    COHORT_ASSIGN(std::string text, read_file(path));
    kept = scan_events(text, [&](std::string_view line) { return impl.restore(line); });
  }
  auto mode = kept ? File::Mode::append_or_create : File::Mode::replace;
  COHORT_ASSIGN(impl.file, File::open(path, mode));
  if (kept) {
    COHORT_TRY(impl.file.truncate(*kept));
    impl.has_events = true;
  } else {
    COHORT_TRY(impl.file.write("[\n"));
  }
  return writer;
}

TraceWriter::~TraceWriter() {
  auto closed = close();  // a destructor has nobody to tell
  static_cast<void>(closed);
}

TrackId TraceWriter::track(std::string_view process, std::string_view thread) {
  std::lock_guard lock(impl_->mutex);
  auto found = impl_->processes.find(process);
  TrackId id;
  if (found == impl_->processes.end()) {
    id.process = static_cast<uint32_t>(impl_->processes.size()) + 1;
    impl_->processes.emplace(process, id.process);
    impl_->add_metadata("process", id, process);
  } else {
    id.process = found->second;
  }
  id.thread = impl_->thread_of(id.process, thread);
  return id;
}

void TraceWriter::flow(std::string_view name, TrackId from, int64_t from_us, TrackId to,
                       int64_t to_us) {
  std::lock_guard lock(impl_->mutex);
  const uint64_t id = impl_->next_flow++;
  const std::string shown = json_text(name);
  impl_->add(fmt::format(R"({{"ph":"s","name":{},"cat":"flow","id":{},"pid":{},"tid":{},"ts":{}}})",
                         shown, id, from.process, from.thread, from_us));
  impl_->add(fmt::format(
      R"({{"ph":"f","bp":"e","name":{},"cat":"flow","id":{},"pid":{},"tid":{},"ts":{}}})", shown,
      id, to.process, to.thread, to_us));
}

TrackId TraceWriter::span(TrackId track, std::string_view name, std::string_view category,
                          int64_t start_us, int64_t end_us, std::span<const TraceArg> args) {
  end_us = std::max(start_us, end_us);
  std::lock_guard lock(impl_->mutex);
  const TrackId row = impl_->place(track, {start_us, end_us});
  impl_->add(
      fmt::format(R"({{"ph":"X","name":{},"cat":{},"ts":{},"dur":{},"pid":{},"tid":{},"args":{}}})",
                  json_text(name), json_text(category), start_us, end_us - start_us, row.process,
                  row.thread, args_text(args)));
  return row;
}

Expected<void> TraceWriter::flush() {
  std::lock_guard lock(impl_->mutex);
  if (impl_->file.is_open() && !impl_->buffer.empty()) impl_->write_out();
  return impl_->take_failure();
}

Expected<void> TraceWriter::close() {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->file.is_open()) return {};
  impl_->buffer += impl_->has_events ? "\n]\n" : "]\n";
  impl_->write_out();
  COHORT_TRY(impl_->file.close());
  return impl_->take_failure();
}

}  // namespace cohort::observe

#include "runtime/observe/trace.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/observe/metrics.hpp"
#include "runtime/observe/output_file.hpp"

namespace cohort::observe {
namespace {

constexpr size_t k_trace_bytes = 64 * 1024;
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

}  // namespace

struct TraceWriter::Impl {
  std::mutex mutex;
  File file;
  std::string buffer;
  // A resumed run's begin where no earlier one's can be.
  uint64_t next_flow = static_cast<uint64_t>(wall_time_us());
  bool has_events = false;  // whether the next event needs a comma before it
  std::optional<Error> failed;
  std::map<std::string, uint32_t, std::less<>> processes;
  std::map<std::pair<uint32_t, std::string>, uint32_t> threads;

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
  /// Takes tracks from a line of an earlier session. Returns false if it is no event.
  bool restore(std::string_view line) {
    if (line.ends_with(',')) line.remove_suffix(1);
    json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object() || !event.contains("ph")) return false;
    if (event.value("ph", "") != "M" || !event.contains("args")) return true;
    std::string kind = event.value("name", "");
    std::string name = event["args"].value("name", "");
    auto process = event.value("pid", 0U);
    if (kind == "process_name")
      processes.emplace(name, process);
    else if (kind == "thread_name")
      threads.emplace(std::pair(process, name), event.value("tid", 0U));
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
  std::pair key(id.process, std::string(thread));
  if (auto known = impl_->threads.find(key); known != impl_->threads.end()) {
    id.thread = known->second;
  } else {
    id.thread = static_cast<uint32_t>(impl_->threads.size()) + 1;
    impl_->threads.emplace(key, id.thread);
    impl_->add_metadata("thread", id, thread);
  }
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

void TraceWriter::span(TrackId track, std::string_view name, std::string_view category,
                       int64_t start_us, int64_t end_us, std::span<const TraceArg> args) {
  std::string event = fmt::format(
      R"({{"ph":"X","name":{},"cat":{},"ts":{},"dur":{},"pid":{},"tid":{},"args":{}}})",
      json_text(name), json_text(category), start_us, std::max<int64_t>(0, end_us - start_us),
      track.process, track.thread, args_text(args));
  std::lock_guard lock(impl_->mutex);
  impl_->add(event);
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

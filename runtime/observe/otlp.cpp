#include "runtime/observe/otlp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "runtime/base/clock.hpp"

namespace cohort::observe {
namespace {

using nlohmann::json;
constexpr size_t k_kinds_max = 32;  // of events
constexpr std::string_view k_traces = "/v1/traces", k_metrics = "/v1/metrics";

/// FNV-1a, then a finalizer: ids of one run share their beginning otherwise.
uint64_t hash_of(std::string_view text, uint64_t hash) {
  hash ^= 0xcbf29ce484222325U;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3U;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdU;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53U;
  hash ^= hash >> 33;
  return hash == 0 ? 1 : hash;  // a zero id is invalid
}

uint64_t run_hash(const OtlpResource& run, uint64_t salt) {
  return hash_of(fmt::format("{} {}", run.run_id, run.start_us), salt);
}

std::string nanos(int64_t us) { return std::to_string(us * 1000); }  // int64 is text in JSON

json text_attribute(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

json resource_of(const OtlpResource& run) {
  return {{"attributes", json::array({text_attribute("service.name", "cohort"),
                                      text_attribute("service.instance.id", run.run_id),
                                      text_attribute("cohort.run.name", run.run_name)})}};
}

std::string text_of(const json& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

json counter(std::string_view name, std::string_view unit, json points) {
  return {{"name", name},
          {"unit", unit},
          {"sum",
           {{"aggregationTemporality", 2},  // cumulative
            {"isMonotonic", true},
            {"dataPoints", std::move(points)}}}};
}

bool may_pass(int status) { return status == 408 || status == 429 || status >= 500; }

}  // namespace

uint64_t otlp_span_id(const OtlpResource& resource, std::string_view name) {
  return hash_of(name, run_hash(resource, 3));
}

std::string otlp_traces(const OtlpResource& resource, std::span<const OtlpSpan> spans) {
  const std::string trace =
      fmt::format("{:016x}{:016x}", run_hash(resource, 1), run_hash(resource, 2));
  json list = json::array();
  for (const OtlpSpan& span : spans) {
    json one = {{"traceId", trace},
                {"spanId", fmt::format("{:016x}", span.id)},
                {"name", span.name},
                {"kind", 1},  // internal
                {"startTimeUnixNano", nanos(span.start_us)},
                {"endTimeUnixNano", nanos(std::max(span.start_us, span.end_us))}};
    if (span.parent != 0) one["parentSpanId"] = fmt::format("{:016x}", span.parent);
    for (const auto& [key, value] : span.attributes) {
      if (const auto* number = std::get_if<int64_t>(&value))
        one["attributes"].push_back(
            {{"key", key}, {"value", {{"intValue", std::to_string(*number)}}}});
      else
        one["attributes"].push_back(text_attribute(key, std::get<std::string>(value)));
    }
    list.push_back(std::move(one));
  }
  json scope = {{"scope", {{"name", "cohort"}}}, {"spans", std::move(list)}};
  json run = {{"resource", resource_of(resource)}, {"scopeSpans", json::array({scope})}};
  return text_of({{"resourceSpans", json::array({run})}});
}

std::string otlp_metrics(const OtlpResource& resource, std::span<const OtlpRow> rows,
                         const OtlpCounters& counters, int64_t now_us) {
  std::map<std::string, json> gauges;  // one metric each, one point per row
  for (const OtlpRow& row : rows)
    for (const Metric& metric : row.row.metrics())
      if (const auto* number = std::get_if<double>(&metric.value); number && std::isfinite(*number))
        gauges[metric.name].push_back(
            {{"timeUnixNano", nanos(row.time_us)}, {"asDouble", *number}});
  json metrics = json::array();
  for (auto& [name, points] : gauges)
    metrics.push_back({{"name", "cohort." + name}, {"gauge", {{"dataPoints", std::move(points)}}}});
  auto point = [&](uint64_t value) -> json {
    return {{"startTimeUnixNano", nanos(resource.start_us)},
            {"timeUnixNano", nanos(now_us)},
            {"asInt", std::to_string(value)}};
  };
  auto add = [&](std::string_view name, std::string_view unit, uint64_t value) {
    metrics.push_back(counter(name, unit, json::array({point(value)})));
  };
  add("cohort.steps", "{step}", counters.steps);
  add("cohort.trajectories", "{trajectory}", counters.trajectories);
  add("cohort.tokens", "{token}", static_cast<uint64_t>(counters.tokens));
  add("cohort.telemetry.dropped_spans", "{span}", counters.dropped_spans);
  add("cohort.telemetry.dropped_rows", "{row}", counters.dropped_rows);
  add("cohort.telemetry.failed_posts", "{request}", counters.failed_posts);
  json events = json::array();
  for (const auto& [kind, count] : counters.events) {
    json one = point(count);
    one["attributes"] = json::array({text_attribute("kind", kind)});
    events.push_back(std::move(one));
  }
  if (!events.empty()) metrics.push_back(counter("cohort.events", "{event}", std::move(events)));
  json scope = {{"scope", {{"name", "cohort"}}}, {"metrics", std::move(metrics)}};
  json run = {{"resource", resource_of(resource)}, {"scopeMetrics", json::array({scope})}};
  return text_of({{"resourceMetrics", json::array({run})}});
}

struct OtlpExporter::Impl {
  explicit Impl(OtlpOptions given) : options(std::move(given)) {}

  template <class T>
  static void push(std::deque<T>& queue, T value, size_t limit, uint64_t& dropped) {
    if (queue.size() >= limit) {
      queue.pop_front();
      ++dropped;
    }
    queue.push_back(std::move(value));
  }

  /// Puts a batch that was not taken back before what has come since; what is too much is dropped.
  template <class T>
  static void put_back(std::deque<T>& queue, std::vector<T> batch, size_t limit,
                       uint64_t& dropped) {
    const size_t room = limit - std::min(limit, queue.size());
    const size_t lost = batch.size() - std::min(batch.size(), room);
    dropped += lost;
    queue.insert(queue.begin(), std::make_move_iterator(batch.begin() + ptrdiff_t(lost)),
                 std::make_move_iterator(batch.end()));
  }

  template <class T>
  std::vector<T> take(std::deque<T>& queue) {
    std::lock_guard lock(mutex);
    std::vector<T> out(std::make_move_iterator(queue.begin()),
                       std::make_move_iterator(queue.end()));
    queue.clear();
    return out;
  }

  enum class Outcome : uint8_t { taken, later, refused };
  Outcome post(std::string_view path, const std::string& body) {
    const Expected<int> status = options.post(path, body);
    const bool is_taken = status && *status >= 200 && *status < 300;
    if (!is_taken) {
      std::lock_guard lock(mutex);
      ++counters.failed_posts;
    }
    const bool was_failing = !failing.empty();
    if (is_taken)
      failing.erase(path);
    else
      failing.insert(path);
    if (was_failing && failing.empty())
      options.notice(false, "telemetry: the collector takes exports again");
    if (!was_failing && !failing.empty())
      options.notice(
          true, fmt::format(
                    "telemetry: the collector of telemetry.otlp_endpoint does not take {}: "
                    "{}; the run goes on",
                    path, status ? fmt::format("status {}", *status) : status.error().to_string()));
    if (is_taken) return Outcome::taken;
    return !status || may_pass(*status) ? Outcome::later : Outcome::refused;
  }

  void send() {
    std::vector<OtlpSpan> some = take(spans);
    if (!some.empty()) {
      const Outcome outcome = post(k_traces, otlp_traces(options.resource, some));
      std::lock_guard lock(mutex);
      if (outcome == Outcome::later)
        put_back(spans, std::move(some), k_otlp_spans_max, counters.dropped_spans);
      else if (outcome == Outcome::refused)
        counters.dropped_spans += some.size();
      if (outcome == Outcome::later) return;  // the other post would wait as long
    }
    std::vector<OtlpRow> some_rows = take(rows);
    OtlpCounters now;
    {
      std::lock_guard lock(mutex);
      now = counters;
    }
    const Outcome outcome =
        post(k_metrics, otlp_metrics(options.resource, some_rows, now, wall_time_us()));
    std::lock_guard lock(mutex);
    if (outcome == Outcome::later)
      put_back(rows, std::move(some_rows), k_otlp_rows_max, counters.dropped_rows);
    else if (outcome == Outcome::refused)
      counters.dropped_rows += some_rows.size();
  }

  void run() {
    std::unique_lock lock(mutex);
    for (bool is_last = false; !is_last;) {
      changed.wait_for(lock, std::chrono::duration<double>(options.interval_s),
                       [this] { return is_over; });
      is_last = is_over;  // what came while the last send was under way goes too
      if (is_last && !failing.empty()) break;  // the end of a run waits for no dead collector
      lock.unlock();
      send();
      lock.lock();
    }
    counters.dropped_spans += spans.size();
    counters.dropped_rows += rows.size();
    spans.clear();
    rows.clear();
  }

  const OtlpOptions options;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<OtlpSpan> spans;
  std::deque<OtlpRow> rows;
  OtlpCounters counters;
  bool is_over = false;
  std::set<std::string_view> failing;  // paths; the thread's own
  std::thread thread;
};

OtlpExporter::OtlpExporter(OtlpOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

OtlpExporter::~OtlpExporter() { close(); }

void OtlpExporter::add(OtlpSpan span) {
  std::lock_guard lock(impl_->mutex);
  if (impl_->is_over) return;
  Impl::push(impl_->spans, std::move(span), k_otlp_spans_max, impl_->counters.dropped_spans);
}

void OtlpExporter::add(const MetricRow& row, uint64_t trajectories, int64_t time_us) {
  std::lock_guard lock(impl_->mutex);
  if (impl_->is_over) return;
  OtlpCounters& counters = impl_->counters;
  ++counters.steps;
  counters.trajectories = std::max(counters.trajectories, trajectories);
  if (auto tokens = row.number("tokens"); tokens && *tokens > 0) counters.tokens += *tokens;
  Impl::push(impl_->rows, OtlpRow{row, time_us}, k_otlp_rows_max, counters.dropped_rows);
}

void OtlpExporter::add_event(const std::string& kind) {
  std::lock_guard lock(impl_->mutex);
  auto& events = impl_->counters.events;
  if (events.contains(kind) || events.size() < k_kinds_max)
    ++events[kind];
  else
    ++events["other"];
}

void OtlpExporter::close() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->is_over = true;
  }
  impl_->changed.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

OtlpCounters OtlpExporter::counters() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->counters;
}

}  // namespace cohort::observe

#include "runtime/observe/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace cohort::observe {
namespace {

using Json = nlohmann::ordered_json;

MetricValue value_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return std::nan("");
  if (json.is_boolean()) return json.get<bool>() ? 1.0 : 0.0;
  if (json.is_number()) return json.get<double>();
  return json.dump();
}

/// Returns where the last whole line of `text` ends: OBS-1.
size_t whole_lines_bytes(std::string_view text) {
  size_t last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

/// Calls on_line(row, offset of the line) for every whole line until it returns false.
template <class F>
Expected<void> for_each_row(const std::filesystem::path& path, std::string_view text, F on_line) {
  size_t number = 1;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string_view::npos;
       begin = end + 1, ++number) {
    std::string_view line = text.substr(begin, end - begin);
    if (line.empty()) continue;
    auto row = MetricRow::from_json(line);
    if (!row) return row.error().with_context(fmt::format("{}:{}", path.string(), number));
    if (!on_line(std::move(*row), begin)) return {};
  }
  return {};
}

}  // namespace

std::string json_text(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

MetricRow::MetricRow(uint64_t step) : step_(step) {}

void MetricRow::set(std::string_view name, double value) { set_value(name, value); }

void MetricRow::set(std::string_view name, std::string_view text) {
  set_value(name, std::string(text));
}

void MetricRow::merge(const MetricRow& other) {
  for (const Metric& metric : other.metrics_) set_value(metric.name, metric.value);
}

void MetricRow::set_value(std::string_view name, MetricValue value) {
  COHORT_CHECK(name != "step", "a metric may not be called step: it is the row's own number");
  auto found = std::ranges::find(metrics_, name, &Metric::name);
  if (found != metrics_.end())
    found->value = std::move(value);
  else
    metrics_.push_back({std::string(name), std::move(value)});
}

std::optional<double> MetricRow::number(std::string_view name) const {
  if (name == "step") return static_cast<double>(step_);
  auto found = std::ranges::find(metrics_, name, &Metric::name);
  if (found == metrics_.end() || !std::holds_alternative<double>(found->value)) return std::nullopt;
  return std::get<double>(found->value);
}

std::optional<std::string> MetricRow::text(std::string_view name) const {
  auto found = std::ranges::find(metrics_, name, &Metric::name);
  if (found == metrics_.end() || !std::holds_alternative<std::string>(found->value))
    return std::nullopt;
  return std::get<std::string>(found->value);
}

std::string MetricRow::to_json() const {
  std::string line = fmt::format("{{\"step\":{}", step_);
  for (const Metric& metric : metrics_) {
    line += ',';
    line += json_text(metric.name);
    line += ':';
    if (const auto* number = std::get_if<double>(&metric.value))
      line += json_number(*number);
    else
      line += json_text(std::get<std::string>(metric.value));
  }
  line += '}';
  return line;
}

Expected<MetricRow> MetricRow::from_json(std::string_view line) {
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error{Errc::corrupt, "not a JSON object"};
  auto step = json.find("step");
  if (step == json.end() || !step->is_number_unsigned())
    return Error{Errc::corrupt, "no whole number called \"step\""};
  MetricRow row(step->get<uint64_t>());
  for (const auto& [name, value] : json.items()) {
    if (name != "step") row.set_value(name, value_of(value));
  }
  return row;
}

Expected<JsonlSink> JsonlSink::open(std::filesystem::path path) {
  JsonlSink sink;
  COHORT_ASSIGN(sink.file_, File::open(std::move(path), File::Mode::append_or_create));
  COHORT_ASSIGN(std::string text, read_file(sink.path()));
  sink.size_bytes_ = whole_lines_bytes(text);
  sink.repaired_bytes_ = text.size() - sink.size_bytes_;
  if (sink.repaired_bytes_ > 0) COHORT_TRY(sink.file_.truncate(sink.size_bytes_));
  return sink;
}

Expected<void> JsonlSink::write(const MetricRow& row) {
  std::string line = row.to_json();
  line += '\n';
  if (auto written = file_.write(line); !written) {
    auto repaired = file_.truncate(size_bytes_);  // the write's error matters more than this one's
    return written.error();
  }
  size_bytes_ += line.size();
  return {};
}

Expected<void> JsonlSink::truncate_after_step(uint64_t step) {
  COHORT_ASSIGN(std::string text, read_file(path()));
  uint64_t keep = whole_lines_bytes(text);
  COHORT_TRY(for_each_row(path(), text, [&](const MetricRow& row, size_t offset) {
    if (row.step() <= step) return true;
    keep = offset;
    return false;
  }));
  COHORT_TRY(file_.truncate(keep));
  size_bytes_ = keep;
  return {};
}

Expected<void> JsonlSink::sync() { return file_.sync(); }

Expected<std::vector<MetricRow>> read_metrics(const std::filesystem::path& path) {
  COHORT_ASSIGN(std::string text, read_file(path));
  std::vector<MetricRow> rows;
  COHORT_TRY(for_each_row(path, text, [&](MetricRow&& row, size_t) {
    rows.push_back(std::move(row));
    return true;
  }));
  return rows;
}

}  // namespace cohort::observe

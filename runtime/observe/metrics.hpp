#pragma once
/// The metrics of a step as an ordered row, and metrics.jsonl: one JSON object per line, one line
/// per step. Owner: MetricRow is a value; a JsonlSink belongs to one thread (the driver's). Bound:
/// one line in memory.
///   OBS-1 after open() the file holds whole lines only (a torn last line is cut and counted).
///   OBS-2 a line reaches the page cache in one write(2): a killed process leaves no half line
///         behind unless the disk is full, and then OBS-1 repairs it.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/observe/output_file.hpp"

namespace cohort::observe {

using MetricValue = std::variant<double, std::string>;

struct Metric {
  std::string name;
  MetricValue value;
  bool operator==(const Metric&) const = default;
};

/// One step's metrics in the order they were first set; "step" is always the first of them.
class MetricRow {
 public:
  explicit MetricRow(uint64_t step);
  uint64_t step() const { return step_; }
  /// Sets `name`, or replaces its value in place. "step" itself is refused (COHORT_CHECK).
  void set(std::string_view name, double value);
  void set(std::string_view name, std::string_view text);
  void set(std::string_view name, const char* text) { set(name, std::string_view(text)); }
  /// Adds or replaces every metric of `other` (its step is not looked at).
  void merge(const MetricRow& other);
  /// Returns the number called `name`; nothing if it is absent or a text.
  std::optional<double> number(std::string_view name) const;
  /// Returns the text called `name`; nothing if it is absent or a number.
  std::optional<std::string> text(std::string_view name) const;
  /// All metrics but "step".
  std::span<const Metric> metrics() const { return metrics_; }
  /// Returns {"step":3,"loss":0.25,…} without a line end. Doubles are the shortest text that reads
  /// back to the same bits; NaN and infinities are null; bytes that are not UTF-8 become U+FFFD.
  std::string to_json() const;
  /// Reads to_json()'s text (null becomes NaN, booleans 0 and 1; lists and objects keep their JSON
  /// text). Returns Errc::corrupt if `line` is not an object with an integer "step".
  static Expected<MetricRow> from_json(std::string_view line);
  bool operator==(const MetricRow&) const = default;

 private:
  void set_value(std::string_view name, MetricValue value);
  uint64_t step_ = 0;
  std::vector<Metric> metrics_;
};

/// Returns `text` as a JSON string; bytes that are not UTF-8 become U+FFFD.
std::string json_text(std::string_view text);
/// Returns the shortest text that reads back to the same bits; NaN and infinities are null.
std::string json_number(double value);

/// Appends rows to a .jsonl file. Movable, not copyable, not thread-safe.
class JsonlSink {
 public:
  /// Opens or creates `path` for appending and repairs a torn last line (OBS-1).
  /// Returns Errc::io naming the path and errno's text.
  static Expected<JsonlSink> open(std::filesystem::path path);

  /// Appends one line with one write. Returns Errc::io (disk full, …); the half line is then cut
  /// away.
  Expected<void> write(const MetricRow& row);
  /// For resume: cuts the file before the first line whose step is greater than `step`.
  /// Returns Errc::corrupt naming path:line if a line before that one does not parse.
  Expected<void> truncate_after_step(uint64_t step);
  /// Forces written lines to the disk.
  Expected<void> sync();
  /// Bytes of a torn last line that open() cut away.
  uint64_t repaired_bytes() const { return repaired_bytes_; }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  JsonlSink() = default;
  File file_;
  uint64_t size_bytes_ = 0;
  uint64_t repaired_bytes_ = 0;
};

/// Reads a whole metrics.jsonl; a torn last line is left out.
/// Returns Errc::io, or Errc::corrupt naming path:line.
Expected<std::vector<MetricRow>> read_metrics(const std::filesystem::path& path);

}  // namespace cohort::observe

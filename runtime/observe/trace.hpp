#pragma once
/// trace.json for ui.perfetto.dev and chrome://tracing: spans on tracks (process = card or node,
/// thread = role or link), in the JSON array format. Events are appended as
/// they happen; until close() the array lacks its "]", which both viewers accept; after close() the
/// file is valid JSON. Thread-safe: any thread may add events. Bound: 64 KiB of buffered events.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/base/error.hpp"

namespace cohort::observe {

/// A row in the viewer. Cheap to copy; valid for the writer that made it.
struct TrackId {
  uint32_t process = 0;
  uint32_t thread = 0;
};

struct TraceArg {
  std::string_view name;
  std::variant<double, std::string_view> value;
};

class TraceWriter {
 public:
  /// Opens `path`. With `append` (resume) an existing file is continued: its "]" or torn last event
  /// is cut and its tracks keep their ids; otherwise it is replaced. Returns Errc::io naming the
  /// path.
  static Expected<std::unique_ptr<TraceWriter>> open(const std::filesystem::path& path,
                                                     bool append = false);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  /// Closes the file if close() was not called.
  ~TraceWriter();

  /// Returns the track of (process, thread), e.g. ("card 1 · actor_infer", "phases"). Rows are
  /// shown in the order in which they were first asked for.
  TrackId track(std::string_view process, std::string_view thread);
  /// Adds a span; times are wall-clock microseconds (cohort::wall_time_us()). Viewers drop a span
  /// that overlaps another one of its row without nesting, so such a span lies on a further row,
  /// "NAME (2)". Returns the row, for flow().
  TrackId span(TrackId track, std::string_view name, std::string_view category, int64_t start_us,
               int64_t end_us, std::span<const TraceArg> args = {});
  /// Adds an arrow between the span that is open on `from` at `from_us` and the one that is open on
  /// `to` at `to_us`.
  void flow(std::string_view name, TrackId from, int64_t from_us, TrackId to, int64_t to_us);
  /// Hands buffered events to the operating system. Returns the first Errc::io since the last call:
  /// adding events never fails by itself, so that a full disk cannot stop a step.
  Expected<void> flush();
  /// Ends the array and closes the file; later events are dropped.
  Expected<void> close();

 private:
  TraceWriter();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::observe

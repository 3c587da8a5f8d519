#pragma once
/// Where the trajectories and the result of each step are in a stream, also of one that is being
/// written. Owner: one thread. Bound: 200 bytes a step, and the places of the trajectories of
/// k_steps_in_memory steps (stream::Index holds those of all).
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/stream/index.hpp"
#include "runtime/stream/segment.hpp"

namespace cohort {

class StepIndex {
 public:
  static constexpr size_t k_steps_in_memory = 8, k_recent = 256;

  struct Step {
    uint64_t trajectories = 0;                 // records, replaced ones too
    std::vector<uint32_t> segments;            // that have any of them, ascending
    std::optional<stream::RecordInfo> result;  // the newest one
  };
  /// The newest record of each trajectory of a step.
  struct Places {
    std::map<TrajectoryKey, stream::RecordInfo> newest;
    uint64_t changes = 0;
  };

  /// Returns Errc::not_found if there is no stream yet.
  static Expected<StepIndex> open(const std::filesystem::path& folder);

  /// Takes in up to `count` more records. Returns whether the end has been reached.
  Expected<bool> follow(size_t count);
  const std::map<uint64_t, Step>& steps() const { return steps_; }
  /// The last records of phases and of events, in their order.
  const std::deque<stream::RecordInfo>& recent_phases() const { return phases_; }
  const std::deque<stream::RecordInfo>& recent_events() const { return events_; }
  /// Returns the places of a step's trajectories as far as follow() has come, kept up to date by
  /// later calls of follow().
  Expected<std::shared_ptr<const Places>> places(uint64_t step);

 private:
  Expected<void> open_segment(uint32_t segment);
  Expected<bool> go_to_next_segment();
  Expected<void> gather(uint64_t step, uint32_t segment, Places& to) const;
  void take(const stream::RecordInfo& info);

  std::filesystem::path folder_;
  stream::StreamInfo stream_;
  uint32_t segment_ = 0;
  std::vector<stream::RecordInfo> entries_;  // of the segment's sidecar, not yet taken in
  size_t entries_taken_ = 0;
  std::optional<stream::SegmentScanner> scanner_;  // behind them
  std::map<uint64_t, Step> steps_;
  std::deque<stream::RecordInfo> phases_, events_;                     // at most k_recent each
  std::list<std::pair<uint64_t, std::shared_ptr<Places>>> in_memory_;  // the last asked for first
};

}  // namespace cohort

#pragma once
/// The trajectories of one step that a query chooses, read bit by bit. Owner: one thread. Bound:
/// k_view_trajectories lines.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/observe/browse_data.hpp"
#include "runtime/query/expression.hpp"
#include "runtime/stream/reader.hpp"
#include "tools/actor-node/step_index.hpp"

namespace cohort {

class StepReading {
 public:
  StepReading(uint64_t step, std::string where);

  /// Takes in what the index knows of the step now.
  void follow(const StepIndex::Places& places);
  /// Reads until `until` (now_seconds()) at most. Returns whether something has changed.
  bool read(stream::Reader& reader, double until);
  bool is_whole() const { return todo_.empty(); }
  std::shared_ptr<const observe::StepView> view() const;

 private:
  struct Slot {
    uint64_t number = 0;  // of the record that it shows
    std::optional<observe::TrajectoryLine> line;
    std::vector<std::pair<uint32_t, double>> parts;  // -> part_names_
  };
  void take(const stream::RecordInfo& info, const proto::Trajectory& x);
  uint32_t part_of(const std::string& name);

  uint64_t step_;
  std::string where_, error_;
  std::optional<query::Expression> query_;  // none: all
  uint64_t seen_changes_ = 0, left_out_ = 0, damaged_ = 0;
  std::map<TrajectoryKey, Slot> slots_;
  std::deque<stream::RecordInfo> todo_;
  std::vector<std::string> part_names_;
};

}  // namespace cohort

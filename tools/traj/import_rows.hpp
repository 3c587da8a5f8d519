#pragma once
/// Rows of any other system as trajectories of training, so that its numbers can be compared: one
/// JSON object a line (docs/stream.md, "Import"). Pure but for reading the file. Bound: the file.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::traj {

/// Reads rows one after the other; numbers groups and the rows in them in the order of their first
/// appearance.
class ImportedRows {
 public:
  ImportedRows(std::string file, std::string run_id)
      : file_(std::move(file)), run_id_(std::move(run_id)) {}
  /// Returns Errc::config naming file:line and the key.
  Expected<void> add(std::string_view text, uint64_t line);
  const std::vector<proto::Trajectory>& trajectories() const { return trajectories_; }

 private:
  std::string file_, run_id_;
  std::vector<proto::Trajectory> trajectories_;
  std::map<std::string, uint32_t> groups_;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> next_index_;  // by step and group
  std::set<proto::TrajectoryKey> keys_;
};

/// What a config must say of rows for their advantages to be computed.
struct ImportedShape {
  uint64_t groups = 0;      // the most of a step
  uint64_t group_size = 0;  // the most rows of a group
  uint64_t tokens = 0;      // the longest row
};
ImportedShape shape_of(const std::vector<proto::Trajectory>& trajectories);

enum class ImportDialect : uint8_t { roll, verl };
/// Returns a config of pipeline rlvr with GRPO and one optimizer batch per step, in the keys of the
/// dialect whose rules hold.
std::string imported_config(const ImportedShape& shape, ImportDialect dialect);

}  // namespace cohort::traj

#pragma once
/// What every command of traj needs: the stream of a RUN argument, and a choice of its
/// trajectories.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/stream/reader.hpp"

namespace cohort::traj {

/// `run`: a run folder, or a stream folder.
Expected<stream::Reader> open_run(const std::string& run);

/// Parses STEP/GROUP/INDEX.
Expected<proto::TrajectoryKey> parse_key(const std::string& text, proto::TrajectoryKind kind);

/// Returns the newest record of the key. Errc::not_found names `run`; Errc::corrupt if it
/// may be in what the stream has lost.
Expected<stream::Record> find_trajectory(stream::Reader& reader, const proto::TrajectoryKey& key,
                                         const std::string& run);

/// Tells on stderr what the stream has lost. Returns how many places those are.
uint64_t tell_losses(const stream::Index& index);
/// Returns Errc::corrupt if there are such places.
Expected<void> to_result(uint64_t losses, uint64_t damaged, std::string_view what);

struct Choice {
  std::optional<uint64_t> step;
  std::optional<proto::TrajectoryKind> kind;
  uint64_t limit = 0;     // 0 = all
  bool is_quiet = false;  // damage is told at another pass
};
/// Calls `f` with the newest record of each chosen trajectory, in key order. A damaged record, and
/// what the stream has lost, is told on stderr and left out; after the others Errc::corrupt is
/// returned. Errc::not_found: nothing is of the chosen step.
Expected<void> for_each_trajectory(
    stream::Reader& reader, const Choice& choice,
    const std::function<void(const stream::RecordInfo&, const proto::Trajectory&)>& f);

/// Returns whether the trajectory reached its goal: its `success` metric if it has one, else the
/// stop reason "goal".
bool is_success(const proto::Trajectory& trajectory);

/// Returns what became of a trajectory of training: trains, filtered, masked or baseline; "" of
/// other kinds.
std::string_view fate_of(const proto::Trajectory& trajectory);

/// Returns text for a terminal or JSON: bytes that are not UTF-8 become U+FFFD.
std::string printable(std::string_view bytes);

}  // namespace cohort::traj

#pragma once
/// Reader: the records of a stream in order, by place, or by key. May read while a writer appends.
/// Owner: one thread (open one each). Bound: the scanner's window, and the index once it is asked
/// for. READ-1: a record is handed out only if prefix, header, columns and padding hold.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/stream/index.hpp"
#include "runtime/stream/record.hpp"
#include "runtime/stream/segment.hpp"

namespace cohort::stream {

class Reader {
 public:
  /// Returns Errc::not_found if there is no stream, Errc::protocol if it is newer than this
  /// program.
  static Expected<Reader> open(const std::filesystem::path& folder);

  const StreamInfo& stream() const { return stream_; }

  /// Returns the next record, or nothing at the end; call again to follow a writer. Returns
  /// Errc::corrupt, which names the place, once for each damage, and also for segments that are
  /// missing and for an end that an index proves to be lost; the next call goes on behind it.
  Expected<std::optional<Record>> next();

  /// next() goes on behind the record of an index entry.
  Expected<void> go_behind(const RecordInfo& info);

  /// Reads the record of an index entry. Returns Errc::corrupt if another record, or none, is
  /// there.
  Expected<Record> read(const RecordInfo& info);

  /// Returns the index, loaded at the first call; refresh() takes in later records.
  Expected<const Index*> index();
  Expected<void> refresh();

  /// Returns the newest record of `key`: by the index if it is loaded and has one, else by a look
  /// at the few segments that may hold it.
  Expected<std::optional<Record>> find(const proto::TrajectoryKey& key);
  /// Returns the infos of all records of `step`, replaced trajectories left out.
  Expected<std::vector<RecordInfo>> of_step(uint64_t step);

 private:
  Expected<bool> advance_segment();
  Expected<std::optional<Record>> look_behind_end();

  std::filesystem::path folder_;
  StreamInfo stream_;
  std::optional<SegmentScanner> scanner_;
  uint32_t segment_ = 0;
  bool is_end_checked_ = false;  // against the indexes
  std::vector<Damage> lost_;     // not told yet, the last one first
  std::optional<Index> index_;
  std::map<uint32_t, File> files_;
};

}  // namespace cohort::stream

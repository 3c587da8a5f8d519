#pragma once
/// Writer: appends records to a stream folder (docs/stream.md). Creates it, or goes on where it
/// ends. Owner: the node that records; one per folder, kept by a lock that dies with the process.
/// Thread-safe: append() from any thread, records are numbered in the order of their writes; sync()
/// does not hold up append(). Bound: no queue; one record in flight per caller.
/// STREAM-4: when append() returns, the record is in the page cache in one piece: a killed process
/// loses nothing that was acknowledged (a machine that loses power: nothing before the last
/// sync()). STREAM-5: a failed append leaves the stream as it was: the writer cuts the file back.
/// STREAM-6: with preallocate a full disk shows at open() or when a segment begins, never inside
/// one. STREAM-7: an index says up to which record a sync() has brought all to the disk, so a
/// segment that has less proves a loss (index_proof.hpp).
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::stream {

enum class Compression : uint8_t {
  none,
  zstd  // each record that is smaller so (packing.hpp); needs a reader of format 2
};

struct WriterOptions {
  std::string run_id = {};                  // must match that of an existing stream, unless empty
  size_t segment_bytes = size_t{64} << 20;  // a larger record gets a segment of its own
  bool preallocate = true;                  // finds a full disk at the start of a segment
  Compression compression = Compression::none;
  /// Of the whole stream, if it is known: no segment reserves more than what is left of it. 0: not.
  uint64_t expected_bytes = 0;
};

/// The state in which open() found an existing stream.
struct Recovered {
  bool is_reopened = false;
  uint64_t records = 0;            // kept; the next one has this number, or that behind a loss
  uint64_t torn_bytes = 0;         // of unfinished writes, cut off
  std::optional<RecordInfo> last;  // last good record, if its segment was read
  std::string damage;              // of the last segment or its index, which stay as they are
  /// Returns one line for the log, empty if there is nothing to say.
  std::string describe() const;
};

struct WriterStats {
  uint64_t records = 0;  // appended by this writer
  uint64_t bytes = 0;    // on disk, padding included
};

class Writer {
 public:
  /// Returns Errc::io with path, needed and available bytes on a full disk, Errc::closed if another
  /// process writes to this stream, Errc::protocol if its format is newer than ours,
  /// Errc::invalid_argument if it is another run's.
  static Expected<Writer> open(const std::filesystem::path& folder, WriterOptions options = {});
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  /// Closes without sync.
  ~Writer();

  const Recovered& recovered() const;
  WriterStats stats() const;

  /// Checks that the bytes are what `type` demands (a batch of one trajectory, or a JSON object
  /// without columns), then appends. Returns Errc::invalid_argument, Errc::io or Errc::closed.
  Expected<RecordId> append(RecordType type, std::span<const std::byte> header,
                            std::span<const std::byte> columns);
  Expected<RecordId> append_trajectory(const proto::Trajectory& trajectory);
  /// Appends a JSON record.
  Expected<RecordId> append_json(RecordType type, std::string_view text);
  /// The same for a caller that knows the key and made the bytes itself: nothing is decoded.
  Expected<RecordId> append_keyed(RecordType type, const RecordKey& key,
                                  std::span<const std::byte> header,
                                  std::span<const std::byte> columns);

  /// Makes every record appended before the call durable, and brings the index up to date.
  Expected<void> sync();
  /// sync(), then gives reserved space back. append() returns Errc::closed from then on.
  Expected<void> close();

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cohort::stream

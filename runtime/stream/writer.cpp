#include "runtime/stream/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <random>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/proto/codec.hpp"
#include "runtime/stream/format.hpp"
#include "runtime/stream/index.hpp"
#include "runtime/stream/index_proof.hpp"
#include "runtime/stream/packing.hpp"
#include "runtime/stream/segment.hpp"
#include "runtime/stream/segment_steps.hpp"
#include "runtime/stream/stream_file.hpp"

namespace cohort::stream {
namespace {

constexpr size_t k_index_entries_max = 1024;  // in memory before they are written

// Segments that wait for a sync(); beyond it, a roll syncs the oldest itself, so that neither open
// files nor dirty pages pile up in a run that never syncs.
constexpr size_t k_unsynced_segments_max = 4;
// The disk begins with every so many bytes while appends go on, so that sync() has little to wait
// for; smaller pieces would cost a slow disk its sequential rate.
constexpr uint64_t k_writeback_bytes = uint64_t{8} << 20;
constexpr std::array<std::byte, k_alignment> k_zeros{};

iovec part_of(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

iovec padding_of(uint64_t size_bytes) {
  return part_of(std::span(k_zeros).first(align_up(size_bytes) - size_bytes));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Not a draw of the run's seed: two streams of one seed must not pass for each other.
uint64_t random_stream_id() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

/// A segment that is written to, or waits for a sync().
struct Segment {
  File file;
  uint32_t number = 0;
  File index;  // its sidecar, if it could be made
  uint64_t index_offset = k_index_header_bytes;
  std::vector<Block> entries;  // not written yet
  SegmentSteps steps;

  /// Entries of all its records.
  uint64_t count() const {
    return (index_offset - k_index_header_bytes) / k_index_entry_bytes + entries.size();
  }
  /// Writes the entries that wait. The index is a cache: if it cannot be written, it ends here and
  /// readers scan what is behind it.
  void write_index() {
    if (!index.is_open() || entries.empty()) return;
    const iovec part{entries.data(), entries.size() * sizeof(Block)};
    if (index.write(index_offset, {&part, 1}))
      index_offset += part.iov_len;
    else
      index = File{};
    entries.clear();
  }
  /// The disk has the records of the first `proven` entries: says so (STREAM-7).
  void prove(uint64_t proven, uint64_t stream_id) {
    write_index();
    if (!index.is_open()) return;
    const Block header = encode_index_header({number, stream_id, proven});
    const iovec part{const_cast<std::byte*>(header.data()), header.size()};
    if (!index.write(0, {&part, 1})) index = File{};
  }
};

}  // namespace

/// `mutex` guards all but the members that open() sets.
struct Writer::State {
  ~State() {
    if (!is_closed) finish_segment();
  }

  // -- set by open()
  std::filesystem::path folder;
  WriterOptions options;
  uint64_t stream_id = 0;
  FolderLock lock;
  Recovered recovered;

  std::mutex sync_mutex;  // one sync at a time; taken before `mutex`
  mutable std::mutex mutex;
  std::shared_ptr<Segment> current;  // sync() keeps it alive while it works
  uint64_t offset = 0;               // where the next record goes
  uint64_t written_back = 0;         // up to here the disk was told to begin
  uint64_t next_number = 0;
  std::vector<std::shared_ptr<Segment>> unsynced;  // finished ones that sync() has not seen
  bool is_folder_dirty = false;                    // a new name in the folder is not durable yet
  std::optional<Error> broken;  // set when the file's state is not known any more
  bool is_closed = false;
  WriterStats stats;

  uint16_t version() const {
    return options.compression == Compression::none ? k_format_version : k_format_version_packed;
  }

  // -- recovery
  Expected<void> start() {
    std::error_code code;
    std::filesystem::create_directories(folder, code);
    if (code)
      return Error{Errc::io, fmt::format("{}: cannot create: {}", folder.string(), code.message())};
    COHORT_ASSIGN(lock, FolderLock::take(folder));
    COHORT_ASSIGN(std::vector<uint32_t> segments, list_segments(folder));
    stream_id = random_stream_id();
    if (segments.empty()) return create_segment(0, 0);
    COHORT_ASSIGN(StreamInfo info, probe_stream(folder));
    if (info.stream_id != 0) stream_id = info.stream_id;
    if (options.run_id.empty()) options.run_id = info.run_id;
    if (!info.run_id.empty() && info.run_id != options.run_id)
      return Error{Errc::invalid_argument,
                   fmt::format("{}: the stream of run {}, not of {}", folder.string(), info.run_id,
                               options.run_id)};
    return recover(std::move(segments));
  }
  /// Reads the last segment through, cuts its torn tail and goes on there; on damage goes on in a
  /// new segment and leaves the old one alone, since records behind the damage are good. So it does
  /// behind a segment whose readers may know no packed records. What an index proves to be lost
  /// keeps its numbers, so that readers see the gap.
  Expected<void> recover(std::vector<uint32_t> segments) {
    recovered.is_reopened = true;
    const IndexProof proof = IndexProof::read(folder, stream_id);
    while (!segments.empty() && !proof.has(segments.back())) {
      COHORT_ASSIGN(bool is_dropped, drop_headless(segments.back()));
      if (!is_dropped) break;
      segments.pop_back();
    }
    if (segments.empty() && !proof.last()) return create_segment(0, 0);
    const uint32_t last = segments.empty() ? 0 : segments.back();
    COHORT_ASSIGN(const Kept kept, segments.empty() ? Expected<Kept>(Kept{}) : read_through(last));
    next_number = recovered.records = kept.next_number;
    if (!kept.records.empty()) recovered.last = kept.records.back();
    const bool is_lost = take_losses(proof, last, kept);
    if (!is_lost) recovered.torn_bytes += kept.size - std::min(kept.size, kept.end);
    if (recovered.damage.empty() && kept.version >= version())
      return continue_segment(last, kept.end, kept.records);
    if (!is_lost && kept.size > kept.end) {
      COHORT_ASSIGN(File damaged, File::open(segment_path(folder, last), OpenMode::append));
      COHORT_TRY(damaged.truncate(kept.end));
    }
    return create_segment(std::max(last, proof.last().value_or(0)) + 1, 0);
  }
  /// What an open stream's last segment has.
  struct Kept {
    std::vector<RecordInfo> records;
    uint64_t next_number = 0;
    uint64_t end = 0, size = 0;  // [bytes] of the records, of the file
    uint16_t version = k_format_version;
  };
  Expected<Kept> read_through(uint32_t number) {
    COHORT_ASSIGN(SegmentScanner scanner,
                  SegmentScanner::open(folder, number, stream_id, std::nullopt, ScanDepth::body));
    Kept kept;
    while (true) {
      COHORT_ASSIGN(ScanItem item, scanner.next());
      if (item.state == ScanState::end || item.state == ScanState::torn) break;
      if (item.state == ScanState::record)
        kept.records.push_back(item.info);
      else if (recovered.damage.empty())
        recovered.damage = fmt::format("segment {} at {}, record {}: {}", number,
                                       item.info.id.offset, item.info.number, item.what);
    }
    kept.next_number = scanner.next_number();
    kept.end = scanner.offset();
    kept.version = scanner.version();
    std::error_code code;
    kept.size = std::filesystem::file_size(scanner.path(), code);
    if (code) kept.size = kept.end;
    if (kept.end > 0) return kept;
    // The header is gone that says with which record the segment begins.
    if (const auto entries = read_sidecar(folder, number, stream_id); !entries.empty())
      kept.next_number = entries.front().number;
    return kept;
  }
  /// Takes the loss that an index proves, if there is one, for damage. Returns whether there is.
  bool take_losses(const IndexProof& proof, uint32_t last, const Kept& kept) {
    std::optional<Damage> lost = proof.lost_in(last, kept.end, kept.next_number);
    const auto behind = proof.lost_behind(last, kept.next_number);
    if (!lost && !behind.empty()) lost = behind.front();
    if (!lost) return false;
    if (recovered.damage.empty()) recovered.damage = lost->describe();
    next_number = std::max(next_number, proof.next_record());
    return true;
  }
  /// A segment whose header never got to disk holds nothing: removes it. Returns whether it did.
  Expected<bool> drop_headless(uint32_t segment_number) {
    COHORT_ASSIGN(SegmentScanner scanner, SegmentScanner::open(folder, segment_number, stream_id,
                                                               std::nullopt, ScanDepth::body));
    if (scanner.offset() != 0) return false;
    std::error_code code;
    auto size = std::filesystem::file_size(scanner.path(), code);
    if (!std::filesystem::remove(scanner.path(), code))
      return Error{Errc::io,
                   fmt::format("{}: remove: {}", scanner.path().string(), code.message())};
    recovered.torn_bytes += size;
    return true;
  }
  /// Makes `number` the current segment, cut to `size_bytes`.
  Expected<void> continue_segment(uint32_t number, uint64_t size_bytes,
                                  const std::vector<RecordInfo>& records) {
    COHORT_ASSIGN(File opened, File::open(segment_path(folder, number), OpenMode::append));
    COHORT_ASSIGN(uint64_t size, opened.size());
    if (size > size_bytes) COHORT_TRY(opened.truncate(size_bytes));
    if (options.preallocate && size_bytes < options.segment_bytes)
      COHORT_TRY(opened.reserve(options.segment_bytes));
    // Its writer may have died before a sync(), and the new sidecar proves all of it (STREAM-7).
    COHORT_TRY(opened.sync());
    COHORT_TRY(sync_folder(folder));
    begin_at(std::move(opened), number, size_bytes, records);
    return {};
  }

  // -- with `mutex` held
  Expected<void> create_segment(uint32_t number, uint64_t record_size) {
    std::filesystem::path path = segment_path(folder, number);
    uint64_t reserved = options.segment_bytes;
    if (options.expected_bytes > 0)
      reserved = std::min(reserved, k_segment_header_bytes + options.expected_bytes -
                                        std::min(options.expected_bytes, stats.bytes));
    reserved = std::max(reserved, k_segment_header_bytes + record_size);
    SegmentHeader header{.version = version(),
                         .segment = number,
                         .first_record = next_number,
                         .created_us = static_cast<uint64_t>(wall_time_us()),
                         .stream_id = stream_id,
                         .run_id = options.run_id};
    SegmentHeaderBytes bytes = encode_segment_header(header);
    iovec part = part_of(bytes);
    COHORT_ASSIGN(File created, File::open(path, OpenMode::create));
    Expected<void> result = options.preallocate ? created.reserve(reserved) : Expected<void>{};
    if (result) result = created.write(0, {&part, 1});
    if (!result) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
      return result.error();
    }
    finish_segment();
    is_folder_dirty = true;
    begin_at(std::move(created), number, k_segment_header_bytes, {});
    return {};
  }
  /// Goes on at `place` of a segment that has `records`, with a new sidecar.
  void begin_at(File opened, uint32_t number, uint64_t place, std::span<const RecordInfo> records) {
    current = std::make_shared<Segment>();
    current->file = std::move(opened);
    current->number = number;
    offset = written_back = place;
    for (const RecordInfo& info : records) current->steps.add(info);
    if (!write_sidecar(folder, number, stream_id, records)) return;
    if (auto sidecar = File::open(index_path(folder, number), OpenMode::append); sidecar)
      current->index = std::move(*sidecar);
    current->index_offset = k_index_header_bytes + records.size() * k_index_entry_bytes;
  }
  Expected<void> roll(uint64_t record_size) {
    if (unsynced.size() >= k_unsynced_segments_max) {
      COHORT_TRY(unsynced.front()->file.sync());
      COHORT_TRY(sync_folder(folder));
      unsynced.front()->prove(unsynced.front()->count(), stream_id);
      unsynced.erase(unsynced.begin());
    }
    return create_segment(current->number + 1, record_size);
  }
  Expected<RecordId> write(RecordInfo info, uint64_t checksum, std::span<const std::byte> header,
                           std::span<const std::byte> columns) {
    if (is_closed)
      return Error{Errc::closed, fmt::format("{}: the stream is closed", folder.string())};
    if (broken) return *broken;
    uint64_t size = info.size_bytes();
    if (offset > k_segment_header_bytes && offset + size > options.segment_bytes)
      COHORT_TRY(roll(size));
    info.id = {current->number, offset};
    info.number = next_number;
    Block prefix = encode_prefix(info, checksum, stream_id);
    std::array<iovec, 5> parts = {part_of(prefix), part_of(header), padding_of(header.size()),
                                  part_of(columns), padding_of(columns.size())};
    if (auto written = current->file.write(offset, parts); !written) {
      if (auto cut = current->file.truncate(offset); !cut)
        broken = cut.error().with_context("stream is unusable after a failed write");
      return written.error();
    }
    offset += size;
    ++next_number;
    current->steps.add(info);
    ++stats.records;
    stats.bytes += size;
    if (offset - written_back >= k_writeback_bytes) {
      current->file.start_writeback(written_back, offset - written_back);
      written_back = offset;
    }
    if (current->index.is_open()) current->entries.push_back(encode_index_entry(info, stream_id));
    if (current->entries.size() >= k_index_entries_max) current->write_index();
    return info.id;
  }
  /// Gives reserved space back and leaves the file to the next sync().
  void finish_segment() {
    if (!current) return;
    if (options.preallocate && !broken)
      (void)current->file.truncate(offset).has_value();  // a failure costs disk space only
    current->write_index();
    // Which steps it holds, as long as it is as it is now; readers do without it.
    current->steps.finish(current->number, offset);
    (void)append_segment_steps(folder, current->steps, stream_id).has_value();
    unsynced.push_back(std::move(current));
    current.reset();
  }
};

std::string Recovered::describe() const {
  std::string text;
  if (torn_bytes > 0)
    text = fmt::format("cut a torn tail of {} bytes, {} records kept", torn_bytes, records);
  if (torn_bytes > 0 && last) text += fmt::format(", the last good one is {}", last->describe());
  if (!damage.empty())
    text += fmt::format("{}damage left in place, going on in a new segment: {}",
                        text.empty() ? "" : "; ", damage);
  return text;
}

Expected<Writer> Writer::open(const std::filesystem::path& folder, WriterOptions options) {
  if (options.run_id.size() > k_run_id_bytes_max)
    return Error{Errc::invalid_argument, fmt::format("run id {}: longer than {} bytes",
                                                     options.run_id, k_run_id_bytes_max)};
  auto state = std::make_unique<State>();
  state->folder = folder;
  state->options = std::move(options);
  COHORT_TRY(state->start());
  return Writer(std::move(state));
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

const Recovered& Writer::recovered() const { return state_->recovered; }

WriterStats Writer::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

Expected<RecordId> Writer::append(RecordType type, std::span<const std::byte> header,
                                  std::span<const std::byte> columns) {
  COHORT_ASSIGN(RecordKey key, key_of(type, header, columns));
  return append_keyed(type, key, header, columns);
}

Expected<RecordId> Writer::append_trajectory(const proto::Trajectory& trajectory) {
  COHORT_TRY(proto::validate(trajectory));
  proto::Encoded encoded = proto::encode_batch({&trajectory, 1});
  RecordKey key{trajectory.key.step, trajectory.key, trajectory.attempt};
  return append_keyed(RecordType::trajectory, key, bytes_of(encoded.header),
                      encoded.columns.bytes());
}

Expected<RecordId> Writer::append_json(RecordType type, std::string_view text) {
  if (type == RecordType::trajectory)
    return Error{Errc::invalid_argument, "trajectory record: needs an encoded batch, not JSON"};
  return append(type, bytes_of(text), {});
}

Expected<RecordId> Writer::append_keyed(RecordType type, const RecordKey& key,
                                        std::span<const std::byte> header,
                                        std::span<const std::byte> columns) {
  if (header.size() > UINT32_MAX || columns.size() > k_columns_bytes_max)
    return Error{Errc::invalid_argument,
                 fmt::format("{} record: {} header and {} column bytes are too many",
                             to_string(type), header.size(), columns.size())};
  RecordInfo info;
  info.type = type;
  info.key = key;
  info.header_bytes = header.size();
  info.columns_bytes = columns.size();
  std::span<const std::byte> frame;
  if (state_->options.compression == Compression::zstd) frame = pack(header, columns);
  if (!frame.empty()) {
    info.is_packed = true;
    info.columns_bytes = frame.size();
    header = {};
    columns = frame;
  }
  uint64_t checksum = body_checksum(header, columns);
  std::lock_guard lock(state_->mutex);
  return state_->write(std::move(info), checksum, header, columns);
}

Expected<void> Writer::sync() {
  struct Part {
    std::shared_ptr<Segment> segment;
    uint64_t entries = 0;
  };
  std::lock_guard one_at_a_time(state_->sync_mutex);
  std::vector<Part> parts;
  bool is_folder_dirty = false;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->is_closed)
      return Error{Errc::closed, fmt::format("{}: the stream is closed", state_->folder.string())};
    if (state_->broken) return *state_->broken;
    for (auto& finished : std::exchange(state_->unsynced, {})) {
      const uint64_t entries = finished->count();
      parts.push_back({std::move(finished), entries});
    }
    parts.push_back({state_->current, state_->current->count()});
    is_folder_dirty = std::exchange(state_->is_folder_dirty, false);
  }
  Expected<void> result;
  for (const Part& part : parts)
    if (result) result = part.segment->file.sync();
  if (result && is_folder_dirty) result = sync_folder(state_->folder);
  std::lock_guard lock(state_->mutex);
  if (!result) {  // the kernel may have dropped the dirty pages: nothing later can repair that
    state_->broken = result.error();
    return result;
  }
  // One may have been finished meanwhile, by a record that this sync() has not seen.
  for (const Part& part : parts) part.segment->prove(part.entries, state_->stream_id);
  return {};
}

Expected<void> Writer::close() {
  COHORT_TRY(sync());
  std::lock_guard one_at_a_time(state_->sync_mutex);
  std::lock_guard lock(state_->mutex);
  state_->finish_segment();
  Expected<void> result;
  for (const auto& segment : state_->unsynced) {  // appended between sync() and here
    if (result) result = segment->file.sync();
    if (result) segment->prove(segment->count(), state_->stream_id);
  }
  state_->unsynced.clear();
  state_->lock = FolderLock{};
  state_->is_closed = true;
  return result;
}

}  // namespace cohort::stream

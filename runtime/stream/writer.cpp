#include "runtime/stream/writer.hpp"

#include <fmt/format.h>

#include <array>
#include <mutex>
#include <random>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/proto/codec.hpp"
#include "runtime/stream/format.hpp"
#include "runtime/stream/index.hpp"
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

}  // namespace

/// `mutex` guards all but the members that open() sets.
struct Writer::State {
  ~State() {
    if (!is_closed && file) {
      flush_index();
      finish_segment();
    }
  }

  // -- set by open()
  std::filesystem::path folder;
  WriterOptions options;
  uint64_t stream_id = 0;
  FolderLock lock;
  Recovered recovered;

  std::mutex sync_mutex;  // one sync at a time; taken before `mutex`
  mutable std::mutex mutex;
  std::shared_ptr<File> file;  // current segment; sync() keeps it alive while it works
  uint32_t segment = 0;
  uint64_t offset = 0;        // where the next record goes
  uint64_t written_back = 0;  // up to here the disk was told to begin
  uint64_t next_number = 0;
  std::vector<std::shared_ptr<File>> unsynced;  // finished segments that sync() has not seen
  bool is_folder_dirty = false;                 // a new name in the folder is not durable yet
  File index;  // sidecar of the current segment, if it could be made
  uint64_t index_offset = 0;
  SegmentSteps steps;                // of the current segment
  std::vector<Block> index_pending;  // entries not written yet
  std::optional<Error> broken;       // set when the file's state is not known any more
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
  /// behind a segment whose readers may know no packed records.
  Expected<void> recover(std::vector<uint32_t> segments) {
    recovered.is_reopened = true;
    while (!segments.empty()) {
      COHORT_ASSIGN(bool is_dropped, drop_headless(segments.back()));
      if (!is_dropped) break;
      segments.pop_back();
    }
    if (segments.empty()) return create_segment(0, 0);
    uint32_t last = segments.back();
    COHORT_ASSIGN(SegmentScanner scanner,
                  SegmentScanner::open(folder, last, stream_id, std::nullopt, ScanDepth::body));
    std::vector<RecordInfo> records;
    while (true) {
      COHORT_ASSIGN(ScanItem item, scanner.next());
      if (item.state == ScanState::end || item.state == ScanState::torn) break;
      if (item.state == ScanState::record)
        records.push_back(item.info);
      else if (recovered.damage.empty())
        recovered.damage = fmt::format("segment {} at {}, record {}: {}", last, item.info.id.offset,
                                       item.info.number, item.what);
    }
    next_number = scanner.next_number();
    recovered.records = next_number;
    if (!records.empty()) recovered.last = records.back();
    std::error_code code;
    uint64_t size = std::filesystem::file_size(scanner.path(), code);
    recovered.torn_bytes += code || size < scanner.offset() ? 0 : size - scanner.offset();
    const bool can_go_on = scanner.version() >= version();
    if (recovered.damage.empty() && can_go_on)
      return continue_segment(last, scanner.offset(), records);
    if (!code && size > scanner.offset()) {
      COHORT_ASSIGN(File damaged, File::open(scanner.path(), OpenMode::append));
      COHORT_TRY(damaged.truncate(scanner.offset()));
    }
    return create_segment(last + 1, 0);
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
    begin_at(std::move(opened), number, size_bytes, records);
    return {};
  }

  // -- with `mutex` held
  Expected<void> create_segment(uint32_t number, uint64_t record_size) {
    std::filesystem::path path = segment_path(folder, number);
    uint64_t reserved =
        std::max<uint64_t>(options.segment_bytes, k_segment_header_bytes + record_size);
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
    file = std::make_shared<File>(std::move(opened));
    segment = number;
    offset = written_back = place;
    index = File{};
    index_pending.clear();
    steps = SegmentSteps{};
    for (const RecordInfo& info : records) steps.add(info);
    if (!write_sidecar(folder, number, stream_id, records)) return;
    if (auto sidecar = File::open(index_path(folder, number), OpenMode::append); sidecar)
      index = std::move(*sidecar);
    index_offset = k_index_header_bytes + records.size() * k_index_entry_bytes;
  }
  Expected<void> roll(uint64_t record_size) {
    flush_index();
    leave_steps();
    if (unsynced.size() >= k_unsynced_segments_max) {
      COHORT_TRY(unsynced.front()->sync());
      unsynced.erase(unsynced.begin());
    }
    return create_segment(segment + 1, record_size);
  }
  Expected<RecordId> write(RecordInfo info, uint64_t checksum, std::span<const std::byte> header,
                           std::span<const std::byte> columns) {
    if (is_closed)
      return Error{Errc::closed, fmt::format("{}: the stream is closed", folder.string())};
    if (broken) return *broken;
    uint64_t size = info.size_bytes();
    if (offset > k_segment_header_bytes && offset + size > options.segment_bytes)
      COHORT_TRY(roll(size));
    info.id = {segment, offset};
    info.number = next_number;
    Block prefix = encode_prefix(info, checksum, stream_id);
    std::array<iovec, 5> parts = {part_of(prefix), part_of(header), padding_of(header.size()),
                                  part_of(columns), padding_of(columns.size())};
    if (auto written = file->write(offset, parts); !written) {
      if (auto cut = file->truncate(offset); !cut)
        broken = cut.error().with_context("stream is unusable after a failed write");
      return written.error();
    }
    offset += size;
    ++next_number;
    steps.add(info);
    ++stats.records;
    stats.bytes += size;
    if (offset - written_back >= k_writeback_bytes) {
      file->start_writeback(written_back, offset - written_back);
      written_back = offset;
    }
    if (index.is_open()) index_pending.push_back(encode_index_entry(info, stream_id));
    if (index_pending.size() >= k_index_entries_max) flush_index();
    return info.id;
  }
  /// Appends the waiting entries. The index is a cache: if it cannot be written, it ends here and
  /// readers scan what is behind it.
  void flush_index() {
    if (!index.is_open() || index_pending.empty()) return;
    iovec part{index_pending.data(), index_pending.size() * sizeof(Block)};
    if (index.write(index_offset, {&part, 1}))
      index_offset += part.iov_len;
    else
      index = File{};
    index_pending.clear();
  }
  /// Says which steps the segment holds, as long as it is as it is now.
  void leave_steps() {
    steps.finish(segment, offset);
    (void)append_segment_steps(folder, steps, stream_id).has_value();  // readers do without it
  }
  /// Gives reserved space back and leaves the file to the next sync().
  void finish_segment() {
    if (!file) return;
    if (options.preallocate && !broken)
      (void)file->truncate(offset).has_value();  // a failure costs disk space only
    unsynced.push_back(std::move(file));
    file.reset();
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
  std::lock_guard one_at_a_time(state_->sync_mutex);
  std::vector<std::shared_ptr<File>> files;
  bool is_folder_dirty = false;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->is_closed)
      return Error{Errc::closed, fmt::format("{}: the stream is closed", state_->folder.string())};
    if (state_->broken) return *state_->broken;
    state_->flush_index();
    files = std::exchange(state_->unsynced, {});
    files.push_back(state_->file);
    is_folder_dirty = std::exchange(state_->is_folder_dirty, false);
  }
  Expected<void> result;
  for (const auto& file : files)
    if (result) result = file->sync();
  if (result && is_folder_dirty) result = sync_folder(state_->folder);
  if (!result) {  // the kernel may have dropped the dirty pages: nothing later can repair that
    std::lock_guard lock(state_->mutex);
    state_->broken = result.error();
  }
  return result;
}

Expected<void> Writer::close() {
  COHORT_TRY(sync());
  std::lock_guard one_at_a_time(state_->sync_mutex);
  std::lock_guard lock(state_->mutex);
  state_->flush_index();
  state_->leave_steps();
  state_->finish_segment();
  Expected<void> result;
  for (const auto& file : state_->unsynced)  // appended between sync() and here
    if (result) result = file->sync();
  state_->unsynced.clear();
  state_->index = File{};
  state_->lock = FolderLock{};
  state_->is_closed = true;
  return result;
}

}  // namespace cohort::stream

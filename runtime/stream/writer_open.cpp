// Writer::open, and its repair of an existing stream.
#include <fmt/format.h>

#include <random>
#include <utility>

#include "runtime/stream/index.hpp"
#include "runtime/stream/segment.hpp"
#include "runtime/stream/writer_state.hpp"

namespace cohort::stream {
namespace {

/// Not a draw of the run's seed: two streams of one seed must not pass for each other.
uint64_t random_stream_id() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

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

/// A segment whose header never got to disk holds nothing: removes it. Returns whether it did.
Expected<bool> Writer::State::drop_headless(uint32_t segment_number) {
  COHORT_ASSIGN(SegmentScanner scanner, SegmentScanner::open(folder, segment_number, stream_id,
                                                             std::nullopt, ScanDepth::body));
  if (scanner.offset() != 0) return false;
  std::error_code code;
  auto size = std::filesystem::file_size(scanner.path(), code);
  if (!std::filesystem::remove(scanner.path(), code))
    return Error{Errc::io, fmt::format("{}: remove: {}", scanner.path().string(), code.message())};
  recovered.torn_bytes += size;
  return true;
}

/// Makes `number` the current segment, cut to `size_bytes`.
Expected<void> Writer::State::continue_segment(uint32_t number, uint64_t size_bytes,
                                               const std::vector<RecordInfo>& records) {
  COHORT_ASSIGN(File opened, File::open(segment_path(folder, number), OpenMode::append));
  COHORT_ASSIGN(uint64_t size, opened.size());
  if (size > size_bytes) COHORT_TRY(opened.truncate(size_bytes));
  if (options.preallocate && size_bytes < options.segment_bytes)
    COHORT_TRY(opened.reserve(options.segment_bytes));
  file = std::make_shared<File>(std::move(opened));
  segment = number;
  offset = size_bytes;
  written_back = size_bytes;
  if (write_sidecar(folder, number, stream_id, records)) {
    auto sidecar = File::open(index_path(folder, number), OpenMode::append);
    if (sidecar) index = std::move(*sidecar);
    index_offset = k_index_header_bytes + records.size() * k_index_entry_bytes;
  }
  return {};
}

/// Reads the last segment through, cuts its torn tail and goes on there; on damage goes on in a new
/// segment and leaves the old one alone, since records behind the damage are good.
Expected<void> Writer::State::recover(std::vector<uint32_t> segments) {
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
  if (recovered.damage.empty()) return continue_segment(last, scanner.offset(), records);
  if (!code && size > scanner.offset()) {
    COHORT_ASSIGN(File damaged, File::open(scanner.path(), OpenMode::append));
    COHORT_TRY(damaged.truncate(scanner.offset()));
  }
  return create_segment(last + 1, 0);
}

Expected<void> Writer::State::start() {
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
    return Error{Errc::invalid_argument, fmt::format("{}: the stream of run {}, not of {}",
                                                     folder.string(), info.run_id, options.run_id)};
  return recover(std::move(segments));
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

}  // namespace cohort::stream

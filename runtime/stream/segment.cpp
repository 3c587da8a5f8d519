#include "runtime/stream/segment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::stream {
namespace {

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Returns the header of a segment, or nothing if the file is too short to hold one.
Expected<std::optional<DecodedSegmentHeader>> read_segment_header(const File& file) {
  SegmentHeaderBytes bytes{};
  COHORT_ASSIGN(size_t n, file.read(0, bytes));
  if (n < bytes.size() || is_zero(bytes)) return std::optional<DecodedSegmentHeader>{};
  DecodedSegmentHeader header = decode_segment_header(bytes);
  if (header.is_newer)
    return Error{
        Errc::protocol,
        fmt::format("{}: written in format {}, this program reads up to {}: use a newer one",
                    file.path().string(), header.header.version, k_format_version_max)};
  return std::optional(header);
}

std::optional<uint64_t> stream_id_of_index(const std::filesystem::path& folder, uint32_t segment) {
  auto file = File::open(index_path(folder, segment), OpenMode::read);
  if (!file) return std::nullopt;
  Block block{};
  auto n = file->read(0, block);
  if (!n || *n < block.size()) return std::nullopt;
  auto header = decode_index_header(block);
  return header ? std::optional(header->stream_id) : std::nullopt;
}

}  // namespace

Expected<StreamInfo> probe_stream(const std::filesystem::path& folder) {
  StreamInfo info;
  COHORT_ASSIGN(info.segments, list_segments(folder));
  if (info.segments.empty())
    return Error{Errc::not_found,
                 fmt::format("{}: no stream here (no segment-*.cohort)", folder.string())};
  std::optional<SegmentHeader> damaged;
  for (uint32_t segment : info.segments) {
    COHORT_ASSIGN(File file, File::open(segment_path(folder, segment), OpenMode::read));
    COHORT_ASSIGN(auto header, read_segment_header(file));
    if (!header) continue;
    if (header->is_damaged) {
      damaged = damaged.value_or(header->header);
      continue;
    }
    info.stream_id = header->header.stream_id;
    info.created_us = header->header.created_us;
    info.run_id = header->header.run_id;
    info.is_packed = header->header.version >= k_format_version_packed;
    return info;
  }
  if (damaged) {  // no header holds: the rest is as good as it looks
    info.stream_id = damaged->stream_id;
    info.created_us = damaged->created_us;
    info.run_id = damaged->run_id;
  }
  for (uint32_t segment : info.segments)  // a sidecar knows the id, also where a header is gone
    if (auto id = stream_id_of_index(folder, segment)) {
      info.stream_id = *id;
      break;
    }
  return info;
}

Expected<SegmentScanner> SegmentScanner::open(const std::filesystem::path& folder, uint32_t segment,
                                              uint64_t stream_id,
                                              std::optional<uint64_t> first_record,
                                              ScanDepth depth) {
  SegmentScanner x;
  COHORT_ASSIGN(x.file_, File::open(segment_path(folder, segment), OpenMode::read));
  x.segment_ = segment;
  x.stream_id_ = stream_id;
  x.first_record_ = first_record;
  x.depth_ = depth;
  COHORT_TRY(x.read_header());
  return x;
}

Expected<void> SegmentScanner::read_header() {
  COHORT_ASSIGN(size_, file_.size());
  COHORT_ASSIGN(auto decoded, read_segment_header(file_));
  number_ = first_record_.value_or(0);
  offset_ = 0;
  header_item_.reset();
  if (!decoded)  // next() looks again: a writer may be about to write it
    return {};
  offset_ = k_segment_header_bytes;
  const SegmentHeader& header = decoded->header;
  if (!decoded->is_damaged) version_ = header.version;
  std::string what;
  if (decoded->is_damaged)
    what = "the segment header does not match its checksum";
  else if (header.stream_id != stream_id_)
    what = "the segment belongs to another stream";
  else if (header.segment != segment_)
    what = fmt::format("the segment says it is number {}", header.segment);
  else if (first_record_ && header.first_record != *first_record_)
    what = fmt::format("the segment starts with record {}, not {}: records are missing",
                       header.first_record, *first_record_);
  if (!what.empty()) {
    header_item_ = ScanItem{ScanState::damaged, {}, false, {}, std::move(what)};
    header_item_->info.id = {segment_, 0};
    header_item_->info.number = number_;
  }
  if (!decoded->is_damaged && header.stream_id == stream_id_) number_ = header.first_record;
  return {};
}

void SegmentScanner::seek(uint64_t offset, uint64_t number) {
  offset_ = offset;
  number_ = number;
}

Expected<std::span<const std::byte>> SegmentScanner::view(uint64_t offset, uint64_t size_bytes) {
  if (offset < window_offset_ || offset + size_bytes > window_offset_ + window_.size_bytes()) {
    uint64_t wanted = depth_ == ScanDepth::body ? k_window_bytes : k_prefix_window_bytes;
    uint64_t n = std::max(size_bytes, std::min(wanted, size_ - offset));
    window_ = {};  // back to the pool first, unless a record shares it
    tensor::Buffer window = tensor::Buffer::allocate(n);
    COHORT_ASSIGN(size_t got, file_.read(offset, window.mutable_bytes()));
    if (got < size_bytes)
      return Error{Errc::io, fmt::format("{}: shrank while it was read", path().string())};
    window_ = window.slice(0, got);
    window_offset_ = offset;
  }
  return window_.bytes().subspan(offset - window_offset_, size_bytes);
}

Expected<bool> SegmentScanner::is_zero_to_end(uint64_t offset) {
  while (offset < size_) {
    uint64_t n = std::min(k_prefix_window_bytes, size_ - offset);
    COHORT_ASSIGN(auto bytes, view(offset, n));
    if (!is_zero(bytes)) return false;
    offset += n;
  }
  return true;
}

/// Returns the offset of the first prefix that holds at or behind `offset`, or the end of the file.
Expected<uint64_t> SegmentScanner::find_prefix(uint64_t offset) {
  for (; offset + k_prefix_bytes <= size_; offset += k_alignment) {
    COHORT_ASSIGN(auto bytes, view(offset, k_prefix_bytes));
    if (decode_prefix(bytes.first<k_prefix_bytes>(), stream_id_)) return offset;
  }
  return size_;
}

ScanItem SegmentScanner::stop(ScanState state, std::string what) {
  ScanItem item{state, {}, false, {}, std::move(what)};
  item.info.id = {segment_, offset_};
  item.info.number = number_;
  window_ = {};  // the bytes behind offset_ may still change
  return item;
}

Expected<ScanItem> SegmentScanner::next() {
  if (header_item_) return *std::exchange(header_item_, std::nullopt);
  if (offset_ == 0) {
    COHORT_TRY(read_header());
    if (offset_ == 0) return stop(ScanState::torn, "the segment header is not all there");
    if (header_item_) return *std::exchange(header_item_, std::nullopt);
  }
  if (offset_ + k_prefix_bytes > size_) {
    COHORT_ASSIGN(size_, file_.size());
  }
  if (offset_ >= size_) return stop(ScanState::end, "");
  if (offset_ + k_prefix_bytes > size_)
    return stop(ScanState::torn, "the file ends inside a record's prefix");
  COHORT_ASSIGN(auto bytes, view(offset_, k_prefix_bytes));
  auto prefix = decode_prefix(bytes.first<k_prefix_bytes>(), stream_id_);
  return prefix ? item_of(*prefix) : item_without_prefix();
}

Expected<ScanItem> SegmentScanner::item_without_prefix() {
  COHORT_ASSIGN(size_, file_.size());
  COHORT_ASSIGN(bool is_unwritten, is_zero_to_end(offset_));
  if (is_unwritten) return stop(ScanState::torn, "the file ends in zeros");
  ScanItem item = stop(ScanState::damaged, "the record's prefix does not match its checksum");
  COHORT_ASSIGN(offset_, find_prefix(offset_ + k_alignment));
  ++number_;
  return item;
}

/// Checks the record's body and puts it into the item, unpacked; else `what` says what is damaged.
Expected<void> SegmentScanner::take_body(const DecodedPrefix& prefix, ScanItem& item) {
  const RecordInfo& info = item.info;
  COHORT_ASSIGN(const auto bytes, view(offset_, info.size_bytes()));
  auto record = record_of(
      info, prefix.body_checksum,
      window_.slice(offset_ + k_prefix_bytes - window_offset_, bytes.size() - k_prefix_bytes));
  if (!record) {
    if (record.error().code != Errc::corrupt) return record.error();
    item.state = ScanState::damaged;
    item.what = record.error().detail;
    return {};
  }
  item.body = std::move(record->body);
  item.columns_bytes = record->columns_bytes;
  return {};
}

Expected<ScanItem> SegmentScanner::item_of(const DecodedPrefix& prefix) {
  ScanItem item{ScanState::record, prefix.info, true, {}, {}};
  item.info.id = {segment_, offset_};
  const RecordInfo& info = item.info;
  uint64_t end = offset_ + info.size_bytes();
  if (info.number != number_) {  // the record holds; the one before it is missing
    item.state = ScanState::damaged;
    item.is_prefix_intact = false;
    item.info = {{segment_, offset_}, number_, RecordType{}, 0, 0, {}};
    item.what =
        fmt::format("record {} stands where record {} was written", prefix.info.number, number_);
    number_ = prefix.info.number;
    return item;
  }
  if (end > size_) {
    COHORT_ASSIGN(size_, file_.size());
  }
  if (end > size_) {
    ScanItem torn = stop(ScanState::torn, "the file ends inside the record");
    torn.info = item.info;
    torn.is_prefix_intact = true;
    return torn;
  }
  if (depth_ == ScanDepth::body) COHORT_TRY(take_body(prefix, item));
  offset_ = end;
  ++number_;
  return item;
}

}  // namespace cohort::stream

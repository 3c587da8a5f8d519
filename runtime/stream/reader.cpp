#include "runtime/stream/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/stream/segment_steps.hpp"

namespace cohort::stream {
namespace {

constexpr size_t k_open_files_max = 64;  // a long run has more segments than a process descriptors

}  // namespace

Expected<Reader> Reader::open(const std::filesystem::path& folder) {
  Reader reader;
  reader.folder_ = folder;
  COHORT_ASSIGN(reader.stream_, probe_stream(folder));
  if (reader.stream_.stream_id == 0)
    return Error{Errc::not_found,
                 fmt::format("{}: no segment header has been written yet", folder.string())};
  reader.segment_ = reader.stream_.segments.front();
  COHORT_ASSIGN(
      reader.scanner_,
      SegmentScanner::open(folder, reader.segment_, reader.stream_.stream_id,
                           reader.segment_ == 0 ? std::optional<uint64_t>(0) : std::nullopt,
                           ScanDepth::body));
  if (reader.segment_ > 0)
    reader.lost_.push_back(
        {{0, 0}, 0, fmt::format("no file of the segments before {}", reader.segment_), {}, {}});
  return reader;
}

/// Goes to the next segment if there is one. Returns whether it did.
Expected<bool> Reader::advance_segment() {
  COHORT_ASSIGN(std::vector<uint32_t> segments, list_segments(folder_));
  auto it = std::upper_bound(segments.begin(), segments.end(), segment_);
  if (it == segments.end()) return false;
  segment_ = *it;
  COHORT_ASSIGN(scanner_, SegmentScanner::open(folder_, segment_, stream_.stream_id,
                                               scanner_->next_number(), ScanDepth::body));
  return true;
}

/// The stream seems to end here. The first time it is asked whether an index knows of more.
Expected<std::optional<Record>> Reader::look_behind_end() {
  if (std::exchange(is_end_checked_, true)) return std::optional<Record>{};
  const IndexProof proof = IndexProof::read(folder_, stream_.stream_id);
  // A live writer may have written since: what it has indexed is there when it is looked for now.
  auto record = next();
  if (!record || *record) {
    is_end_checked_ = false;
    return record;
  }
  lost_ = proof.lost_behind(segment_,
                            std::max(scanner_->next_number(), proof.next_record_in(segment_)));
  std::reverse(lost_.begin(), lost_.end());
  if (auto lost = proof.lost_in(segment_, scanner_->offset(), scanner_->next_number()))
    lost_.push_back(std::move(*lost));
  return next();
}

Expected<std::optional<Record>> Reader::next() {
  bool is_final = false;  // a later segment exists: this one does not grow any more
  if (!lost_.empty()) {
    const Damage lost = std::move(lost_.back());
    lost_.pop_back();
    return Error{Errc::corrupt, fmt::format("{}: {}", folder_.string(), lost.describe())};
  }
  while (true) {
    COHORT_ASSIGN(ScanItem item, scanner_->next());
    if (item.state == ScanState::record)
      return std::optional(Record{std::move(item.info), std::move(item.body), item.columns_bytes});
    if (item.state == ScanState::damaged)
      return Error{Errc::corrupt, fmt::format("{}: record {} at {}: {}", scanner_->path().string(),
                                              item.info.number, item.info.id.offset, item.what)};
    if (!is_final) {  // look for a successor first, then once more here: nothing slips between
      COHORT_ASSIGN(std::vector<uint32_t> segments, list_segments(folder_));
      if (segments.empty() || segments.back() <= segment_) return look_behind_end();
      is_final = true;
      continue;
    }
    std::string tail = item.state == ScanState::torn
                           ? fmt::format("{}: record {} at {}: {}", scanner_->path().string(),
                                         item.info.number, item.info.id.offset, item.what)
                           : std::string();
    COHORT_ASSIGN(bool is_advanced, advance_segment());
    if (!tail.empty()) return Error{Errc::corrupt, std::move(tail)};
    if (!is_advanced) return look_behind_end();
    is_final = false;
  }
}

Expected<void> Reader::go_behind(const RecordInfo& info) {
  COHORT_ASSIGN(scanner_, SegmentScanner::open(folder_, info.id.segment, stream_.stream_id,
                                               std::nullopt, ScanDepth::body));
  segment_ = info.id.segment;
  lost_.clear();  // Index::damages() tells of it
  is_end_checked_ = true;
  scanner_->seek(info.id.offset + info.size_bytes(), info.number + 1);
  return {};
}

Expected<Record> Reader::read(const RecordInfo& info) {
  auto it = files_.find(info.id.segment);
  if (it == files_.end()) {
    COHORT_ASSIGN(File file, File::open(segment_path(folder_, info.id.segment), OpenMode::read));
    if (files_.size() >= k_open_files_max) files_.erase(files_.begin());
    it = files_.emplace(info.id.segment, std::move(file)).first;
  }
  const File& file = it->second;
  COHORT_ASSIGN(uint64_t size, file.size());
  auto corrupt = [&](std::string_view what) {
    return Error{Errc::corrupt, fmt::format("{}: {}", info.describe(), what)};
  };
  if (info.id.offset > size || info.size_bytes() > size - info.id.offset)
    return corrupt("the segment is shorter than that");
  tensor::Buffer bytes = tensor::Buffer::allocate(info.size_bytes());
  COHORT_ASSIGN(size_t n, file.read(info.id.offset, bytes.mutable_bytes()));
  if (n < bytes.size_bytes()) return corrupt("the segment is shorter than that");
  auto prefix = decode_prefix(bytes.bytes().first<k_prefix_bytes>(), stream_.stream_id);
  if (prefix) prefix->info.id = info.id;
  if (!prefix || !(prefix->info == info))
    return corrupt("another record, or none, is in its place");
  auto record = record_of(info, prefix->body_checksum,
                          bytes.slice(k_prefix_bytes, bytes.size_bytes() - k_prefix_bytes));
  if (!record) return record.error().with_context(info.describe());
  return record;
}

Expected<const Index*> Reader::index() {
  if (!index_) COHORT_TRY(refresh());
  return &*index_;
}

Expected<void> Reader::refresh() {
  COHORT_ASSIGN(index_, Index::load(folder_));
  stream_ = index_->stream();
  return {};
}

Expected<std::optional<Record>> Reader::find(const proto::TrajectoryKey& key) {
  std::optional<RecordInfo> info;
  if (index_)
    if (const RecordInfo* known = index_->find(key)) info = *known;
  if (!info) {
    COHORT_ASSIGN(info, find_newest(folder_, stream_.stream_id, key));
  }
  if (!info) return std::optional<Record>{};
  COHORT_ASSIGN(Record record, read(*info));
  return std::optional(std::move(record));
}

Expected<std::vector<RecordInfo>> Reader::of_step(uint64_t step) {
  COHORT_ASSIGN(const Index* index, this->index());
  return index->of_step(step);
}

}  // namespace cohort::stream

#include "runtime/stream/index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/stream/format.hpp"
#include "runtime/stream/stream_file.hpp"

namespace cohort::stream {

namespace {

/// Calls `f` with the entries of a sidecar up to the first that does not hold.
template <class F>
void for_each_entry(const std::filesystem::path& folder, uint32_t segment, uint64_t stream_id,
                    F&& f) {
  auto file = File::open(index_path(folder, segment), OpenMode::read);
  if (!file) return;
  auto size = file->size();
  if (!size || *size < k_index_header_bytes) return;
  tensor::Buffer buffer = tensor::Buffer::allocate(*size);
  auto n = file->read(0, buffer.mutable_bytes());
  if (!n || *n < k_index_header_bytes) return;
  std::span<const std::byte> bytes = buffer.bytes().first(*n);
  auto header = decode_index_header(bytes.first<k_index_header_bytes>());
  if (!header || header->stream_id != stream_id || header->segment != segment) return;
  uint64_t offset = k_segment_header_bytes;
  std::optional<uint64_t> number;  // expected
  for (bytes = bytes.subspan(k_index_header_bytes); bytes.size() >= k_index_entry_bytes;
       bytes = bytes.subspan(k_index_entry_bytes)) {
    auto entry = decode_index_entry(bytes.first<k_index_entry_bytes>(), *header);
    if (!entry || entry->id.offset != offset || (number && entry->number != *number)) return;
    offset += entry->size_bytes();
    number = entry->number + 1;
    f(*entry);
  }
}

/// Whether the segment has the record of this entry, whole as far as its prefix says.
Expected<bool> is_there(const std::filesystem::path& folder, uint64_t stream_id,
                        const RecordInfo& entry) {
  COHORT_ASSIGN(File file, File::open(segment_path(folder, entry.id.segment), OpenMode::read));
  COHORT_ASSIGN(uint64_t size, file.size());
  if (entry.id.offset + entry.size_bytes() > size) return false;
  Block block{};
  COHORT_ASSIGN(size_t n, file.read(entry.id.offset, block));
  auto prefix = n == block.size() ? decode_prefix(block, stream_id) : std::nullopt;
  if (prefix) prefix->info.id = entry.id;
  return prefix && prefix->info == entry;
}

}  // namespace

std::vector<RecordInfo> read_sidecar(const std::filesystem::path& folder, uint32_t segment,
                                     uint64_t stream_id) {
  std::vector<RecordInfo> entries;
  for_each_entry(folder, segment, stream_id,
                 [&](const RecordInfo& entry) { entries.push_back(entry); });
  return entries;
}

Expected<std::vector<RecordInfo>> trusted_sidecar(const std::filesystem::path& folder,
                                                  uint32_t segment, uint64_t stream_id) {
  std::vector<RecordInfo> entries = read_sidecar(folder, segment, stream_id);
  COHORT_ASSIGN(File file, File::open(segment_path(folder, segment), OpenMode::read));
  COHORT_ASSIGN(uint64_t size, file.size());
  while (!entries.empty() && entries.back().id.offset + entries.back().size_bytes() > size)
    entries.pop_back();
  if (entries.empty()) return entries;
  COHORT_ASSIGN(const bool is_last_there, is_there(folder, stream_id, entries.back()));
  if (!is_last_there) entries.clear();
  return entries;
}

Expected<SidecarAnswer> search_sidecar(const std::filesystem::path& folder, uint32_t segment,
                                       uint64_t stream_id, const proto::TrajectoryKey& key) {
  SidecarAnswer answer;
  for_each_entry(folder, segment, stream_id, [&](const RecordInfo& entry) {
    if (entry.key.trajectory == key) answer.newest = entry;
    answer.last = entry;
  });
  if (!answer.last) return answer;
  COHORT_ASSIGN(const bool is_last_there, is_there(folder, stream_id, *answer.last));
  if (is_last_there) return answer;
  // The segment was cut: what it still has of the entries is found the slow way.
  COHORT_ASSIGN(const std::vector<RecordInfo> entries, trusted_sidecar(folder, segment, stream_id));
  answer = {};
  for (const RecordInfo& entry : entries) {
    if (entry.key.trajectory == key) answer.newest = entry;
    answer.last = entry;
  }
  return answer;
}

Expected<void> write_sidecar(const std::filesystem::path& folder, uint32_t segment,
                             uint64_t stream_id, std::span<const RecordInfo> records) {
  std::vector<std::byte> bytes((records.size() + 1) * k_index_entry_bytes);
  Block header = encode_index_header({segment, stream_id, records.size()});
  std::memcpy(bytes.data(), header.data(), header.size());
  for (size_t i = 0; i < records.size(); ++i) {
    Block entry = encode_index_entry(records[i], stream_id);
    std::memcpy(bytes.data() + (i + 1) * k_index_entry_bytes, entry.data(), entry.size());
  }
  return replace_file(index_path(folder, segment), bytes);
}

Expected<Index> Index::load(const std::filesystem::path& folder) {
  Index index;
  COHORT_ASSIGN(index.stream_, probe_stream(folder));
  const IndexProof proof = IndexProof::read(folder, index.stream_.stream_id);
  if (const uint32_t first = index.stream_.segments.front(); first > 0)
    index.add(Damage{{0, 0}, 0, fmt::format("no file of the segments before {}", first), {}, {}});
  for (uint32_t segment : index.stream_.segments)
    COHORT_TRY(index.load_segment(folder, segment, proof));
  for (Damage& lost : proof.lost_behind(index.stream_.segments.back(), index.next_number_))
    index.add(std::move(lost));
  return index;
}

Expected<void> Index::load_segment(const std::filesystem::path& folder, uint32_t segment,
                                   const IndexProof& proof) {
  COHORT_ASSIGN(std::vector<RecordInfo> entries,
                trusted_sidecar(folder, segment, stream_.stream_id));
  const bool is_first = segment == stream_.segments.front();
  const auto first = segment == 0 || !is_first ? std::optional(next_number_) : std::nullopt;
  COHORT_ASSIGN(SegmentScanner scanner,
                SegmentScanner::open(folder, segment, stream_.stream_id, first, ScanDepth::prefix));
  if (!entries.empty())
    scanner.seek(entries.back().id.offset + entries.back().size_bytes(), entries.back().number + 1);
  for (RecordInfo& info : entries) add(std::move(info));
  bool is_cut = false;  // inside a record, and named
  for (bool is_over = false; !is_over;) {
    COHORT_ASSIGN(ScanItem item, scanner.next());
    is_over = item.state == ScanState::end || item.state == ScanState::torn;
    if (item.state == ScanState::record) {
      add(std::move(item.info));
      ++scanned_records_;
      continue;
    }
    is_cut = item.state == ScanState::torn && segment != stream_.segments.back();
    if (is_cut || item.state == ScanState::damaged)
      add(Damage{item.info.id, item.info.number, std::move(item.what), {}, {}});
  }
  next_number_ = scanner.next_number();
  if (auto lost = proof.lost_in(segment, scanner.offset(), next_number_)) {
    next_number_ = std::max(next_number_, proof.next_record_in(segment));
    if (!is_cut) add(std::move(*lost));
  }
  return {};
}

void Index::add(Damage damage) {
  if (damages_.size() < k_damages_max) damages_.push_back(std::move(damage));
}

void Index::add(RecordInfo info) {
  size_t place = records_.size();
  if (info.key.trajectory) newest_.insert_or_assign(*info.key.trajectory, place);
  if (info.key.step) by_step_.emplace_hint(by_step_.end(), *info.key.step, place);
  records_.push_back(std::move(info));
}

const RecordInfo* Index::find(const proto::TrajectoryKey& key) const {
  auto it = newest_.find(key);
  return it == newest_.end() ? nullptr : &records_[it->second];
}

std::vector<RecordInfo> Index::trajectories() const {
  std::vector<RecordInfo> result;
  result.reserve(newest_.size());
  for (const auto& [key, place] : newest_) result.push_back(records_[place]);
  return result;
}

std::vector<RecordInfo> Index::of_step(uint64_t step) const {
  std::vector<RecordInfo> result;
  auto [begin, end] = by_step_.equal_range(step);
  for (auto it = begin; it != end; ++it) {
    const RecordInfo& info = records_[it->second];
    if (!info.key.trajectory || find(*info.key.trajectory) == &info) result.push_back(info);
  }
  return result;
}

}  // namespace cohort::stream

#include "runtime/stream/segment_steps.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/stream/index.hpp"
#include "runtime/stream/segment.hpp"
#include "runtime/stream/stream_file.hpp"

namespace cohort::stream {
namespace {

constexpr uint32_t k_steps_magic = 0x50545343;  // "CSTP"

}  // namespace

void SegmentSteps::add(const RecordInfo& info) {
  if (!info.key.trajectory) return;
  const auto kind = static_cast<size_t>(info.key.trajectory->kind);
  if (kind >= k_kinds) {
    is_any_ = true;
    return;
  }
  const auto step = static_cast<uint32_t>(std::min(info.key.trajectory->step, k_step_max));
  Range& range = ranges_[kind];
  range.first = std::min(range.first, step);
  range.last = std::max(range.last, step);
}

bool SegmentSteps::may_hold(const proto::TrajectoryKey& key) const {
  const auto kind = static_cast<size_t>(key.kind);
  if (is_any_ || kind >= k_kinds) return true;
  const uint64_t step = std::min(key.step, k_step_max);
  return step >= ranges_[kind].first && step <= ranges_[kind].last;
}

Block SegmentSteps::encode(uint64_t stream_id) const {
  Block block{};
  put_field(block, 0, k_steps_magic);
  put_field(block, 4, segment_);
  put_field(block, 8, size_);
  for (size_t i = 0; i < k_kinds; ++i) {
    put_field(block, 16 + i * 8, ranges_[i].first);
    put_field(block, 20 + i * 8, ranges_[i].last);
  }
  put_field(block, 48, static_cast<uint32_t>(is_any_));
  seal(block, stream_id);
  return block;
}

std::optional<SegmentSteps> SegmentSteps::decode(BlockView bytes, uint64_t stream_id) {
  if (get_field<uint32_t>(bytes, 0) != k_steps_magic || !is_sealed(bytes, stream_id))
    return std::nullopt;
  SegmentSteps steps(get_field<uint32_t>(bytes, 4), get_field<uint64_t>(bytes, 8));
  for (size_t i = 0; i < k_kinds; ++i)
    steps.ranges_[i] = {get_field<uint32_t>(bytes, 16 + i * 8),
                        get_field<uint32_t>(bytes, 20 + i * 8)};
  steps.is_any_ = get_field<uint32_t>(bytes, 48) != 0;
  return steps;
}

std::filesystem::path steps_path(const std::filesystem::path& folder) {
  return folder / "steps.index";
}

Expected<void> append_segment_steps(const std::filesystem::path& folder, const SegmentSteps& steps,
                                    uint64_t stream_id) {
  const std::filesystem::path path = steps_path(folder);
  auto file = File::open(path, OpenMode::append);
  if (!file) file = File::open(path, OpenMode::create);
  if (!file) return file.error();
  COHORT_ASSIGN(const uint64_t size, file->size());
  Block block = steps.encode(stream_id);
  const iovec part{block.data(), block.size()};
  return file->write(size / sizeof(Block) * sizeof(Block), {&part, 1});
}

std::map<uint32_t, SegmentSteps> read_segment_steps(const std::filesystem::path& folder,
                                                    uint64_t stream_id) {
  std::map<uint32_t, SegmentSteps> found;
  auto file = File::open(steps_path(folder), OpenMode::read);
  if (!file) return found;
  const auto size = file->size();
  if (!size) return found;
  std::vector<Block> blocks(*size / sizeof(Block));
  const auto read = file->read(0, std::as_writable_bytes(std::span(blocks)));
  if (!read) return found;
  for (size_t i = 0; i < *read / sizeof(Block); ++i)
    if (const auto steps = SegmentSteps::decode(blocks[i], stream_id))
      found.insert_or_assign(steps->segment(), *steps);
  return found;
}

namespace {

Expected<std::optional<RecordInfo>> newest_in(const std::filesystem::path& folder, uint32_t segment,
                                              uint64_t stream_id, const proto::TrajectoryKey& key) {
  COHORT_ASSIGN(const SidecarAnswer sidecar, search_sidecar(folder, segment, stream_id, key));
  std::optional<RecordInfo> newest = sidecar.newest;
  COHORT_ASSIGN(SegmentScanner scanner,
                SegmentScanner::open(folder, segment, stream_id, std::nullopt, ScanDepth::prefix));
  if (sidecar.last)
    scanner.seek(sidecar.last->id.offset + sidecar.last->size_bytes(), sidecar.last->number + 1);
  while (true) {  // records that no sidecar has yet
    COHORT_ASSIGN(ScanItem item, scanner.next());
    if (item.state == ScanState::end || item.state == ScanState::torn) return newest;
    if (item.state == ScanState::record && item.info.key.trajectory == key)
      newest = std::move(item.info);
  }
}

}  // namespace

Expected<std::optional<RecordInfo>> find_newest(const std::filesystem::path& folder,
                                                uint64_t stream_id,
                                                const proto::TrajectoryKey& key) {
  COHORT_ASSIGN(const std::vector<uint32_t> segments, list_segments(folder));
  const std::map<uint32_t, SegmentSteps> steps = read_segment_steps(folder, stream_id);
  for (size_t i = segments.size(); i > 0; --i) {
    const auto at = steps.find(segments[i - 1]);
    if (at != steps.end() && !at->second.may_hold(key)) {
      std::error_code code;
      const uint64_t size = std::filesystem::file_size(segment_path(folder, segments[i - 1]), code);
      if (!code && size == at->second.size_bytes()) continue;
    }
    COHORT_ASSIGN(std::optional<RecordInfo> found,
                  newest_in(folder, segments[i - 1], stream_id, key));
    if (found) return found;
  }
  return std::optional<RecordInfo>();
}

}  // namespace cohort::stream

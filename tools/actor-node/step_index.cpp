#include "tools/actor-node/step_index.hpp"

#include <algorithm>

#include "runtime/stream/stream_file.hpp"

namespace cohort {
namespace {

using stream::RecordInfo;
using stream::RecordType;
using stream::ScanState;

void put(const RecordInfo& info, StepIndex::Places& to) {
  auto [place, is_new] = to.newest.try_emplace(*info.key.trajectory, info);
  if (!is_new && place->second.number >= info.number) return;
  place->second = info;
  ++to.changes;
}

void push_recent(const RecordInfo& info, std::deque<RecordInfo>& to) {
  if (to.size() >= StepIndex::k_recent) to.pop_front();
  to.push_back(info);
}

bool is_trajectory_of(const RecordInfo& info, uint64_t step) {
  return info.type == RecordType::trajectory && info.key.trajectory && info.key.step == step;
}

}  // namespace

Expected<StepIndex> StepIndex::open(const std::filesystem::path& folder) {
  StepIndex index;
  index.folder_ = folder;
  COHORT_ASSIGN(index.stream_, stream::probe_stream(folder));
  if (index.stream_.stream_id == 0)
    return Error{Errc::not_found, folder.string() + ": no segment header has been written yet"};
  COHORT_TRY(index.open_segment(index.stream_.segments.front()));
  return index;
}

Expected<void> StepIndex::open_segment(uint32_t segment) {
  COHORT_ASSIGN(entries_, stream::trusted_sidecar(folder_, segment, stream_.stream_id));
  COHORT_ASSIGN(scanner_, stream::SegmentScanner::open(folder_, segment, stream_.stream_id,
                                                       std::nullopt, stream::ScanDepth::prefix));
  if (!entries_.empty()) {
    const RecordInfo& last = entries_.back();
    scanner_->seek(last.id.offset + last.size_bytes(), last.number + 1);
  }
  entries_taken_ = 0;
  segment_ = segment;
  return {};
}

/// Returns whether there is one. What was appended to this one before the next was begun must have
/// been taken in.
Expected<bool> StepIndex::go_to_next_segment() {
  COHORT_ASSIGN(std::vector<uint32_t> segments, stream::list_segments(folder_));
  const auto next = std::ranges::upper_bound(segments, segment_);
  if (next == segments.end()) return false;
  COHORT_TRY(open_segment(*next));
  return true;
}

Expected<bool> StepIndex::follow(size_t count) {
  bool is_final = false;  // a later segment is there: this one does not grow any more
  while (count > 0) {
    if (entries_taken_ < entries_.size()) {
      take(entries_[entries_taken_++]);
      --count;
      if (entries_taken_ == entries_.size()) entries_ = {};
      if (entries_.empty()) entries_taken_ = 0;
      continue;
    }
    COHORT_ASSIGN(stream::ScanItem item, scanner_->next());
    if (item.state == ScanState::record) take(item.info);
    if (item.state == ScanState::record || item.state == ScanState::damaged) {
      --count;
      continue;
    }
    if (is_final) {
      COHORT_ASSIGN(const bool has_next, go_to_next_segment());
      if (!has_next) return true;
      is_final = false;
      continue;
    }
    COHORT_ASSIGN(std::vector<uint32_t> segments, stream::list_segments(folder_));
    if (segments.empty() || segments.back() <= segment_) return true;
    is_final = true;  // once more: the writer may have appended before it began the next one
  }
  return false;
}

void StepIndex::take(const RecordInfo& info) {
  if (info.type == RecordType::phase) push_recent(info, phases_);
  if (info.type == RecordType::event) push_recent(info, events_);
  if (!info.key.step) return;
  const bool is_trajectory = is_trajectory_of(info, *info.key.step);
  if (!is_trajectory && info.type != RecordType::step_result) return;
  Step& step = steps_[*info.key.step];
  if (!is_trajectory) {
    step.result = info;
    return;
  }
  ++step.trajectories;
  if (step.segments.empty() || step.segments.back() != info.id.segment)
    step.segments.push_back(info.id.segment);
  for (auto& [number, places] : in_memory_)
    if (number == *info.key.step) put(info, *places);
}

Expected<void> StepIndex::gather(uint64_t step, uint32_t segment, Places& to) const {
  COHORT_ASSIGN(std::vector<RecordInfo> entries,
                stream::trusted_sidecar(folder_, segment, stream_.stream_id));
  COHORT_ASSIGN(stream::SegmentScanner scanner,
                stream::SegmentScanner::open(folder_, segment, stream_.stream_id, std::nullopt,
                                             stream::ScanDepth::prefix));
  if (!entries.empty())
    scanner.seek(entries.back().id.offset + entries.back().size_bytes(), entries.back().number + 1);
  for (const RecordInfo& info : entries)
    if (is_trajectory_of(info, step)) put(info, to);
  while (true) {
    COHORT_ASSIGN(stream::ScanItem item, scanner.next());
    if (item.state == ScanState::end || item.state == ScanState::torn) return {};
    if (item.state == ScanState::record && is_trajectory_of(item.info, step)) put(item.info, to);
  }
}

Expected<std::shared_ptr<const StepIndex::Places>> StepIndex::places(uint64_t step) {
  using Answer = std::shared_ptr<const Places>;
  const auto found = std::ranges::find(in_memory_, step, &decltype(in_memory_)::value_type::first);
  if (found != in_memory_.end()) {
    in_memory_.splice(in_memory_.begin(), in_memory_, found);
    return Answer(in_memory_.front().second);
  }
  auto places = std::make_shared<Places>();
  const auto known = steps_.find(step);
  if (known != steps_.end())
    for (uint32_t segment : known->second.segments)
      if (auto gathered = gather(step, segment, *places);
          !gathered && gathered.error().code != Errc::not_found)  // pruned meanwhile
        return gathered.error();
  places->changes = 1;
  in_memory_.emplace_front(step, places);
  if (in_memory_.size() > k_steps_in_memory) in_memory_.pop_back();
  return Answer(places);
}

}  // namespace cohort

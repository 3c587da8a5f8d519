#include "runtime/stream/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/stream/index.hpp"
#include "runtime/stream/index_proof.hpp"
#include "runtime/stream/segment.hpp"
#include "runtime/stream/segment_steps.hpp"
#include "runtime/stream/stream_file.hpp"

namespace cohort::stream {
namespace {

class Verifier {
 public:
  explicit Verifier(const std::filesystem::path& folder) : folder_(folder) {}

  Expected<VerifyReport> run() {
    COHORT_ASSIGN(stream_, probe_stream(folder_));
    proof_ = IndexProof::read(folder_, stream_.stream_id);
    uint32_t expected = 0;
    for (uint32_t segment : stream_.segments) {
      for (; expected < segment; ++expected) {
        Damage missing;
        missing.id = {expected, 0};
        missing.record = next_number_;
        missing.what = "the segment's file is missing";
        add(std::move(missing));
      }
      COHORT_TRY(scan(segment));
      expected = segment + 1;
    }
    for (Damage& lost : proof_.lost_behind(stream_.segments.back(), next_number_))
      add(std::move(lost));
    return std::move(report_);
  }

 private:
  void add(Damage damage) {
    ++report_.damage_count;
    if (report_.damages.size() < k_damages_max) report_.damages.push_back(std::move(damage));
  }

  void add(const ScanItem& item) {
    Damage damage{item.info.id, item.info.number, item.what, {}, {}};
    if (item.is_prefix_intact) {
      damage.type = item.info.type;
      damage.key = item.info.key.trajectory;
    } else if (item.info.id.offset > 0) {
      for (const RecordInfo& entry : read_sidecar(folder_, item.info.id.segment, stream_.stream_id))
        if (entry.id == item.info.id && entry.number == item.info.number) {
          damage.type = entry.type;
          damage.key = entry.key.trajectory;
        }
    }
    add(std::move(damage));
  }

  Expected<void> scan(uint32_t segment) {
    // Only the first number is taken from the stream itself, and only if segment 0 is gone.
    auto first = segment == 0 || next_number_ > 0 ? std::optional(next_number_) : std::nullopt;
    COHORT_ASSIGN(SegmentScanner scanner, SegmentScanner::open(folder_, segment, stream_.stream_id,
                                                               first, ScanDepth::body));
    ++report_.segments;
    bool is_cut = false;  // inside a record, and named
    while (true) {
      COHORT_ASSIGN(ScanItem item, scanner.next());
      if (item.state == ScanState::end) break;
      if (item.state == ScanState::torn) {
        if (segment != stream_.segments.back()) {  // a writer finishes a segment before the next
          add(item);
          is_cut = true;
          break;
        }
        std::error_code code;
        uint64_t size = std::filesystem::file_size(scanner.path(), code);
        report_.torn_tail_bytes = code ? 0 : size - std::min(size, item.info.id.offset);
        report_.torn_tail = item.info.id;
        break;
      }
      if (item.state == ScanState::damaged) {
        add(item);
        continue;
      }
      ++report_.records;
      report_.last_good = std::move(item.info);
    }
    report_.bytes += scanner.offset();
    next_number_ = scanner.next_number();
    if (auto lost = proof_.lost_in(segment, scanner.offset(), next_number_)) {
      next_number_ = std::max(next_number_, proof_.next_record_in(segment));
      if (!is_cut) add(std::move(*lost));
    }
    return {};
  }

  std::filesystem::path folder_;
  StreamInfo stream_;
  IndexProof proof_;
  VerifyReport report_;
  uint64_t next_number_ = 0;
};

}  // namespace

Expected<VerifyReport> verify(const std::filesystem::path& folder) {
  return Verifier(folder).run();
}

Expected<RepairReport> repair(const std::filesystem::path& folder) {
  COHORT_ASSIGN(FolderLock lock, FolderLock::take(folder));
  COHORT_ASSIGN(VerifyReport found, verify(folder));
  COHORT_ASSIGN(std::vector<uint32_t> segments, list_segments(folder));
  uint32_t last = segments.back();
  RepairReport report;
  uint64_t good_end = k_segment_header_bytes;
  if (found.last_good && found.last_good->id.segment == last)
    good_end = found.last_good->id.offset + found.last_good->size_bytes();
  for (const Damage& damage : found.damages) {
    report.is_end_given_up |= damage.is_lost && damage.id.segment >= last;
    if (damage.is_lost) continue;
    if (damage.id.segment == last && damage.id.offset == 0)
      return RepairReport{};  // without its header nothing in the segment can be told good or bad
    if (damage.id.segment == last && damage.id.offset >= good_end) ++report.cut_records;
  }
  if (report.cut_records == 0 && found.torn_tail_bytes == 0 && !report.is_end_given_up)
    return report;
  COHORT_ASSIGN(File file, File::open(segment_path(folder, last), OpenMode::append));
  COHORT_ASSIGN(uint64_t size, file.size());
  uint64_t keep = size < k_segment_header_bytes ? 0 : good_end;
  if (found.torn_tail_bytes > 0 && found.torn_tail.offset == 0) keep = 0;
  report.cut_bytes = size - std::min(size, keep);
  COHORT_TRY(file.truncate(std::min(size, keep)));
  COHORT_TRY(file.sync());
  std::error_code ignored;
  std::filesystem::remove(index_path(folder, last), ignored);
  for (const Damage& damage : found.damages)
    if (damage.is_lost && damage.id.segment > last)
      std::filesystem::remove(index_path(folder, damage.id.segment), ignored);
  // A segment that is cut may grow to the size that an entry knows, with other records.
  std::filesystem::remove(steps_path(folder), ignored);
  return report;
}

}  // namespace cohort::stream

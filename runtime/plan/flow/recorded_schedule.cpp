#include "runtime/plan/flow/recorded_schedule.hpp"

#include <algorithm>
#include <utility>

namespace cohort::plan {

VersionSpans spans_of(std::span<const uint32_t> versions, std::span<const uint8_t> mask) {
  VersionSpans spans;
  for (size_t i = 0; i < versions.size(); ++i) {
    if (mask[i] == 0) continue;
    if (spans.empty() || spans.back() != versions[i]) {
      spans.push_back(0);
      spans.push_back(versions[i]);
    }
    ++spans[spans.size() - 2];
  }
  return spans;
}

std::optional<NextSpan> next_span(std::span<const uint32_t> spans, size_t sampled) {
  size_t end = 0;
  for (size_t i = 0; i + 1 < spans.size(); i += 2) {
    end += spans[i];
    if (sampled < end) return NextSpan{spans[i + 1], end - sampled};
  }
  return std::nullopt;
}

void RecordedSchedule::add(uint64_t step, uint32_t group, uint32_t index, VersionSpans spans) {
  longest_ = std::max(longest_, spans.size());
  spans_.insert_or_assign({step, group, index}, std::move(spans));
}

void RecordedSchedule::add_hash(uint64_t step, std::string hash) {
  hashes_.insert_or_assign(step, std::move(hash));
}

const VersionSpans& RecordedSchedule::spans(uint64_t step, uint32_t group, uint32_t index) const {
  static const VersionSpans k_none;
  auto found = spans_.find({step, group, index});
  return found == spans_.end() ? k_none : found->second;
}

std::optional<std::string> RecordedSchedule::hash(uint64_t step) const {
  auto found = hashes_.find(step);
  return found == hashes_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace cohort::plan

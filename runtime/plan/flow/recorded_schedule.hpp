#pragma once
/// Which policy sampled which token of a run whose rollouts played on over publishes, as its stream
/// tells. Another run that keeps to it has the same tokens and parameters (docs/async.md). Pure.
/// Owner: the driver. Bound: a few numbers per trajectory of training.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace cohort::plan {

/// Pairs of a number of sampled tokens and the version of the policy that sampled them, in the
/// order of the trajectory's sampled tokens, over all its turns. Prompts are not counted.
using VersionSpans = std::vector<uint32_t>;

/// Returns the spans of a trajectory. `versions`: of each of its tokens. `mask`: 1 where a token
/// was sampled. REQUIRES: both have one value per token.
VersionSpans spans_of(std::span<const uint32_t> versions, std::span<const uint8_t> mask);

/// Who samples next, and how many tokens.
struct NextSpan {
  uint32_t version = 0;
  size_t tokens = 0;  // > 0
};
/// Returns the policy that is to sample token `sampled` of a trajectory and how many it samples;
/// nothing behind the last span.
std::optional<NextSpan> next_span(std::span<const uint32_t> spans, size_t sampled);

class RecordedSchedule {
 public:
  /// A trajectory of training; one that is added again takes the place of the first.
  void add(uint64_t step, uint32_t group, uint32_t index, VersionSpans spans);
  /// The parameters after the update of a step.
  void add_hash(uint64_t step, std::string hash);

  /// Returns the spans of a trajectory; empty for one that the stream does not have.
  const VersionSpans& spans(uint64_t step, uint32_t group, uint32_t index) const;
  /// Returns the longest spans, in numbers.
  size_t longest() const { return longest_; }
  size_t trajectories() const { return spans_.size(); }
  /// Returns the recorded hash of a step's parameters, if there is one.
  std::optional<std::string> hash(uint64_t step) const;

 private:
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, VersionSpans> spans_;
  std::map<uint64_t, std::string> hashes_;
  size_t longest_ = 0;
};

}  // namespace cohort::plan

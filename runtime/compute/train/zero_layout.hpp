#pragma once
/// Who holds what when the training state is cut over ranks. Pure, torch-free value types.
///
/// ZERO-1: each tensor, taken flat, is cut in N consecutive parts of ceil(count / N) elements, the
/// last ones short or empty: the cut of plan::Shards, so that a publisher can address it. Gate and
/// up are one tensor there, and are cut as one here.
/// ZERO-2: a rank's parts lie in its shard in tensor order. Each cut tensor takes ceil(count / N)
/// elements there, at the same offset on every rank, and what is short ends in zeros. With one rank
/// a shard is the flat buffer itself.
/// ZERO-3: units (embedding; each layer; final norm and untied head) are consecutive in the flat
/// buffer and in the shard, so that one message per rank moves a unit.
/// ZERO-6: with experts cut W ways (expert_cut.hpp) the N / W ranks of one slot share its experts:
/// a tensor of an expert is cut in N / W parts, part r / W being rank r's, and the experts of a
/// layer are a unit of their own.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/compute/model/model_layout.hpp"

namespace cohort::compute {

/// Elements [begin, end) of a tensor taken flat.
struct TensorPart {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const TensorPart&) const = default;
};

struct ZeroUnit {
  size_t first_spec = 0, end_spec = 0;
  int64_t begin = 0, end = 0;                // [elements] in the flat buffer, padding included
  int64_t shard_begin = 0, shard_count = 0;  // [elements] in every rank's shard
  bool is_experts = false;                   // of routed experts that are cut over ranks
  int64_t elements() const { return end - begin; }
};

class ZeroLayout {
 public:
  ZeroLayout() = default;
  /// REQUIRES ranks >= 1, a multiple of expert_ways.
  ZeroLayout(const ParameterLayout& layout, int ranks, int expert_ways = 1);

  int ranks() const { return ranks_; }
  /// Returns the ranks that share a unit with `rank`, ascending.
  std::vector<int> sharers(const ZeroUnit& unit, int rank) const;
  const std::vector<ZeroUnit>& units() const { return units_; }
  /// Returns the elements of a shard, a multiple of k_alignment.
  int64_t shard_elements() const { return shard_elements_; }
  TensorPart part(size_t spec, int rank) const;
  /// Returns where part(spec, rank) begins in the shard of `rank`.
  int64_t shard_offset(size_t spec, int rank) const;
  /// Returns the most elements that a unit which several ranks share has in a shard.
  int64_t largest_unit_part() const;

 private:
  int holder(size_t spec, int rank) const { return rank / cuts_[spec].stride; }

  int ranks_ = 1, expert_ways_ = 1;
  int64_t shard_elements_ = 0;
  /// Of a parameter tensor: the tensor it is cut with.
  struct Cut {
    int64_t count = 0;        // [elements] of the parameter
    int64_t before = 0;       // … of the cut tensor that come before it
    int64_t width = 0;        // of a part of the cut tensor
    int64_t shard_begin = 0;  // of the cut tensor
    int stride = 1;           // part i is rank i * stride's, and its slot's
  };
  std::vector<Cut> cuts_;  // by spec
  std::vector<ZeroUnit> units_;
};

}  // namespace cohort::compute

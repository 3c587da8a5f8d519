#include "runtime/doctor/rules/hccl_collectives.hpp"

#include <algorithm>
#include <map>

namespace cohort::doctor {
namespace {

bool is_reducing(Collective x) {
  return x == Collective::allreduce || x == Collective::reduce_scatter;
}

bool is_reducible(Series series, Dtype dtype, ReduceOp op) {
  switch (dtype) {
    case Dtype::int8:
    case Dtype::int32:
    case Dtype::int64:  // C API pages, also on the training series
    case Dtype::fp16:
    case Dtype::fp32:
      return true;
    case Dtype::bf16:
    case Dtype::int16:
      return series != Series::training && op != ReduceOp::prod;
    default:
      return false;
  }
}

/// splitmix64's finaliser: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

bool is_supported(Series series, Collective collective, Dtype dtype, ReduceOp op) {
  if (is_reducing(collective)) return is_reducible(series, dtype, op);
  return dtype != Dtype::bf16 || series != Series::training;
}

uint64_t collective_hash(uint64_t before, const CollectiveCall& call) {
  constexpr uint64_t k_step = 0x9e3779b97f4a7c15ULL;  // makes the hash of nothing differ from 0
  ReduceOp op = is_reducing(call.collective) ? call.op : ReduceOp::sum;
  uint64_t kind = static_cast<uint64_t>(call.collective) << 16 |
                  static_cast<uint64_t>(call.dtype) << 8 | static_cast<uint64_t>(op);
  uint64_t hash = mix(before + k_step);
  hash = mix(hash ^ (kind + k_step));
  return mix(hash ^ (call.count + k_step));
}

std::optional<Divergence> find_divergence(const std::vector<RankHashes>& hashes) {
  size_t steps = 0;
  for (const RankHashes& rank : hashes) steps = std::max(steps, rank.by_step.size());
  for (size_t step = 0; step < steps; ++step) {
    // What a rank shows at this step; nothing: it has stopped.
    std::map<std::optional<uint64_t>, std::vector<uint32_t>> shown;
    for (const RankHashes& rank : hashes)
      shown[step < rank.by_step.size() ? std::optional(rank.by_step[step]) : std::nullopt]
          .push_back(rank.rank);
    if (shown.size() == 1) continue;
    for (auto& [hash, ranks] : shown) std::sort(ranks.begin(), ranks.end());
    auto largest = std::max_element(shown.begin(), shown.end(), [](const auto& a, const auto& b) {
      return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                                : a.second.front() > b.second.front();
    });
    Divergence found{step, {}, 2 * largest->second.size() <= hashes.size()};
    for (const auto& [hash, ranks] : shown)
      if (hash != largest->first) found.ranks.insert(found.ranks.end(), ranks.begin(), ranks.end());
    std::sort(found.ranks.begin(), found.ranks.end());
    return found;
  }
  return std::nullopt;
}

}  // namespace cohort::doctor

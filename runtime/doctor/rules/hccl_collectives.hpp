#pragma once
/// Collectives as HCCL sees them: which element types each series takes (H16), and the running hash
/// by which ranks prove that they issued the same sequence (H08). Pure. A rank keeps one uint64 and
/// logs it at the end of each step; comparing one number per rank and step finds the rank that left
/// the sequence, where HCCL would only hang until HCCL_EXEC_TIMEOUT.
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

enum class Collective : uint8_t { allreduce, reduce_scatter, broadcast, allgather, alltoall };
enum class ReduceOp : uint8_t { sum, prod, max, min };

struct CollectiveCall {
  Collective collective = Collective::allreduce;
  uint64_t count = 0;  // [elements]
  Dtype dtype = Dtype::fp32;
  ReduceOp op = ReduceOp::sum;  // of allreduce and reduce_scatter only
};

/// Returns whether `series` can run `collective` on `dtype` with `op`; for Series::unknown what A2
/// and A3 can. The table is that of HCCL's guide and C API (docs/doctor.md).
bool is_supported(Series series, Collective collective, Dtype dtype, ReduceOp op = ReduceOp::sum);

/// Returns the hash after `call`, given the hash of all calls before it (0 at the start of a run).
/// Order matters; the op of a collective that does not reduce does not. Stable over versions: it is
/// logged and compared between hosts.
uint64_t collective_hash(uint64_t before, const CollectiveCall& call);

struct Divergence {
  size_t step = 0;              // first step at which not all ranks agree
  std::vector<uint32_t> ranks;  // those that differ from the majority, ascending
  bool is_tie = false;          // no strict majority: `ranks` is every rank but those that agree
                                // with the lowest one
};

/// Returns the first step at which ranks disagree. A rank whose list is shorter than another's
/// counts as different from there on (it stopped, or did not log).
std::optional<Divergence> find_divergence(const std::vector<RankHashes>& hashes);

}  // namespace cohort::doctor

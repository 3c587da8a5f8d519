#pragma once
/// Whether a run may start with the nodes that have joined: all, or as many as are enough, if the
/// missing ones have nothing but rollouts. Pure: `now` [s] is an argument. Not thread-safe: one
/// thread asks again and again. START-1: it starts only where every other role has its nodes and
/// one replica of the rollout is whole. START-2: the wait ends: after wait_s it starts or gives up.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::plan {

struct NodesWanted {
  uint32_t count = 0;                        // nodes 0 … count - 1
  uint32_t least = 0;                        // so many are enough; count: all must be there
  std::set<uint32_t> required;               // that have cards of other roles than the rollout
  std::vector<std::set<uint32_t>> replicas;  // nodes of each replica of the rollout
  double wait_s = 600;                       // at most
  double wait_more_s = 30;                   // for the others, when enough are there
};

struct NodeRange {
  uint32_t least = 0;
  std::optional<uint32_t> count;
};
/// "2" or "2:4"; Errc::invalid_argument.
Expected<NodeRange> parse_node_range(const std::string& text);

class StartGate {
 public:
  enum class Verdict : uint8_t { wait = 0, start = 1, give_up = 2 };
  StartGate(NodesWanted wanted, double now) : wanted_(std::move(wanted)), began_(now) {}
  Verdict judge(const std::set<uint32_t>& joined, double now);
  /// Of the last judgement, with `word` for a node: "1 of 3 nodes have joined; missing: RANK 1, 2".
  /// Where it gave up, also why the missing ones cannot be done without.
  std::string text(const std::string& word) const;
  /// Returns the nodes that are missing, of the last judgement.
  const std::set<uint32_t>& missing() const { return missing_; }

 private:
  bool is_enough() const;
  NodesWanted wanted_;
  double began_ = 0;
  std::optional<double> enough_since_;
  std::set<uint32_t> missing_;
};

}  // namespace cohort::plan

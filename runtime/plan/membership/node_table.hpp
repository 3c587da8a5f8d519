#pragma once
/// The nodes of a cluster as its head knows them: joined, silent since when, missing. Pure: `now`
/// [s] is an argument. Not thread-safe: owned by the head. Bound: k_nodes_max. NODE-1: an id
/// belongs to one living node at a time; a node that takes the id of a lost one gets a higher
/// epoch, and messages of the old one are refused.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::plan {

inline constexpr uint32_t k_nodes_max = 4096;

struct NodeEntry {
  uint32_t id = 0;      // the rank it was started with, else the lowest that was free
  uint64_t epoch = 0;   // rises with each node that joins
  std::string name;     // of its host
  std::string address;  // where others reach it
  std::string version;  // of its actor-node
  int32_t pid = 0;
  uint32_t cards = 0;  // 0: as many as a run asks for (platform cpu)
  double heard = 0;    // [s]
  bool is_lost = false;
};

class NodeTable {
 public:
  /// Takes a node in and returns its entry. Errc::invalid_argument if a living node has `rank` (it
  /// is named), Errc::capacity.
  Expected<NodeEntry> add(NodeEntry node, std::optional<uint32_t> rank, double now);
  /// Returns false if this node has been replaced or is not known: it must join anew.
  bool hear(uint32_t id, uint64_t epoch, double now);
  /// It left, or its process is gone. Returns false if it was lost already or replaced.
  bool lose(uint32_t id, uint64_t epoch);
  /// Loses the nodes that have been silent for more than `limit_s`, and returns them. A look that
  /// comes later than half of it after the one before says that this process stood still: that time
  /// is nobody's silence.
  std::vector<NodeEntry> lose_silent(double now, double limit_s);
  /// Returns the ids below `count` that no living node has.
  std::vector<uint32_t> missing(uint32_t count) const;
  /// Returns the living node with this id, or null.
  const NodeEntry* find(uint32_t id) const;
  std::vector<NodeEntry> entries() const;  // by id, lost ones included

 private:
  std::map<uint32_t, NodeEntry> nodes_;
  uint64_t epoch_ = 0;
  std::optional<double> last_look_;  // for the silent
};

/// "host-a (10.0.0.2, process 4711)"
std::string to_text(const NodeEntry& node);

}  // namespace cohort::plan

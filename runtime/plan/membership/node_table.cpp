#include "runtime/plan/membership/node_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort::plan {

Expected<NodeEntry> NodeTable::add(NodeEntry node, std::optional<uint32_t> rank, double now) {
  uint32_t id = 0;
  if (rank) {
    id = *rank;
    if (const NodeEntry* taken = find(id))
      return Error{Errc::invalid_argument,
                   fmt::format("rank {} is taken by {}: give each host a RANK of its own", id,
                               to_text(*taken))};
  } else {
    while (find(id) != nullptr) ++id;
  }
  if (id >= k_nodes_max)
    return Error{Errc::capacity, fmt::format("a cluster has at most {} nodes", k_nodes_max)};
  node.id = id;
  node.epoch = ++epoch_;
  node.heard = now;
  node.is_lost = false;
  return nodes_[id] = std::move(node);
}

bool NodeTable::hear(uint32_t id, uint64_t epoch, double now) {
  auto found = nodes_.find(id);
  if (found == nodes_.end() || found->second.epoch != epoch || found->second.is_lost) return false;
  found->second.heard = now;
  return true;
}

bool NodeTable::lose(uint32_t id, uint64_t epoch) {
  auto found = nodes_.find(id);
  if (found == nodes_.end() || found->second.epoch != epoch) return false;
  return !std::exchange(found->second.is_lost, true);
}

std::vector<NodeEntry> NodeTable::lose_silent(double now, double limit_s) {
  const double pause = now - last_look_.value_or(now);
  last_look_ = now;
  if (pause > limit_s / 2)
    for (auto& [id, node] : nodes_) node.heard = std::min(now, node.heard + pause);
  std::vector<NodeEntry> lost;
  for (auto& [id, node] : nodes_)
    if (!node.is_lost && now - node.heard > limit_s) {
      node.is_lost = true;
      lost.push_back(node);
    }
  return lost;
}

std::vector<uint32_t> NodeTable::missing(uint32_t count) const {
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < count; ++id)
    if (find(id) == nullptr) ids.push_back(id);
  return ids;
}

const NodeEntry* NodeTable::find(uint32_t id) const {
  auto found = nodes_.find(id);
  return found == nodes_.end() || found->second.is_lost ? nullptr : &found->second;
}

std::vector<NodeEntry> NodeTable::entries() const {
  std::vector<NodeEntry> entries;
  for (const auto& [id, node] : nodes_) entries.push_back(node);
  return entries;
}

std::string to_text(const NodeEntry& node) {
  return fmt::format("{} ({}, process {})", node.name, node.address, node.pid);
}

}  // namespace cohort::plan

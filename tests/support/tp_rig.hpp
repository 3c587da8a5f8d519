#pragma once
/// A tensor-parallel group of generation engines whose ranks are threads of this process. Header
/// only. Turns go to leader().
#include <memory>
#include <string>
#include <vector>

#include "tests/support/generation_rig.hpp"
#include "tests/support/ranks.hpp"

namespace cohort::tests {

/// 8 query heads, so that the group may have 1, 2, 4 or 8 ranks.
inline compute::ModelConfig tp_model(int64_t kv_heads) {
  compute::ModelConfig config = generation_model();
  config.vocab_size = 32;
  config.num_attention_heads = 8;
  config.num_key_value_heads = kv_heads;
  return config;
}

using Groups = std::vector<std::shared_ptr<compute::Collectives>>;

/// Joins one group per lane as `rank`; the others join at the same time.
inline Groups join_groups(int rank, int size, uint32_t lanes,
                          const std::shared_ptr<compute::Rendezvous>& rendezvous,
                          int timeout_ms = 20000,
                          compute::CollectiveBackend backend = compute::CollectiveBackend::gloo) {
  Groups groups;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    auto options = group_options(rank, size, "tp." + std::to_string(lane), rendezvous, timeout_ms);
    options.backend = backend;
    groups.push_back(compute::Collectives::join(options).value());
  }
  return groups;
}

class TpRig {
 public:
  /// `timeout_ms` is that of the groups.
  TpRig(int size, RigOptions options, int timeout_ms = 20000) {
    std::vector<Groups> groups(static_cast<size_t>(size));
    const auto rendezvous = compute::Rendezvous::in_process();
    on_threads(size, [&](int rank) {
      groups[static_cast<size_t>(rank)] = join_groups(
          rank, size, options.lanes, rendezvous, timeout_ms, compute::CollectiveBackend::memory);
    });
    for (Groups& mine : groups) {
      options.groups = std::move(mine);
      ranks.push_back(std::make_unique<GenerationRig>(options));
    }
  }
  ~TpRig() {
    for (auto& rank : ranks) rank.reset();  // the leader first: it ends the others
  }
  TpRig(const TpRig&) = delete;
  TpRig& operator=(const TpRig&) = delete;

  TpRig& serve(const std::vector<float>& flat) {
    for (auto& rank : ranks) rank->serve(flat);
    return *this;
  }
  void publish(uint64_t version, const std::vector<float>& flat) {
    for (auto& rank : ranks) rank->publish(version, flat);
  }
  GenerationRig& leader() { return *ranks.front(); }

  std::vector<std::unique_ptr<GenerationRig>> ranks;
};

}  // namespace cohort::tests

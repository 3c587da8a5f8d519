#pragma once
/// What must hold, checked where it happens: the audit knows what no process may know, the
/// state of all of them. One thread. Bound: the trajectories of a run and its messages.
/// Checked: LINK-1..3, FLOW-1..4, PLACE-4 (no card moves under a lease), PLACE-5 (a version is
/// played only where all of it is served), SEAT-1 (a version goes only to who sits in its epoch),
/// LEASE-1, LIVENESS (the run ends, soon after the faults have), REPLAY (the parameters are
/// those of a calm run).
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/trajectory_kind.hpp"
#include "runtime/transport/link.hpp"
#include "tools/cohort-sim/world.hpp"

namespace cohort::sim {

/// A trajectory on its way; a frame's header is some of them.
struct Item {
  uint64_t step = 0;
  uint32_t kind = 0, group = 0, index = 0;
  uint32_t attempt = 0, replica = 0;
  uint32_t is_masked = 0;
  uint64_t version = 0;     // number of the parameters that generated it
  uint64_t parameters = 0;  // their fingerprint
  uint64_t score = 0;       // 0: not scored yet
  uint64_t content = 0;     // a function of parameters, step, group and index
};

inline TrajectoryKey key_of(const Item& x) {
  return {static_cast<TrajectoryKind>(x.kind), x.step, x.group, x.index};
}

std::string pack(const std::vector<Item>& items);
std::vector<Item> unpack(const std::string& bytes);
uint64_t content_of(uint64_t parameters, const TrajectoryKey& key);
inline uint64_t score_of(uint64_t content) { return mix64(content) | 1; }
/// Returns the parameters after a step on them with a batch sorted by key.
uint64_t next_parameters(uint64_t parameters, const std::vector<Item>& batch);

/// What a step trains, as the job says.
struct TrainedStep {
  TrajectoryKind kind = TrajectoryKind::train;
  uint64_t step = 0;
  uint32_t groups = 0, group_size = 0;
  uint64_t version = 0;    // number of the parameters that are trained
  uint64_t staleness = 0;  // by how many versions a trajectory may be older
};

class Audit {
 public:
  explicit Audit(World& world) : world_(world) {}

  // Links.
  void on_sent(uint64_t session, uint64_t seq, const transport::Message& message);
  void on_delivered(uint64_t session, uint64_t life, uint64_t seq,
                    const transport::Message& message);
  void on_consumer_acks(uint64_t session, uint64_t seq);
  void on_producer_acked(uint64_t session, uint64_t seq);
  void on_bytes(const char* what, uint64_t held, uint64_t limit);  // FLOW-4, LINK-3

  // Flow.
  void on_recorded(const Item& item) { recorded_.insert(key_of(item)); }
  /// The collector refused it: its step is over, or not open in this life.
  void on_refused(const Item& item) { refused_.insert(key_of(item)); }
  void on_source_acked(const std::vector<Item>& items);  // FLOW-2
  /// FLOW-1, FLOW-3.
  void on_trained(const TrainedStep& trained, const std::vector<Item>& batch);
  /// The run goes on from a checkpoint: what was trained after it is trained again.
  void on_resumed(uint64_t steps);
  /// The run has ended: every trajectory of it was trained, once.
  void on_ended(uint64_t steps, uint32_t groups, uint32_t group_size);
  /// These are the parameters of the version, now that it is trained or loaded.
  void on_version(uint64_t number, uint64_t parameters) { made_[number].insert(parameters); }
  /// PLACE-5: a rollout serves or plays `number` with `parameters`.
  void on_served(const char* what, uint64_t number, uint64_t parameters);
  void on_play(uint64_t served, uint64_t leased);
  /// Returns the groups that were trained without being played: index 0 of each.
  const std::set<TrajectoryKey>& masked_groups() const { return masked_; }

 private:
  struct Sent {
    uint64_t hash = 0;
    bool is_consumer_acked = false;
  };
  World& world_;
  std::map<uint64_t, std::vector<Sent>> sent_;                   // by session, from seq 1
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> delivered_;  // (session, life) -> last
  std::map<uint64_t, uint64_t> acked_upto_;                      // by session, at producer
  std::set<TrajectoryKey> recorded_, refused_, trained_, masked_;
  std::map<uint64_t, std::set<uint64_t>> made_;  // version -> its parameters, by attempt
};

}  // namespace cohort::sim

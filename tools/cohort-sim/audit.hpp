#pragma once
/// What must hold, checked where it happens: the audit knows what no process may know, the
/// state of all of them. One thread. Bound: the trajectories of a run and its messages.
/// Checked: LINK-1..3, FLOW-1..4, PLACE-4 (no card moves under a lease), PLACE-5 (a version is
/// played only where all of it is served), SEAT-1 (a version goes only to who sits in its epoch),
/// LEASE-1, LIVENESS (the run ends, soon after the faults have), REPLAY (the parameters are
/// those of a calm run).
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/trajectory_kind.hpp"
#include "runtime/tensor/checksum.hpp"
#include "runtime/transport/link.hpp"
#include "tools/cohort-sim/sim_job.hpp"
#include "tools/cohort-sim/world.hpp"

namespace cohort::sim {

/// A trajectory on its way; a frame's header is some of them.
struct Item {
  uint64_t step = 0;
  uint32_t kind = 0, group = 0, index = 0;
  uint32_t attempt = 0, replica = 0;
  uint32_t is_masked = 0;
  uint64_t version = 0;     // number of the parameters that generated its first token
  uint64_t parameters = 0;  // their fingerprint
  uint64_t last_version = 0, last_parameters = 0;  // likewise, of its last token
  uint64_t score = 0;                              // 0: not scored yet
  uint64_t content = 0;  // a function of parameters, step, group and index
};

inline TrajectoryKey key_of(const Item& x) {
  return {static_cast<TrajectoryKind>(x.kind), x.step, x.group, x.index};
}

inline uint64_t hash_of(const transport::Message& message) {
  uint64_t header = tensor::checksum64(std::as_bytes(std::span(message.header)));
  return mix64(header ^ mix64(message.type)) ^ tensor::checksum64(message.body.bytes());
}

inline std::string pack(const std::vector<Item>& items) {
  std::string bytes(items.size() * sizeof(Item), '\0');
  std::memcpy(bytes.data(), items.data(), bytes.size());
  return bytes;
}

inline std::vector<Item> unpack(const std::string& bytes) {
  std::vector<Item> items(bytes.size() / sizeof(Item));
  std::memcpy(items.data(), bytes.data(), items.size() * sizeof(Item));
  return items;
}

/// What one policy generates; over a publish, what both have.
inline uint64_t content_of(uint64_t parameters, const TrajectoryKey& key) {
  return mix64(mix64(parameters ^ mix64(key.step * 4 + static_cast<uint64_t>(key.kind))) ^
               (uint64_t{key.group} << 32 | key.index));
}

inline uint64_t content_of(const Item& item) {
  const uint64_t first = content_of(item.parameters, key_of(item));
  if (item.last_version == item.version) return first;
  return mix64(first ^ content_of(item.last_parameters, key_of(item)));
}

inline uint64_t score_of(uint64_t content) { return mix64(content) | 1; }

/// Returns whether a group carries no signal: a function of what was played, as a filter's verdict
/// is. `group`: all of it, sorted by key. One that was masked has no scores.
inline bool is_left_out(const Job& job, const std::vector<Item>& group) {
  if (job.gen_batches_max == 0 || group.front().kind != 0) return false;
  uint64_t sum = 0;
  for (const Item& item : group) sum = mix64(sum ^ (item.is_masked != 0 ? 0 : item.score));
  return sum % 10 < job.left_out_of_ten;
}

/// Returns the parameters after a step on them with a batch sorted by key.
inline uint64_t next_parameters(uint64_t parameters, const std::vector<Item>& batch) {
  for (const Item& item : batch)
    parameters = mix64(parameters ^ (item.is_masked != 0 ? 1 : mix64(item.content ^ item.score)));
  return parameters;
}

/// What a step trains, as the job says.
struct TrainedStep {
  TrajectoryKind kind = TrajectoryKind::train;
  uint64_t step = 0;
  std::set<uint32_t> groups;  // that carry a signal
  uint32_t group_size = 0;
  uint64_t version = 0;    // number of the parameters that are trained
  uint64_t staleness = 0;  // by how many versions a trajectory may be older
};

class Audit {
 public:
  explicit Audit(World& world) : world_(world) {}

  // Links.
  void on_sent(uint64_t session, uint64_t seq, const transport::Message& message) {
    auto& sent = sent_[session];
    if (seq != sent.size() + 1)
      world_.violate("LINK-1", fmt::format("message {} is numbered {}", sent.size() + 1, seq));
    sent.push_back({hash_of(message), false});
  }
  void on_delivered(uint64_t session, uint64_t life, uint64_t seq,
                    const transport::Message& message) {
    auto& sent = sent_[session];
    if (seq == 0 || seq > sent.size() || sent[seq - 1].hash != hash_of(message))
      return world_.violate("LINK-1", fmt::format("message {} is not what was sent", seq));
    auto [last, is_first] = delivered_.try_emplace({session, life}, seq);
    if (is_first) {
      uint64_t acked = acked_upto_[session];
      if (seq > acked + 1)
        world_.violate("LINK-1", fmt::format("a consumer begins with message {}, but only {} are "
                                             "acknowledged",
                                             seq, acked));
      return;
    }
    if (seq != last->second + 1)
      world_.violate("LINK-1", fmt::format("message {} comes after {}", seq, last->second));
    last->second = seq;
  }
  void on_consumer_acks(uint64_t session, uint64_t seq) {
    auto& sent = sent_[session];
    if (seq >= 1 && seq <= sent.size()) sent[seq - 1].is_consumer_acked = true;
  }
  void on_producer_acked(uint64_t session, uint64_t seq) {
    uint64_t& upto = acked_upto_[session];
    if (seq != upto + 1)
      world_.violate("LINK-1", fmt::format("acknowledgement {} comes after {}", seq, upto));
    upto = seq;
    if (!sent_[session][seq - 1].is_consumer_acked)
      world_.violate("LINK-2", fmt::format("message {} is acknowledged to its producer, but no "
                                           "consumer has acknowledged it",
                                           seq));
  }
  void on_bytes(const char* what, uint64_t held, uint64_t limit) {
    if (held > limit)
      world_.violate("FLOW-4", fmt::format("{}: {} bytes, the bound is {}", what, held, limit));
  }  // FLOW-4, LINK-3

  // Flow.
  void on_recorded(const Item& item) { recorded_.insert(key_of(item)); }
  /// The collector refused it: its step is over, or not open in this life.
  void on_refused(const Item& item) { refused_.insert(key_of(item)); }
  void on_source_acked(const std::vector<Item>& items) {
    for (const Item& item : items)
      if (!recorded_.contains(key_of(item)) && !refused_.contains(key_of(item)))
        world_.violate("FLOW-2",
                       cohort::to_string(key_of(item)) + " is acknowledged, but not on the disk");
  }  // FLOW-2
  /// FLOW-1, FLOW-3.
  void on_trained(const TrainedStep& trained, const std::vector<Item>& batch) {
    if (trained.kind == Kind::train) {
      if (trained.step == 1) first_update_ = world_.now();
      last_update_ = world_.now();
    }
    const uint64_t size = trained.groups.size() * trained.group_size;
    for (const Item& item : batch) {
      TrajectoryKey key = key_of(item);
      if (key.kind != trained.kind || key.step != trained.step ||
          !trained.groups.contains(key.group) || key.index >= trained.group_size)
        world_.violate(
            "FLOW-1", cohort::to_string(key) + fmt::format(" is trained in step {}", trained.step));
      if (!trained_.insert(key).second)
        world_.violate("FLOW-1", cohort::to_string(key) + " is trained twice");
      if (!recorded_.contains(key))
        world_.violate("FLOW-2", cohort::to_string(key) + " is trained, but not on the disk");
      if (item.is_masked != 0) {
        masked_.insert({key.kind, key.step, key.group, 0});
        continue;
      }
      if (item.content != content_of(item) || item.score == 0)
        world_.violate("FLOW-1", cohort::to_string(key) + " is not what was generated and scored");
      if (trained.kind == Kind::warm_start) continue;
      if (item.last_version > trained.version || item.version + trained.staleness < trained.version)
        world_.violate("FLOW-3",
                       fmt::format("{} was generated by versions {} to {}; version {} is trained, "
                                   "and the bound is {}",
                                   cohort::to_string(key), item.version, item.last_version,
                                   trained.version, trained.staleness));
      on_served("a trajectory was generated by", item.version, item.parameters);
      on_served("a trajectory was generated by", item.last_version, item.last_parameters);
      spans_ += item.last_version > item.version ? 1 : 0;
    }
    if (batch.size() != size)
      world_.violate("FLOW-1", fmt::format("step {} trains {} of {} trajectories", trained.step,
                                           batch.size(), size));
  }
  /// The group carries no signal: nobody trains on it.
  void on_left_out(const std::vector<Item>& group) {
    if (group.front().is_masked != 0) masked_.insert(key_of(group.front()));
  }
  /// The run goes on from a checkpoint: what was trained after it is trained again.
  void on_resumed(uint64_t steps) {
    std::erase_if(trained_, [steps](const TrajectoryKey& key) {
      return key.kind != Kind::train || key.step > steps;
    });
  }
  /// The run has ended: every trajectory of it was trained, once, but for groups without a signal.
  void on_ended(const Job& job) {
    uint64_t trained = 0;
    for (const TrajectoryKey& key : trained_) trained += key.kind == Kind::train ? 1 : 0;
    const uint64_t all = uint64_t{job.steps} * job.groups * job.group_size;
    if (job.gen_batches_max == 0 ? trained != all : trained > all)
      world_.violate("FLOW-1",
                     fmt::format("the run has trained {} of {} trajectories", trained, all));
  }
  /// These are the parameters of the version, now that it is trained or loaded.
  void on_version(uint64_t number, uint64_t parameters) { made_[number].insert(parameters); }
  /// PLACE-5: a rollout serves or plays `number` with `parameters`.
  void on_served(const char* what, uint64_t number, uint64_t parameters) {
    if (auto made = made_.find(number); made == made_.end() || !made->second.contains(parameters))
      world_.violate("PLACE-5",
                     fmt::format("{} version {}, with other parameters than its", what, number));
  }
  /// `is_flowing`: a lease may come after the publish that follows it.
  void on_play(uint64_t served, uint64_t leased, bool is_flowing) {
    if (served != leased && (!is_flowing || served < leased || served == ~0ULL))
      world_.violate("PLACE-5", fmt::format("a lease of version {} is played with version {}",
                                            leased, served));
  }
  /// AHEAD-1 has its exception: later parameters are not those of a calm run.
  void on_newer_policy() { has_newer_policy_ = true; }
  bool has_newer_policy() const { return has_newer_policy_; }
  /// Returns the groups that were trained without being played: index 0 of each.
  const std::set<TrajectoryKey>& masked_groups() const { return masked_; }
  /// Returns how many trained trajectories have tokens of more than one policy.
  uint64_t spans() const { return spans_; }
  int64_t steps_ms() const { return last_update_ - first_update_; }
  /// One policy plays an evaluation: FLOWING-1.
  void on_evaluated(const Item& item) {
    if (item.last_version != item.version && !has_newer_policy_)
      world_.violate("FLOWING-1",
                     fmt::format("{} is evaluated by versions {} to {}",
                                 cohort::to_string(key_of(item)), item.version, item.last_version));
  }

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
  bool has_newer_policy_ = false;
  uint64_t spans_ = 0;
  int64_t first_update_ = 0, last_update_ = 0;   // [ms]
  std::map<uint64_t, std::set<uint64_t>> made_;  // version -> its parameters, by attempt
};

}  // namespace cohort::sim

#pragma once
/// The promises, checked where events happen: the audit knows what no process may know, the state
/// of all of them. One thread. Bound: the trajectories of a run and its messages. Checked:
/// LINK-1..3, FLOW-1..4, PLACE-5 (a version is played only where it is served), LIVENESS (the run
/// ends, soon after the faults have), REPLAY (the parameters are those of a calm run).
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/link.hpp"
#include "tools/cohort-sim/world.hpp"

namespace cohort::sim {

/// A trajectory on its way; a frame's header is some of them.
struct Item {
  uint64_t step = 0;
  uint32_t group = 0, index = 0;
  uint32_t attempt = 0, replica = 0;
  uint64_t version = 0;  // fingerprint of the parameters that generated it
  uint64_t score = 0;    // 0: not scored yet
  uint64_t content = 0;  // a function of version, step, group and index
};

struct ItemKey {
  uint64_t step = 0;
  uint32_t group = 0, index = 0;
  auto operator<=>(const ItemKey&) const = default;
};
inline ItemKey key_of(const Item& x) { return {x.step, x.group, x.index}; }

std::string pack(const std::vector<Item>& items);
std::vector<Item> unpack(const std::string& bytes);
uint64_t content_of(uint64_t version, const ItemKey& key);
/// Returns the parameters after a step on them with a batch sorted by key.
uint64_t next_version(uint64_t version, const std::vector<Item>& batch);

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
  void on_trained(uint64_t step, uint64_t version, const std::vector<Item>& batch, uint32_t groups,
                  uint32_t group_size);            // FLOW-1, FLOW-3
  void on_play(uint64_t served, uint64_t leased);  // PLACE-5

 private:
  struct Sent {
    uint64_t hash = 0;
    bool is_consumer_acked = false;
  };
  World& world_;
  std::map<uint64_t, std::vector<Sent>> sent_;                   // by session, from seq 1
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> delivered_;  // (session, life) -> last
  std::map<uint64_t, uint64_t> acked_upto_;                      // by session, at producer
  std::set<ItemKey> recorded_, refused_;
};

}  // namespace cohort::sim

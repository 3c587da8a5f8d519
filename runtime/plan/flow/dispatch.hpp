#pragma once
/// Which replica of the rollout plays which group next: a global view of outstanding tokens. Groups
/// wait in one queue (longest expected first) and are handed out as replicas have room; work comes
/// back from a replica that dies or falls behind. A trajectory's tokens do not depend on the
/// replica that plays it (GEN-1), so that playing one twice costs time, never a result.
/// docs/leases.md tells the protocol. Pure: no clock, no random numbers; the same calls give the
/// same decisions. Owner: the driver. Bound: what add() was given and end() has not yet ended, plus
/// one home per prompt of it.
///
/// Outstanding tokens of a trajectory: its prompt and the response expected, until it ends.
/// Expected is what the group says, else the mean of what has ended lately.
///
/// DISPATCH-1: a trajectory that was added and has not ended is in exactly one place: waiting, or
/// open on one living replica, or on two of them if it was hedged. It ends once; a second end is
/// told apart and changes nothing.
/// DISPATCH-2: a replica with open_tokens_max outstanding or more, or a retired one, is given
/// nothing.
/// DISPATCH-3: outstanding(r) is the sum over its open trajectories: 0 when it has none.
/// DISPATCH-4: a group goes to the living replica with the least outstanding tokens, or to its
/// prompt's home if that has at most affinity_tokens more.
/// DISPATCH-5: a group is open twice at most, and only while nothing waits. A replica that stands
/// still is lost: lose().
/// DISPATCH-6: a group that is to be played alone is open only while no other is, on any replica.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::plan {

struct DispatchOptions {
  uint32_t replicas = 1;
  uint64_t open_tokens_max = 1;        // handed out at a time, per replica
  uint64_t affinity_tokens = 0;        // what staying with the prompt's home may cost
  uint64_t response_tokens_guess = 1;  // of a trajectory, before any has ended
};

struct DispatchGroup {
  uint64_t id = 0;
  uint64_t prompt = 0;  // groups of one prompt share a replica's prefix
  uint32_t trajectories = 1;
  uint64_t prompt_tokens = 0;    // of one trajectory
  uint64_t response_tokens = 0;  // expected of one trajectory; 0: the dispatcher's mean
};

/// Trajectories of a group that go to a replica, or are taken from it.
struct DispatchPart {
  uint64_t group = 0;
  uint32_t replica = 0;
  std::vector<uint32_t> indices;  // not yet ended, ascending
  bool operator==(const DispatchPart&) const = default;
};

struct DispatchEnd {
  bool is_first = false;           // false: it had ended before, or nobody added it
  std::vector<uint32_t> still_on;  // other replicas that play it too: cancel it there
};

class Dispatcher {
 public:
  explicit Dispatcher(const DispatchOptions& options);

  /// Returns Errc::invalid_argument for an id that is open or a group without trajectories.
  Expected<void> add(const DispatchGroup& group);
  /// Hands out what fits the bounds, in order. Call it after every other call.
  std::vector<DispatchPart> assign();
  /// A waiting group is to be played alone: its turn comes when no other waits or is open.
  void isolate(uint64_t group);
  /// The trajectory ended on `replica` with `sampled` response tokens.
  DispatchEnd end(uint64_t group, uint32_t index, uint32_t replica, uint64_t sampled);
  /// Takes everything back from a replica that died; it gets no more work. Returns what waits
  /// again: what was open there and nowhere else.
  std::vector<DispatchPart> lose(uint32_t replica);
  /// The replica gets no more work; what is open there may end there.
  void retire(uint32_t replica);
  /// An open group is late: where nothing waits, a replica that has nothing but such groups plays
  /// it too, from the beginning, and the first to end a trajectory has ended it. Returns nothing if
  /// there is none with room, or it is played twice already, or is to be played alone.
  std::optional<DispatchPart> hedge(uint64_t group);
  /// The replica is back, with nothing open.
  void restore(uint32_t replica);

  uint64_t outstanding(uint32_t replica) const;
  /// Returns what is open there, ascending.
  const std::set<uint64_t>& groups_on(uint32_t replica) const;
  size_t waiting_groups() const { return waiting_.size(); }
  size_t open_groups(uint32_t replica) const { return groups_on(replica).size(); }
  bool is_done() const { return groups_.empty(); }
  void assert_invariants() const;

 private:
  struct Group {
    DispatchGroup spec;
    std::optional<uint32_t> replica;  // open there; else it waits
    std::optional<uint32_t> second;   // and there too
    bool is_alone = false;
    std::set<uint32_t> left;  // trajectories not ended
    uint64_t expected = 0;    // response tokens of one, fixed when it opens or waits
    uint64_t tokens = 0;      // outstanding: in its replica's books, or its queue rank
  };
  struct Replica {
    bool is_alive = true;
    bool is_retired = false;
    bool takes_work() const { return is_alive && !is_retired; }
    uint64_t outstanding = 0;  // [tokens]
    std::set<uint64_t> groups;
  };
  struct Waiting {  // order of the queue
    uint64_t tokens = 0;
    uint64_t group = 0;
    bool operator<(const Waiting& other) const {
      return tokens != other.tokens ? tokens > other.tokens : group < other.group;
    }
  };

  using Groups = std::map<uint64_t, Group>;

  uint64_t tokens_of(const Group& group) const;
  std::pair<size_t, bool> open_now() const;
  void count(Group& group);
  void learn(uint64_t sampled);
  std::optional<uint32_t> place(const Group& group) const;
  std::optional<uint32_t> lightest() const;
  void open(Group& group, uint32_t replica);
  DispatchPart part_of(const Group& group, uint32_t replica) const;
  void hold(const Group& group, uint32_t replica);
  void drop(const Group& group, uint32_t replica);
  DispatchPart take_back(Group& group);
  void wait(Group& group);
  void leave_queue(const Group& group);
  void forget(Groups::iterator it);

  DispatchOptions options_;
  std::vector<Replica> replicas_;
  Groups groups_;  // not ended
  std::set<Waiting> waiting_;
  struct Home {
    std::optional<uint32_t> replica;
    uint32_t groups = 0;  // of this prompt, not ended
  };
  std::map<uint64_t, Home> homes_;  // by prompt
  double response_mean_ = 0;
  uint32_t mean_weight_ = 0;  // trajectories behind the mean, capped: old ones fade
};

}  // namespace cohort::plan

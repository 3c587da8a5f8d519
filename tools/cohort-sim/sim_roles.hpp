#pragma once
/// The roles of the simulated cluster. Real in them: the links' sessions, plan::Dispatcher,
/// plan::Collector and transport::Relay. Modelled after the actors: what travels between head and
/// rollouts (beats, leases, publish), when the collector records and acknowledges, when a frame
/// leaves the reward hop. A role is what its process loses when it crashes. One thread.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/plan/flow/collector.hpp"
#include "runtime/plan/flow/dispatch.hpp"
#include "runtime/transport/relay.hpp"
#include "tools/cohort-sim/disk.hpp"
#include "tools/cohort-sim/link_ends.hpp"

namespace cohort::sim {

/// The size of a run, drawn from the seed.
struct Job {
  uint32_t rollouts = 2, steps = 3, groups = 4, group_size = 2;
  uint32_t save_every = 1;  // [steps]
  bool has_reference = false;
  transport::LinkOptions link;
};

/// Commands of a head's life and step; a later term overrides an earlier one.
struct Term {
  uint64_t attempt = 0, step = 0;
  auto operator<=>(const Term&) const = default;
};
struct Beat {
  uint32_t replica = 0;
  uint64_t incarnation = 0;
  Term term;
  uint64_t last_lease = 0;
};
struct SimLease {
  uint64_t incarnation = 0;
  Term term;
  uint64_t number = 0;  // from 1 in each term and incarnation
  uint64_t version = 0;
  uint32_t group = 0;
  std::vector<uint32_t> indices;
};
/// Names the lease that it takes back: the same group may have been leased to the same rollout
/// again when a late cancel arrives (seed 5922 of an earlier version lost a trajectory so).
struct Cancel {
  uint64_t incarnation = 0;
  Term term;
  uint64_t lease = 0;
  uint32_t index = 0;
};
struct Publish {
  uint64_t incarnation = 0;
  Term term;
  uint64_t version = 0;
};

/// Who is where; what a role calls to reach another one.
class Roles {
 public:
  virtual void beat(const Beat& beat) = 0;  // rollout -> head
  virtual void lease(uint32_t replica, const SimLease& lease) = 0;
  virtual void publish(uint32_t replica, const Publish& publish) = 0;
  virtual void cancel(uint32_t replica, const Cancel& cancel) = 0;
  virtual void rejoin(uint32_t replica, uint64_t incarnation) = 0;
  virtual uint64_t next_incarnation() = 0;
  virtual void head_ends() = 0;  // by itself: the disk is full
  virtual void run_ends(uint64_t version) = 0;

 protected:
  ~Roles() = default;
};

/// Plays leased trajectories and hands them to the reward link.
class Rollout {
 public:
  Rollout(Stage& stage, Roles& roles, const Job& job, Process& self, uint32_t replica);
  void on_lease(const SimLease& lease);
  void on_publish(const Publish& publish);
  void on_cancel(const Cancel& cancel);
  void on_rejoin(uint64_t incarnation);

 private:
  static constexpr size_t k_games = 4;
  void beat();
  void begin_games();
  void end_game(uint64_t serial);
  void send_frames();

  struct Game {
    uint64_t serial = 0;
    uint64_t lease = 0;
    Item item;
    bool is_open = false;
  };
  Stage& stage_;
  Roles& roles_;
  Process& self_;
  const uint32_t replica_;
  uint64_t incarnation_;
  Term term_;
  uint64_t version_ = 0, last_lease_ = 0, next_serial_ = 1;
  std::deque<Game> games_;
  std::vector<Item> finished_;
  SimSender output_;
};

/// Reward or reference: a frame goes on when all of it is worked on; acknowledged by the next.
class MiddleHop {
 public:
  MiddleHop(Stage& stage, const Job& job, Process& self, bool is_reward, const std::string& input,
            const std::string& output);

 private:
  void on_delivery(const SimTicket& ticket);
  void finish(const SimTicket& ticket);
  void flush();

  Stage& stage_;
  Process& self_;
  const bool is_reward_;
  SimSender output_;
  transport::Relay<SimSender, SimTicket> relay_;
  SimReceiver input_;
};

/// Driver, collector, recorder and trainer.
class Head {
 public:
  Head(Stage& stage, Roles& roles, const Job& job, Process& self, Disk& disk);
  void on_beat(const Beat& beat);

 private:
  struct Seat {
    uint64_t incarnation = 0;
    bool is_here = false, is_fenced = false;
    int64_t heard = 0, leased = 0;
    std::vector<SimLease> leases;  // of this term
  };
  void begin_step();
  void take_recorded();
  void hand_out();
  void cancel(uint32_t replica, uint32_t group, uint32_t index);
  void leave(uint32_t replica);
  void watch();
  void on_delivery(const SimTicket& ticket);
  void on_recorded(const std::vector<Item>& fresh);
  void collect(const Item& item);
  void maybe_train();
  void train();

  Stage& stage_;
  Roles& roles_;
  const Job& job_;
  Process& self_;
  Disk& disk_;
  Term term_;
  uint64_t version_ = 0;
  plan::Collector collector_;
  std::optional<plan::Dispatcher> dispatcher_;
  std::vector<Seat> seats_;
  std::vector<Item> batch_;
  bool is_training_ = false;
  SimReceiver input_;
};

}  // namespace cohort::sim

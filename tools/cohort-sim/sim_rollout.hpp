#pragma once
/// A simulated rollout: it plays the trajectories of leases for a while each, and hands them to the
/// reward link in frames, as actors/roles/rollout_actor.cpp does; it serves the version that was
/// committed last. What it keeps is what its process loses in a crash. One thread. Bound: its
/// leases.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/run/commands.hpp"
#include "tools/cohort-sim/link_ends.hpp"
#include "tools/cohort-sim/sim_job.hpp"

namespace cohort::sim {

class SimRollout {
 public:
  using Reply = std::function<void(Expected<plan::run::LeaseEnded>)>;
  /// `end_process`: what it plays kills it. Called at the end of an event of its own.
  SimRollout(Stage& stage, const Job& job, Process& self, const std::string& label,
             uint32_t replica, std::function<void()> end_process);
  void on_lease(const plan::run::Lease& lease, Reply reply);
  /// The lease ends with Errc::cancelled, unless it has ended.
  void on_cancel(const plan::run::Cancel& cancel);
  /// Says a number that rises while it gets on with what it plays.
  uint64_t on_ping() const { return moves_; }
  /// The parameters of `version` are here, all of them or not.
  void serve(uint64_t version, uint64_t parameters);
  /// Its card is moved: PLACE-4.
  void on_card_moves();
  /// It plays on for ever and ends nothing.
  void hang() { is_hung_ = true; }

 private:
  static constexpr size_t k_games = 4;  // at once
  struct Game {
    uint64_t serial = 0, lease = 0;
    Item item;
    bool is_open = false;
  };
  struct Lease {
    plan::run::Lease order;
    Reply reply;
    size_t missing = 0;  // trajectories that have not left
    plan::run::LeaseEnded report;
  };
  void begin_games();
  void end_game(uint64_t serial);
  void send_frames();
  void send_later(int64_t delay_ms);
  void leave(const std::vector<std::pair<uint64_t, Item>>& left);

  Stage& stage_;
  const Job& job_;
  Process& self_;
  const uint32_t replica_;
  const std::function<void()> end_process_;
  uint64_t version_ = 0, parameters_ = 0;  // that it serves; parameters 0: none
  uint64_t next_serial_ = 1, moves_ = 0;
  bool is_hung_ = false, is_sending_ = false;
  std::map<uint64_t, Lease> leases_;  // by number
  std::deque<Game> games_;
  std::deque<std::pair<uint64_t, Item>> finished_;  // by lease
  SimSender output_;
};

}  // namespace cohort::sim

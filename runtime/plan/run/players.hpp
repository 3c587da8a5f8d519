#pragma once
/// Who plays the groups of the open rounds: replicas and where they stand, leases by number, what
/// is played again after a loss, by a second replica, alone, or by none. Pure: `now` is an
/// argument, and what is to be done is appended to `out`. Owner: Run. Bound: the groups of the open
/// rounds; one ping per replica and period.
///
/// LEASE-1: every lease has a number of its own, rising. A message about a number that is not open
/// (its replica was lost, another has played its group) changes nothing.
/// LEASE-2: a replica is leased to only while the floor is open for its phase, and only if it
/// serves the version; warm_start needs no weights.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/run/round.hpp"
#include "runtime/plan/run/run_options.hpp"

namespace cohort::plan::run {

class Players {
 public:
  using Out = std::vector<Command>;
  /// One that is back has no weights yet: it may play rounds that need none. One that leaves gets
  /// nothing new.
  enum class Standing : uint8_t { lost, back, serving, leaving };

  explicit Players(const RunOptions& options);

  // -- rounds, in the order in which they were opened

  /// `recorded`: trajectories (group, index) that are in the stream; the others are to be played.
  /// Groups from `admitted` on are held until they are admitted, unless some of them is recorded.
  void open(RoundKey round, std::vector<GroupTask> tasks, uint32_t group_size, uint32_t admitted,
            const std::vector<std::pair<uint32_t, uint32_t>>& recorded, Out& out);
  /// The groups below `admitted` may be played.
  void admit(RoundKey round, uint32_t admitted, Out& out);
  /// These groups too are to be played.
  void extend(RoundKey round, std::map<uint32_t, GroupTask> groups, Out& out);
  /// Leases of the rounds that are played in this phase may be handed out from now on.
  void open_floor(PhaseKind phase) { floor_ = phase; }
  void close_floor() { floor_.reset(); }
  bool is_floor_open(TrajectoryKind kind) const { return floor_ == phase_of(kind, options_); }
  /// Hands out groups while replicas have room.
  void hand_out(double now, Out& out);
  /// Returns true if every group has been played.
  bool is_played(RoundKey round) const;
  /// Returns true if no admitted group waits for a replica that plays it.
  bool is_leased(RoundKey round) const { return find(round)->is_leased(); }
  /// Returns true if nothing of the round is open on a replica, or asked of the trainer.
  bool is_quiet(RoundKey round) const;
  /// Returns true if groups are left and no replica could play them.
  bool is_stranded(RoundKey round) const;
  /// Returns true if no lease is open.
  bool is_idle() const { return leases_.empty(); }
  /// Every group so far has been played once: learns which replicas were slow, and how long answers
  /// are.
  void end_playing(RoundKey round, Out& out);
  /// All of the round is recorded: who still plays a group of it need not go on, and a lease whose
  /// answer was lost ends.
  void collected(RoundKey round, Out& out);
  void close(RoundKey round, Out& out);

  // -- what is told

  void on_served(const std::vector<uint32_t>& cards, uint64_t version, Out& out);
  void on_ended(const LeaseEnded& ended, double now, Out& out);
  /// Returns why the run may have to end; nothing if the lease is of no interest any more.
  std::optional<Failure> on_failed(const LeaseFailed& failed, Out& out);
  void on_pong(const Pong& pong, double now);
  void on_lost(const CardsLost& lost, Out& out);
  void on_back(const CardsBack& back, Out& out);
  /// Returns why the run ends: too many groups kill their players.
  std::optional<Failure> on_recorded(const Recorded& recorded, Out& out);
  void on_masked(const Masked& masked);
  void on_leave(const LeaveAsked& leave, double now, Out& out);
  void on_time(double now, Out& out);

  bool is_open(uint64_t lease) const { return leases_.contains(lease); }
  /// Returns when on_time() has something to do.
  std::optional<double> due() const;
  Standing standing(uint32_t replica) const { return replicas_.at(replica).standing; }
  void assert_invariants() const;

 private:
  struct Replica {
    uint32_t card = 0;
    Standing standing = Standing::back;
    uint32_t times_lost = 0;
    double moved = 0;  // when it got or ended a lease, or said that it gets on
    double asked = 0;  // when it was pinged
    uint64_t done = 0;
  };
  struct OpenLease {
    uint32_t replica = 0;
    RoundKey round;
    std::vector<DispatchPart> parts;
    bool is_cancelled = false;  // another has played it; its end is still to be told
  };
  struct AskedPing {
    uint32_t replica = 0;
    double asked = 0;
  };
  /// Replicas that are to go when they have played their leases.
  struct Leave {
    std::vector<uint32_t> replicas;
    double until = 0;
  };
  /// A process that was lost, and its replicas' groups of a round.
  struct Loss {
    RoundKey round;
    std::vector<uint32_t> replicas;
    Death death;
    bool is_away = false;
    std::vector<uint32_t> open, again, ended;  // groups: had, to be played again, played
  };

  Round* find(RoundKey key);
  const Round* find(RoundKey key) const;
  void play(Round& round, uint32_t group, Out& out);
  bool can_play(uint32_t replica, TrajectoryKind kind) const;
  size_t open_groups(uint32_t replica) const;
  void choose_players(Round& round);
  void lease(Round& round, const std::vector<DispatchPart>& parts, double now, Out& out);
  void lease_one(Round& round, const std::vector<DispatchPart>& parts, double now, Out& out);
  void hedge_late(Round& round, double now, Out& out);
  bool take_end(Round& round, uint32_t replica, const DispatchPart& part, uint64_t tokens,
                double now, Out& out);
  void cancel(const Round& round, uint32_t group, uint32_t replica, Out& out);
  void play_again(Round& round, Loss loss, Out& out);
  std::optional<Failure> blame(Round& round, const Death& death, const std::vector<uint64_t>& open,
                               Out& out);
  std::optional<Failure> quarantine(Round& round, uint32_t group, Out& out);
  void mask(Round& round, uint32_t group, std::string reason, Out& out);
  void judge(uint32_t replica, Judgement judgement, std::string text, Out& out);
  void end_leaves(Out& out);
  void look_later(double now);
  void moved(uint32_t replica, double now);
  void ping(double now, Out& out);
  std::optional<double> ping_period_s() const;

  static constexpr double k_pings_per_limit = 4;

  const RunOptions& options_;
  std::vector<Replica> replicas_;
  std::deque<Round> rounds_;  // open ones
  std::optional<PhaseKind> floor_;
  uint64_t version_ = 0;                  // that is served
  std::map<uint64_t, OpenLease> leases_;  // by number
  uint64_t last_lease_ = 0;
  std::map<uint64_t, Loss> questions_;  // by number
  uint64_t last_question_ = 0;
  std::map<uint64_t, AskedPing> pings_;  // by number
  uint64_t last_ping_ = 0;
  std::optional<double> ping_at_;
  std::map<uint64_t, Leave> leaves_;             // by number
  std::map<std::string, uint64_t> quarantined_;  // prompt: since which step
  SlowReplicas slow_;
  double response_tokens_ = 0;  // of a trajectory, mean of the last round
};

}  // namespace cohort::plan::run

#pragma once
/// Rollout: plays leased groups of trajectories with a generation engine and the environments.
/// Owner: node. Thread: CAF's scheduler for the routing, or a thread of its own if its engine or an
/// environment waits for others; generation runs on the engine's threads, weights are written by
/// the member of its WeightExchange. Bound: leases of open_batches_max kinds and steps at a time
/// (another is refused with backpressure), of which max_open_games games are open; the frames it
/// has not yet handed to the reward link are at most the trajectories of its leases (FLOW-4).
/// PLACE-4: a lease is refused unless infer_params and kv_cache are on the card. PLACE-5: a lease
/// is refused unless the engine serves exactly the leased version; where it plays on over a commit,
/// that version or a later one. A trajectory leaves for the reward actor as soon as it is finished,
/// in small batches. Turns are interrupted (unfinished.hpp) for the commit of an engine that is
/// cut, and for a checkpoint.
/// SCHEDULE-1: of a lease with spans each token is sampled by the version that they name. A turn is
/// taken out of the engine where the next version is to go on with it; and a commit waits until no
/// trajectory of such a lease is left with tokens of the version that is served.
/// LEASE-1: a lease is known by its number alone. Numbers rise; one that does not is refused. What
/// is said of a lease that is over (a cancel, a turn, an environment's answer) touches no other,
/// not even of the same group.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/roles/environment_actor.hpp"
#include "actors/roles/role_parts.hpp"
#include "actors/roles/turn_requests.hpp"
#include "actors/roles/unfinished.hpp"
#include "actors/roles/weight_exchange.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/generate/generation_engine.hpp"
#include "runtime/plan/flow/recorded_schedule.hpp"
#include "runtime/tasks/tokenizer.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::actors {

/// Takes a frame, or returns Errc::backpressure: offer it again.
using FrameSink = std::function<Expected<void>(transport::Message)>;

struct RolloutOptions {
  std::string role = "actor_infer";
  uint32_t replica = 0;
  uint64_t seed = 0;
  std::string run_id;
  /// Opens the engine; it may wait for the other ranks of the replica. Leases go to the rank whose
  /// engine takes turns.
  std::function<Expected<std::unique_ptr<compute::GenerationEngine>>()> open_engine;
  const compute::CardMemory* card = nullptr;  // outlives the actor
  compute::SamplingOptions sampling, held_out_sampling;
  bool has_greedy_answer = false;   // of each group of training the last is the likeliest
  bool has_demonstrations = false;  // … the last is the row's own answer, where it has one
  size_t max_open_games = 256;      // trajectories between their first and last turn
  size_t open_batches_max = 1;      // kinds and steps of the leases that are open
  /// It plays on while a version is committed: async.mode fully_async (docs/async.md).
  bool is_flowing = false;
  bool keeps_cache = false;   // over such a commit
  bool is_cut = false;        // its engine is a rank of several, which commit one after the other
  int sequence_length = 256;  // [tokens] limit of a context: of a trajectory, but where turns are
                              // asked anew
  std::vector<int32_t> stop_ids;          // each ends a turn
  std::vector<std::string> stop_strings;  // so does each of these texts
  size_t frame_trajectories = 32;         // a frame leaves when so many are finished, ...
  int flush_delay_ms = 5;                 // ... or so long after the first of them
  std::shared_ptr<const tasks::Tokenizer> tokenizer;
  std::map<std::string, std::shared_ptr<const EnvironmentOptions>> environments;  // by tag
  std::shared_ptr<WeightExchange> exchange;
  /// Opens the way to the rewards; what it is given is called when the way is lost.
  std::function<Expected<FrameSink>(std::function<void(Error)>)> open_output;
  std::string output_name = "rollout output";  // of that way: the link's, with the attempt
  std::shared_ptr<const void> keeps;           // card and context: an actor may end after its node
  FailureSink fail;
};

class RolloutState {
 public:
  static inline const char* name = "rollout";
  explicit RolloutState(RolloutActor::pointer self) : self_(self) {}
  ~RolloutState();

  Expected<void> open(RolloutOptions options);
  caf::result<control::CardReply> on_card(const control::CardCommand& command);
  caf::result<control::LeaseReport> on_lease(const control::Lease& lease);
  void on_outputs(const TurnOutputs& outputs);
  void on_env_turn(const EnvTurn& turn);
  void on_transcript(const Transcript& game);
  void on_open();
  void on_watch();
  void on_flush();
  void on_failure(const control::Failure& failure);
  void on_arrived(const Arrival& arrived);
  uint64_t on_ping();
  void on_cancel(uint64_t number);
  caf::result<bool> on_save(const std::string& folder);
  caf::result<bool> on_load(const std::string& folder);

 private:
  struct Episode {
    proto::Trajectory trajectory;
    EnvironmentActor environment;
    uint64_t rng_key = 0;
    uint32_t turn = 0;
    std::vector<int32_t> prompt_tokens;  // appended with the next answer
    std::string observation;
    std::vector<std::pair<std::string, double>> metrics;  // that the environment counts
    double started = 0;
    double generate_started = 0;
    double env_asked = 0;  // > 0 while the environment has the move
    bool is_finished = false;
    bool is_scripted = false;                     // nobody samples it
    size_t context_begin = 0;                     // token from which on the policy reads
    size_t in_engine = 0;                         // tokens from there that the engine has
    bool is_answering = false;                    // the policy has the move
    bool has_turn = false;                        // in the engine
    compute::TurnOutput partial;                  // of the open turn, from before an interruption
    std::optional<proto::Trajectory> unfinished;  // from a checkpoint: it goes on with that
    std::vector<uint32_t> spans;                  // whose policies sample it; empty: any
    size_t answered = 0;                          // tokens sampled in earlier turns
    size_t portion = 0;  // of the turn in the engine: tokens until another policy goes on; 0: all
  };

  struct OpenLease {
    control::Lease lease;
    caf::typed_response_promise<control::LeaseReport> promise;
    std::vector<Episode> episodes;                  // [group][index], those that are to be played
    std::vector<std::pair<size_t, uint32_t>> keys;  // of each: position of its group, index
    size_t opened = 0, finished = 0;
    uint64_t response_tokens = 0;
  };
  struct Place {          // of a trajectory
    uint64_t number = 0;  // of the lease
    size_t slot = 0;
    OpenLease* lease = nullptr;
    Episode* episode = nullptr;
  };

  static constexpr int k_request_slot_bits = 24;  // above them the lease's number
  static uint64_t request_id(uint64_t number, size_t slot) {
    return (number << k_request_slot_bits) | slot;
  }
  using BatchKey = std::pair<TrajectoryKind, uint64_t>;  // kind and step
  static BatchKey batch_of(const control::Lease& lease) { return {lease.kind, lease.step}; }
  struct Batch {
    double started = 0;           // when its first lease came
    compute::EngineStats before;  // of the engine, then
  };
  std::set<BatchKey> open_batches() const;
  Expected<void> check_number(const control::Lease& lease) const;
  Expected<void> check_lease(const control::Lease& lease) const;
  bool open_next();
  void reload_worlds();
  void watch_again();
  EnvironmentActor take_environment(const std::string& tag);
  void open_episode(uint64_t number, OpenLease& open, size_t slot);
  std::optional<Place> place_of(uint64_t request);
  int room_for(const Episode& episode) const;
  AnswerBounds bounds_of(const std::string& tag) const;
  void begin_turn(const Place& at, const EnvTurn& turn);
  void submit_turn(const Place& at);
  void end_turn(const Place& at, compute::TurnOutput output);
  void interrupt(std::function<void()> then);
  void go_on();
  void turn_left(Episode& episode);
  void leave_engine(const Place& at);
  void end_interruption();
  std::optional<plan::NextSpan> next_span_of(const Episode& episode) const;
  bool needs_served_policy() const;
  void commit_if_due();
  tasks::PolicyAnswer counted(const Episode& episode, const compute::TurnOutput& output) const;
  void append_answer(Episode& episode, const compute::TurnOutput& output);
  static void note_answered(Episode& episode, const EnvTurn& turn);
  void finish_episode(const Place& at, std::string stop_reason, bool is_success);
  void send_frames();
  void drop_finished(uint64_t number);
  control::LeaseReport report_of(const OpenLease& lease) const;
  void report_done();
  void release(uint64_t number, OpenLease& lease);
  void fail_leases(const Place& at, const std::string& what, const Error& error);
  void fail_leases(uint64_t number, const std::string& what, const Error& error);
  caf::result<control::CardReply> on_arrival_asked(const control::CardCommand& command);
  caf::result<control::CardReply> on_commit(const control::CardCommand& command);
  Expected<void> serve(uint64_t version);
  TrajectoryBatch unfinished() const;

  RolloutActor::pointer self_;
  RolloutOptions options_;
  std::unique_ptr<compute::GenerationEngine> engine_;
  struct Arriving {
    control::CardCommand command;
    caf::typed_response_promise<control::CardReply> promise;
    double started = 0;
  };
  Arriving arriving_;  // the version under way
  FrameSink output_;
  std::map<std::string, std::vector<EnvironmentActor>> idle_environments_;  // by tag

  uint64_t last_number_ = 0;
  std::map<uint64_t, OpenLease> leases_;  // by number
  std::map<BatchKey, Batch> batches_;     // open ones, and the last
  uint64_t turns_ = 0;  // of the environments, and waits for a slow consumer: see on_ping
  size_t open_games_ = 0;
  size_t turns_in_engine_ = 0;
  std::vector<std::function<void()>> interruptions_;  // what to do once no turn is in the engine
  bool waits_for_phase_ = false;      // is_cut: the other ranks have not committed yet
  std::vector<uint64_t> held_;        // requests whose turns wait for both, or for their policy
  std::function<void()> due_commit_;  // waits for what its predecessor is still to sample
  bool is_scheduled_ = false;         // a lease has said whose policies sample
  bool is_off_schedule_ = false;      // a trajectory went on with another policy
  std::map<proto::TrajectoryKey, proto::Trajectory> restored_;  // of a checkpoint, not taken up yet
  RecorderActor recorder_;                                      // that writes and reads those
  bool is_open_queued_ = false, is_flush_queued_ = false, is_watching_ = false;
  std::vector<proto::Trajectory> finished_;
  std::vector<uint64_t> finished_of_;  // the lease of each
  Wait wait_turns_;                    // while turns are in the engine
  Wait wait_credit_;                   // while a frame waits for credit
  bool has_credit_wait_ = false;
  std::vector<uint64_t> done_;  // leases whose trajectories are in finished_ or gone
};

RolloutActor::behavior_type rollout(RolloutActor::stateful_pointer<RolloutState> self,
                                    RolloutOptions options);

}  // namespace cohort::actors

#pragma once
/// Rollout: plays leased groups of trajectories with the generation engine and the environments.
/// Owner: node. Thread: CAF's scheduler for the routing; generation runs on the engine's lanes,
/// weights are written by the member of its WeightExchange. Bound: one lease at a time (a second
/// one is refused with backpressure); the frames it has not yet handed to the reward link are at
/// most the trajectories of that lease (FLOW-4). PLACE-4: a lease is refused unless infer_params
/// and kv_cache are on the card. PLACE-5: a lease is refused unless the engine serves exactly the
/// leased version. A trajectory leaves for the reward actor as soon as it is finished, in small
/// batches.
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/environment.hpp"
#include "actors/roles.hpp"
#include "actors/weight_exchange.hpp"
#include "runtime/compute/generation.hpp"
#include "runtime/tasks/tokenizer.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::actors {

using FailureSink = std::function<void(control::Failure)>;

struct RolloutOptions {
  std::string role = "actor_infer";
  uint32_t replica = 0;
  uint64_t seed = 0;
  std::string run_id;
  compute::GenerationOptions engine;
  /// Tensor parallelism: the replica's groups, one per lane; joined at start, so that the actor
  /// must have a thread of its own. Rank 0 gets the leases. Empty: the replica is one card.
  std::vector<compute::GroupOptions> groups;
  /// Told of each group once it is joined: whoever ends the run ends waiting ranks through it.
  std::function<void(std::shared_ptr<compute::Collectives>)> on_group;
  compute::SamplingOptions sampling;
  int max_tokens_per_turn = 16;
  size_t max_open_games = 256;          // trajectories between their first and last turn
  int sequence_length = 256;            // [tokens] context limit of a trajectory
  std::vector<std::string> stop_texts;  // special tokens that end a turn
  size_t frame_trajectories = 32;       // a frame leaves when so many are finished, ...
  int flush_delay_ms = 5;               // ... or so long after the first of them
  std::shared_ptr<const tasks::Tokenizer> tokenizer;
  std::map<std::string, std::shared_ptr<const EnvironmentOptions>> environments;  // by tag
  transport::Context* context = nullptr;
  std::shared_ptr<WeightExchange> exchange;
  transport::LinkOptions output_link;  // of a replica's first card
  std::shared_ptr<const void> keeps;   // card and context: an actor may end after its node
  int environment_timeout_ms = 60000;
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
  void on_open(uint64_t lease_serial);
  void on_watch(uint64_t lease_serial);
  void on_flush();
  void on_failure(const control::Failure& failure);
  void on_arrived(const Arrival& arrived);

 private:
  struct Episode {
    proto::Trajectory trajectory;
    EnvironmentActor environment;
    uint64_t rng_key = 0;
    uint32_t turn = 0;
    std::vector<int32_t> prompt_tokens;  // appended with the next answer
    std::string observation;
    double started = 0;
    double generate_started = 0;
    double env_asked = 0;  // > 0 while the environment has the move
    bool is_finished = false;
  };

  bool is_follower() const { return !options_.groups.empty() && options_.groups[0].rank > 0; }
  Expected<void> join_groups();
  Expected<void> check_lease(const control::Lease& lease) const;
  const EnvironmentActor& pooled_environment(const std::string& tag, size_t position);
  void open_episode(size_t slot);
  Episode* episode_of(uint64_t request);
  void begin_turn(size_t slot, const EnvTurn& turn);
  void append_answer(Episode& episode, const compute::TurnOutput& output);
  void finish_episode(size_t slot, std::string stop_reason, bool is_success);
  void send_frames(bool is_last);
  void maybe_report();
  void fail_lease(size_t slot, const std::string& what, const Error& error);
  caf::result<control::CardReply> on_arrival_asked(const control::CardCommand& command);
  Expected<uint64_t> serve(uint64_t version);
  uint64_t request_id(size_t slot) const { return (lease_serial_ << 24) | slot; }

  RolloutActor::pointer self_;
  RolloutOptions options_;
  std::vector<int32_t> stop_ids_;
  std::unique_ptr<compute::GenerationEngine> engine_;
  struct Arriving {
    control::CardCommand command;
    caf::typed_response_promise<control::CardReply> promise;
    double started = 0;
  };
  Arriving arriving_;             // the version under way
  std::span<std::byte> arrival_;  // where it is written, until it is committed
  std::unique_ptr<transport::Sender> output_;
  std::map<std::string, std::vector<EnvironmentActor>> environments_;

  uint64_t lease_serial_ = 0;
  control::Lease lease_;
  bool is_active_ = false;
  caf::typed_response_promise<control::LeaseReport> promise_;
  std::vector<Episode> episodes_;
  size_t opened_count_ = 0;
  std::map<std::string, size_t> used_environments_;  // of each tag's pool
  std::vector<proto::Trajectory> finished_;
  size_t finished_count_ = 0;
  bool is_flush_queued_ = false;
  double lease_started_ = 0;
  compute::GenerationStats stats_at_start_;
};

RolloutActor::behavior_type rollout(RolloutActor::stateful_pointer<RolloutState> self,
                                    RolloutOptions options);

}  // namespace cohort::actors

#pragma once
/// Node: spawns the role actors of this process, links them over ZeroMQ, watches them, and says why
/// one died. Owner: main. Thread: CAF's scheduler. It monitors every role; the reward actor, which
/// holds nothing that its producers do not still hold, is restarted (at most k_reward_restarts
/// times a run); any other death ends the run with the role's name and reason as its first cause.
///   (start) -> runs the pipeline; (stop) -> to the driver; result through NodeOptions::on_end,
///   once.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/driver.hpp"
#include "actors/preflight.hpp"
#include "actors/reward.hpp"
#include "actors/run_folder.hpp"
#include "runtime/compute/train_engine.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::actors {

inline constexpr int k_reward_restarts = 3;

using NodeActor =
    caf::typed_actor<caf::reacts_to<control::start_atom>, caf::reacts_to<control::stop_atom>,
                     caf::reacts_to<control::fail_atom, control::Failure>,
                     caf::replies_to<control::flush_atom>::with<bool>>;

struct NodeOptions {
  config::RunConfig config;
  Preflight plan;
  RunFolder folder;
  std::shared_ptr<stream::Writer> writer;  // null: recording is off
  RunLog* log = nullptr;
  std::function<void(RunResult)> on_end;
  /// Told of every role actor that starts, restarts included. May be empty.
  std::function<void(const std::string& role, const caf::actor_addr& actor)> on_spawn;
};

class NodeState {
 public:
  static inline const char* name = "node";
  explicit NodeState(NodeActor::pointer self) : self_(self) {}
  void open(NodeOptions options);
  void on_start();
  void on_stop();
  void on_fail(const control::Failure& failure);
  void on_down(const caf::down_msg& message);
  bool on_shutdown();

 private:
  template <class Handle>
  Handle watch(Handle handle, const std::string& role);
  transport::LinkOptions link(const std::string& endpoint, const std::string& name) const;
  uint64_t step_bytes() const;
  compute::TrainEngineOptions train_options(CardId card, const std::string& role, bool is_frozen);
  compute::CardMemory* card(CardId id);
  std::shared_ptr<const void> keeps(CardId id) const;
  void spawn_trainer();
  void spawn_hops();
  void spawn_rollouts();
  void spawn_reward();
  void spawn_head();
  FailureSink failure_sink();
  bool has_reference_phase() const;

  NodeActor::pointer self_;
  NodeOptions options_;
  std::shared_ptr<transport::Context> context_;
  std::map<CardId, std::shared_ptr<compute::CardMemory>> cards_;
  std::map<caf::actor_addr, std::string> roles_;
  std::vector<RewardFunction> rewards_;
  RecorderActor recorder_;
  TrainWorkerActor worker_;
  TrainerActor trainer_;
  ReferenceActor reference_;
  RewardActor reward_;
  std::vector<RolloutActor> rollouts_;
  PlacementActor placement_;
  DriverActor driver_;
  int reward_restarts_ = 0;
  bool is_shutting_down_ = false;
};

NodeActor::behavior_type node(NodeActor::stateful_pointer<NodeState> self, NodeOptions options);

}  // namespace cohort::actors

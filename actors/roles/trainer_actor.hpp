#pragma once
/// Trainer: the collector in front of the training engine. A delivered trajectory is checked
/// against what the step expects, written to the stream, and only then acknowledged and counted.
/// Every rank of actor_train (one per card) gets the whole step and computes its share; their
/// reports must agree. Owner: node. Thread: CAF's scheduler; the engines are on the train workers'
/// threads, here or in other processes. Bound: the
/// trajectories of the steps it was told to expect; an unexpected one is refused, recorded as an
/// event, and acknowledged. A group that is not played (mask) has its places filled with masked
/// trajectories, so that the step is whole; one of it that came before is recorded again, masked,
/// and the later record counts. FLOW-1: a trajectory (kind, step, group, index) is handed to the
/// engine at most once. FLOW-2: recorded before ack. FLOW-3: see check_staleness. Messages:
/// TrainerActor in role_handles.hpp.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/roles/role_handles.hpp"
#include "actors/roles/rollout_actor.hpp"
#include "runtime/plan/flow/collector.hpp"

namespace cohort::actors {

/// One rank of actor_train: a worker in this process, or one in another, which gets its batches
/// over a link.
struct TrainRank {
  CardId card;
  TrainWorkerActor worker;
  TrainRankActor remote;           // if not worker
  transport::LinkOptions batches;  // likewise
};

struct TrainerOptions {
  transport::Context* context = nullptr;
  transport::LinkOptions input;
  RecorderActor recorder;
  std::vector<TrainRank> ranks;  // in the order of actor_train's cards
  int record_timeout_ms = 60000;
  int compute_timeout_ms = 3600000;  // ROLL's rpc_timeout
  FailureSink fail;
};

class TrainerState {
 public:
  static inline const char* name = "trainer";
  explicit TrainerState(TrainerActor::pointer self) : self_(self) {}
  Expected<void> open(TrainerOptions options);
  void on_delivery(const DeliveryHandle& delivery);
  caf::result<bool> on_expect(const control::CollectRequest& request);
  caf::result<control::CollectReport> on_collect(TrajectoryKind kind, uint64_t step);
  caf::result<control::RecordedReport> on_recorded_asked(TrajectoryKind kind, uint64_t step);
  caf::result<bool> on_mask(const control::MaskRequest& request);
  caf::result<control::UpdateReport> on_update(const control::UpdateRequest& request);
  caf::result<control::CheckpointReport> on_save(const control::CheckpointRequest& request);
  caf::result<control::CheckpointReport> on_load(const control::CheckpointRequest& request);

 private:
  template <class Report>
  struct Agreement;
  template <class Report, class... Args>
  void ask(size_t rank, const std::shared_ptr<Agreement<Report>>& agreement, const Args&... args);
  template <class Report>
  std::shared_ptr<Agreement<Report>> agreement(std::string what);
  template <class Atom>
  caf::result<control::CheckpointReport> checkpoint(Atom atom,
                                                    const control::CheckpointRequest& request,
                                                    std::string what);
  Expected<void> send_batch(size_t rank, const std::vector<proto::Trajectory>& batch);
  struct Step {
    uint32_t group_size = 0;
    std::vector<proto::Trajectory> trajectories;  // recorded
    std::map<uint32_t, std::string> masks;        // reason by group that is not played
    caf::typed_response_promise<control::CollectReport> waiting;
    bool has_waiting = false;
  };
  void record(const std::shared_ptr<std::vector<proto::Trajectory>>& batch,
              std::function<void()> then);
  void keep(const TrajectoryBatch& batch);
  void maybe_complete(plan::StepKey key, Step& step);

  TrainerActor::pointer self_;
  TrainerOptions options_;
  std::unique_ptr<transport::Receiver> input_;
  std::vector<std::unique_ptr<transport::Sender>> batches_;  // by rank; null: in this process
  plan::Collector collector_;
  std::map<plan::StepKey, Step> steps_;
};

/// FLOW-3. Returns Errc::protocol, naming the trajectory, if a token is more than `bound` versions
/// older than the policy that it is to train.
Expected<void> check_staleness(const std::vector<proto::Trajectory>& batch, uint64_t policy_version,
                               uint64_t bound);

/// Metrics of a finished batch: rollout/score/*, rollout/response_length/*, reward/mean,
/// env/<tag>/*, success.
std::vector<std::pair<std::string, double>> rollout_metrics(
    const std::vector<proto::Trajectory>& batch);

/// Returns the share of successes of each tag that has them, by tag.
std::vector<std::pair<std::string, double>> success_by_tag(
    const std::vector<proto::Trajectory>& batch);

TrainerActor::behavior_type trainer(TrainerActor::stateful_pointer<TrainerState> self,
                                    TrainerOptions options);

}  // namespace cohort::actors

#include "actors/roles/train_rank.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/control/request.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::actors {

using namespace control;

namespace {

class TrainRankState {
 public:
  static inline const char* name = "train_rank";
  explicit TrainRankState(TrainRankActor::pointer self) : self_(self) {}
  ~TrainRankState() { input_.reset(); }
  Expected<void> open(TrainRankOptions options) {
    options_ = std::move(options);
    batch_ = std::make_shared<std::vector<proto::Trajectory>>();
    COHORT_ASSIGN(input_, open_input(*options_.context, options_.input, options_.role,
                                     TrainRankActor{self_}, options_.fail));
    return {};
  }
  void on_delivery(const DeliveryHandle& delivery) {
    auto decoded = decode_frame(delivery->message);
    if (!decoded) return options_.fail({options_.role, "batch", decoded.error().to_string()});
    for (proto::Trajectory& t : *decoded) batch_->push_back(std::move(t));
    delivery->ack();
    maybe_update();
  }
  caf::result<control::UpdateReport> on_update(const UpdateRequest& request) {
    if (is_asked_)
      return to_caf(
          {Errc::backpressure, fmt::format("update of step {} while that of step {} is under way",
                                           request.step, request_.step)});
    is_asked_ = true;
    request_ = request;
    promise_ = self_->make_response_promise<UpdateReport>();
    auto promise = promise_;
    maybe_update();
    return promise;
  }
  const TrainWorkerActor& worker() const { return options_.worker; }

 private:
  void maybe_update() {
    if (!is_asked_ || batch_->size() < request_.trajectories) return;
    is_asked_ = false;
    auto batch = std::exchange(batch_, std::make_shared<std::vector<proto::Trajectory>>());
    auto promise = promise_;
    for (const proto::Trajectory& t : *batch) {
      if (t.key.kind == request_.kind && t.key.step == request_.step) continue;
      promise.deliver(to_caf(
          {Errc::protocol, fmt::format("FLOW-1: a trajectory of step {} has come for the update "
                                       "of step {}",
                                       t.key.step, request_.step)}));
      return;
    }
    send_request(
        self_, options_.worker, std::chrono::milliseconds(options_.compute_timeout_ms),
        [promise](const UpdateReport& report) mutable { promise.deliver(report); },
        [promise](caf::error& e) mutable { promise.deliver(std::move(e)); }, update_atom_v,
        request_, TrajectoryBatch(batch));
  }

  TrainRankActor::pointer self_;
  TrainRankOptions options_;
  TrajectoryBatch batch_;
  bool is_asked_ = false;
  control::UpdateRequest request_;
  caf::typed_response_promise<control::UpdateReport> promise_;
  std::unique_ptr<transport::Receiver> input_;
};

TrainRankActor::behavior_type train_rank(TrainRankActor::stateful_pointer<TrainRankState> self,
                                         TrainRankOptions options) {
  const std::string role = options.role;
  open_or_quit(self, role, std::move(options));
  TrainRankState* state = &self->state;
  return {
      [state](deliver_atom, const DeliveryHandle& delivery) { state->on_delivery(delivery); },
      [self](card_atom atom, const CardCommand& command) {
        return self->delegate(self->state.worker(), atom, command);
      },
      [state](update_atom, const UpdateRequest& request) { return state->on_update(request); },
      [self](save_atom atom, const CheckpointRequest& request) {
        return self->delegate(self->state.worker(), atom, request);
      },
      [self](load_atom atom, const CheckpointRequest& request) {
        return self->delegate(self->state.worker(), atom, request);
      },
  };
}

}  // namespace

TrainRankActor spawn_train_rank(caf::actor_system& system, TrainRankOptions options) {
  return system.spawn(train_rank, std::move(options));
}

}  // namespace cohort::actors

#include "actors/roles/train_rank.hpp"

#include <fmt/format.h>

#include "actors/roles/hop.hpp"
#include "runtime/control/request.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::actors {

using namespace control;

Expected<void> TrainRankState::open(TrainRankOptions options) {
  options_ = std::move(options);
  batch_ = std::make_shared<std::vector<proto::Trajectory>>();
  auto address = TrainRankActor{self_};
  FailureSink fail = options_.fail;
  COHORT_ASSIGN(input_, transport::Receiver::open(
                            *options_.context, options_.input,
                            [address](transport::Delivery delivery) {
                              caf::anon_send(
                                  address, deliver_atom_v,
                                  std::make_shared<transport::Delivery>(std::move(delivery)));
                            },
                            [fail](const std::string& peer, Error error) {
                              fail(control::failure_of_link("actor_train", peer, error));
                            }));
  return {};
}

void TrainRankState::on_delivery(const DeliveryHandle& delivery) {
  auto decoded = decode_frame(delivery->message);
  if (!decoded) return options_.fail({"actor_train", "batch", decoded.error().to_string()});
  for (proto::Trajectory& t : *decoded) batch_->push_back(std::move(t));
  delivery->ack();
  maybe_update();
}

caf::result<UpdateReport> TrainRankState::on_update(const UpdateRequest& request) {
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

void TrainRankState::maybe_update() {
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
      [promise](caf::error& e) mutable { promise.deliver(std::move(e)); }, update_atom_v, request_,
      TrajectoryBatch(batch));
}

TrainRankActor::behavior_type train_rank(TrainRankActor::stateful_pointer<TrainRankState> self,
                                         TrainRankOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  FailureSink fail = options.fail;
  if (auto opened = self->state.open(std::move(options)); !opened) {
    fail({"actor_train", "start", opened.error().to_string()});
    self->quit(to_caf(opened.error()));
  }
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

}  // namespace cohort::actors

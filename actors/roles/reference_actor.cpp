#include "actors/roles/reference_actor.hpp"

#include <fmt/format.h>

#include "actors/roles/context_samples.hpp"
#include "actors/roles/weight_parts.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/base/waits.hpp"

namespace cohort::actors {

using namespace control;

namespace {

class ReferenceState {
 public:
  static inline const char* name = "reference";
  explicit ReferenceState(ReferenceActor::pointer self) : self_(self) {}
  ~ReferenceState() {
    hop_.reset();  // its pump calls back into this state
  }
  Expected<void> open(ReferenceOptions options) {
    options_ = std::move(options);
    has_turn_ = !options_.takes_turns;
    // The way in first: who sends waits for it, and a large model takes its time.
    COHORT_ASSIGN(hop_,
                  open_hop(options_.hop, options_.role, ReferenceActor{self_}, options_.fail));
    COHORT_ASSIGN(engine_, compute::TrainEngine::create(options_.engine));
    if (!options_.weights_from.empty()) COHORT_TRY(engine_->load_model(options_.weights_from));
    return {};
  }
  caf::result<control::CardReply> on_card(const CardCommand& command) {
    using Verb = plan::Command::Verb;
    CardReply reply = reply_to(command);
    if (command.command.verb == Verb::reshard && command.stage == PublishStage::seat) {
      if (auto seated = options_.exchange->reseat(command.epoch, command.absent); !seated)
        return to_caf(seated.error());
      return reply;
    }
    if (command.command.verb == Verb::reshard) {
      auto done = command.stage == PublishStage::exchange ? take_arrival(command) : serve(command);
      if (!done) return to_caf(done.error());
      read_memory(*options_.engine.card, *done);
      return *done;
    }
    take_turn(command.command.verb, command.command.phase);
    if (command.command.verb == Verb::begin_phase) {
      read_memory(*options_.engine.card, reply);
      return reply;
    }
    auto done = command.command.verb == Verb::onload
                    ? engine_->onload(compute::TrainObject::train_params)
                    : engine_->offload(compute::TrainObject::train_params);
    if (!done) return to_caf(done.error());
    release();
    return reply_with(*options_.engine.card, reply, *done);
  }
  void on_delivery(const DeliveryHandle& delivery) {
    auto fail = [this](const Error& error) {
      options_.fail({options_.role, "log_probs", error.to_string()});
    };
    const Wait wait({WaitLevel::call, options_.role, "its log-probabilities of a frame",
                     "the end of its forward pass"});
    failpoint::hit(options_.role + ".delivery");
    auto batch = hop_->decode(*delivery);
    if (!batch) return fail(batch.error());
    std::vector<proto::Trajectory*> wanted;
    for (proto::Trajectory& t : *batch)
      if (options_.work.wants(t)) wanted.push_back(&t);
    if (!wanted.empty() && !may_compute()) {
      held_.push_back(delivery);
      return;
    }
    if (!wanted.empty())
      if (auto done = options_.work.read(*engine_, wanted); !done) return fail(done.error());
    failpoint::hit(options_.role + ".computed");
    if (auto sent = hop_->forward(std::move(*batch), delivery); !sent) fail(sent.error());
  }
  void on_flush() {
    if (auto left = hop_->flush(); !left)
      options_.fail({options_.role, "forward", left.error().to_string()});
  }

 private:
  void take_turn(plan::Command::Verb verb, plan::PhaseKind phase) {
    if (!options_.takes_turns) return;
    if (verb == plan::Command::Verb::offload) has_turn_ = false;
    if (verb != plan::Command::Verb::begin_phase || phase != plan::PhaseKind::reference) return;
    has_turn_ = true;
    release();
  }
  bool may_compute() const {
    return has_turn_ && engine_->is_on_card(compute::TrainObject::train_params);
  }
  // What waits is sent again to itself: the answer to placement comes before the computing.
  void release() {
    if (!may_compute()) return;
    for (DeliveryHandle& delivery : held_)
      caf::anon_send(ReferenceActor{self_}, deliver_atom_v, std::move(delivery));
    held_.clear();
  }
  // First step of its reshard: the weights arrive beside those that it has.
  Expected<control::CardReply> take_arrival(const CardCommand& command) {
    double start = now_seconds();
    COHORT_ASSIGN(arrival_, compute::allocate_host(engine_->weight_bytes()));
    std::span<std::byte> flat(arrival_.get(), engine_->weight_bytes());
    COHORT_ASSIGN(
        publish::PublishReport report, wait_for([&](publish::OnEnd on_end) {
          options_.exchange->accept(
              command.version,
              target_of(engine_->layout(), tensor::size_of(engine_->config().dtype), flat),
              std::move(on_end));
        }));
    CardReply reply = reply_to(command);
    reply.checksum = report.sum;
    reply.bytes_moved = report.received_bytes;
    reply.seconds = now_seconds() - start;
    return reply;
  }
  Expected<control::CardReply> serve(const CardCommand& command) {
    COHORT_TRY(options_.exchange->commit(command.version));
    std::span<const std::byte> flat(arrival_.get(), engine_->weight_bytes());
    CardReply reply = reply_to(command);
    COHORT_TRY(engine_->load_weights(0, flat));
    arrival_.reset();
    return reply;
  }

  ReferenceActor::pointer self_;
  ReferenceOptions options_;
  std::unique_ptr<compute::TrainEngine> engine_;
  std::unique_ptr<Hop> hop_;
  bool has_turn_ = true;
  std::vector<DeliveryHandle> held_;
  std::shared_ptr<std::byte> arrival_;  // weights that are not loaded yet
};

ReferenceActor::behavior_type reference(ReferenceActor::stateful_pointer<ReferenceState> self,
                                        ReferenceOptions options) {
  const std::string role = options.role;
  open_or_quit(self, role, std::move(options));
  ReferenceState* state = &self->state;
  return {
      [state](card_atom, const CardCommand& command) { return state->on_card(command); },
      [state](deliver_atom, const DeliveryHandle& delivery) { state->on_delivery(delivery); },
      [state](flush_atom) { state->on_flush(); },
  };
}

}  // namespace

FrozenWork frozen_log_probs(std::vector<float> proto::Trajectory::*column, bool reads_held_out) {
  FrozenWork work;
  work.wants = [reads_held_out](const proto::Trajectory& t) {
    return t.key.kind == TrajectoryKind::train ||
           (reads_held_out && t.key.kind == TrajectoryKind::val);
  };
  work.read = [column](compute::TrainEngine& engine,
                       const std::vector<proto::Trajectory*>& wanted) -> Expected<void> {
    const std::vector<const proto::Trajectory*> read(wanted.begin(), wanted.end());
    COHORT_ASSIGN(std::vector<std::vector<float>> log_probs, log_probs_of(engine, read));
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i]->*column = std::move(log_probs[i]);
    return {};
  };
  return work;
}

ReferenceActor spawn_reference(caf::actor_system& system, ReferenceOptions options) {
  return system.spawn<caf::detached>(reference, std::move(options));
}

}  // namespace cohort::actors

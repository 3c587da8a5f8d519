#include "actors/roles/critic_worker.hpp"

#include <fmt/format.h>

#include "actors/roles/critic_update.hpp"
#include "actors/run/run_folder.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/observe/output_file.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::actors {

using namespace control;

namespace {

class CriticWorkerState {
 public:
  static inline const char* name = "critic";
  Expected<void> open(CriticWorkerOptions options) {
    options_ = std::move(options);
    if (options_.group) {
      COHORT_ASSIGN(group_, compute::Collectives::join(*options_.group));
      options_.on_group(group_);
      options_.engine.zero.group = group_.get();
    }
    COHORT_ASSIGN(engine_, compute::TrainEngine::create(options_.engine));
    if (!options_.weights_from.empty()) COHORT_TRY(engine_->load_model(options_.weights_from));
    updater_ = std::make_unique<CriticUpdater>(options_.config);
    if (!is_first()) return {};
    auto lost = [fail = options_.fail, label = options_.values.name](const Error& error) {
      fail(failure_of_link("critic", label, error));
    };
    COHORT_ASSIGN(values_, transport::Sender::open(*options_.context, options_.values, lost));
    return {};
  }
  caf::result<CardReply> on_card(const CardCommand& command) {
    using plan::Object;
    using Verb = plan::Command::Verb;
    CardReply reply = reply_to(command);
    if (command.command.verb == Verb::begin_phase) {
      read_memory(*options_.engine.card, reply);
      return reply;
    }
    const compute::TrainObject object =
        command.command.object == Object::critic_params  ? compute::TrainObject::train_params
        : command.command.object == Object::critic_grads ? compute::TrainObject::grads
                                                         : compute::TrainObject::optimizer;
    auto done =
        command.command.verb == Verb::onload ? engine_->onload(object) : engine_->offload(object);
    if (!done) return to_caf(done.error());
    return reply_with(*options_.engine.card, reply, *done);
  }
  caf::result<UpdateReport> on_update(const UpdateRequest& request, const TrajectoryBatch& batch) {
    auto report = request.stage == UpdateStage::values ? value(request, *batch) : learn(request);
    if (!report) return to_caf(report.error().with_context(fmt::format("step {}", request.step)));
    return *report;
  }
  caf::result<CheckpointReport> on_save(const CheckpointRequest& request) {
    const double start = now_seconds();
    const std::filesystem::path part = critic_part(request.folder);
    auto saved = engine_->save(part);
    if (saved && is_first()) saved = write_file(part / "state.json", updater_->state_json());
    if (!saved) return to_caf(saved.error().with_context("critic"));
    return CheckpointReport{request.folder, engine_->param_hash(), request.state_json,
                            now_seconds() - start};
  }
  caf::result<CheckpointReport> on_load(const CheckpointRequest& request) {
    const double start = now_seconds();
    const std::filesystem::path folder = std::filesystem::path(request.folder) / "critic";
    std::error_code unreadable;  // engine_->load() says it
    if (!std::filesystem::exists(folder / "train_state.json", unreadable) && !unreadable)
      return to_caf({Errc::not_found,
                     fmt::format("{}: no critic is in this checkpoint: a run without one has "
                                 "written it; start a new run with pretrain: {}",
                                 folder.string(), request.folder)});
    if (auto loaded = engine_->load(folder); !loaded)
      return to_caf(loaded.error().with_context(folder.string()));
    auto state = observe::read_file((folder / "state.json").string());
    if (!state) return to_caf(state.error());
    if (auto restored = updater_->restore(*state); !restored)
      return to_caf(restored.error().with_context(folder.string()));
    return CheckpointReport{request.folder, engine_->param_hash(), "", now_seconds() - start};
  }

 private:
  Expected<UpdateReport> value(const UpdateRequest& request,
                               const std::vector<proto::Trajectory>& batch) {
    const double start = now_seconds();
    COHORT_TRY(failpoint::check("critic.values"));
    kept_ = batch;
    kept_step_ = request.step;
    COHORT_TRY(updater_->value(*engine_, kept_));
    if (is_first()) COHORT_TRY(send_values());
    UpdateReport report;
    report.step = request.step;
    report.param_hash = engine_->param_hash();
    report.compute_seconds = now_seconds() - start;
    return report;
  }
  Expected<UpdateReport> learn(const UpdateRequest& request) {
    COHORT_TRY(failpoint::check("critic.update"));
    if (kept_step_ != request.step)
      return Error{Errc::protocol, "the critic was not asked for the values of this step"};
    auto report = updater_->update(*engine_, request, kept_);
    kept_.clear();
    kept_step_.reset();
    return report;
  }
  // The link's queue holds a step.
  Expected<void> send_values() {
    std::vector<proto::Trajectory> frame;
    const auto send = [&]() -> Expected<void> {
      proto::Encoded encoded = proto::encode_batch(frame);
      auto sent =
          values_->send({k_message_values, std::move(encoded.header), std::move(encoded.columns)});
      if (!sent) return sent.error().with_context(options_.values.name);
      frame.clear();
      return {};
    };
    for (const proto::Trajectory& t : kept_) {
      if (!t.mask_reason.empty()) continue;
      proto::Trajectory& valued = frame.emplace_back();
      valued.run_id = t.run_id;
      valued.key = t.key;
      valued.tokens = t.tokens;
      valued.response_mask.assign(t.tokens.size(), 0);
      valued.values = t.values;
      if (frame.size() == k_frame_trajectories) COHORT_TRY(send());
    }
    return frame.empty() ? Expected<void>{} : send();
  }
  bool is_first() const { return group_ == nullptr || group_->rank() == 0; }

  CriticWorkerOptions options_;
  std::shared_ptr<compute::Collectives> group_;
  std::unique_ptr<compute::TrainEngine> engine_;
  std::unique_ptr<CriticUpdater> updater_;
  std::unique_ptr<transport::Sender> values_;  // of the first rank
  std::vector<proto::Trajectory> kept_;        // with values, until the update
  std::optional<uint64_t> kept_step_;
};

TrainWorkerActor::behavior_type critic_worker(
    TrainWorkerActor::stateful_pointer<CriticWorkerState> self, CriticWorkerOptions options) {
  open_or_quit(self, "critic", std::move(options));
  CriticWorkerState* state = &self->state;
  return {
      [state](card_atom, const CardCommand& command) { return state->on_card(command); },
      [state](update_atom, const UpdateRequest& request, const TrajectoryBatch& batch) {
        return state->on_update(request, batch);
      },
      [state](save_atom, const CheckpointRequest& request) { return state->on_save(request); },
      [state](load_atom, const CheckpointRequest& request) { return state->on_load(request); },
  };
}

}  // namespace

std::string critic_part(const std::string& checkpoint) { return checkpoint + ".critic"; }

TrainWorkerActor spawn_critic_worker(caf::actor_system& system, CriticWorkerOptions options) {
  return system.spawn<caf::detached>(critic_worker, std::move(options));
}

}  // namespace cohort::actors

#include "actors/roles/train_worker.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "actors/roles/critic_worker.hpp"
#include "actors/roles/policy_loss_bridge.hpp"
#include "actors/roles/weight_parts.hpp"
#include "actors/run/run_folder.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/compute/train/export_folder.hpp"
#include "runtime/observe/output_file.hpp"

namespace cohort::actors {

using namespace control;

namespace {

class TrainWorkerState {
 public:
  static inline const char* name = "train_worker";
  Expected<void> open(TrainWorkerOptions options) {
    options_ = std::move(options);
    if (options_.group) {
      COHORT_ASSIGN(group_, compute::Collectives::join(*options_.group));
      options_.on_group(group_);
      options_.engine.zero.group = group_.get();
    }
    COHORT_ASSIGN(engine_, compute::TrainEngine::create(options_.engine));
    if (!options_.pretrain.empty()) COHORT_TRY(engine_->load_model(options_.pretrain));
    if (!options_.adapter.empty()) COHORT_TRY(engine_->load_adapter(options_.adapter));
    if (options_.teacher) {
      COHORT_ASSIGN(auto teacher, compute::TrainEngine::create(*options_.teacher));
      COHORT_TRY(teacher->load_model(options_.teacher_from));
      engine_->learn_from(std::move(teacher), make_divergence(options_.update.config));
    }
    updater_ = std::make_unique<PolicyUpdater>(options_.update);
    return {};
  }
  caf::result<control::CardReply> on_card(const CardCommand& command) {
    using plan::Object;
    using Verb = plan::Command::Verb;
    if (command.command.verb == Verb::reshard) {
      auto reply = publish(command);
      if (!reply) return to_caf(reply.error());
      read_memory(*options_.engine.card, *reply);
      return *reply;
    }
    CardReply reply = reply_to(command);
    read_memory(*options_.engine.card, reply);
    if (command.command.verb == Verb::begin_phase) return reply;
    compute::TrainObject object =
        command.command.object == Object::train_params ? compute::TrainObject::train_params
        : command.command.object == Object::grads      ? compute::TrainObject::grads
                                                       : compute::TrainObject::optimizer;
    auto done =
        command.command.verb == Verb::onload ? engine_->onload(object) : engine_->offload(object);
    if (!done) return to_caf(done.error());
    return reply_with(*options_.engine.card, reply, *done);
  }
  caf::result<control::UpdateReport> on_update(const UpdateRequest& request,
                                               const TrajectoryBatch& batch) {
    if (auto passed = failpoint::check("trainer.update"); !passed) return to_caf(passed.error());
    auto report = updater_->update(*engine_, request, *batch);
    if (!report) return to_caf(report.error().with_context(fmt::format("step {}", request.step)));
    return *report;
  }
  caf::result<control::CheckpointReport> on_save(const CheckpointRequest& request) {
    double start = now_seconds();
    // The folder gets its name when everything is in it: a kill at any point leaves the old state
    // or the new one.
    std::filesystem::path partial = request.folder + ".partial";
    failpoint::hit("checkpoint.begin");
    auto saved = engine_->save(partial);
    failpoint::hit("checkpoint.saved");
    if (saved && !is_first())
      return CheckpointReport{request.folder, engine_->param_hash(), request.state_json,
                              now_seconds() - start};
    if (saved) saved = write_file(partial / "state.json", updater_->state_json(request.state_json));
    if (!saved) return to_caf(saved.error());
    std::error_code error;
    for (const auto& [from, to] : {std::pair{ahead_beside(request.folder), ahead_in(partial)},
                                   std::pair{running_beside(request.folder), running_in(partial)}})
      if (!error && std::filesystem::exists(from)) std::filesystem::rename(from, to, error);
    if (error)
      return to_caf({Errc::io, fmt::format("cannot move the trajectories ahead into {}: {}",
                                           partial.string(), error.message())});
    if (options_.has_critic)
      std::filesystem::rename(critic_part(request.folder), partial / "critic", error);
    if (error)
      return to_caf(
          {Errc::io, fmt::format("cannot move {} into {}: {}", critic_part(request.folder),
                                 partial.string(), error.message())});
    std::filesystem::remove_all(request.folder, error);
    std::filesystem::rename(partial, request.folder, error);
    if (error)
      return to_caf({Errc::io, fmt::format("cannot rename {} to {}: {}", partial.string(),
                                           request.folder, error.message())});
    failpoint::hit("checkpoint.named");
    if (auto exported = export_hf(request.folder); !exported) return to_caf(exported.error());
    return CheckpointReport{request.folder, engine_->param_hash(), request.state_json,
                            now_seconds() - start};
  }
  caf::result<control::CheckpointReport> on_load(const CheckpointRequest& request) {
    double start = now_seconds();
    if (auto loaded = engine_->load(request.folder); !loaded)
      return to_caf(loaded.error().with_context(request.folder));
    auto state = observe::read_file(request.folder + "/state.json");
    if (!state) return to_caf(state.error());
    auto driver_state = updater_->restore(*state);
    if (!driver_state) return to_caf(driver_state.error().with_context(request.folder));
    // A kill may have come between the checkpoint and its export.
    if (is_first() && !std::filesystem::exists(hf_folder_of(request.folder)))
      if (auto exported = export_hf(request.folder); !exported) return to_caf(exported.error());
    return CheckpointReport{request.folder, engine_->param_hash(), *driver_state,
                            now_seconds() - start};
  }

 private:
  /// The Hugging Face folder of a checkpoint that is complete, if the run wants one. An adapter is
  /// merged into the model that it is over.
  Expected<void> export_hf(const std::filesystem::path& checkpoint) {
    if (!options_.update.config.save_hf) return {};
    auto report = compute::export_folder({.checkpoint = checkpoint,
                                          .folder = hf_folder_of(checkpoint),
                                          .merges_adapter = engine_->has_adapter(),
                                          .replaces = true});
    if (!report) return report.error().with_context("save_hf");
    return {};
  }
  Expected<control::CardReply> publish(const CardCommand& command) {
    CardReply reply = reply_to(command);
    double start = now_seconds();
    if (!engine_->is_on_card(compute::TrainObject::train_params))
      return Error{Errc::placement, "PLACE-4: publish before train_params are on the card"};
    auto exchange = options_.exchanges.find(command.receiver);
    if (exchange == options_.exchanges.end())
      return Error{Errc::not_found, "publish: no way to role " + command.receiver};
    if (command.stage == PublishStage::seat) {
      COHORT_TRY(exchange->second->reseat(command.epoch, command.absent));
      return reply;
    }
    COHORT_TRY(failpoint::check("publish.offer"));
    COHORT_ASSIGN(publish::PublishReport report, wait_for([&](publish::OnEnd on_end) {
                    exchange->second->offer(command.version, source_of(*engine_),
                                            std::move(on_end));
                  }));
    for (const publish::ShardSum& shard : report.sent_to)
      reply.sent.emplace_back(shard.card.value, shard.sum);
    reply.bytes_moved = report.sent_bytes;
    reply.seconds = now_seconds() - start;
    return reply;
  }

  bool is_first() const { return group_ == nullptr || group_->rank() == 0; }

  TrainWorkerOptions options_;
  std::shared_ptr<compute::Collectives> group_;
  std::unique_ptr<compute::TrainEngine> engine_;
  std::unique_ptr<PolicyUpdater> updater_;
};

TrainWorkerActor::behavior_type train_worker(
    TrainWorkerActor::stateful_pointer<TrainWorkerState> self, TrainWorkerOptions options) {
  open_or_quit(self, "actor_train", std::move(options));
  TrainWorkerState* state = &self->state;
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

TrainWorkerActor spawn_train_worker(caf::actor_system& system, TrainWorkerOptions options) {
  return system.spawn<caf::detached>(train_worker, std::move(options));
}

}  // namespace cohort::actors

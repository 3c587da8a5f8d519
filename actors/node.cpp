#include "actors/node.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/placement.hpp"
#include "actors/recorder.hpp"
#include "actors/reference.hpp"
#include "actors/rollout.hpp"
#include "actors/train_worker.hpp"
#include "actors/trainer.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/tasks/seeds.hpp"

namespace cohort::actors {

using namespace control;

template <class Handle>
Handle NodeState::watch(Handle handle, const std::string& role) {
  roles_[handle.address()] = role;
  self_->monitor(handle);
  if (options_.on_spawn) options_.on_spawn(role, handle.address());
  return handle;
}

FailureSink NodeState::failure_sink() {
  auto address = NodeActor{self_};
  return [address](Failure failure) { caf::anon_send(address, fail_atom_v, std::move(failure)); };
}

transport::LinkOptions NodeState::link(const std::string& endpoint,
                                       const std::string& label) const {
  transport::LinkOptions link;
  link.endpoint = "inproc://" + endpoint;
  link.run_id = options_.folder.run_id;
  link.name = label;
  // A reference that takes turns holds a whole step unacknowledged; with less credit the step would
  // wait for itself.
  uint64_t held = has_reference_phase() ? step_bytes() : 0;
  link.credit_bytes = std::max(options_.config.transport.credit_bytes, held);
  link.queue_bytes = std::max(options_.config.transport.queue_bytes, held);
  link.chunk_bytes = options_.config.transport.chunk_bytes;
  return link;
}

bool NodeState::has_reference_phase() const {
  std::vector<plan::PhaseKind> phases = plan::step_phases(options_.plan.placement);
  return std::ranges::find(phases, plan::PhaseKind::reference) != phases.end();
}

// More than the trajectories of a step can take in frames: 13 bytes of columns a token, and texts.
uint64_t NodeState::step_bytes() const {
  constexpr uint64_t k_token_bytes = 64, k_trajectory_bytes = 4096;
  const config::RunConfig& c = options_.config;
  uint64_t trajectories = static_cast<uint64_t>(c.derived.groups_per_step) *
                          static_cast<uint64_t>(c.train_env_manager.group_size);
  return trajectories *
         (static_cast<uint64_t>(c.sequence_length) * k_token_bytes + k_trajectory_bytes);
}

compute::CardMemory* NodeState::card(CardId id) { return cards_.at(id).get(); }

// A role on a thread of its own may still be in a command when the node has gone.
std::shared_ptr<const void> NodeState::keeps(CardId id) const {
  return std::make_shared<
      std::pair<std::shared_ptr<transport::Context>, std::shared_ptr<compute::CardMemory>>>(
      context_, cards_.at(id));
}

compute::TrainEngineOptions NodeState::train_options(CardId id, const std::string& role,
                                                     bool is_frozen) {
  const config::RunConfig& config = options_.config;
  const config::TrainingArgs& args = config.actor_train.training_args;
  compute::TrainEngineOptions engine;
  engine.model = options_.plan.model;
  engine.optimizer = {args.adam_beta1, args.adam_beta2, args.adam_epsilon, args.weight_decay,
                      config.max_grad_norm};
  engine.seed = static_cast<uint64_t>(config.seed);
  engine.threads = static_cast<int>(config.cards.threads_per_card);
  engine.micro_batch_tokens = config.micro_batch_tokens;
  engine.card = card(id);
  engine.role = role;
  engine.is_frozen = is_frozen;
  return engine;
}

void NodeState::open(NodeOptions options) {
  options_ = std::move(options);
  context_ = std::make_shared<transport::Context>();
  for (const plan::CardSpec& spec : options_.plan.placement.cards)
    cards_[spec.id] = std::make_shared<compute::CardMemory>(spec.id, spec.budget_bytes());
  for (const auto& [key, reward] : options_.config.rewards) {
    auto made = make_reward(key, std::string(config::to_string(reward.type)), reward.weight);
    if (!made) return on_fail({"rewards", "start", made.error().to_string()});
    rewards_.push_back(std::move(*made));
  }
  self_->set_down_handler([this](caf::down_msg& message) { on_down(message); });
}

void NodeState::on_start() {
  recorder_ = watch(self_->spawn<caf::detached>(recorder, options_.writer), "recorder");
  spawn_trainer();
  spawn_hops();
  spawn_rollouts();
  spawn_head();
  caf::anon_send(driver_, start_atom_v);
}

void NodeState::spawn_trainer() {
  CardId train_card = options_.plan.placement.find("actor_train")->cards.front();
  TrainWorkerOptions worker;
  worker.engine = train_options(train_card, "actor_train", false);
  worker.update.config = options_.config;
  worker.context = context_.get();
  worker.keeps = keeps(train_card);
  worker.pretrain = options_.config.pretrain;
  worker.fail = failure_sink();
  for (const plan::RoleSpec& role : options_.plan.placement.roles)
    if (role.role == "actor_infer" || role.role == "reference")
      for (CardId id : role.cards) {
        std::string receiver = receiver_name(role.role, id);
        worker.weight_links[receiver] = link("weights." + receiver, "actor_train->" + receiver);
      }
  worker_ =
      watch(self_->spawn<caf::detached>(train_worker, std::move(worker)), "actor_train (worker)");
  TrainerOptions options;
  options.context = context_.get();
  options.input = link("trainer", "->actor_train");
  options.recorder = recorder_;
  options.worker = worker_;
  options.fail = failure_sink();
  trainer_ = watch(self_->spawn(trainer, std::move(options)), "actor_train");
}

void NodeState::spawn_hops() {
  const plan::RoleSpec* role = options_.plan.placement.find("reference");
  if (role != nullptr) {
    ReferenceOptions options;
    options.hop = {context_.get(), link("reference", "rewards->reference"),
                   link("trainer", "reference->actor_train")};
    std::string receiver = receiver_name(role->role, role->cards.front());
    options.weights_link = link("weights." + receiver, "actor_train->" + receiver);
    options.engine = train_options(role->cards.front(), "reference", true);
    options.keeps = keeps(role->cards.front());
    options.takes_turns = has_reference_phase();
    options.fail = failure_sink();
    reference_ = watch(self_->spawn<caf::detached>(reference, std::move(options)), "reference");
  }
  spawn_reward();
}

void NodeState::spawn_reward() {
  bool has_reference = options_.plan.placement.find("reference") != nullptr;
  RewardOptions options;
  options.hop = {context_.get(), link("rewards", "actor_infer->rewards"),
                 has_reference ? link("reference", "rewards->reference")
                               : link("trainer", "rewards->actor_train")};
  options.rewards = rewards_;
  options.fail = failure_sink();
  reward_ = watch(self_->spawn(reward, std::move(options)), "rewards");
}

void NodeState::spawn_rollouts() {
  const plan::RoleSpec* role = options_.plan.placement.find("actor_infer");
  const config::RunConfig& config = options_.config;
  uint32_t replica = 0;
  for (CardId id : role->cards) {
    RolloutOptions options;
    options.replica = replica++;
    options.seed = static_cast<uint64_t>(config.seed);
    options.run_id = options_.folder.run_id;
    options.engine.model = options_.plan.model;
    options.engine.card = card(id);
    options.keeps = keeps(id);
    options.engine.lanes = static_cast<uint32_t>(config.cards.threads_per_card);
    options.engine.max_running = std::max<uint32_t>(
        1, static_cast<uint32_t>(config.max_running_requests) / options.engine.lanes);
    options.engine.max_context = config.sequence_length;
    const config::GeneratingArgs& sampling = config.actor_infer.generating_args;
    options.sampling.greedy = sampling.temperature == 0;
    options.sampling.temperature =
        options.sampling.greedy ? 1.F : static_cast<float>(sampling.temperature);
    options.sampling.top_p = static_cast<float>(sampling.top_p);
    options.sampling.top_k = static_cast<int>(sampling.top_k);
    options.max_open_games = static_cast<size_t>(config.max_running_requests);
    options.max_tokens_per_turn = options_.plan.max_tokens_per_turn;
    options.sequence_length = static_cast<int>(config.sequence_length);
    options.stop_texts = options_.plan.stop_texts;
    options.tokenizer = options_.plan.tokenizer;
    options.environments = options_.plan.environments;
    options.context = context_.get();
    std::string receiver = receiver_name(role->role, id);
    options.weights_link = link("weights." + receiver, "actor_train->" + receiver);
    options.output_link = link("rewards", receiver + "->rewards");
    options.fail = failure_sink();
    rollouts_.push_back(watch(self_->spawn(rollout, std::move(options)), receiver));
  }
}

void NodeState::spawn_head() {
  PlacementOptions placing;
  placing.plan = options_.plan.placement;
  placing.policy = options_.plan.offload;
  placing.recorder = recorder_;
  placing.run_start = now_seconds() - options_.log->seconds_since_start();
  const plan::RoleSpec* infer = placing.plan.find("actor_infer");
  CardId train_card = placing.plan.find("actor_train")->cards.front();
  placing.owners[{"actor_train", train_card}] = caf::actor_cast<CardActor>(trainer_);
  for (size_t i = 0; i < infer->cards.size(); ++i)
    placing.owners[{"actor_infer", infer->cards[i]}] = caf::actor_cast<CardActor>(rollouts_[i]);
  if (const plan::RoleSpec* role = placing.plan.find("reference"))
    placing.owners[{"reference", role->cards.front()}] = caf::actor_cast<CardActor>(reference_);
  placement_ = watch(self_->spawn(placement, std::move(placing)), "placement");

  DriverOptions options;
  options.config = options_.config;
  options.run_id = options_.folder.run_id;
  options.run_folder = options_.folder.path;
  options.resume_from = options_.folder.resume_from;
  options.resume_first = options_.folder.resume_first;
  options.attempt = options_.folder.attempt;
  options.placement = placement_;
  options.rollouts = rollouts_;
  options.rollout_cards = infer->cards;
  options.train_card = train_card;
  options.trainer = trainer_;
  options.has_reference_phase = has_reference_phase();
  options.recorder = recorder_;
  options.log = options_.log;
  options.on_end = options_.on_end;
  auto seeds = options_.plan.seeds;
  options.train_seed = [seeds](uint64_t step, uint32_t group) {
    return seeds->seed(tasks::EpisodeUse::train, step, group);
  };
  options.val_seed = [seeds](uint32_t group) {
    return seeds->seed(tasks::EpisodeUse::validation, 0, group);
  };
  options.warm_seed = [seeds](uint64_t round, uint32_t group) {
    return seeds->seed(tasks::EpisodeUse::warm_start, round, group);
  };
  driver_ = watch(self_->spawn(driver, std::move(options)), "driver");
}

void NodeState::on_stop() {
  if (driver_) caf::anon_send(driver_, stop_atom_v);
}

void NodeState::on_fail(const Failure& failure) {
  if (is_shutting_down_) return;
  log::warn("{} in phase {}: {}", failure.role, failure.phase, failure.detail);
  if (driver_)  // it ends the run with the first cause
    caf::anon_send(driver_, fail_atom_v, failure);
  else {
    RunResult result;
    result.error = fmt::format("{} in phase {}: {}", failure.role, failure.phase, failure.detail);
    options_.on_end(std::move(result));
  }
}

void NodeState::on_down(const caf::down_msg& message) {
  auto found = roles_.find(message.source);
  if (is_shutting_down_ || found == roles_.end()) return;
  std::string role = found->second;
  roles_.erase(found);
  std::string reason = message.reason ? from_caf(message.reason).to_string() : "it ended by itself";
  if (role == "rewards" && reward_restarts_ < k_reward_restarts) {
    ++reward_restarts_;
    log::warn("rewards died ({}), restart {} of {}", reason, reward_restarts_, k_reward_restarts);
    reward_ = nullptr;
    return spawn_reward();
  }
  if (role == "driver") driver_ = nullptr;  // nobody else is left to end the run
  on_fail({role, "supervision", "the actor died: " + reason});
}

// From here on deaths are expected. The links' owners go first, so that no pump calls an actor that
// is gone.
bool NodeState::on_shutdown() {
  is_shutting_down_ = true;
  for (const auto& [address, role] : roles_)
    caf::anon_send_exit(address, caf::exit_reason::user_shutdown);
  return true;
}

NodeActor::behavior_type node(NodeActor::stateful_pointer<NodeState> self, NodeOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  NodeState* state = &self->state;
  return {
      [state](start_atom) { state->on_start(); },
      [state](stop_atom) { state->on_stop(); },
      [state](fail_atom, const Failure& failure) { state->on_fail(failure); },
      [state](flush_atom) { return state->on_shutdown(); },
  };
}

}  // namespace cohort::actors

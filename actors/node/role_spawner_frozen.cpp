// The roles whose weights never change: reference, teacher, reward models, judges.
#include <utility>

#include "actors/node/role_spawner.hpp"
#include "actors/roles/hinted_teacher.hpp"
#include "actors/roles/judge_actor.hpp"
#include "actors/roles/reference_actor.hpp"
#include "actors/roles/score_model.hpp"
#include "runtime/compute/generate/built_in_engine.hpp"
#include "runtime/config/train_groups.hpp"

namespace cohort::actors {

std::string first_policy(const std::string& run_folder) {
  return run_folder + "/checkpoints/step_0";
}

ReferenceActor RoleSpawner::frozen(caf::actor_system& system, Role role, CardId card) const {
  ReferenceOptions options;
  options.role = to_string(role);
  options.hop = hop_links(options.role, card);
  options.engine = train_options(card, role);
  const Preflight& plan = *options_.plan;
  if (const auto& own = role == Role::teacher ? plan.teacher : plan.reference) {
    options.engine.model = own->model;
    options.weights_from = own->folder;
  } else {
    options.exchange = exchanges_.at(card).at("reference");
    if (options_.attempt > 0) options.weights_from = first_policy(options_.run_folder);
  }
  options.engine.draws_weights = false;  // the trainer's come before the first log-probability
  // Which trajectories come in one frame is a matter of time, and OpenBLAS's kernels for small
  // products give a row other bits in another shape (seen on AVX-512): each sample is its own
  // batch.
  if (options_.config->determinism == config::Determinism::strict)
    options.engine.micro_batch_tokens = 1;
  options.keeps = keeps(card);
  options.takes_turns = takes_turns(to_string(role));
  options.work = role == Role::teacher && plan.hints ? hinted_log_probs(plan.hints)
                 : role == Role::teacher
                     ? frozen_log_probs(&proto::Trajectory::teacher_logp, false)
                     : frozen_log_probs(&proto::Trajectory::ref_logp,
                                        config::has_pairs(options_.config->pipeline));
  options.fail = options_.fail;
  return spawn_reference(system, std::move(options));
}

ReferenceActor RoleSpawner::score_model(caf::actor_system& system, std::string_view role,
                                        CardId card) const {
  const Preflight& plan = *options_.plan;
  const Preflight::ScoreModel& score = plan.score_models.at(std::string(role));
  ReferenceOptions options;
  options.hop = hop_links(role, card);
  options.role = role;
  options.engine = train_options(card, Role::reference);
  options.engine.role = role;
  options.engine.model = score.weights.model;
  options.engine.head = model::HeadKind::value;
  options.weights_from = score.weights.folder;
  options.engine.draws_weights = false;
  if (options_.config->determinism == config::Determinism::strict)
    options.engine.micro_batch_tokens = 1;  // as of the reference
  options.takes_turns = takes_turns(role);
  const std::string name(role.substr(k_model_reward.size()));
  options.work =
      score_work({name, options_.config->rewards.at(name).weight, plan.prompts, plan.chat,
                  score.encode, score.weights.described.pad_id, score.tokens_max});
  options.keeps = keeps(card);
  options.fail = options_.fail;
  return spawn_reference(system, std::move(options));
}

JudgeActor RoleSpawner::judge(caf::actor_system& system, const std::string& role,
                              CardId card) const {
  const Preflight& plan = *options_.plan;
  JudgeOptions options;
  options.hop = hop_links(role, card);
  options.role = role;
  options.name = role.substr(k_model_reward.size());
  options.weight = options_.config->rewards.at(options.name).weight;
  options.takes_turns = takes_turns(role);
  options.setup = plan.judges.at(role);
  options.seed = static_cast<uint64_t>(options_.config->seed);
  options.prompts = plan.prompts;
  options.chat = plan.chat;
  options.card = cards_.at(card).get();
  compute::EngineSetup engine;
  engine.model = options.setup.model;
  engine.card = options.card;
  engine.threads = static_cast<uint32_t>(options_.config->cards.threads_per_card);
  engine.max_running = options.setup.at_once;
  engine.max_context = options.setup.context;
  options.open_engine = [engine](std::function<void(const Error&)> on_lost) {
    compute::EngineSetup setup = engine;
    setup.on_lost = std::move(on_lost);
    return compute::open_built_in(setup);
  };
  options.keeps = keeps(card);
  options.fail = options_.fail;
  return spawn_judge(system, std::move(options));
}

}  // namespace cohort::actors

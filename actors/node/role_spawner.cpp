#include "actors/node/role_spawner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "actors/node/link_collectives.hpp"
#include "actors/roles/critic_worker.hpp"
#include "actors/roles/train_rank.hpp"
#include "actors/roles/train_worker.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"
#include "runtime/config/train_groups.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/model/hf_folder.hpp"

namespace cohort::actors {
namespace {

// In the names of links.
constexpr const char* k_to_rewards = "->rewards";
constexpr const char* k_attempt = ", attempt ";
constexpr std::string_view k_rows = "rows";

}  // namespace

using control::receiver_name;

void GroupList::add(const std::shared_ptr<compute::Collectives>& group) {
  std::lock_guard lock(mutex_);
  groups_.push_back(group);
}

void GroupList::abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  for (const auto& group : groups_)
    if (auto alive = group.lock()) alive->abort(reason);
}

Expected<std::unique_ptr<RoleSpawner>> RoleSpawner::create(RoleSpawnerOptions options) {
  std::unique_ptr<RoleSpawner> spawner(new RoleSpawner(std::move(options)));
  COHORT_TRY(spawner->open_exchanges());
  return spawner;
}

RoleSpawner::RoleSpawner(RoleSpawnerOptions options)
    : options_(std::move(options)), context_(std::make_shared<transport::Context>()) {
  const auto pages = options_.plan->offload == plan::OffloadPolicy::step
                         ? compute::CardPages::kept
                         : compute::CardPages::released;
  for (const plan::CardSpec& spec : options_.plan->placement.cards)
    if (std::ranges::find(options_.cards, spec.id) != options_.cards.end())
      cards_[spec.id] = std::make_shared<compute::CardMemory>(spec.id, spec.budget_bytes(), pages);
  for (auto& [id, card] : cards_)
    if (auto device = options_.plan->devices.find(id); device != options_.plan->devices.end())
      card = std::make_shared<compute::CardMemory>(id, card->budget_bytes(), device->second);
}

// Before any actor: the first publish finds every seat.
Expected<void> RoleSpawner::open_exchanges() {
  auto hub = options_.wires.is_one_process() ? std::make_shared<publish::InprocHub>() : nullptr;
  for (const auto& [receiver, plan] : options_.plan->weights)
    for (CardId card : plan->cards) {
      if (!cards_.contains(card)) continue;
      WeightExchangeOptions seat;
      seat.plan = plan;
      seat.receiver = receiver;
      seat.card = card;
      seat.dtype = options_.plan->published_dtype();
      seat.rendezvous = options_.rendezvous;
      seat.epoch = options_.attempt;
      seat.hub = hub;
      if (!options_.wires.listen_host.empty()) {
        seat.context = context_;
        seat.link = tcp_link();
      }
      COHORT_ASSIGN(exchanges_[card][receiver], WeightExchange::open(std::move(seat)));
    }
  return {};
}

void RoleSpawner::end_waits(const std::string& reason) const {
  groups_->abort(reason);
  for (const auto& [card, seats] : exchanges_)
    for (const auto& [receiver, seat] : seats) seat->abort(reason);
}

bool RoleSpawner::has_reference_phase() const {
  std::vector<plan::PhaseKind> phases = plan::step_phases(options_.plan->placement);
  return std::ranges::find(phases, plan::PhaseKind::reference) != phases.end();
}

bool RoleSpawner::takes_turns(std::string_view role) const {
  return !options_.plan->placement.find(role)->shared_cards.empty();
}

bool RoleSpawner::has_reward_in_turns() const {
  return std::ranges::any_of(options_.plan->placement.roles, [this](const plan::RoleSpec& role) {
    return role.role.starts_with(k_model_reward) && takes_turns(role.role);
  });
}

// More than the trajectories of a step can take in frames: 13 bytes of columns a token, and texts.
uint64_t RoleSpawner::step_bytes() const {
  constexpr uint64_t k_token_bytes = 64, k_trajectory_bytes = 4096;
  const config::RunConfig& c = *options_.config;
  uint64_t trajectories = static_cast<uint64_t>(c.derived.groups_per_step) *
                          static_cast<uint64_t>(config::played_group_size(c));
  trajectories = std::max(
      {trajectories,
       static_cast<uint64_t>(c.warm_start.batch_size) * static_cast<uint64_t>(c.warm_start.steps),
       static_cast<uint64_t>(c.derived.val_groups) *
           static_cast<uint64_t>(c.derived.val_group_size)});
  return trajectories *
         (static_cast<uint64_t>(c.sequence_length) * k_token_bytes + k_trajectory_bytes);
}

std::string run_of_links(const std::string& run_id, uint32_t run_attempt) {
  return fmt::format("{}, attempt {}", run_id, run_attempt);
}

transport::LinkOptions RoleSpawner::tcp_link() const {
  transport::LinkOptions link;
  const std::string& host = options_.wires.listen_host;
  link.endpoint = host.find(':') == std::string::npos ? fmt::format("tcp://{}:*", host)
                                                      : fmt::format("tcp://[{}]:*", host);
  link.run_id = run_of_links(options_.run_id, options_.run_attempt);
  link.curve = options_.wires.curve;
  link.is_insecure = options_.wires.is_insecure;
  return link;
}

transport::LinkOptions RoleSpawner::link(const std::string& endpoint,
                                         const std::string& name) const {
  transport::LinkOptions link;
  if (options_.wires.listen_host.empty()) {
    link.endpoint = options_.wires.is_one_process()
                        ? "inproc://" + endpoint
                        : "ipc://" + options_.wires.socket_folder + "/" + endpoint;
    link.run_id = run_of_links(options_.run_id, options_.run_attempt);
  } else {  // the consumer says in the run's table where it is
    link = tcp_link();
    const std::string key = "links/" + endpoint;
    link.announce = [table = options_.rendezvous, key](const std::string& place) {
      if (auto told = table->put(key, place); !told)
        log::warn("link {}: {}", key, told.error().to_string());
    };
    link.resolve = [table = options_.rendezvous, key] {
      auto place = table->get(key);
      return place && *place ? **place : std::string();
    };
  }
  link.name = name;
  link.service = endpoint;
  // A reference that takes turns holds a whole step unacknowledged; with less credit the step would
  // wait for itself.
  uint64_t held = has_reference_phase() ? step_bytes() : 0;
  link.credit_bytes = std::max(options_.config->transport.credit_bytes, held);
  link.queue_bytes = std::max(options_.config->transport.queue_bytes, held);
  link.chunk_bytes = options_.config->transport.chunk_bytes;
  return link;
}

/// The ends of a role that trajectories pass: one a card, if it is frozen. Rewards and the trainer
/// take them in at one place, and rollouts have names of their own (producer()).
std::vector<std::string> RoleSpawner::hop_names(std::string_view role) const {
  const plan::RoleSpec* spec = options_.plan->placement.find(role);
  const bool is_hop = is_frozen(role) || role.starts_with(k_model_reward);
  if (spec == nullptr || !is_hop || spec->cards.size() < 2) return {std::string(role)};
  std::vector<std::string> names;
  for (CardId card : spec->cards) names.push_back(receiver_name(role, card));
  return names;
}

/// The roles that trajectories pass, in order.
std::vector<std::string> RoleSpawner::hop_chain() const {
  const plan::PlacementPlan& plan = options_.plan->placement;
  std::vector<std::string> chain;
  const auto add = [&](Role role) {
    if (plan.find(role) != nullptr) chain.emplace_back(to_string(role));
  };
  if (config::has_rollouts(*options_.config))
    add(Role::actor_infer);
  else
    chain.emplace_back(k_rows);
  if (!config::is_supervised(options_.config->pipeline)) {
    chain.emplace_back(to_string(Role::rewards));
    for (const plan::RoleSpec& role : plan.roles)
      if (role.role.starts_with(k_model_reward)) chain.push_back(role.role);
  }
  add(Role::reference);
  add(Role::teacher);
  add(Role::actor_train);
  return chain;
}

std::vector<transport::LinkOptions> RoleSpawner::links_between(const std::string& from,
                                                               std::string_view to) const {
  std::vector<transport::LinkOptions> links;
  for (const std::string& end : hop_names(to))
    links.push_back(
        link(end == Role::actor_train ? "trainer" : end, fmt::format("{}->{}", from, end)));
  return links;
}

HopOptions RoleSpawner::hop_links(std::string_view role, std::optional<CardId> card) const {
  const std::vector<std::string> chain = hop_chain();
  const auto at = std::ranges::find(chain, role);
  COHORT_CHECK(at != chain.begin() && at != chain.end(), "a hop has a role before it");
  std::string own(role);
  if (hop_names(role).size() > 1) own = receiver_name(role, card.value());
  return {context_.get(), link(own, fmt::format("{}->{}", at[-1], own)), links_between(own, at[1])};
}

std::vector<transport::LinkOptions> RoleSpawner::rows_links() const {
  const std::vector<std::string> chain = hop_chain();
  const auto rows = std::ranges::find(chain, k_rows);
  return links_between(std::string(k_rows), rows[1]);
}

// A step is sent at once.
transport::LinkOptions RoleSpawner::batch_link(std::string_view role, CardId card) const {
  std::string name = receiver_name(role, card);
  transport::LinkOptions options = link("batches." + name, "collector->" + name);
  options.queue_bytes = std::max<size_t>(options.queue_bytes, step_bytes());
  options.credit_bytes = std::max<size_t>(options.credit_bytes, step_bytes());
  return options;
}

// The trainer takes values where it takes trajectories: at its input.
transport::LinkOptions RoleSpawner::values_link(CardId card) const {
  transport::LinkOptions options =
      link("trainer", receiver_name(Role::critic, card) + "->actor_train");
  options.queue_bytes = std::max<size_t>(options.queue_bytes, step_bytes());
  return options;
}

// A role on a thread of its own may still be in a command when its spawner has gone.
std::shared_ptr<const void> RoleSpawner::keeps(CardId id) const {
  return std::make_shared<
      std::pair<std::shared_ptr<transport::Context>, std::shared_ptr<compute::CardMemory>>>(
      context_, cards_.at(id));
}

compute::TrainEngineOptions RoleSpawner::train_options(CardId id, Role role) const {
  const config::RunConfig& config = *options_.config;
  const bool is_critic = role == Role::critic;
  const config::TrainingArgs& args = (is_critic ? config.critic : config.actor_train).training_args;
  compute::TrainEngineOptions engine;
  engine.model = options_.plan->model;
  engine.optimizer = {args.adam_beta1, args.adam_beta2, args.adam_epsilon, args.weight_decay,
                      is_critic ? config.derived.critic.max_grad_norm : config.max_grad_norm};
  engine.seed = static_cast<uint64_t>(config.seed);
  engine.threads = static_cast<int>(config.cards.threads_per_card);
  engine.micro_batch_tokens = config.micro_batch_tokens;
  engine.card = cards_.at(id).get();
  engine.role = std::string(to_string(role));
  engine.is_frozen = is_frozen(to_string(role));
  return engine;
}

/// How a role that learns cuts its state over its cards.
compute::ZeroOptions RoleSpawner::zero_options(Role role) const {
  const config::RunConfig& config = *options_.config;
  const job::ZeroSettings settings =
      job::zero_of(config, role == Role::critic ? config.critic : config.actor_train);
  compute::ZeroOptions zero;
  zero.stage = static_cast<int>(settings.stage);
  zero.offload_optimizer = settings.offload_optimizer;
  zero.offload_params = settings.offload_params;
  zero.swap_optimizer = settings.swap_optimizer;
  zero.reduce = config.determinism == config::Determinism::strict
                    ? compute::GradientReduce::ordered
                    : compute::GradientReduce::per_card;
  zero.expert_ways = static_cast<int>(settings.expert_ways);
  return zero;
}

compute::GroupOptions RoleSpawner::group_of(const std::vector<CardId>& cards, CardId card) const {
  compute::GroupOptions group;
  group.rank = static_cast<int>(std::ranges::find(cards, card) - cards.begin());
  group.size = static_cast<int>(cards.size());
  for (CardId each : cards) group.labels.push_back("card " + std::to_string(each.value));
  group.rendezvous = options_.rendezvous;
  if (options_.wires.is_one_process()) group.backend = compute::CollectiveBackend::memory;
  if (group.device = cards_.at(card)->device(); group.device != nullptr) {
    group.backend = group.device->collectives();
  } else if (!options_.wires.listen_host.empty()) {  // Gloo's sockets would trust anybody
    group.backend = compute::CollectiveBackend::links;
    group.open =
        link_groups({context_, [link = tcp_link()](const std::string&, const std::string& name) {
                       transport::LinkOptions named = link;
                       named.name = name;
                       return named;
                     }});
  }
  return group;
}

std::optional<compute::GroupOptions> RoleSpawner::train_group(Role role, CardId card) const {
  const std::vector<CardId>& cards = options_.plan->placement.find(role)->cards;
  if (cards.size() < 2) return std::nullopt;
  compute::GroupOptions group = group_of(cards, card);
  group.name = std::string(to_string(role));
  return group;
}

std::string RoleSpawner::producer(std::string_view role, CardId card, uint32_t attempt) const {
  const std::string name = receiver_name(role, card) + k_to_rewards;
  return attempt == 0 ? name : name + k_attempt + std::to_string(attempt);
}

std::vector<std::string> RoleSpawner::links_of(const std::string& role, CardId card) const {
  if (role == Role::actor_train) return {batch_link(role, card).name};
  if (role == Role::critic) return {batch_link(role, card).name, values_link(card).name};
  if (role == Role::actor_infer) return {producer(role, card, 0)};
  // As their producers name them: the role before it may have several cards, too.
  std::vector<std::string> names;
  const std::vector<std::string> chain = hop_chain();
  const HopOptions hop = hop_links(role, card);
  for (const std::string& before : hop_names(std::ranges::find(chain, role)[-1]))
    names.push_back(fmt::format("{}->{}", before, hop.input.service));
  for (const transport::LinkOptions& output : hop.outputs) names.push_back(output.name);
  return names;
}

std::pair<std::string, std::optional<uint32_t>> attempt_of_link(const std::string& link) {
  const size_t at = link.find(k_attempt);
  if (at == std::string::npos)
    return {link, link.ends_with(k_to_rewards) ? std::optional<uint32_t>(0) : std::nullopt};
  uint32_t attempt = 0;
  const char* end = link.data() + link.size();
  std::from_chars(link.data() + at + std::strlen(k_attempt), end, attempt);
  return {link.substr(0, at), attempt};
}

std::string RoleSpawner::role_at(Role role, CardId card) const {
  if (role == Role::rewards)
    for (const plan::RoleSpec& each : options_.plan->placement.roles)
      if (each.role.starts_with(k_model_reward) && std::ranges::binary_search(each.cards, card))
        return each.role;
  return std::string(to_string(role));
}

std::vector<CardId> RoleSpawner::leading_cards() const {
  const plan::ShardLayout layout = options_.plan->infer_layout();
  std::vector<CardId> leaders;
  for (size_t i = 0; i < layout.ranks.size(); i += layout.tp) leaders.push_back(layout.ranks[i]);
  return leaders;
}

caf::strong_actor_ptr RoleSpawner::spawn(caf::actor_system& system, std::string_view role,
                                         CardId card) const {
  const auto erased = [](auto actor) { return caf::actor_cast<caf::strong_actor_ptr>(actor); };
  if (role == Role::actor_infer) return erased(rollout(system, card));
  if (is_frozen(role)) return erased(frozen(system, role_of(role).value(), card));
  if (const std::string name(role); options_.plan->judges.contains(name))
    return erased(judge(system, name, card));
  if (role.starts_with(k_model_reward)) return erased(score_model(system, role, card));
  COHORT_CHECK(role == Role::actor_train || role == Role::critic,
               "a role that has cards has an actor");
  TrainWorkerActor worker =
      role == Role::critic ? critic_worker(system, card) : train_worker(system, card);
  return options_.wires.is_one_process() ? erased(worker)
                                         : erased(train_rank(system, role, card, worker));
}

TrainWorkerActor RoleSpawner::train_worker(caf::actor_system& system, CardId card) const {
  TrainWorkerOptions worker;
  worker.engine = train_options(card, Role::actor_train);
  worker.engine.head = options_.plan->head;
  worker.engine.lora = options_.plan->lora;
  worker.engine.zero = zero_options(Role::actor_train);
  worker.group = train_group(Role::actor_train, card);
  worker.on_group = [groups = groups_](const auto& group) { groups->add(group); };
  worker.update.config = *options_.config;
  worker.update.pad_id = options_.plan->described.pad_id;
  worker.keeps = keeps(card);
  worker.engine.described = options_.plan->described;
  if (!options_.config->pretrain.starts_with(model::k_random))
    worker.pretrain = options_.config->pretrain;
  worker.engine.draws_weights = worker.pretrain.empty();
  worker.adapter = options_.config->actor_train.model_args.adapter_name_or_path;
  if (options_.config->pipeline == config::Pipeline::distill) {
    worker.teacher = train_options(card, Role::teacher);
    worker.teacher->model = options_.plan->teacher->model;
    worker.teacher->draws_weights = false;
    worker.teacher_from = options_.plan->teacher->folder;
  }
  worker.has_critic = options_.plan->placement.find(Role::critic) != nullptr;
  worker.fail = options_.fail;
  if (auto seats = exchanges_.find(card); seats != exchanges_.end())  // else nobody gets weights
    worker.exchanges = seats->second;
  return spawn_train_worker(system, std::move(worker));
}

TrainWorkerActor RoleSpawner::critic_worker(caf::actor_system& system, CardId card) const {
  const Preflight::OwnWeights& own = *options_.plan->critic;
  CriticWorkerOptions worker;
  worker.engine = train_options(card, Role::critic);
  worker.engine.model = own.model;
  worker.engine.described = own.described;
  worker.engine.head = model::HeadKind::value;
  worker.engine.zero = zero_options(Role::critic);
  worker.group = train_group(Role::critic, card);
  worker.on_group = [groups = groups_](const auto& group) { groups->add(group); };
  worker.config = *options_.config;
  worker.weights_from = own.folder;
  worker.engine.draws_weights = own.folder.empty();
  worker.context = context_.get();
  worker.values = values_link(card);
  worker.keeps = keeps(card);
  worker.fail = options_.fail;
  return spawn_critic_worker(system, std::move(worker));
}

TrainRankActor RoleSpawner::train_rank(caf::actor_system& system, std::string_view role,
                                       CardId card, TrainWorkerActor worker) const {
  TrainRankOptions rank;
  rank.context = context_.get();
  rank.keeps = keeps(card);
  rank.input = batch_link(role, card);
  rank.role = role;
  rank.worker = std::move(worker);
  rank.fail = options_.fail;
  return spawn_train_rank(system, std::move(rank));
}

namespace {

Expected<FrameSink> open_output(transport::Context& context, const transport::LinkOptions& link,
                                std::function<void(Error)> on_lost) {
  COHORT_ASSIGN(std::shared_ptr<transport::Sender> sender,
                transport::Sender::open(context, link, std::move(on_lost)));
  return FrameSink([sender](transport::Message message) -> Expected<void> {
    auto sent = sender->send(std::move(message));
    return sent ? Expected<void>{} : sent.error();
  });
}

}  // namespace

/// What the engine of an infer card is opened with.
compute::EngineSetup RoleSpawner::engine_setup(CardId card, uint32_t replica) const {
  const plan::RoleSpec& role = *options_.plan->placement.find(Role::actor_infer);
  const config::RunConfig& config = *options_.config;
  compute::EngineSetup setup;
  setup.model = options_.plan->model;
  setup.card = cards_.at(card).get();
  setup.threads = static_cast<uint32_t>(config.cards.threads_per_card);
  setup.max_running = static_cast<uint32_t>(config.max_running_requests);
  setup.max_context = config.sequence_length;
  setup.settings = config.actor_infer.engine_settings;
  setup.lora = options_.plan->lora;
  setup.base_folder = config.pretrain;
  setup.on_group = [groups = groups_](const auto& joined) { groups->add(joined); };
  setup.on_lost = [fail = options_.fail, name = role.role](const Error& error) {
    fail({name, "generation", error.to_string(), error.code == Errc::closed});
  };
  const uint32_t tp = options_.plan->weights.at(role.role)->to.tp;
  if (tp == 1) return setup;
  auto first = role.cards.begin() + static_cast<ptrdiff_t>(replica * tp);
  compute::GroupOptions group = group_of({first, first + static_cast<ptrdiff_t>(tp)}, card);
  for (uint32_t lane = 0; lane < setup.threads; ++lane) {
    group.name = fmt::format("actor_infer.{}.lane.{}.{}", replica, lane, options_.attempt);
    setup.groups.push_back(group);
  }
  return setup;
}

RolloutActor RoleSpawner::rollout(caf::actor_system& system, CardId card) const {
  const plan::RoleSpec& role = *options_.plan->placement.find(Role::actor_infer);
  const config::RunConfig& config = *options_.config;
  const Preflight& plan = *options_.plan;
  RolloutOptions options;
  const auto position =
      static_cast<uint32_t>(std::ranges::find(role.cards, card) - role.cards.begin());
  options.replica = position / plan.weights.at(role.role)->to.tp;
  options.seed = static_cast<uint64_t>(config.seed);
  options.run_id = options_.run_id;
  options.card = cards_.at(card).get();
  options.keeps = keeps(card);
  const config::GeneratingArgs& sampling = config.actor_infer.generating_args;
  options.sampling = sampling_of(sampling);
  options.held_out_sampling = sampling_of(config::held_out_sampling(config));
  options.has_greedy_answer = config::has_greedy_answer(config);
  options.has_demonstrations = !config.rlvr.demonstration_key.empty();
  options.max_open_games = static_cast<size_t>(config.max_running_requests);
  options.is_flowing = config.async.mode == config::AsyncMode::fully_async;
  options.keeps_cache = config.async.keep_kv_cache;
  options.is_cut = plan.weights.at(role.role)->to.tp > 1;
  // An evaluation is played beside the steps.
  options.open_batches_max =
      static_cast<size_t>(config.derived.steps_ahead) + (options.is_flowing ? 2 : 1);
  options.sequence_length = static_cast<int>(config.sequence_length);
  options.stop_ids = plan.stop_ids;
  options.stop_strings = sampling.stop_strings;
  options.tokenizer = plan.tokenizer;
  options.environments = plan.environments;
  options.exchange = exchanges_.at(card).at(role.role);
  options.fail = options_.fail;
  const compute::EngineRow engine = compute::engine_named(config.actor_infer.engine).value();
  compute::EngineSetup setup = engine_setup(card, options.replica);
  const bool waits =
      engine.is_blocking || !setup.groups.empty() ||
      std::ranges::any_of(plan.environments, [](const auto& e) { return e.second->is_blocking; });
  options.open_engine = [open = engine.open, setup = std::move(setup)] { return open(setup); };
  options.output_name = producer(role.role, card, options_.attempt);
  options.open_output = [context = context_, link = link("rewards", options.output_name)](
                            std::function<void(Error)> on_lost) {
    return open_output(*context, link, std::move(on_lost));
  };
  return waits ? system.spawn<caf::detached>(actors::rollout, std::move(options))
               : system.spawn(actors::rollout, std::move(options));
}

}  // namespace cohort::actors

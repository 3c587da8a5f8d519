#include "tools/traj/recompute/replay_rollout.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/compute/generate/engine_table.hpp"
#include "runtime/config/train_groups.hpp"
#include "runtime/stream/stream_file.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/recompute/policy_weights.hpp"
#include "tools/traj/recompute/recorded_step.hpp"
#include "tools/traj/recompute/token_replay.hpp"

namespace cohort::traj {
namespace {

constexpr uint64_t k_card_bytes = uint64_t{1} << 50;  // the host is the bound

/// What a run's tokens are a function of is more than this engine alone.
Expected<void> check_promised(const config::RunConfig& config, const actors::Preflight& plan) {
  const auto refused = [](const std::string& what) {
    return Error{Errc::unsupported, "replay --rollout: " + what};
  };
  if (plan.placement.find("actor_infer") == nullptr)
    return refused("the run samples no answers (pipeline of rows)");
  if (config.platform != config::Platform::cpu)
    return refused("tokens are the same to the bit on platform cpu only");
  if (config.actor_infer.engine != "built_in")
    return refused(fmt::format("actor_infer.engine is '{}', whose tokens are not ours to promise",
                               config.actor_infer.engine));
  if (const uint32_t tp = plan.infer_layout().tp; tp > 1)
    return refused(
        fmt::format("a rollout of tensor parallel size {} has other sums than one card", tp));
  if (config.async.mode == config::AsyncMode::fully_async && config.async.keep_kv_cache)
    return refused("with async.keep_kv_cache a token is read from caches of several policies");
  return {};
}

struct Chosen {
  std::vector<proto::Trajectory> trajectories;  // somebody sampled them
  uint64_t others = 0;                          // scripted, or never played
};

Expected<Chosen> choose(stream::Reader& reader, const RolloutReplayOptions& options) {
  Chosen chosen;
  COHORT_ASSIGN(const stream::Index* index, reader.index());
  for (const stream::RecordInfo& info : index->trajectories()) {
    const uint64_t step = *info.key.step;
    if (!options.steps.contains(step)) continue;
    if (info.key.trajectory->kind == proto::TrajectoryKind::warm_start) continue;
    if (options.limit != 0 && chosen.trajectories.size() == options.limit) break;
    COHORT_ASSIGN(const stream::Record record, reader.read(info));
    COHORT_ASSIGN(proto::Trajectory t, record.trajectory());
    if (t.turns.empty() || t.token_versions.empty() || proto::is_demonstration(t))
      ++chosen.others;
    else
      chosen.trajectories.push_back(std::move(t));
  }
  if (chosen.trajectories.empty())
    return Error{Errc::not_found,
                 fmt::format("{}: no trajectory there that a policy sampled", options.run)};
  return chosen;
}

/// By the version of the policy.
std::map<uint64_t, std::vector<Stretch>> stretches_of(const std::vector<proto::Trajectory>& all) {
  std::map<uint64_t, std::vector<Stretch>> found;
  for (const proto::Trajectory& t : all) {
    std::map<uint64_t, Stretch> own;
    for (const Part& part : parts_of(t)) own[part.version].parts.push_back(part);
    for (auto& [version, stretch] : own) {
      stretch.trajectory = &t;
      found[version].push_back(std::move(stretch));
    }
  }
  return found;
}

SamplingRules rules_of(const config::RunConfig& config, const actors::Preflight& plan) {
  SamplingRules rules;
  rules.seed = static_cast<uint64_t>(config.seed);
  rules.sampling = actors::sampling_of(config.actor_infer.generating_args);
  rules.held_out_sampling = actors::sampling_of(config::held_out_sampling(config));
  for (const auto& [tag, world] : plan.environments)
    rules.bounds[tag] = {static_cast<int>(config.sequence_length), world->max_response_length,
                         world->max_response_total};
  rules.stop_ids = plan.stop_ids;
  rules.stop_strings = config.actor_infer.generating_args.stop_strings;
  rules.tokenizer = plan.tokenizer;
  return rules;
}

/// An engine with the threads, places and cache that the run's had together.
Expected<std::unique_ptr<compute::GenerationEngine>> open_engine(const config::RunConfig& config,
                                                                 const actors::Preflight& plan,
                                                                 compute::CardMemory& card) {
  const plan::RoleSpec& role = *plan.placement.find("actor_infer");
  const auto cards = static_cast<uint32_t>(role.cards.size());
  compute::EngineSetup setup;
  setup.model = plan.model;
  setup.card = &card;
  setup.threads = cards * static_cast<uint32_t>(config.cards.threads_per_card);
  setup.max_running = cards * static_cast<uint32_t>(config.max_running_requests);
  setup.max_context = config.sequence_length;
  setup.settings = config.actor_infer.engine_settings;
  setup.lora = plan.lora;
  setup.base_folder = config.pretrain;
  COHORT_ASSIGN(const compute::EngineRow row, compute::engine_named(config.actor_infer.engine));
  COHORT_ASSIGN(auto engine, row.open(setup));
  COHORT_TRY(engine->onload_params());
  COHORT_TRY(engine->init_cache(cards * role.bytes_per_card.at(plan::Object::kv_cache)));
  return engine;
}

class RolloutReplay {
 public:
  RolloutReplay(const config::RunConfig& config, const actors::Preflight& plan,
                PolicyWeights weights, std::unique_ptr<compute::GenerationEngine> engine)
      : tokenizer_(plan.tokenizer), weights_(std::move(weights)), engine_(std::move(engine)) {
    SamplingRules rules = rules_of(config, plan);
    rules.running_max = static_cast<size_t>(config.max_running_requests) *
                        plan.placement.find("actor_infer")->cards.size();
    tokens_.emplace(std::move(rules), *engine_);
    engine_->start([this](std::vector<compute::TurnOutput> outputs) {
      tokens_->on_outputs(std::move(outputs));
    });
  }
  ~RolloutReplay() { engine_->stop(); }

  /// Returns the trajectories that are not equal, or could not be played.
  Expected<void> play(const std::map<uint64_t, std::vector<Stretch>>& stretches) {
    for (const auto& [version, batch] : stretches) {
      if (auto served = weights_.serve(version, *engine_); !served) {
        const bool is_missing =
            served.error().code == Errc::not_found || served.error().code == Errc::unsupported;
        if (!is_missing) return served;
        fmt::print("version {}: not played: {}\n", version, served.error().detail);
        for (const Stretch& stretch : batch) missing_.insert(stretch.trajectory->key);
        if (!why_missing_) why_missing_ = served.error();
        continue;
      }
      COHORT_TRY(engine_->reset_cache());
      const double start = now_seconds();
      COHORT_ASSIGN(const std::vector<TokenDifference> differences, tokens_->play(batch));
      tell(version, batch, differences.size(), now_seconds() - start);
      for (const TokenDifference& each : differences) unequal_.insert(each.key);
      if (!differences.empty() && !first_) first_ = differences.front();
    }
    return {};
  }
  Expected<void> result(size_t total) const {
    std::set<proto::TrajectoryKey> unproven = missing_;
    unproven.insert(unequal_.begin(), unequal_.end());
    fmt::print("replay: {} of {} trajectories equal\n", total - unproven.size(), total);
    if (first_) return Error{Errc::corrupt, describe(*first_, *tokenizer_)};
    if (why_missing_)
      return why_missing_->with_context(fmt::format("{} trajectories not played", missing_.size()));
    return {};
  }

 private:
  static void tell(uint64_t version, const std::vector<Stretch>& batch, size_t differ, double s) {
    size_t tokens = 0;
    for (const Stretch& stretch : batch)
      for (const Part& part : stretch.parts) tokens += part.end - part.begin;
    fmt::print("version {}: {} tokens of {} trajectories, {} differ; {:.0f} tokens/s\n", version,
               tokens, batch.size(), differ, static_cast<double>(tokens) / std::max(1e-9, s));
  }

  std::shared_ptr<const tasks::Tokenizer> tokenizer_;
  PolicyWeights weights_;
  std::unique_ptr<compute::GenerationEngine> engine_;
  std::optional<TokenReplay> tokens_;
  std::set<proto::TrajectoryKey> unequal_, missing_;
  std::optional<TokenDifference> first_;
  std::optional<Error> why_missing_;
};

}  // namespace

Expected<void> replay_rollout(const RolloutReplayOptions& options) {
  COHORT_ASSIGN(const std::filesystem::path folder, stream::folder_of(options.run));
  COHORT_ASSIGN(stream::Reader reader, stream::Reader::open(folder));
  COHORT_ASSIGN(const config::RunConfig config, recorded_config(reader, options.run));
  COHORT_ASSIGN(const actors::Preflight plan, actors::preflight(config, std::vector<CardId>{}));
  COHORT_TRY(check_promised(config, plan));
  COHORT_ASSIGN(const Chosen chosen, choose(reader, options));
  if (chosen.others > 0)
    fmt::print(stderr, "traj: {} trajectories that no policy sampled are left out\n",
               chosen.others);
  compute::CardMemory host(CardId{0}, k_card_bytes), card(CardId{1}, k_card_bytes);
  COHORT_ASSIGN(PolicyWeights weights,
                PolicyWeights::open(folder.parent_path(), reader, config, plan, host));
  COHORT_ASSIGN(auto engine, open_engine(config, plan, card));
  RolloutReplay replay(config, plan, std::move(weights), std::move(engine));
  COHORT_TRY(replay.play(stretches_of(chosen.trajectories)));
  return replay.result(chosen.trajectories.size());
}

}  // namespace cohort::traj

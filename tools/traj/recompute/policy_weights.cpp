#include "tools/traj/recompute/policy_weights.hpp"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "actors/run/run_folder.hpp"
#include "runtime/model/hf_folder.hpp"

namespace cohort::traj {
namespace {

constexpr std::string_view k_no_hash = "0000000000000000";

}  // namespace

Expected<PolicyWeights> PolicyWeights::open(const std::filesystem::path& run,
                                            stream::Reader& reader, const config::RunConfig& config,
                                            const actors::Preflight& plan,
                                            compute::CardMemory& card) {
  PolicyWeights weights;
  weights.run_ = run;
  COHORT_ASSIGN(const stream::Index* index, reader.index());
  std::map<uint64_t, std::string> saved;  // hashes of checkpoints by step
  for (const stream::RecordInfo& info : index->records()) {
    if (info.type == stream::RecordType::checkpoint) {
      COHORT_ASSIGN(const stream::Record record, reader.read(info));
      const auto data = nlohmann::json::parse(record.text(), nullptr, false);
      if (data.is_object() && data.contains("step") && data.contains("param_hash"))
        saved[data["step"]] = data["param_hash"];
    }
    if (info.type != stream::RecordType::weight_version) continue;
    COHORT_ASSIGN(const stream::Record record, reader.read(info));
    const auto data = nlohmann::json::parse(record.text(), nullptr, false);
    if (!data.is_object() || !data.contains("step") || !data.contains("version") ||
        !data.contains("param_hash"))
      return Error{Errc::corrupt, fmt::format("{}: {} lacks step, version or param_hash",
                                              run.string(), info.describe())};
    weights.recorded_[data["version"]] = {data["step"], data["param_hash"]};
  }
  // The policy that a run without a supervised start begins with is published before anybody has
  // summed it up; the checkpoint of step 0 has.
  for (auto& [version, recorded] : weights.recorded_)
    if (recorded.param_hash == k_no_hash && saved.contains(recorded.step))
      recorded.param_hash = saved.at(recorded.step);
  for (const actors::Checkpoint& each : actors::list_checkpoints(run))
    if (each.is_policy) weights.checkpoints_[each.number] = each.folder;
  compute::TrainEngineOptions options;
  options.model = plan.model;
  options.described = plan.described;
  options.seed = static_cast<uint64_t>(config.seed);
  options.card = &card;
  options.lora = plan.lora;
  options.is_frozen = !plan.lora;  // an adapter's checkpoint is read with its moments
  const bool has_folder = !config.pretrain.empty() && !config.pretrain.starts_with(model::k_random);
  options.draws_weights = plan.lora && !has_folder;  // of the model under the adapter
  COHORT_ASSIGN(weights.model_, compute::TrainEngine::create(options));
  if (plan.lora && has_folder) COHORT_TRY(weights.model_->load_model(config.pretrain));
  return weights;
}

Expected<compute::TrainEngine*> PolicyWeights::engine_at(uint64_t step) {
  if (const auto own = checkpoints_.find(step); own != checkpoints_.end()) {
    COHORT_TRY(model_->load(own->second));
    return model_.get();
  }
  if (!trained_) {
    COHORT_ASSIGN(TrainedRun run, TrainedRun::open(run_.string()));
    trained_ = std::make_unique<TrainedRun>(std::move(run));
  }
  COHORT_ASSIGN(const actors::Checkpoint from, trained_->checkpoint_before(step));
  if (!follower_ || follower_->step() > step || follower_->step() < from.number) {
    COHORT_ASSIGN(Follower follower, Follower::start(*trained_, from, {}));
    follower_.emplace(std::move(follower));
  }
  COHORT_TRY(follower_->go_to(step));
  return &follower_->trainer().engine();
}

Expected<void> PolicyWeights::serve(uint64_t version, compute::GenerationEngine& engine) {
  const auto recorded = recorded_.find(version);
  if (recorded == recorded_.end())
    return Error{Errc::not_found, fmt::format("{}: the stream names no policy of version {}",
                                              run_.string(), version)};
  COHORT_ASSIGN(compute::TrainEngine * model, engine_at(recorded->second.step));
  const std::string hash = hash_text(model->param_hash());
  if (hash != recorded->second.param_hash)
    return Error{Errc::corrupt,
                 fmt::format("{}: the parameters of step {} are {}, those of version {} were {}",
                             run_.string(), recorded->second.step, hash, version,
                             recorded->second.param_hash)};
  std::map<std::string_view, compute::ParameterShard> shards;
  for (const compute::ParameterShard& shard : model->shards()) shards[shard.name] = shard;
  return engine.load_weights(version, [&](const compute::ParameterSpec& spec, int64_t begin,
                                          std::span<std::byte> to) {
    const compute::ParameterShard& shard = shards.at(spec.name);
    const size_t element = shard.bytes.size() / static_cast<size_t>(shard.end - shard.begin);
    std::memcpy(to.data(), shard.bytes.data() + static_cast<size_t>(begin) * element, to.size());
  });
}

}  // namespace cohort::traj

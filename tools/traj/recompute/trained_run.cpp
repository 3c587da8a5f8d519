#include "tools/traj/recompute/trained_run.hpp"

#include <fmt/format.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "actors/roles/policy_loss_bridge.hpp"
#include "actors/run/preflight.hpp"
#include "runtime/config/load.hpp"
#include "runtime/model/hf_folder.hpp"
#include "runtime/observe/output_file.hpp"
#include "tools/traj/open_run.hpp"

namespace cohort::traj {
namespace {

namespace fs = std::filesystem;
using stream::RecordType;

Expected<nlohmann::json> json_of(stream::Reader& reader, const stream::RecordInfo& info) {
  COHORT_ASSIGN(const stream::Record record, reader.read(info));
  nlohmann::json json = nlohmann::json::parse(record.text(), nullptr, false);
  if (!json.is_object())
    return Error{Errc::corrupt, fmt::format("{}: no JSON object", info.describe())};
  return json;
}

Expected<void> check_trains_here(const config::RunConfig& config, Sums sums) {
  if (config.record_only)
    return Error{Errc::unsupported,
                 "replay: the run has record_only: true and has trained nothing; `traj replay "
                 "--rollout` proves what it has played"};
  if (sums == Sums::near) return {};
  if (const std::optional<std::string> why = why_not_to_the_bit(config))
    return Error{Errc::unsupported,
                 fmt::format("replay: {}; `traj replay RUN --tolerance T` says how near the host "
                             "comes",
                             *why)};
  return {};
}

/// The engine of RoleSpawner, on one card: by TRAIN-1 and TRAIN-3 ranks, stages and threads change
/// no bit.
compute::TrainEngineOptions engine_options(const config::RunConfig& config,
                                           const actors::Preflight& plan,
                                           compute::CardMemory* card) {
  const config::TrainingArgs& args = config.actor_train.training_args;
  compute::TrainEngineOptions engine;
  engine.model = plan.model;
  engine.described = plan.described;
  engine.head = plan.head;
  engine.lora = plan.lora;
  engine.optimizer = {args.adam_beta1, args.adam_beta2, args.adam_epsilon, args.weight_decay,
                      config.max_grad_norm};
  engine.seed = static_cast<uint64_t>(config.seed);
  engine.draws_weights = config.pretrain.empty() || config.pretrain.starts_with(model::k_random);
  const int64_t threads =
      config.cards.threads_per_card *
      std::max<int64_t>(1, static_cast<int64_t>(config.actor_train.device_mapping.size()));
  const auto cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const bool is_host = config.platform == config::Platform::cpu;  // else cards have no threads
  engine.threads = static_cast<int>(
      is_host ? std::max(config.cards.threads_per_card, std::min(threads, cores)) : cores);
  engine.micro_batch_tokens = config.micro_batch_tokens;
  engine.card = card;
  return engine;
}

Expected<void> learn_from_teacher(const config::RunConfig& config, const actors::Preflight& plan,
                                  compute::TrainEngineOptions options,
                                  compute::TrainEngine& engine) {
  options.model = plan.teacher->model;
  options.role = "teacher";
  options.is_frozen = true;
  options.draws_weights = false;
  options.lora.reset();
  COHORT_ASSIGN(auto teacher, compute::TrainEngine::create(options));
  COHORT_TRY(teacher->load_model(plan.teacher->folder));
  engine.learn_from(std::move(teacher), actors::make_divergence(config));
  return {};
}

}  // namespace

std::optional<std::string> why_not_to_the_bit(const config::RunConfig& config) {
  if (config.platform != config::Platform::cpu)
    return fmt::format(
        "the run trained on a device (platform {}), whose sums are not those of the "
        "host to the bit",
        config::to_string(config.platform));
  if (config.determinism != config::Determinism::strict &&
      config.actor_train.device_mapping.size() > 1)
    return fmt::format(
        "{} train cards with determinism relaxed: each card has summed its own "
        "gradients, and one cannot stand for them",
        config.actor_train.device_mapping.size());
  return std::nullopt;
}

Expected<TrainedRun> TrainedRun::open(const std::string& run) {
  COHORT_ASSIGN(stream::Reader reader, open_run(run));
  TrainedRun found(run, std::move(reader));
  COHORT_ASSIGN(const stream::Index* index, found.reader_.index());
  for (const stream::RecordInfo& info : index->records()) {
    if (info.type == RecordType::step_result && info.key.step && *info.key.step > 0)
      found.rows_[*info.key.step] = info;
    if (info.type == RecordType::run_config) found.configs_.push_back(info);
  }
  for (const stream::RecordInfo& info : index->trajectories())
    if (info.key.trajectory->kind == proto::TrajectoryKind::train)
      found.trajectories_[info.key.trajectory->step].push_back(info);
  for (actors::Checkpoint& each : actors::list_checkpoints(run))
    if (each.is_policy) found.checkpoints_.push_back(std::move(each));
  return found;
}

std::vector<uint64_t> TrainedRun::steps() const {
  std::vector<uint64_t> steps;
  for (const auto& [step, info] : rows_) steps.push_back(step);
  return steps;
}

Expected<nlohmann::json> TrainedRun::row(uint64_t step) {
  const auto found = rows_.find(step);
  if (found == rows_.end()) {
    const std::string range = rows_.empty()
                                  ? "it has none of any step"
                                  : fmt::format("it has those of steps {} to {}",
                                                rows_.begin()->first, rows_.rbegin()->first);
    return Error{Errc::not_found,
                 fmt::format("{}: its stream has no row of step {}; {}", name_, step, range)};
  }
  return json_of(reader_, found->second);
}

Expected<std::vector<proto::Trajectory>> TrainedRun::batch(uint64_t step) {
  const auto found = trajectories_.find(step);
  if (found == trajectories_.end())
    return Error{Errc::not_found, fmt::format("{}: no trajectory of training in step {}; `traj "
                                              "stats` lists the steps",
                                              name_, step)};
  std::vector<proto::Trajectory> batch;
  for (const stream::RecordInfo& info : found->second) {
    auto record = reader_.read(info);
    auto trajectory = record ? record->trajectory() : Expected<proto::Trajectory>(record.error());
    if (!trajectory)
      return trajectory.error().with_context(fmt::format("step {} cannot be trained again", step));
    if (!proto::is_left_out(*trajectory)) batch.push_back(std::move(*trajectory));
  }
  return batch;
}

Expected<std::string> TrainedRun::yaml(uint64_t step) {
  const auto row = rows_.find(step);
  const stream::RecordInfo* last = nullptr;
  for (const stream::RecordInfo& info : configs_)
    if (row == rows_.end() || info.number < row->second.number) last = &info;
  if (last == nullptr)
    return Error{
        Errc::not_found,
        fmt::format("{}: its stream has no record run_config before step {}", name_, step)};
  COHORT_ASSIGN(const nlohmann::json json, json_of(reader_, *last));
  if (json.contains("imported_from"))
    return Error{Errc::unsupported,
                 fmt::format("{}: `traj import` made it: there is no policy to train", name_)};
  if (!json.contains("yaml") || !json["yaml"].is_string())
    return Error{Errc::corrupt, fmt::format("{}: {} has no text 'yaml'", name_, last->describe())};
  return json["yaml"].get<std::string>();
}

Expected<config::RunConfig> TrainedRun::config(uint64_t step,
                                               const std::vector<std::string>& overrides) {
  COHORT_ASSIGN(const std::string text, yaml(step));
  return config::load_text(text, name_ + " (record run_config)", overrides, {.check_files = false});
}

const actors::Checkpoint* TrainedRun::checkpoint_of(uint64_t step) const {
  for (const actors::Checkpoint& each : checkpoints_)
    if (each.number == step) return &each;
  return nullptr;
}

Expected<actors::Checkpoint> TrainedRun::checkpoint_before(uint64_t step) const {
  const actors::Checkpoint* newest = nullptr;
  for (const actors::Checkpoint& each : checkpoints_)
    if (each.number <= step) newest = &each;
  if (newest != nullptr) return *newest;
  if (checkpoints_.empty())
    return Error{Errc::not_found,
                 fmt::format("{}: no checkpoint in {}/checkpoints to start from", name_, name_)};
  return Error{Errc::not_found,
               fmt::format("{}: its oldest checkpoint is of step {}: steps from {} on replay",
                           name_, checkpoints_.front().number, checkpoints_.front().number + 1)};
}

Expected<std::unique_ptr<Trainer>> Trainer::open(const config::RunConfig& config, Sums sums) {
  COHORT_TRY(check_trains_here(config, sums));
  COHORT_ASSIGN(const actors::Preflight plan,
                actors::preflight(config, std::vector<CardId>{}));  // none: no device is opened
  constexpr uint64_t k_no_bound = uint64_t{1} << 46;
  auto card = std::make_unique<compute::CardMemory>(CardId{0}, k_no_bound);
  const compute::TrainEngineOptions options = engine_options(config, plan, card.get());
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(card), {config, plan.described.pad_id}));
  COHORT_ASSIGN(trainer->engine_, compute::TrainEngine::create(options));
  // A checkpoint of an adapter has not the model under it.
  if (plan.lora && !options.draws_weights)
    COHORT_TRY(trainer->engine_->load_model(config.pretrain));
  if (config.pipeline == config::Pipeline::distill)
    COHORT_TRY(learn_from_teacher(config, plan, options, *trainer->engine_));
  return trainer;
}

Expected<void> Trainer::load(const fs::path& folder) {
  if (auto loaded = engine_->load(folder); !loaded)
    return loaded.error().with_context(folder.string());
  COHORT_ASSIGN(const std::string state, observe::read_file((folder / "state.json").string()));
  if (auto restored = updater_.restore(state); !restored)
    return restored.error().with_context(folder.string());
  for (const auto object : {compute::TrainObject::train_params, compute::TrainObject::grads,
                            compute::TrainObject::optimizer})
    COHORT_TRY(engine_->onload(object));
  return {};
}

Expected<void> Trainer::save(const fs::path& folder) const {
  COHORT_TRY(engine_->save(folder));
  return actors::write_file(folder / "state.json", updater_.state_json("{}"));
}

Expected<control::UpdateReport> Trainer::update(uint64_t step,
                                                const std::vector<proto::Trajectory>& batch) {
  control::UpdateRequest request;
  request.step = step;
  request.next_version = step + 1;
  request.trajectories = batch.size();
  auto report = updater_.update(*engine_, request, batch);
  if (!report) return report.error().with_context(fmt::format("step {}", step));
  return report;
}

std::map<std::string, double> numbers_of(const control::UpdateReport& report) {
  return {report.metrics.begin(), report.metrics.end()};
}

std::map<std::string, double> numbers_of(const nlohmann::json& row) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : row.items())
    if (value.is_number()) numbers[name] = value.get<double>();
  return numbers;
}

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

std::optional<TensorDifference> first_difference(const compute::TrainEngine& recorded,
                                                 const compute::TrainEngine& computed) {
  const auto a = recorded.master_shards(), b = computed.master_shards();
  TensorDifference found;
  found.of = a.size();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (std::ranges::equal(a[i].bytes, b[i].bytes)) continue;
    if (found.differ++ > 0) continue;
    found.tensor = a[i].name;
    const auto values = [](std::span<const std::byte> bytes) {
      std::vector<float> copy(bytes.size() / sizeof(float));
      std::memcpy(copy.data(), bytes.data(), copy.size() * sizeof(float));
      return copy;
    };
    const std::vector<float> was = values(a[i].bytes), is = values(b[i].bytes);
    size_t at = 0;
    while (at + 1 < std::min(was.size(), is.size()) &&
           std::memcmp(&was[at], &is[at], sizeof(float)) == 0)
      ++at;
    found.element = static_cast<int64_t>(at);
    if (!was.empty() && !is.empty()) found.recorded = was[at], found.computed = is[at];
  }
  if (found.differ == 0) return std::nullopt;
  return found;
}

Expected<ScratchFolder> ScratchFolder::make() {
  std::string pattern = (fs::temp_directory_path() / "cohort-replay-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    return Error{Errc::io, fmt::format("cannot make {}: {}", pattern, std::strerror(errno))};
  return ScratchFolder(pattern);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Expected<Follower> Follower::start(TrainedRun& run, const actors::Checkpoint& from,
                                   std::vector<std::string> overrides, Sums sums) {
  Follower follower(run, from.number, std::move(overrides), sums);
  COHORT_TRY(follower.take_config(from.number + 1));
  COHORT_TRY(follower.trainer_->load(from.folder));
  return follower;
}

Expected<void> Follower::take_config(uint64_t step) {
  COHORT_ASSIGN(std::string yaml, run_->yaml(step));
  if (trainer_ && yaml == yaml_) return {};
  COHORT_ASSIGN(const config::RunConfig config, run_->config(step, overrides_));
  COHORT_ASSIGN(std::unique_ptr<Trainer> trainer, Trainer::open(config, sums_));
  if (trainer_) {
    COHORT_ASSIGN(const ScratchFolder folder, ScratchFolder::make());
    COHORT_TRY(trainer_->save(folder.path() / "state"));
    COHORT_TRY(trainer->load(folder.path() / "state"));
  }
  trainer_ = std::move(trainer);
  yaml_ = std::move(yaml);
  return {};
}

Expected<control::UpdateReport> Follower::next() {
  const uint64_t step = step_ + 1;
  COHORT_TRY(take_config(step));
  COHORT_ASSIGN(const std::vector<proto::Trajectory> batch, run_->batch(step));
  COHORT_ASSIGN(control::UpdateReport report, trainer_->update(step, batch));
  step_ = step;
  return report;
}

Expected<void> Follower::change(std::vector<std::string> overrides) {
  overrides_ = std::move(overrides);
  yaml_.clear();
  return take_config(step_ + 1);
}

Expected<void> Follower::go_to(uint64_t step) {
  while (step_ < step) {
    COHORT_ASSIGN(const control::UpdateReport report, next());
    COHORT_ASSIGN(const nlohmann::json row, run_->row(step_));
    const std::string recorded = row.value("param_hash", "");
    if (recorded != hash_text(report.param_hash))
      return Error{Errc::corrupt,
                   fmt::format("{}: step {} does not replay: parameters {} recorded, {} computed; "
                               "`traj replay` says more",
                               run_->name(), step_, recorded, hash_text(report.param_hash))};
  }
  return {};
}

}  // namespace cohort::traj

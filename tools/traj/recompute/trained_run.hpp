#pragma once
/// A recorded run as its trainer saw it: rows, batches and checkpoints from the files of the run,
/// and that trainer once more, on one card of the host and without actors. Reads files; one thread.
/// Bound: the trajectories of one step, the training state twice (card and host).
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/roles/policy_update.hpp"
#include "actors/run/run_folder.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/stream/reader.hpp"

namespace cohort::traj {

class TrainedRun {
 public:
  /// `run`: a run folder; Errc::not_found for a stream folder alone, which has no checkpoints.
  static Expected<TrainedRun> open(const std::string& run);

  /// Steps of training that have a row, in order.
  std::vector<uint64_t> steps() const;
  /// The newest row of a step.
  Expected<nlohmann::json> row(uint64_t step);
  /// What the update of the step was given. Errc::corrupt names the first damaged record,
  /// Errc::not_found says that the step has no trajectory.
  Expected<std::vector<proto::Trajectory>> batch(uint64_t step);
  /// The text of the config that the step ran under: a resumed run records its config again.
  Expected<std::string> yaml(uint64_t step);
  /// That config with `overrides`.
  Expected<config::RunConfig> config(uint64_t step, const std::vector<std::string>& overrides);

  /// Returns the newest checkpoint of a step <= `step`, or Errc::not_found, which says from where
  /// on there are some.
  Expected<actors::Checkpoint> checkpoint_before(uint64_t step) const;
  /// Returns null if there is none of exactly this step.
  const actors::Checkpoint* checkpoint_of(uint64_t step) const;
  const std::vector<actors::Checkpoint>& checkpoints() const { return checkpoints_; }
  const std::string& name() const { return name_; }

 private:
  TrainedRun(std::string name, stream::Reader reader)
      : name_(std::move(name)), reader_(std::move(reader)) {}
  std::string name_;
  stream::Reader reader_;
  std::map<uint64_t, stream::RecordInfo> rows_;
  std::vector<stream::RecordInfo> configs_;
  std::map<uint64_t, std::vector<stream::RecordInfo>> trajectories_;  // of training, by step
  std::vector<actors::Checkpoint> checkpoints_;                       // of steps
};

/// Why one rank on the host cannot give the run's parameters to the bit: devices, and several train
/// cards whose sums depend on their number. None: it can.
std::optional<std::string> why_not_to_the_bit(const config::RunConfig& config);

/// What is asked of a trainer's sums.
enum class Sums : uint8_t { to_the_bit = 0, near = 1 };

class Trainer {
 public:
  /// Errc::unsupported, with what to do, for a run that trained nothing, and, to the bit, for what
  /// why_not_to_the_bit names. Errors of the preflight.
  static Expected<std::unique_ptr<Trainer>> open(const config::RunConfig& config,
                                                 Sums sums = Sums::to_the_bit);
  /// Reads a checkpoint of the run, or what save() wrote.
  Expected<void> load(const std::filesystem::path& folder);
  Expected<void> save(const std::filesystem::path& folder) const;
  /// The update of a step; param_hash is that of the parameters after it.
  Expected<control::UpdateReport> update(uint64_t step,
                                         const std::vector<proto::Trajectory>& batch);
  compute::TrainEngine& engine() { return *engine_; }

 private:
  Trainer(std::unique_ptr<compute::CardMemory> card, const actors::UpdateOptions& options)
      : card_(std::move(card)), updater_(options) {}
  std::unique_ptr<compute::CardMemory> card_;
  std::unique_ptr<compute::TrainEngine> engine_;
  actors::PolicyUpdater updater_;
};

/// "loss", "actor/grad_norm", … of an update as a row has them.
std::map<std::string, double> numbers_of(const control::UpdateReport& report);
std::map<std::string, double> numbers_of(const nlohmann::json& row);
/// Returns the parameter hash as rows write it.
std::string hash_text(uint64_t hash);

/// The first tensor that differs, with its first element; nothing: all bits are the same.
struct TensorDifference {
  std::string tensor;
  int64_t element = 0;
  float recorded = 0, computed = 0;
  uint64_t differ = 0, of = 0;  // tensors
};
std::optional<TensorDifference> first_difference(const compute::TrainEngine& recorded,
                                                 const compute::TrainEngine& computed);

/// A folder that goes with the object.
class ScratchFolder {
 public:
  static Expected<ScratchFolder> make();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// A trainer that follows the recorded run step by step.
class Follower {
 public:
  /// Starts with the state of a checkpoint, under the run's config with `overrides`.
  static Expected<Follower> start(TrainedRun& run, const actors::Checkpoint& from,
                                  std::vector<std::string> overrides, Sums sums = Sums::to_the_bit);
  /// Does the update of the step behind the last one. Where the run has changed its config in
  /// between, the trainer is opened anew with its state.
  Expected<control::UpdateReport> next();
  /// Goes on to the end of `step`. Errc::corrupt if a parameter hash is not the recorded one.
  Expected<void> go_to(uint64_t step);
  /// From the next step on under the run's config with `overrides`; the state stays.
  Expected<void> change(std::vector<std::string> overrides);
  /// Goes on with the state of `trainer`, which has been opened for the step last done.
  void go_on_with(std::unique_ptr<Trainer> trainer) { trainer_ = std::move(trainer); }
  uint64_t step() const { return step_; }
  Trainer& trainer() { return *trainer_; }

 private:
  Follower(TrainedRun& run, uint64_t step, std::vector<std::string> overrides, Sums sums)
      : run_(&run), step_(step), overrides_(std::move(overrides)), sums_(sums) {}
  Expected<void> take_config(uint64_t step);
  TrainedRun* run_;
  uint64_t step_;  // done
  std::vector<std::string> overrides_;
  Sums sums_;
  std::string yaml_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace cohort::traj

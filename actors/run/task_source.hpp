#pragma once
/// What the groups of a step play: which environment or domain, which seed or row. The driver asks;
/// nothing here knows an actor. Owner: the driver, alone. DATA-2: the groups of a step are a
/// function of the run's seed, the step and state(): a resumed run plays on where the saved one
/// stopped. Not thread-safe.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/run/prompt_set.hpp"
#include "actors/run/row_set.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/tasks/seeds.hpp"

namespace cohort::actors {

struct GroupTask {
  std::string tag;    // an entry of custom_envs; rlvr: the domain
  uint64_t seed = 0;  // of the world; rlvr: row of the PromptSet
  uint32_t lane = 0;  // the environment's number, or the domain's: see in_place()
};

class TaskSource {
 public:
  TaskSource() = default;
  TaskSource(const TaskSource&) = delete;
  TaskSource& operator=(const TaskSource&) = delete;
  virtual ~TaskSource() = default;

  /// Returns the groups of training step `step`. Called once per step, in order.
  virtual Expected<std::vector<GroupTask>> train(uint64_t step) = 0;
  /// Returns the group with this number of training step `step`, in the place of one of the same
  /// lane: the lane's next. Called for each lane in the order of its groups' numbers.
  virtual Expected<GroupTask> in_place(uint64_t step, uint32_t group, uint32_t lane);
  /// Returns what round `round` of the supervised start imitates.
  virtual std::vector<GroupTask> warm(uint64_t round, uint32_t count) = 0;
  /// Returns the held-out groups: the same at every evaluation.
  virtual std::vector<GroupTask> held_out() const = 0;
  /// Returns how many epochs of its rows the run has taken, the slowest domain's; 0: no rows.
  virtual double epochs() const { return 0; }
  /// Returns what a group plays, the same in every run of this data: "tag/seed", or the row's
  /// file:line.
  virtual std::string prompt_id(const GroupTask& task) const;
  /// The cursor of a checkpoint, as JSON.
  virtual std::string state() const { return "{}"; }
  /// Returns Errc::corrupt if `state` is not what state() of this run's data gives.
  virtual Expected<void> restore(const std::string& state);
};

/// Environments: seeds by tag, in the partition of the environment managers.
std::unique_ptr<TaskSource> make_environment_tasks(
    const config::RunConfig& config, std::shared_ptr<const tasks::EpisodeSeeds> seeds);

/// Prompts: epochs over the rows of each domain, mixed by domain_interleave_probs. Returns
/// Errc::config if a domain has too few rows.
Expected<std::unique_ptr<TaskSource>> make_prompt_tasks(const config::RunConfig& config,
                                                        std::shared_ptr<const PromptSet> prompts);

/// Rows of files that train, in shuffled epochs. Returns Errc::config if there are fewer than an
/// optimizer batch.
Expected<std::unique_ptr<TaskSource>> make_row_tasks(const config::RunConfig& config,
                                                     std::shared_ptr<const RowSet> rows);

}  // namespace cohort::actors

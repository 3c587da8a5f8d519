#include "actors/run/task_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/base/rng.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/tasks/data_order.hpp"

namespace cohort::actors {
namespace {

constexpr uint64_t k_warm_stream = 0x3A11;  // of the draws of the supervised start

class EnvironmentTasks final : public TaskSource {
 public:
  EnvironmentTasks(const config::RunConfig& config,
                   std::shared_ptr<const tasks::EpisodeSeeds> seeds)
      : train_(config.train_env_manager),
        val_(config.val_env_manager),
        groups_(static_cast<uint32_t>(config.derived.groups_per_step)),
        val_groups_(static_cast<uint32_t>(config.derived.val_groups)),
        seeds_(std::move(seeds)) {}

  Expected<std::vector<GroupTask>> train(uint64_t step) override {
    std::vector<GroupTask> groups;
    for (uint32_t group = 0; group < groups_; ++group) {
      const Place at = place(train_, group);
      groups.push_back({at.tag, seeds_->seed(tasks::EpisodeUse::train, step, group), at.lane});
    }
    return groups;
  }

  // The lane is the tag's number.
  Expected<GroupTask> in_place(uint64_t step, uint32_t group, uint32_t lane) override {
    return GroupTask{train_.tags[lane], seeds_->seed(tasks::EpisodeUse::train, step, group), lane};
  }

  std::vector<GroupTask> warm(uint64_t round, uint32_t count) override {
    std::vector<GroupTask> groups;
    for (uint32_t group = 0; group < count; ++group)
      groups.push_back({train_.tags[group % train_.tags.size()],
                        seeds_->seed(tasks::EpisodeUse::warm_start, round, group)});
    return groups;
  }

  // Each tag plays the held-out seeds from the first on.
  std::vector<GroupTask> held_out() const override {
    std::vector<GroupTask> groups;
    for (uint32_t group = 0; group < val_groups_; ++group) {
      Place at = place(val_, group);
      groups.push_back({at.tag, seeds_->seed(tasks::EpisodeUse::validation, 0, at.number)});
    }
    return groups;
  }

 private:
  struct Place {
    std::string tag;
    uint32_t number = 0;  // among the groups of this tag
    uint32_t lane = 0;    // number of the tag
  };
  /// Groups go to tags by num_groups_partition, again and again.
  static Place place(const config::EnvManagerConfig& manager, uint32_t group) {
    const auto round = static_cast<uint32_t>(manager.num_env_groups);
    int64_t position = group % round;
    size_t tag = 0;
    while (tag + 1 < manager.tags.size() && position >= manager.num_groups_partition[tag])
      position -= manager.num_groups_partition[tag++];
    auto before = static_cast<uint32_t>(manager.num_groups_partition[tag]) * (group / round);
    return {manager.tags[tag], before + static_cast<uint32_t>(position),
            static_cast<uint32_t>(tag)};
  }

  config::EnvManagerConfig train_, val_;
  uint32_t groups_, val_groups_;
  std::shared_ptr<const tasks::EpisodeSeeds> seeds_;
};

/// Of the slowest domain.
double epochs_of(const tasks::DataCursor& cursor) {
  double least = 0;
  bool is_first = true;
  for (const auto& [domain, at] : cursor) {
    double taken =
        static_cast<double>(at.epoch) +
        static_cast<double>(at.position) / static_cast<double>(std::max<uint64_t>(at.rows, 1));
    least = is_first ? taken : std::min(least, taken);
    is_first = false;
  }
  return least;
}

class PromptTasks final : public TaskSource {
 public:
  PromptTasks(const config::RunConfig& config, std::shared_ptr<const PromptSet> prompts,
              tasks::DataOrder order)
      : prompts_(std::move(prompts)),
        order_(std::move(order)),
        step_prompts_(static_cast<size_t>(config.rollout_batch_size)),
        val_prompts_(config.val_batch_size),
        seed_(static_cast<uint64_t>(config.seed)),
        is_ahead_(config.derived.steps_ahead > 0) {
    for (size_t row = 0; row < prompts_->train_rows(); ++row)
      if (!prompts_->at(row).sample->answer.empty()) answered_.push_back(row);
  }

  Expected<std::vector<GroupTask>> train(uint64_t) override {
    COHORT_ASSIGN(std::vector<tasks::DrawnRow> rows, order_.next(step_prompts_));
    std::vector<GroupTask> groups;
    for (const tasks::DrawnRow& drawn : rows) groups.push_back(task(drawn.row, drawn.lane));
    return groups;
  }

  // The lane is the domain's number in the order of the data. Of steps that are played at once it
  // depends on the schedule which one asks first: there the next row would, too.
  Expected<GroupTask> in_place(uint64_t step, uint32_t group, uint32_t lane) override {
    return task((is_ahead_ ? order_.beside(lane, step, group) : order_.next_of(lane)).row, lane);
  }

  // Draws with replacement: a round is a function of the seed and its number alone.
  std::vector<GroupTask> warm(uint64_t round, uint32_t count) override {
    std::vector<GroupTask> groups;
    Rng rng = Rng(seed_).fork(k_warm_stream).fork(round);
    for (uint32_t i = 0; i < count; ++i)
      groups.push_back(task(answered_[rng.below(answered_.size())]));
    return groups;
  }

  std::vector<GroupTask> held_out() const override {
    std::vector<GroupTask> groups;
    size_t count = prompts_->size() - prompts_->train_rows();
    if (val_prompts_ > 0) count = std::min(count, static_cast<size_t>(val_prompts_));
    for (size_t i = 0; i < count; ++i) groups.push_back(task(prompts_->train_rows() + i));
    return groups;
  }

  double epochs() const override { return epochs_of(order_.cursor()); }

  std::string prompt_id(const GroupTask& task) const override {
    return prompts_->at(task.seed).sample->id;
  }
  std::string state() const override { return tasks::to_json(order_.cursor()); }
  Expected<void> restore(const std::string& state) override {
    COHORT_ASSIGN(tasks::DataCursor cursor, tasks::data_cursor_of(state));
    return order_.resume(cursor);
  }

 private:
  GroupTask task(size_t row, uint32_t lane = 0) const {
    return {prompts_->at(row).domain, row, lane};
  }

  std::shared_ptr<const PromptSet> prompts_;
  tasks::DataOrder order_;
  std::vector<size_t> answered_;  // training rows with an answer to imitate
  size_t step_prompts_;
  int64_t val_prompts_;
  uint64_t seed_;
  bool is_ahead_;  // several steps are played at once
};

class RowTasks final : public TaskSource {
 public:
  RowTasks(std::shared_ptr<const RowSet> rows, tasks::DataOrder order, size_t batch)
      : rows_(std::move(rows)), order_(std::move(order)), batch_(batch) {}

  Expected<std::vector<GroupTask>> train(uint64_t) override {
    COHORT_ASSIGN(const std::vector<tasks::DrawnRow> rows, order_.next(batch_));
    std::vector<GroupTask> groups;
    for (const tasks::DrawnRow& drawn : rows) groups.push_back({rows_->tag(), drawn.row});
    return groups;
  }
  std::vector<GroupTask> warm(uint64_t, uint32_t) override { return {}; }
  std::vector<GroupTask> held_out() const override {
    std::vector<GroupTask> groups;
    for (size_t row = rows_->train_rows(); row < rows_->size(); ++row)
      groups.push_back({rows_->tag(), row});
    return groups;
  }
  double epochs() const override { return epochs_of(order_.cursor()); }
  std::string prompt_id(const GroupTask& task) const override { return rows_->id(task.seed); }
  std::string state() const override { return tasks::to_json(order_.cursor()); }
  Expected<void> restore(const std::string& state) override {
    COHORT_ASSIGN(tasks::DataCursor cursor, tasks::data_cursor_of(state));
    return order_.resume(cursor);
  }

 private:
  std::shared_ptr<const RowSet> rows_;
  tasks::DataOrder order_;
  size_t batch_;
};

}  // namespace

std::string TaskSource::prompt_id(const GroupTask& task) const {
  return fmt::format("{}/{}", task.tag, task.seed);
}

Expected<GroupTask> TaskSource::in_place(uint64_t step, uint32_t group, uint32_t) {
  return Error{Errc::unsupported,
               fmt::format("step {}: nothing takes the place of group {}: rows are all imitated",
                           step, group)};
}

Expected<void> TaskSource::restore(const std::string& state) {
  if (state == "{}") return {};
  return Error{Errc::corrupt, "a data cursor, but the run plays environments"};
}

std::unique_ptr<TaskSource> make_environment_tasks(
    const config::RunConfig& config, std::shared_ptr<const tasks::EpisodeSeeds> seeds) {
  return std::make_unique<EnvironmentTasks>(config, std::move(seeds));
}

Expected<std::unique_ptr<TaskSource>> make_prompt_tasks(const config::RunConfig& config,
                                                        std::shared_ptr<const PromptSet> prompts) {
  tasks::DataOrderOptions options;
  options.seed = static_cast<uint64_t>(config.seed);
  options.is_shuffled = config.sft.shuffle;
  options.shares = config.actor_train.data_args.domain_interleave_probs;
  if (config.dialect == config::Dialect::verl) options.epoch_end = tasks::EpochEnd::drop;
  const bool is_mixed = !options.shares.empty();
  if (!is_mixed) options.shares = {{"all", 1.0}};
  std::map<std::string, std::vector<size_t>> rows;
  bool has_answer = false;
  for (size_t row = 0; row < prompts->train_rows(); ++row) {
    rows[is_mixed ? prompts->at(row).domain : "all"].push_back(row);
    has_answer = has_answer || !prompts->at(row).sample->answer.empty();
  }
  if (config.warm_start.steps > 0 && !has_answer)
    return Error{Errc::config,
                 "warm_start.steps: no row of actor_train.data_args.file_name has an answer to "
                 "imitate; use 0"};
  if (const std::string& key = config.rlvr.demonstration_key; !key.empty() && !has_answer)
    return Error{Errc::config,
                 fmt::format("demonstration_key: no row of actor_train.data_args.file_name has a "
                             "column '{}' with an answer",
                             key)};
  auto order = tasks::DataOrder::create(std::move(options), std::move(rows),
                                        static_cast<size_t>(config.rollout_batch_size));
  if (!order) return Error{Errc::config, "actor_train.data_args: " + order.error().detail};
  return std::unique_ptr<TaskSource>(
      std::make_unique<PromptTasks>(config, std::move(prompts), std::move(*order)));
}

Expected<std::unique_ptr<TaskSource>> make_row_tasks(const config::RunConfig& config,
                                                     std::shared_ptr<const RowSet> rows) {
  tasks::DataOrderOptions options;
  options.seed = static_cast<uint64_t>(config.seed);
  options.shares = {{"all", 1.0}};
  options.is_shuffled = config.sft.shuffle;
  std::vector<size_t> all(rows->train_rows());
  std::iota(all.begin(), all.end(), size_t{0});
  const auto batch = static_cast<size_t>(config.derived.groups_per_step);
  auto order = tasks::DataOrder::create(std::move(options), {{"all", std::move(all)}}, batch);
  if (!order)
    return Error{Errc::config,
                 fmt::format("{}.data_args: {} rows for an optimizer batch of {} = "
                             "per_device_train_batch_size {} x gradient_accumulation_steps {} x {} "
                             "cards; give more rows or smaller batches",
                             config::train_section(config), rows->train_rows(), batch,
                             config.actor_train.training_args.per_device_train_batch_size,
                             config.actor_train.training_args.gradient_accumulation_steps,
                             config.derived.train_dp)};
  return std::unique_ptr<TaskSource>(
      std::make_unique<RowTasks>(std::move(rows), std::move(*order), batch));
}

}  // namespace cohort::actors

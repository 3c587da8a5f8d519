#include "actors/run/recorded_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "runtime/config/train_groups.hpp"
#include "runtime/stream/stream_file.hpp"

namespace cohort::actors {
namespace {

constexpr std::string_view k_by_reward = "rewards.";  // how a mask of a reward begins

/// What other roles have added is theirs to add again.
void strip(proto::Trajectory& t) {
  t.score = 0;
  t.reward_parts.clear();
  t.ref_logp.clear();
  t.teacher_logp.clear();
  t.values.clear();
  t.token_rewards.clear();
  if (t.mask_reason.starts_with(k_by_reward) || proto::is_left_out(t)) t.mask_reason.clear();
}

class RecordedTasks final : public TaskSource {
 public:
  RecordedTasks(const config::RunConfig& config, std::shared_ptr<RecordedGroups> groups,
                std::shared_ptr<const PromptSet> prompts)
      : step_groups_(static_cast<uint32_t>(config.derived.groups_per_step)),
        groups_(std::move(groups)),
        prompts_(std::move(prompts)) {}

  Expected<std::vector<GroupTask>> train(uint64_t step) override {
    std::vector<GroupTask> tasks;
    for (uint32_t group = 0; group < step_groups_; ++group) {
      COHORT_ASSIGN(GroupTask task, groups_->task_of(TrajectoryKind::train, step, group));
      tasks.push_back(std::move(task));
    }
    return tasks;
  }
  // What took a group's place then takes it now: the numbers go on.
  Expected<GroupTask> in_place(uint64_t step, uint32_t group, uint32_t) override {
    return groups_->task_of(TrajectoryKind::train, step, group);
  }
  std::vector<GroupTask> warm(uint64_t round, uint32_t count) override {
    std::vector<GroupTask> tasks;
    for (uint32_t group = 0; group < count; ++group)
      if (auto task = groups_->task_of(TrajectoryKind::warm_start, round, group))
        tasks.push_back(std::move(*task));
    return tasks;
  }
  std::vector<GroupTask> held_out() const override { return {}; }
  std::string prompt_id(const GroupTask& task) const override {
    return prompts_ && task.seed < prompts_->size() ? prompts_->at(task.seed).sample->id
                                                    : TaskSource::prompt_id(task);
  }

 private:
  uint32_t step_groups_;
  std::shared_ptr<RecordedGroups> groups_;
  std::shared_ptr<const PromptSet> prompts_;
};

}  // namespace

Expected<std::shared_ptr<RecordedGroups>> RecordedGroups::open(const config::RunConfig& config) {
  auto folder = stream::folder_of(config.from_stream);
  if (!folder) return folder.error().with_context("from_stream");
  auto reader = stream::Reader::open(*folder);
  if (!reader) return reader.error().with_context("from_stream");
  std::shared_ptr<RecordedGroups> groups(new RecordedGroups(std::move(*reader)));
  groups->name_ = config.from_stream;
  COHORT_ASSIGN(const stream::Index* index, groups->reader_.index());
  for (const stream::RecordInfo& info : index->trajectories())
    if (info.key.trajectory->kind == TrajectoryKind::train ||
        info.key.trajectory->kind == TrajectoryKind::warm_start)
      groups->records_.emplace(*info.key.trajectory, info);
  COHORT_TRY(groups->check(config));
  return groups;
}

Expected<void> RecordedGroups::check(const config::RunConfig& config) {
  const auto wanted = static_cast<uint32_t>(config.derived.groups_per_step);
  const auto size = static_cast<uint32_t>(config::played_group_size(config));
  uint32_t found = 0;
  for (;; ++steps_) {
    for (found = 0; found < wanted; ++found)
      if (size_of(TrajectoryKind::train, steps_ + 1, found) != size) break;
    if (found < wanted) break;
  }
  if (steps_ == 0)
    return Error{
        Errc::config,
        fmt::format("from_stream: step 1 of {} has not the {} groups of {} trajectories "
                    "that this config trains on (group {} has {}); `traj ls {} --step 1` "
                    "lists them",
                    name_, wanted, size, found, size_of(TrajectoryKind::train, 1, found), name_)};
  if (config.warm_start.steps > 0 && std::ranges::none_of(records_, [](const auto& record) {
        return record.first.kind == TrajectoryKind::warm_start;
      }))
    return Error{Errc::config, fmt::format("from_stream: {} has no supervised start to repeat; use "
                                           "warm_start.steps=0",
                                           name_)};
  return {};
}

uint32_t RecordedGroups::size_of(TrajectoryKind kind, uint64_t step, uint32_t group) const {
  uint32_t count = 0;
  while (records_.contains({kind, step, group, count})) ++count;
  return count;
}

Expected<proto::Trajectory> RecordedGroups::read(const proto::TrajectoryKey& key) {
  const auto found = records_.find(key);
  if (found == records_.end())
    return Error{Errc::not_found,
                 fmt::format("{}: {} is not recorded (from_stream)", name_, proto::to_string(key))};
  std::lock_guard lock(mutex_);
  COHORT_ASSIGN(const stream::Record record, reader_.read(found->second));
  COHORT_ASSIGN(proto::Trajectory t, record.trajectory());
  strip(t);
  return t;
}

Expected<GroupTask> RecordedGroups::task_of(TrajectoryKind kind, uint64_t step, uint32_t group) {
  COHORT_ASSIGN(const proto::Trajectory t, read({kind, step, group, 0}));
  return GroupTask{t.tag, t.seed};
}

std::unique_ptr<TaskSource> make_recorded_tasks(const config::RunConfig& config,
                                                std::shared_ptr<RecordedGroups> groups,
                                                std::shared_ptr<const PromptSet> prompts) {
  return std::make_unique<RecordedTasks>(config, std::move(groups), std::move(prompts));
}

}  // namespace cohort::actors

#include "actors/roles/hinted_teacher.hpp"

#include <utility>

#include "actors/roles/context_samples.hpp"

namespace cohort::actors {

proto::Trajectory with_prompt(const proto::Trajectory& trajectory,
                              std::span<const int32_t> prompt) {
  const uint32_t begin = trajectory.turns.front().response_begin;
  proto::Trajectory read;
  read.tokens.assign(prompt.begin(), prompt.end());
  read.tokens.insert(read.tokens.end(), trajectory.tokens.begin() + begin, trajectory.tokens.end());
  read.response_mask.assign(prompt.size(), 0);
  read.response_mask.insert(read.response_mask.end(), trajectory.response_mask.begin() + begin,
                            trajectory.response_mask.end());
  const auto moved = [&](uint32_t at) { return static_cast<uint32_t>(at - begin + prompt.size()); };
  for (const proto::Turn& turn : trajectory.turns) {
    proto::Turn& copy = read.turns.emplace_back();
    copy.response_begin = moved(turn.response_begin);
    copy.response_end = moved(turn.response_end);
  }
  return read;
}

FrozenWork hinted_log_probs(std::shared_ptr<const TeacherHints> hints) {
  FrozenWork work;
  work.wants = [](const proto::Trajectory& t) { return t.key.kind == TrajectoryKind::train; };
  work.read = [hints = std::move(hints)](
                  compute::TrainEngine& engine,
                  const std::vector<proto::Trajectory*>& wanted) -> Expected<void> {
    std::vector<proto::Trajectory> read;
    for (const proto::Trajectory* t : wanted)
      read.push_back(t->turns.empty() ? *t : with_prompt(*t, hints->prompt(t->seed)));
    std::vector<const proto::Trajectory*> batch;
    for (const proto::Trajectory& t : read) batch.push_back(&t);
    COHORT_ASSIGN(std::vector<std::vector<float>> log_probs, log_probs_of(engine, batch));
    for (size_t i = 0; i < wanted.size(); ++i) {
      proto::Trajectory& t = *wanted[i];
      const size_t answered =
          t.turns.empty() ? 0 : t.tokens.size() - t.turns.front().response_begin;
      t.teacher_logp.assign(t.tokens.size(), 0.F);
      std::copy(log_probs[i].end() - static_cast<ptrdiff_t>(answered), log_probs[i].end(),
                t.teacher_logp.end() - static_cast<ptrdiff_t>(answered));
    }
    return {};
  };
  return work;
}

}  // namespace cohort::actors

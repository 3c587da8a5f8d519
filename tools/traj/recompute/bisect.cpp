#include "tools/traj/recompute/bisect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "runtime/query/expression.hpp"
#include "tools/traj/recompute/trained_run.hpp"

namespace cohort::traj {
namespace {

using Batch = std::vector<proto::Trajectory>;
using Parts = std::vector<Batch>;  // what is halved: groups, then trajectories

/// The first guess is one part in so many: those that look most suspicious.
constexpr size_t k_first_share = 64;

/// A row's numbers, as the query language has them.
proto::Trajectory numbers_as_trajectory(const std::map<std::string, double>& numbers) {
  proto::Trajectory holder;
  holder.metrics.assign(numbers.begin(), numbers.end());
  return holder;
}

/// How far from the ordinary a part is: its greatest |score| and least log-prob, of which one bad
/// trajectory has an extreme one.
double suspicion(const Batch& part) {
  double most = 0;
  for (const proto::Trajectory& t : part) {
    most = std::max(most, std::isfinite(t.score) ? std::abs(static_cast<double>(t.score)) : 1e30);
    for (const float logp : t.behavior_logp)
      most = std::max(most, std::isfinite(logp) ? -static_cast<double>(logp) : 1e30);
  }
  return most;
}

/// How a set of parts is asked whether the culprit is among them.
enum class Question {
  alone,   // an update over them alone makes the predicate hold
  without  // an update over all others does not: answers of a group are compared with each other
};

class Search {
 public:
  Search(Trainer& trainer, std::filesystem::path state, uint64_t step,
         const query::Expression& where)
      : trainer_(trainer), state_(std::move(state)), step_(step), where_(where) {}

  /// Returns the part that is the culprit, or nothing if no single one is.
  Expected<std::optional<size_t>> find(const Parts& parts, Question question) {
    std::vector<size_t> suspects(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) suspects[i] = i;
    std::ranges::stable_sort(suspects, std::greater{},
                             [&](size_t i) { return suspicion(parts[i]); });
    size_t share = std::max<size_t>(1, suspects.size() / k_first_share);
    bool is_sure = false;  // the suspects as they are have been asked for
    while (suspects.size() > 1) {
      const auto end = suspects.begin() + static_cast<ptrdiff_t>(share);
      const std::vector<size_t> part(suspects.begin(), end);
      COHORT_ASSIGN(is_sure, is_among(parts, part, question));
      if (is_sure)
        suspects = part;
      else
        suspects.erase(suspects.begin(), end);
      share = (suspects.size() + 1) / 2;
    }
    if (!is_sure) {
      COHORT_ASSIGN(is_sure, is_among(parts, suspects, question));
    }
    return is_sure ? std::optional(suspects.front()) : std::nullopt;
  }
  uint64_t updates() const { return updates_; }

 private:
  Expected<bool> is_among(const Parts& parts, const std::vector<size_t>& chosen,
                          Question question) {
    Batch batch;
    for (size_t i = 0; i < parts.size(); ++i)
      if ((std::ranges::find(chosen, i) != chosen.end()) == (question == Question::alone))
        batch.insert(batch.end(), parts[i].begin(), parts[i].end());
    if (batch.empty()) return question == Question::without;
    COHORT_TRY(trainer_.load(state_));
    ++updates_;
    COHORT_ASSIGN(const control::UpdateReport report, trainer_.update(step_, batch));
    const bool holds = where_.holds(numbers_as_trajectory(numbers_of(report)));
    return holds == (question == Question::alone);
  }

  Trainer& trainer_;
  std::filesystem::path state_;
  uint64_t step_;
  const query::Expression& where_;
  uint64_t updates_ = 0;
};

Expected<uint64_t> first_step(TrainedRun& run, const query::Expression& where) {
  for (const uint64_t step : run.steps()) {
    COHORT_ASSIGN(const nlohmann::json row, run.row(step));
    if (where.holds(numbers_as_trajectory(numbers_of(row)))) return step;
  }
  return Error{Errc::not_found, fmt::format("{}: the predicate holds for no row of its {} steps",
                                            run.name(), run.steps().size())};
}

Parts groups_of(const Batch& batch) {
  Parts groups;
  for (const proto::Trajectory& t : batch) {
    if (groups.empty() || groups.back().front().key.group != t.key.group) groups.emplace_back();
    groups.back().push_back(t);
  }
  return groups;
}

struct Found {
  uint64_t step = 0, updates = 0;
  size_t groups = 0;
  proto::TrajectoryKey group;                  // of its first trajectory
  std::optional<proto::TrajectoryKey> single;  // none: it takes the whole group
};

Expected<Found> search(TrainedRun& run, const query::Expression& where, uint64_t step) {
  COHORT_ASSIGN(const actors::Checkpoint from, run.checkpoint_before(step - 1));
  COHORT_ASSIGN(Follower follower, Follower::start(run, from, {}));
  COHORT_TRY(follower.go_to(step - 1));
  COHORT_ASSIGN(const ScratchFolder scratch, ScratchFolder::make());
  COHORT_TRY(follower.change({}));  // the config that the step ran under
  COHORT_TRY(follower.trainer().save(scratch.path() / "state"));
  COHORT_ASSIGN(const Batch batch, run.batch(step));
  const Parts groups = groups_of(batch);
  Search of(follower.trainer(), scratch.path() / "state", step, where);
  COHORT_ASSIGN(const std::optional<size_t> group, of.find(groups, Question::alone));
  if (!group)
    return Error{Errc::not_found,
                 fmt::format("{}: step {}: the predicate holds for no group alone ({} updates): it "
                             "comes from several together, or from the state before the step",
                             run.name(), step, of.updates())};
  Found found{step, 0, groups.size(), groups[*group].front().key, std::nullopt};
  Parts singles;
  for (const proto::Trajectory& t : groups[*group]) singles.push_back({t});
  COHORT_ASSIGN(const std::optional<size_t> single, of.find(singles, Question::without));
  if (single) found.single = singles[*single].front().key;
  found.updates = of.updates();
  return found;
}

std::string key_text(const proto::TrajectoryKey& key) {
  return fmt::format("{}/{}/{}", key.step, key.group, key.index);
}

}  // namespace

Expected<void> bisect(const BisectOptions& options) {
  COHORT_ASSIGN(const query::Expression where,
                query::Expression::parse(options.where, query::Type::truth));
  COHORT_ASSIGN(TrainedRun run, TrainedRun::open(options.run));
  uint64_t step = options.step.value_or(0);
  if (step == 0) {
    COHORT_ASSIGN(step, first_step(run, where));
  }
  if (!options.is_json) fmt::print("step {}: the first that it holds for\n", step);
  COHORT_ASSIGN(const Found found, search(run, where, step));
  if (options.is_json) {
    nlohmann::ordered_json json{{"step", found.step},
                                {"group", found.group.group},
                                {"groups", found.groups},
                                {"trajectory", nullptr},
                                {"updates", found.updates}};
    if (found.single) json["trajectory"] = key_text(*found.single);
    fmt::print("{}\n", json.dump());
    return {};
  }
  fmt::print("group {}: of {} groups it makes it hold alone\n", found.group.group, found.groups);
  if (found.single)
    fmt::print("trajectory {}: without it the group does not; `traj show {} {}`\n",
               key_text(*found.single), options.run, key_text(*found.single));
  else
    fmt::print("it takes several trajectories of the group\n");
  fmt::print("bisect: found with {} updates\n", found.updates);
  return {};
}

}  // namespace cohort::traj

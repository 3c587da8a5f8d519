#include "tools/traj/recompute/bisect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "runtime/base/suggest.hpp"
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
  without  // one over all others does not
};

class Search {
 public:
  Search(Trainer& trainer, std::filesystem::path state, uint64_t step,
         const query::Expression& where)
      : trainer_(trainer), state_(std::move(state)), step_(step), where_(where) {}

  /// Returns the part that is the culprit, or nothing if no single one is. `rest` is in every
  /// update.
  Expected<std::optional<size_t>> find(const Parts& parts, Question question,
                                       const Batch& rest = {}) {
    std::vector<size_t> suspects(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) suspects[i] = i;
    std::ranges::stable_sort(suspects, std::greater{},
                             [&](size_t i) { return suspicion(parts[i]); });
    size_t share = std::max<size_t>(1, suspects.size() / k_first_share);
    bool is_sure = false;  // the suspects as they are have been asked for
    while (suspects.size() > 1) {
      const auto end = suspects.begin() + static_cast<ptrdiff_t>(share);
      const std::vector<size_t> part(suspects.begin(), end);
      COHORT_ASSIGN(is_sure, is_among(parts, part, question, rest));
      if (is_sure)
        suspects = part;
      else
        suspects.erase(suspects.begin(), end);
      share = (suspects.size() + 1) / 2;
    }
    if (!is_sure) {
      COHORT_ASSIGN(is_sure, is_among(parts, suspects, question, rest));
    }
    return is_sure ? std::optional(suspects.front()) : std::nullopt;
  }
  /// Returns the answer to the question about these parts.
  Expected<bool> is_among(const Parts& parts, const std::vector<size_t>& chosen, Question question,
                          const Batch& rest = {}) {
    std::vector<bool> is_taken(parts.size(), question == Question::without);
    for (const size_t i : chosen) is_taken[i] = !is_taken[i];
    Batch batch = rest;
    for (size_t i = 0; i < parts.size(); ++i)
      if (is_taken[i]) batch.insert(batch.end(), parts[i].begin(), parts[i].end());
    std::ranges::sort(batch, {}, &proto::Trajectory::key);  // as the update takes them
    if (batch.empty()) return question == Question::without;
    COHORT_TRY(trainer_.load(state_));
    ++updates_;
    COHORT_ASSIGN(const control::UpdateReport report, trainer_.update(step_, batch));
    const bool holds = where_.holds(numbers_as_trajectory(numbers_of(report)));
    return holds == (question == Question::alone);
  }

  uint64_t updates() const { return updates_; }

 private:
  Trainer& trainer_;
  std::filesystem::path state_;
  uint64_t step_;
  const query::Expression& where_;
  uint64_t updates_ = 0;
};

/// A number that no row has would make the predicate false of all of them.
Expected<void> check_metrics(TrainedRun& run, const query::Expression& where) {
  std::set<std::string> known;
  for (const uint64_t step : run.steps()) {
    COHORT_ASSIGN(const nlohmann::json row, run.row(step));
    for (const auto& [name, value] : numbers_of(row)) known.insert(name);
  }
  for (const std::string& name : where.metrics())
    if (!known.contains(name))
      return Error{Errc::not_found, fmt::format("{}: no row of its {} steps has the metric '{}'{}",
                                                run.name(), run.steps().size(), name,
                                                did_you_mean(name, {known.begin(), known.end()}))};
  return {};
}

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
  Question question = Question::without;       // whose answer the group is
  std::optional<proto::TrajectoryKey> single;  // none: it takes the whole group
};

/// The culprit among the groups. Updates over few groups are cheap, but have other means than the
/// step's: what they find has to hold in the step, else groups are taken out of the whole of it.
Expected<Found> find_group(Search& search, const Parts& groups) {
  Found found;
  found.groups = groups.size();
  COHORT_ASSIGN(const std::optional<size_t> alone, search.find(groups, Question::alone));
  std::optional<size_t> needed = alone;
  bool is_needed = false;
  if (alone) {
    COHORT_ASSIGN(is_needed, search.is_among(groups, {*alone}, Question::without));
  }
  if (!is_needed) {
    COHORT_ASSIGN(needed, search.find(groups, Question::without));
  }
  if (!needed && !alone)
    return Error{Errc::not_found,
                 fmt::format("the predicate needs no single group, and holds for none alone ({} "
                             "updates): it comes from several together, or from the state before "
                             "the step",
                             search.updates())};
  found.question = needed ? Question::without : Question::alone;
  found.group = groups[needed ? *needed : *alone].front().key;
  return found;
}

Expected<Found> search(TrainedRun& run, const query::Expression& where, uint64_t step) {
  COHORT_ASSIGN(const actors::Checkpoint from, run.checkpoint_before(step - 1));
  COHORT_ASSIGN(Follower follower, Follower::start(run, from, {}));
  COHORT_TRY(follower.go_to(step - 1));
  COHORT_ASSIGN(const ScratchFolder scratch, ScratchFolder::make());
  COHORT_TRY(follower.change({}));  // the config that the step ran under
  COHORT_TRY(follower.trainer().save(scratch.path() / "state"));
  COHORT_ASSIGN(const Batch batch, run.batch(step));
  Search of(follower.trainer(), scratch.path() / "state", step, where);
  auto found = find_group(of, groups_of(batch));
  if (!found) return found.error().with_context(fmt::format("{}: step {}", run.name(), step));
  found->step = step;
  Parts singles;
  Batch rest;
  for (const proto::Trajectory& t : batch) {
    if (t.key.group == found->group.group)
      singles.push_back({t});
    else if (found->question == Question::without)
      rest.push_back(t);
  }
  COHORT_ASSIGN(const std::optional<size_t> single, of.find(singles, Question::without, rest));
  if (single) found->single = singles[*single].front().key;
  found->updates = of.updates();
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
  COHORT_TRY(check_metrics(run, where));
  uint64_t step = options.step.value_or(0);
  if (step == 0) {
    COHORT_ASSIGN(step, first_step(run, where));
  }
  if (!options.is_json) fmt::print("step {}: the first that it holds for\n", step);
  COHORT_ASSIGN(const Found found, search(run, where, step));
  if (options.is_json) {
    nlohmann::ordered_json json{
        {"step", found.step},     {"group", found.group.group},
        {"groups", found.groups}, {"is_alone", found.question == Question::alone},
        {"trajectory", nullptr},  {"updates", found.updates}};
    if (found.single) json["trajectory"] = key_text(*found.single);
    fmt::print("{}\n", json.dump());
    return {};
  }
  const bool is_without = found.question == Question::without;
  fmt::print("group {}: of {} groups {}\n", found.group.group, found.groups,
             is_without ? "the one without which it does not hold" : "it makes it hold alone");
  if (found.single)
    fmt::print("trajectory {}: without it {} does not; `traj show {} {}`\n",
               key_text(*found.single), is_without ? "the step" : "the group", options.run,
               key_text(*found.single));
  else
    fmt::print("it takes several trajectories of the group\n");
  fmt::print("bisect: found with {} updates\n", found.updates);
  return {};
}

}  // namespace cohort::traj

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/catalog/catalog.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/recompute/recompute_commands.hpp"
#include "tools/traj/recompute/step_advantages.hpp"
#include "tools/traj/table.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::ordered_json;
using Places = std::map<proto::TrajectoryKey, size_t>;

/// A step under the asked config, and under the run's own.
struct View {
  const RecordedStep& step;
  const StepAdvantages &asked, &own;
  Places asked_at, own_at;
};

Places places_of(const StepAdvantages& step) {
  Places places;
  for (size_t i = 0; i < step.trajectories().size(); ++i) places[step.trajectories()[i].key] = i;
  return places;
}

/// What became of it under a config; `place` is none if it is not among those that train.
std::string fate_under(const proto::Trajectory& t, const StepAdvantages& step,
                       std::optional<size_t> place) {
  const std::string fate(fate_of(t));
  if (fate != "trains") return fate;
  if (!place) return "alone";
  return step.packed.is_untrained(*place) ? "untrained" : fate;
}

std::optional<size_t> place_of(const Places& places, const proto::Trajectory& t) {
  const auto found = places.find(t.key);
  return found == places.end() ? std::nullopt : std::optional(found->second);
}

void print_table(const View& view) {
  Table table({"GROUP", "INDEX", "SCORE", "TOKENS", "ADVANTAGE", "MIN", "MAX", "OWN", "FATE"});
  const auto number = [](double x) { return fmt::format("{:.6f}", x); };
  for (const proto::Trajectory& t : view.step.trajectories) {
    const auto place = place_of(view.asked_at, t), own = place_of(view.own_at, t);
    const AdvantageRange range = place ? range_of(view.asked, *place) : AdvantageRange{};
    table.add({fmt::to_string(t.key.group), fmt::to_string(t.key.index), number(t.score),
               fmt::to_string(range.tokens), place ? number(range.mean) : ".",
               place ? number(range.low) : ".", place ? number(range.high) : ".",
               own ? number(range_of(view.own, *own).mean) : ".",
               fate_under(t, view.asked, place)});
  }
  fmt::print("{}", table.render());
}

void print_trajectories(const View& view) {
  for (const proto::Trajectory& t : view.step.trajectories) {
    const auto place = place_of(view.asked_at, t), own = place_of(view.own_at, t);
    Json line{{"step", t.key.step},   {"group", t.key.group},
              {"index", t.key.index}, {"score", t.score},
              {"tokens", nullptr},    {"advantage", nullptr},
              {"min", nullptr},       {"max", nullptr},
              {"own", nullptr},       {"fate", fate_under(t, view.asked, place)}};
    if (place) {
      const AdvantageRange range = range_of(view.asked, *place);
      line["tokens"] = range.tokens;
      line["advantage"] = range.mean;
      line["min"] = range.low;
      line["max"] = range.high;
    }
    if (own) line["own"] = range_of(view.own, *own).mean;
    fmt::print("{}\n", line.dump());
  }
}

void print_tokens(const View& view) {
  for (const auto& [key, place] : view.asked_at) {
    const proto::Trajectory& t = view.asked.trajectories()[place];
    const auto first = static_cast<size_t>(view.asked.packed.cu_seqlens[place]);
    const auto own = view.own_at.find(key);
    for (size_t i = 0; i < t.tokens.size(); ++i) {
      if (t.response_mask[i] == 0) continue;
      Json line{{"step", key.step},     {"group", key.group},
                {"index", key.index},   {"at", i},
                {"token", t.tokens[i]}, {"advantage", view.asked.packed.advantages[first + i]},
                {"own", nullptr},       {"behavior_logp", t.behavior_logp[i]}};
      if (own != view.own_at.end())
        line["own"] =
            view.own.packed
                .advantages[static_cast<size_t>(view.own.packed.cu_seqlens[own->second]) + i];
      if (!t.ref_logp.empty()) line["ref_logp"] = t.ref_logp[i];
      if (!t.values.empty()) line["value"] = t.values[i];
      fmt::print("{}\n", line.dump());
    }
  }
}

/// Holds the run's own advantages against the numbers of its row.
Expected<void> compare(const View& view, const std::string& run) {
  const auto& summary = view.own.metrics.summary;
  const std::pair<const char*, double> numbers[] = {{"critic/advantages/mean", summary.mean},
                                                    {"critic/advantages/std", summary.std}};
  for (const auto& [name, value] : numbers) {
    const auto found = view.step.row.find(name);
    if (found == view.step.row.end()) {
      fmt::print(stderr, "step's row: none with {}; nothing to compare with\n", name);
      return {};
    }
    if (found->second == value) continue;
    if (!missing_parts(view.step.own, view.own, false).empty()) {
      fmt::print(stderr, "step's row: {} {}; it depends on what the stream does not have\n", name,
                 found->second);
      return {};
    }
    return Error{Errc::corrupt,
                 fmt::format("{}: step {}: {} is {} by its trajectories, and {} in its row", run,
                             view.step.trajectories.front().key.step, name, value, found->second)};
  }
  fmt::print(stderr, "step's row: the same mean and deviation, to the bit\n");
  return {};
}

void print_summary(const View& view, const StepQuestion& question) {
  const auto name = [](const config::RunConfig& c) { return catalog::to_string(c.adv_estimator); };
  fmt::print(stderr, "{} step {}: estimator {} (the run's own: {}), {} of {} trajectories train\n",
             question.run, question.step, name(view.step.asked), name(view.step.own),
             view.asked_at.size(), view.step.trajectories.size());
  for (const auto& [label, step] : {std::pair{"asked", &view.asked}, std::pair{"own", &view.own}})
    fmt::print(stderr, "{}: mean {}, deviation {}, {} tokens, {} of {} groups have mixed scores\n",
               label, step->metrics.summary.mean, step->metrics.summary.std,
               step->metrics.summary.tokens, step->metrics.groups.mixed_groups,
               step->metrics.groups.groups);
  for (const std::string& part : missing_parts(view.step.asked, view.asked, false))
    fmt::print(stderr, "note: {}\n", part);
}

}  // namespace

Expected<void> advantages(const AdvantagesOptions& options) {
  COHORT_ASSIGN(const RecordedStep step, read_step(options.question));
  const double kl = step.kl_coefficient();
  COHORT_ASSIGN(const StepAdvantages asked,
                advantages_of({step.asked, kl, nullptr, step.earlier}, step.batch()));
  COHORT_ASSIGN(const StepAdvantages own,
                advantages_of({step.own, kl, nullptr, step.earlier}, step.batch()));
  const View view{step, asked, own, places_of(asked), places_of(own)};
  if (options.output == Output::table) print_table(view);
  if (options.output == Output::trajectories) print_trajectories(view);
  if (options.output == Output::tokens) print_tokens(view);
  print_summary(view, options.question);
  return compare(view, options.question.run);
}

}  // namespace cohort::traj

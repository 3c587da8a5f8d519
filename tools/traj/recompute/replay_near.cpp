#include "tools/traj/recompute/replay_near.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/clock.hpp"
#include "tools/traj/recompute/closeness.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::ordered_json;

struct Number {
  std::string name;
  double recorded = 0, computed = 0;
  double off() const {
    const double share = std::abs(computed - recorded) / std::abs(recorded);
    return recorded == computed ? 0 : share;
  }
};

struct Step {
  uint64_t step = 0;
  std::optional<Number> norm;        // the one that is off most; none: the row has none
  std::optional<Closeness> tensors;  // none: the run has no checkpoint of the step
};

bool is_within(const Step& x, double tolerance) {
  const bool norm_is = !x.norm || x.norm->off() <= tolerance;  // NaN is not
  return norm_is && (!x.tensors || x.tensors->beyond == 0);
}

std::vector<NamedValues> parameters_of(const compute::TrainEngine& engine) {
  std::vector<NamedValues> all;
  for (const compute::ParameterShard& shard : engine.master_shards()) {
    NamedValues& own = all.emplace_back();
    own.name = shard.name;
    own.values.resize(shard.bytes.size() / sizeof(float));
    std::memcpy(own.values.data(), shard.bytes.data(), own.values.size() * sizeof(float));
  }
  return all;
}

std::optional<Number> farthest_norm(const std::map<std::string, double>& recorded,
                                    const std::map<std::string, double>& computed) {
  std::optional<Number> farthest;
  for (const auto& [name, value] : computed) {
    if (!name.ends_with("/grad_norm") || !recorded.contains(name)) continue;
    const Number own{name, recorded.at(name), value};
    if (!farthest || !(own.off() <= farthest->off())) farthest = own;
  }
  return farthest;
}

class NearReplay {
 public:
  NearReplay(TrainedRun& run, Follower follower, const NearReplayOptions& options)
      : run_(run),
        follower_(std::move(follower)),
        options_(options),
        start_(parameters_of(follower_.trainer().engine())) {}

  Expected<void> go() {
    while (follower_.step() < options_.last && !beyond) {
      COHORT_ASSIGN(const Step step, next());
      if (step.tensors && (!farthest || step.tensors->farthest.share > farthest->share))
        farthest = step.tensors->farthest;
      if (!is_within(step, options_.tolerance)) {
        beyond = step;
      } else if (step.step >= options_.first) {
        ++within;
        if (!options_.is_json) print(step);
      }
    }
    return {};
  }

  void print(const Step& x) const {
    std::string line = fmt::format("step {}:", x.step);
    if (x.norm) line += fmt::format(" {} off by {:.2g}", x.norm->name, x.norm->off());
    if (x.tensors)
      line += fmt::format("{}parameters by {:.2g} of their way ({})", x.norm ? ", " : " ",
                          x.tensors->farthest.share, x.tensors->farthest.tensor);
    fmt::print("{}\n", line);
  }

  uint64_t within = 0;
  double seconds = 0, recorded_seconds = 0;
  std::optional<TensorDistance> farthest;
  std::optional<Step> beyond;

 private:
  Expected<Step> next() {
    const double begin = now_seconds();
    COHORT_ASSIGN(const control::UpdateReport report, follower_.next());
    Step step{follower_.step(), std::nullopt, std::nullopt};
    COHORT_ASSIGN(const nlohmann::json row, run_.row(step.step));
    seconds += now_seconds() - begin;
    recorded_seconds += row.value("time/step_s", 0.0);
    step.norm = farthest_norm(numbers_of(row), numbers_of(report));
    COHORT_TRY(hold_against_checkpoint(step));
    return step;
  }

  Expected<void> hold_against_checkpoint(Step& step) {
    const actors::Checkpoint* own = run_.checkpoint_of(step.step);
    if (own == nullptr) return {};
    COHORT_ASSIGN(const config::RunConfig config, run_.config(step.step, {}));
    COHORT_ASSIGN(std::unique_ptr<Trainer> recorded, Trainer::open(config, Sums::near));
    COHORT_TRY(recorded->load(own->folder));
    std::vector<NamedValues> was = parameters_of(recorded->engine());
    COHORT_ASSIGN(step.tensors, closeness(start_, was, parameters_of(follower_.trainer().engine()),
                                          options_.tolerance));
    start_ = std::move(was);
    follower_.go_on_with(std::move(recorded));
    return {};
  }

  TrainedRun& run_;
  Follower follower_;
  const NearReplayOptions& options_;
  std::vector<NamedValues> start_;  // of the stretch
};

void print_beyond(const Step& x, double tolerance) {
  fmt::print("step {}: beyond {:g}\n", x.step, tolerance);
  if (x.norm)
    fmt::print("  {}: {:.9g} recorded, {:.9g} computed, off by {:.2g}\n", x.norm->name,
               x.norm->recorded, x.norm->computed, x.norm->off());
  if (x.tensors && x.tensors->first)
    fmt::print(
        "  first tensor: {}, off by {:.2g} of its way; {} of {} tensors are beyond, the "
        "farthest is {}, {:.2g}\n",
        x.tensors->first->tensor, x.tensors->first->share, x.tensors->beyond, x.tensors->of,
        x.tensors->farthest.tensor, x.tensors->farthest.share);
}

Json json_of(const TensorDistance& x) { return {{"name", x.tensor}, {"off", x.share}}; }

Json json_of(const Step& x) {
  Json json{{"step", x.step}};
  if (x.norm) json[x.norm->name] = {{"recorded", x.norm->recorded}, {"computed", x.norm->computed}};
  if (x.tensors && x.tensors->first) {
    json["tensor"] = json_of(*x.tensors->first);
    json["farthest"] = json_of(x.tensors->farthest);
    json["tensors_beyond"] = x.tensors->beyond;
    json["tensors"] = x.tensors->of;
  }
  return json;
}

}  // namespace

Expected<void> replay_near(TrainedRun& run, const actors::Checkpoint& from,
                           const NearReplayOptions& options) {
  COHORT_ASSIGN(Follower follower, Follower::start(run, from, {}, Sums::near));
  NearReplay replay(run, std::move(follower), options);
  COHORT_TRY(replay.go());
  const uint64_t steps = options.last - options.first + 1;
  if (options.is_json) {
    Json json{{"first", options.first},    {"last", options.last},
              {"checkpoint", from.number}, {"steps", steps},
              {"equal", replay.within},    {"tolerance", options.tolerance},
              {"seconds", replay.seconds}, {"recorded_seconds", replay.recorded_seconds}};
    if (replay.farthest) json["farthest"] = json_of(*replay.farthest);
    if (replay.beyond) json["difference"] = json_of(*replay.beyond);
    fmt::print("{}\n", json.dump());
  } else {
    if (replay.beyond) print_beyond(*replay.beyond, options.tolerance);
    if (options.why) fmt::print("not to the bit: {}\n", *options.why);
    fmt::print("from the checkpoint of step {}; {:.2f} s, the run took {:.2f} s for these steps\n",
               from.number, replay.seconds, replay.recorded_seconds);
    fmt::print("replay: {} of {} steps equal within {:g}\n", replay.within, steps,
               options.tolerance);
  }
  if (!replay.beyond) return {};
  return Error{Errc::corrupt, fmt::format("{}: step {} is the first that is beyond {:g}",
                                          run.name(), replay.beyond->step, options.tolerance)};
}

}  // namespace cohort::traj

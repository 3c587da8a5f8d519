#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/traj/compare.hpp"
#include "tools/traj/flat_config.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::ordered_json;
using Kind = proto::TrajectoryKind;

/// A run's records by place in the run.
struct Side {
  stream::Reader reader;
  std::map<proto::TrajectoryKey, stream::RecordInfo> trajectories;
  std::map<uint64_t, nlohmann::json> results;  // newest of each step
  std::map<std::string, std::string> config;   // key path -> value

  std::vector<stream::RecordInfo> of(Kind kind, uint64_t step) const {
    std::vector<stream::RecordInfo> infos;
    for (auto it = trajectories.lower_bound({kind, step, 0, 0});
         it != trajectories.end() && it->first.kind == kind && it->first.step == step; ++it)
      infos.push_back(it->second);
    return infos;
  }
};

Expected<void> take_json(Side& side, const stream::RecordInfo& info) {
  COHORT_ASSIGN(stream::Record record, side.reader.read(info));
  nlohmann::json data = nlohmann::json::parse(record.text(), nullptr, false);
  if (!data.is_object())
    return Error{Errc::corrupt, fmt::format("{}: no JSON object", info.describe())};
  if (info.type == stream::RecordType::step_result && info.key.step)
    side.results[*info.key.step] = std::move(data);
  else if (info.type == stream::RecordType::run_config)
    side.config = flat_config(data.value("yaml", ""));
  return {};
}

Expected<Side> read_side(const std::string& run) {
  COHORT_ASSIGN(stream::Reader reader, open_run(run));
  Side side{std::move(reader), {}, {}, {}};
  COHORT_ASSIGN(const stream::Index* index, side.reader.index());
  if (!index->damages().empty())  // what is missing would pass for a difference, or for none
    return Error{Errc::corrupt, fmt::format("{}: {}; `traj verify` says more", run,
                                            index->damages().front().describe())};
  for (const stream::RecordInfo& info : index->trajectories())
    side.trajectories[*info.key.trajectory] = info;
  for (const stream::RecordInfo& info : std::vector(index->records()))
    if (info.type == stream::RecordType::step_result || info.type == stream::RecordType::run_config)
      COHORT_TRY(take_json(side, info));
  return side;
}

struct Found {
  uint64_t step = 0;
  std::optional<proto::TrajectoryKey> key;  // none: the step's result
  Difference difference;
  std::vector<Difference> more;  // of the result
  uint64_t differ = 0, of = 0;   // trajectories of the same kind and step
};

class Walk {
 public:
  Walk(Side& a, Side& b) : a_(a), b_(b) {}

  /// In the order of a run: what a step trains on, its result, the evaluation of what it made.
  Expected<void> run() {
    std::set<uint64_t> steps;
    for (const Side* side : {&a_, &b_}) {
      for (const auto& [key, unused] : side->trajectories) steps.insert(key.step);
      for (const auto& [step, unused] : side->results) steps.insert(step);
    }
    for (uint64_t step : steps) {
      for (Kind kind : {Kind::warm_start, Kind::train}) COHORT_TRY(trajectories(kind, step));
      if (!found_) results(step);
      for (Kind kind : {Kind::val, Kind::val_greedy}) COHORT_TRY(trajectories(kind, step));
      if (found_) return {};
    }
    return {};
  }

  const std::optional<Found>& found() const { return found_; }
  uint64_t equal_trajectories() const { return equal_trajectories_; }
  uint64_t equal_hashes() const { return equal_hashes_; }

 private:
  Expected<proto::Trajectory> read(Side& side, const stream::RecordInfo& info) {
    COHORT_ASSIGN(stream::Record record, side.reader.read(info));
    return record.trajectory();
  }

  Expected<void> trajectories(Kind kind, uint64_t step) {
    if (found_) return {};
    std::map<proto::TrajectoryKey, std::array<std::optional<stream::RecordInfo>, 2>> both;
    for (const stream::RecordInfo& info : a_.of(kind, step)) both[*info.key.trajectory][0] = info;
    for (const stream::RecordInfo& info : b_.of(kind, step)) both[*info.key.trajectory][1] = info;
    uint64_t differ = 0;
    for (const auto& [key, infos] : both) {
      COHORT_ASSIGN(std::optional<Difference> difference, compare_at(infos));
      if (!difference) continue;
      if (++differ == 1) found_ = Found{step, key, std::move(*difference), {}, 0, both.size()};
    }
    if (differ > 0)
      found_->differ = differ;
    else
      equal_trajectories_ += both.size();
    return {};
  }

  Expected<std::optional<Difference>> compare_at(
      const std::array<std::optional<stream::RecordInfo>, 2>& infos) {
    if (!infos[0] || !infos[1])
      return std::optional(Difference{"trajectory", std::nullopt, std::nullopt,
                                      infos[0] ? "recorded" : "absent",
                                      infos[1] ? "recorded" : "absent"});
    COHORT_ASSIGN(proto::Trajectory x, read(a_, *infos[0]));
    COHORT_ASSIGN(proto::Trajectory y, read(b_, *infos[1]));
    return compare(x, y);
  }

  void results(uint64_t step) {
    const auto a = a_.results.find(step), b = b_.results.find(step);
    if (a == a_.results.end() && b == b_.results.end()) return;
    if (a == a_.results.end() || b == b_.results.end()) {
      const bool is_a = a != a_.results.end();
      found_ = Found{step,
                     std::nullopt,
                     Difference{"step_result", std::nullopt, std::nullopt,
                                is_a ? "recorded" : "absent", is_a ? "absent" : "recorded"},
                     {},
                     0,
                     0};
      return;
    }
    std::vector<Difference> all = compare_results(a->second, b->second);
    if (all.empty()) {
      ++equal_hashes_;
      return;
    }
    Difference first = std::move(all.front());
    all.erase(all.begin());
    found_ = Found{step, std::nullopt, std::move(first), std::move(all), 0, 0};
  }

  Side& a_;
  Side& b_;
  std::optional<Found> found_;
  uint64_t equal_trajectories_ = 0, equal_hashes_ = 0;
};

Json to_json(const Difference& x) {
  Json json{{"what", x.what}};
  if (x.turn) json["turn"] = *x.turn;
  if (x.token) json["token"] = *x.token;
  json["a"] = x.a;
  json["b"] = x.b;
  return json;
}

std::vector<Difference> compare_configs(const Side& a, const Side& b) {
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [key, value] : a.config) both[key] = {value, "absent"};
  for (const auto& [key, value] : b.config)
    both.try_emplace(key, "absent", "").first->second.second = value;
  std::vector<Difference> all;
  for (const auto& [key, values] : both)
    if (values.first != values.second && key != "output_dir")
      all.push_back({key, std::nullopt, std::nullopt, values.first, values.second});
  return all;
}

void print_text(const Walk& walk, const std::vector<Difference>& config) {
  for (const Difference& each : config)
    fmt::print("config   {}: {} | {}\n", each.what, printable(each.a), printable(each.b));
  fmt::print("equal    {} trajectories and {} step results come first\n", walk.equal_trajectories(),
             walk.equal_hashes());
  if (!walk.found()) return fmt::print("diff: the runs are equal\n");
  const Found& found = *walk.found();
  const Difference& x = found.difference;
  if (!found.key) {
    fmt::print("differs  step {}: {}: {} | {}\n", found.step, x.what, x.a, x.b);
    for (const Difference& each : found.more)
      fmt::print("         step {}: {}: {} | {}\n", found.step, each.what, each.a, each.b);
  } else {
    fmt::print("differs  {}{}{}: {}: {} | {}\n", to_string(*found.key),
               x.turn ? fmt::format(", turn {}", *x.turn) : "",
               x.token ? fmt::format(", token {}", *x.token) : "", x.what, x.a, x.b);
    fmt::print("         {} of the {} trajectories of that step differ\n", found.differ, found.of);
  }
  fmt::print("diff: the runs differ from step {} on\n", found.step);
}

void print_json(const Walk& walk, const std::vector<Difference>& config) {
  Json json{{"equal", !walk.found()},
            {"equal_trajectories", walk.equal_trajectories()},
            {"equal_step_results", walk.equal_hashes()},
            {"config", Json::array()}};
  for (const Difference& each : config) json["config"].push_back(to_json(each));
  if (walk.found()) {
    const Found& found = *walk.found();
    Json first = to_json(found.difference);
    first["step"] = found.step;
    if (found.key) {
      first["kind"] = proto::to_string(found.key->kind);
      first["group"] = found.key->group;
      first["index"] = found.key->index;
      first["differ"] = found.differ;
      first["of"] = found.of;
    }
    json["first"] = std::move(first);
    json["more"] = Json::array();
    for (const Difference& each : found.more) json["more"].push_back(to_json(each));
  }
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

Expected<void> diff(const DiffOptions& options) {
  COHORT_ASSIGN(Side a, read_side(options.a));
  COHORT_ASSIGN(Side b, read_side(options.b));
  Walk walk(a, b);
  COHORT_TRY(walk.run());
  const std::vector<Difference> config = compare_configs(a, b);
  options.is_json ? print_json(walk, config) : print_text(walk, config);
  if (walk.found())
    return Error{Errc::corrupt, fmt::format("{} and {} differ", options.a, options.b)};
  return {};
}

}  // namespace cohort::traj

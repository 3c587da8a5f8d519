#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/query/expression.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

using Clock = std::chrono::steady_clock;
// A look costs one read of a few bytes: a follower lags little and costs the run nothing.
constexpr auto k_look_every = std::chrono::milliseconds(20);

class Tail {
 public:
  Tail(const TailOptions& options, query::Expression where)
      : options_(options), where_(std::move(where)) {}

  /// Prints the last ones of what is there.
  Expected<void> print_last(stream::Reader& reader) {
    COHORT_ASSIGN(const stream::Index* index, reader.index());
    const std::vector<stream::RecordInfo>& records = index->records();
    size_t from = records.size();
    for (uint64_t left = options_.count; from > 0 && left > 0; --from)
      if (records[from - 1].type == stream::RecordType::trajectory) {
        COHORT_ASSIGN(const stream::Record record, reader.read(records[from - 1]));
        COHORT_ASSIGN(const proto::Trajectory trajectory, record.trajectory());
        if (where_.holds(trajectory)) --left;
      }
    for (; from < records.size() && !is_enough(); ++from) {
      COHORT_ASSIGN(const stream::Record record, reader.read(records[from]));
      COHORT_TRY(print(record));
    }
    std::fflush(stdout);
    return {};
  }

  /// Prints what is appended, until the limit or the time is reached, or a signal comes.
  Expected<void> follow(stream::Reader& reader) {
    const auto until = Clock::now() + std::chrono::duration<double>(options_.for_s);
    while (!is_enough() && (options_.for_s <= 0 || Clock::now() < until)) {
      auto record = reader.next();
      if (!record && record.error().code != Errc::corrupt) return record.error();
      if (!record) {  // told once; the next call goes on behind it
        fmt::print(stderr, "traj: left out: {}\n", record.error().detail);
      } else if (!*record) {
        std::fflush(stdout);
        std::this_thread::sleep_for(k_look_every);
      } else if (!last_ || (*record)->info.number > *last_) {
        COHORT_TRY(print(**record));
      }
    }
    return {};
  }

 private:
  bool is_enough() const { return options_.limit > 0 && printed_ >= options_.limit; }

  Expected<void> print(const stream::Record& record) {
    last_ = record.info.number;
    if (record.info.type == stream::RecordType::step_result) print_result(record);
    if (record.info.type != stream::RecordType::trajectory) return {};
    COHORT_ASSIGN(const proto::Trajectory x, record.trajectory());
    if (!where_.holds(x)) return {};
    ++printed_;
    fmt::print("{} {}/{}/{} score {:.3f} turns {} tokens {} weights {} {}\n", to_string(x.key.kind),
               x.key.step, x.key.group, x.key.index, x.score, x.turns.size(), x.tokens.size(),
               x.weight_version_max, printable(x.stop_reason));
    return {};
  }

  static void print_result(const stream::Record& record) {
    const auto data = nlohmann::json::parse(record.text(), nullptr, false);
    std::string line = fmt::format("step {}", record.info.key.step.value_or(0));
    for (const char* name : {"loss", "reward/mean", "actor/grad_norm", "param_hash"})
      if (data.is_object() && data.contains(name))
        line += fmt::format(", {} {}", name, data.at(name).dump());
    fmt::print("{}\n", line);
  }

  const TailOptions& options_;
  query::Expression where_;
  std::optional<uint64_t> last_;  // number of the record that was looked at last
  uint64_t printed_ = 0;          // trajectories
};

}  // namespace

Expected<void> tail(const TailOptions& options) {
  COHORT_ASSIGN(
      query::Expression where,
      query::Expression::parse(options.where.empty() ? "true" : options.where, query::Type::truth));
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  Tail tail(options, std::move(where));
  COHORT_TRY(tail.print_last(reader));
  return options.is_following ? tail.follow(reader) : Expected<void>();
}

}  // namespace cohort::traj

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "runtime/query/expression.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

using Clock = std::chrono::steady_clock;
// A stream may lie on a network file system, which tells nobody of an append: the follower looks.
// A look is one read of a few bytes.
constexpr auto k_look_every = std::chrono::milliseconds(20);

class Tail {
 public:
  Tail(const TailOptions& options, query::Expression where)
      : options_(options), where_(std::move(where)) {}

  /// Prints the last ones of what is there; the reader's next record is the one behind them.
  Expected<void> print_last(stream::Reader& reader) {
    COHORT_ASSIGN(const stream::Index* index, reader.index());
    losses_ = tell_losses(*index);
    const std::vector<stream::RecordInfo>& records = index->records();
    std::vector<stream::RecordInfo> lines;  // the last one first
    uint64_t left = options_.count;
    for (size_t i = records.size(); i > 0 && left > 0; --i) {
      const stream::RecordInfo& info = records[i - 1];
      if (info.type == stream::RecordType::trajectory) {
        const auto record = reader.read(info);
        if (record && !is_chosen(*record)) continue;
        --left;
      }
      lines.push_back(info);
    }
    for (size_t i = lines.size(); i > 0 && !is_enough(); --i)
      COHORT_TRY(print(reader.read(lines[i - 1])));
    std::fflush(stdout);
    return records.empty() ? Expected<void>() : reader.go_behind(records.back());
  }

  /// Prints what is appended, until the limit or the time is reached, or a signal comes.
  Expected<void> follow(stream::Reader& reader) {
    const auto until = Clock::now() + std::chrono::duration<double>(options_.for_s);
    while (!is_enough() && (options_.for_s <= 0 || Clock::now() < until)) {
      auto record = reader.next();
      if (record && !*record) {
        std::fflush(stdout);
        std::this_thread::sleep_for(k_look_every);
        continue;
      }
      COHORT_TRY(print(record ? Expected<stream::Record>(std::move(**record))
                              : Expected<stream::Record>(record.error())));
    }
    return {};
  }

  /// Errc::corrupt if something was left out.
  Expected<void> result() const { return to_result(losses_, damaged_, "records"); }

 private:
  bool is_enough() const { return options_.limit > 0 && printed_ >= options_.limit; }

  bool is_chosen(const stream::Record& record) const {
    const auto trajectory = record.trajectory();
    return trajectory && where_.holds(*trajectory);
  }

  /// Damage is told once and left out: the stream goes on behind it.
  Expected<void> print(const Expected<stream::Record>& record) {
    if (!record && record.error().code != Errc::corrupt) return record.error();
    if (!record) {
      ++damaged_;
      fmt::print(stderr, "traj: left out: {}\n", record.error().detail);
      return {};
    }
    if (record->info.type == stream::RecordType::step_result) print_result(*record);
    if (record->info.type != stream::RecordType::trajectory) return {};
    COHORT_ASSIGN(const proto::Trajectory x, record->trajectory());
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
  uint64_t printed_ = 0;               // trajectories
  uint64_t losses_ = 0, damaged_ = 0;  // told on stderr
};

}  // namespace

Expected<void> tail(const TailOptions& options) {
  COHORT_ASSIGN(
      query::Expression where,
      query::Expression::parse(options.where.empty() ? "true" : options.where, query::Type::truth));
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  Tail tail(options, std::move(where));
  COHORT_TRY(tail.print_last(reader));
  if (options.is_following) COHORT_TRY(tail.follow(reader));
  return tail.result();
}

}  // namespace cohort::traj

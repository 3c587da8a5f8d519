#include "runtime/plugin/child/child_reward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace cohort::plugin {
namespace {

/// Beyond the deadline that the child keeps by itself.
constexpr double k_concurrent_slack_s = 0.05;

Error lost(std::string_view reason) { return {Errc::protocol, std::string(reason)}; }

}  // namespace

/// One score(): which rows are still without a result, and why.
class ChildReward::Call {
 public:
  Call(PluginPool& pool, std::span<const tasks::RewardRow> rows, double timeout_s)
      : pool_(pool),
        rows_(rows),
        timeout_s_(timeout_s),
        loaded_(pool.loaded()),
        results_(rows.size()),
        reasons_(rows.size()) {}

  std::vector<tasks::RewardResult> run() {
    std::vector<size_t> open(rows_.size());
    std::iota(open.begin(), open.end(), size_t{0});
    if (!rows_.empty()) ask_together(std::move(open));
    for (size_t row = 0; row < rows_.size(); ++row)
      if (reasons_[row]) ask_alone(row);
    return std::move(results_);
  }

 private:
  /// Asks for all rows, with a new child for those behind a row that cost one.
  void ask_together(std::vector<size_t> open) {
    while (!open.empty()) {
      auto worker = pool_.take();
      if (!worker) return give_up(open, worker.error().detail);
      auto answered = ask(**worker, open);
      if (answered) return pool_.give_back(std::move(*worker));
      pool_.drop(std::move(*worker));
      std::erase_if(open, [&](size_t row) { return done_[row] || reasons_[row].has_value(); });
      // Rows that were judged one after the other: the first without an answer is the one.
      bool is_one = !loaded_.is_batch && !loaded_.is_concurrent;
      size_t blamed = is_one ? std::min<size_t>(1, open.size()) : open.size();
      for (size_t i = 0; i < blamed; ++i) reasons_[open[i]] = answered.error().detail;
      open.erase(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(blamed));
    }
  }

  void ask_alone(size_t row) {
    auto worker = pool_.take();
    if (!worker) return give_up({row}, worker.error().detail);
    reasons_[row].reset();
    auto answered = ask(**worker, {row});
    if (answered) {
      pool_.give_back(std::move(*worker));
    } else {
      pool_.drop(std::move(*worker));
      if (!reasons_[row]) reasons_[row] = answered.error().detail;
    }
    if (reasons_[row]) give_up({row}, *reasons_[row]);
  }

  void give_up(const std::vector<size_t>& rows, const std::string& why) {
    for (size_t row : rows) {
      results_[row] = without_score(why.empty() ? "no reason given" : why);
      reasons_[row].reset();
    }
  }

  /// Returns nothing once each row has a result or a reason; an error means that the child is lost.
  Expected<void> ask(PluginWorker& worker, const std::vector<size_t>& open) {
    std::vector<const tasks::RewardRow*> asked;
    for (size_t row : open) asked.push_back(&rows_[row]);
    double timeout = timeout_s_ * (loaded_.is_batch ? static_cast<double>(open.size()) : 1);
    if (loaded_.is_concurrent) timeout += k_concurrent_slack_s;
    const std::string payload = rows_payload(asked);
    if (payload.size() + k_frame_head_bytes > k_max_frame_bytes) {
      for (size_t row : open)
        reasons_[row] = fmt::format("{} bytes are more than a call may have ({})", payload.size(),
                                    k_max_frame_bytes);
      return {};
    }
    worker.begin(Op::score, payload);
    for (size_t answered = 0; answered < open.size();) {
      COHORT_ASSIGN(Frame frame, worker.next(timeout));
      if (frame.kind == static_cast<uint8_t>(Answer::failed)) {
        COHORT_ASSIGN(Failure failure, read_failure(frame.payload));
        for (size_t row : open)
          if (!done_[row] && !reasons_[row]) reasons_[row] = failure.reason;
        return {};
      }
      if (frame.kind != static_cast<uint8_t>(Answer::results)) return lost("answered garbage");
      COHORT_ASSIGN(Results results, read_results(frame.payload));
      COHORT_ASSIGN(size_t taken, take_results(std::move(results), open));
      answered += taken;
    }
    return {};
  }

  Expected<size_t> take_results(Results results, const std::vector<size_t>& open) {
    if (results.rows.empty() || results.first > open.size() ||
        results.rows.size() > open.size() - results.first)
      return lost("answered garbage: results of rows that were not asked for");
    for (size_t i = 0; i < results.rows.size(); ++i) {
      size_t row = open[results.first + i];
      if (done_[row] || reasons_[row]) return lost("answered garbage: two results for one row");
      RowResult& found = results.rows[i];
      if (found.verdict == Verdict::raised) {
        reasons_[row] = std::move(found.result.error);
        continue;
      }
      results_[row] = checked(std::move(found));
      done_[row] = true;
    }
    return results.rows.size();
  }

  static tasks::RewardResult checked(RowResult found) {
    if (found.verdict != Verdict::scored) {
      found.result.score = 0;
      found.result.parts.clear();
      if (found.result.error.empty()) found.result.error = "no reason given";
    } else if (!std::isfinite(found.result.score)) {
      found.result = without_score(fmt::format("returned {}", found.result.score));
    }
    return std::move(found.result);
  }

  PluginPool& pool_;
  std::span<const tasks::RewardRow> rows_;
  double timeout_s_;
  Loaded loaded_;
  std::vector<tasks::RewardResult> results_;
  std::vector<std::optional<std::string>> reasons_;  // rows to ask for once more, and why
  std::vector<bool> done_ = std::vector<bool>(rows_.size());
};

ChildReward::ChildReward(PluginSpec file, std::string fingerprint, std::unique_ptr<PluginPool> pool)
    : file_(std::move(file)), fingerprint_(std::move(fingerprint)), pool_(std::move(pool)) {}

Expected<std::shared_ptr<ChildReward>> ChildReward::open(const PluginSpec& spec) {
  COHORT_ASSIGN(PluginVersion version, read_version(spec));
  COHORT_ASSIGN(auto pool, PluginPool::open(std::move(version.launch), spec.workers));
  return std::shared_ptr<ChildReward>(
      new ChildReward(spec, std::move(version.fingerprint), std::move(pool)));
}

std::vector<tasks::RewardResult> ChildReward::score(std::span<const tasks::RewardRow> rows) {
  return Call(*pool_, rows, file_.timeout_s).run();
}

Expected<bool> ChildReward::reload() {
  COHORT_ASSIGN(PluginVersion version, read_version(file_));
  if (version.fingerprint == fingerprint_) return false;
  COHORT_TRY(pool_->renew(std::move(version.launch)));
  fingerprint_ = std::move(version.fingerprint);
  return true;
}

}  // namespace cohort::plugin

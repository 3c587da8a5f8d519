#pragma once
/// Who is who in a group, who was lost, and what messages say of it: the group's keys in its
/// rendezvous, for the backends whose ranks are in several processes. Owner: one rank's group;
/// thread-safe as Rendezvous is. Every wait has an end.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "runtime/compute/collectives/collectives.hpp"

namespace cohort::compute {

inline constexpr int k_roll_poll_ms = 2;
inline constexpr int k_roll_poll_max_ms = 32;  // every poll is a message to the table's keeper
/// How long after a timeout the others may take to report.
inline constexpr int k_roll_call_ms = 2000;

class GroupRoll {
 public:
  explicit GroupRoll(const GroupOptions& options) : options_(options) {}

  std::string name_of(int rank) const {
    const auto at = static_cast<size_t>(rank);
    if (at >= options_.labels.size()) return fmt::format("rank {}", rank);
    return fmt::format("rank {} ({})", rank, options_.labels[at]);
  }
  std::string names_of(const std::vector<int>& ranks) const {
    std::vector<std::string> names;
    for (int rank : ranks) names.push_back(name_of(rank));
    return fmt::format("{}", fmt::join(names, ", "));
  }
  /// Returns Errc::invalid_argument unless there is a span per rank and the own bytes fit.
  Expected<void> check(Collective operation, Sent send, Received receive) const {
    const auto ranks = static_cast<size_t>(options_.size), own = static_cast<size_t>(options_.rank);
    if (send.size() == ranks && receive.size() == ranks && send[own].size() >= receive[own].size())
      return {};
    return Error{
        Errc::invalid_argument,
        fmt::format("{} in group {}: {} ranks, {} spans to send and {} to receive; own "
                    "bytes must fit",
                    to_string(operation), options_.name, ranks, send.size(), receive.size())};
  }
  Error not_come(const std::vector<int>& missing) const {
    return {Errc::timeout,
            fmt::format("join of group {}: {} waited {} ms, {} did not come", options_.name,
                        name_of(options_.rank), options_.timeout_ms, names_of(missing))};
  }
  Error seen(Errc code, std::string_view operation, const std::string& cause) const {
    return {code, fmt::format("{} in group {}, seen by {}: {}", operation, options_.name,
                              name_of(options_.rank), cause)};
  }
  Error cancelled(const std::string& reason) const {
    return {Errc::cancelled,
            fmt::format("group {} of {}: {}", options_.name, name_of(options_.rank), reason)};
  }
  std::string stopped(const std::string& reason) const {
    return fmt::format("{} stopped: {}", name_of(options_.rank), reason);
  }
  /// Waits until every rank has come; Errc::timeout names those that have not.
  Expected<void> meet() {
    COHORT_ASSIGN(const std::vector<int> missing,
                  missing_from("join", std::chrono::milliseconds(options_.timeout_ms)));
    return missing.empty() ? Expected<void>() : not_come(missing);
  }
  /// Waits until every rank has put `key`, or `limit` has passed. Returns those that have not;
  /// this rank puts it first.
  Expected<std::vector<int>> missing_from(const std::string& key, std::chrono::milliseconds limit) {
    Rendezvous& table = *options_.rendezvous;
    COHORT_TRY(table.put(path(key, options_.rank), "here"));
    const auto end = std::chrono::steady_clock::now() + limit;
    std::vector<int> missing;
    for (int rank = 0; rank < options_.size; ++rank) missing.push_back(rank);
    for (int pause_ms = k_roll_poll_ms;; pause_ms = std::min(2 * pause_ms, k_roll_poll_max_ms)) {
      std::vector<int> still;
      for (int rank : missing) {
        COHORT_ASSIGN(auto found, table.get(path(key, rank)));
        if (!found) still.push_back(rank);
      }
      missing = std::move(still);
      if (missing.empty() || std::chrono::steady_clock::now() >= end) return missing;
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    }
  }
  /// A timeout closes this rank's connections before anybody can be told, so the others ask first
  /// whether there was one: then who is missing is found by roll call, not by who woke them.
  void call() { (void)options_.rendezvous->put(options_.name + "/roll_call", "yes"); }
  bool is_called() {
    auto called = options_.rendezvous->get(options_.name + "/roll_call");
    return called && *called;
  }
  void answer(const std::string& key) {
    (void)options_.rendezvous->put(path(key, options_.rank), "here");
  }
  /// Waits until a roll is called (true) or a cause is told, or `limit` has passed.
  bool is_called_within(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    do {
      auto called = options_.rendezvous->get(options_.name + "/roll_call");
      if (!called) return false;
      if (*called) return true;
      if (cause()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(k_roll_poll_ms));
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }
  std::optional<std::string> cause() {
    auto found = options_.rendezvous->get(options_.name + "/cause");
    return found ? *found : std::nullopt;
  }
  /// Tells the others the cause, and returns the one that was told first. The serving process may
  /// be the one that died: then `cause` stands.
  std::string agree_on(const std::string& cause) {
    auto kept = options_.rendezvous->put_if_absent(options_.name + "/cause", cause);
    return kept ? *kept : cause;
  }

 private:
  std::string path(const std::string& key, int rank) const {
    return fmt::format("{}/{}/{}", options_.name, key, rank);
  }
  const GroupOptions& options_;
};

/// What the group of every engine has.
class RollGroup : public Collectives {
 public:
  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  uint64_t bytes_sent() const override { return bytes_sent_; }

 protected:
  explicit RollGroup(GroupOptions options) : options_(std::move(options)), roll_(options_) {}
  const GroupOptions options_;
  GroupRoll roll_;
  std::atomic<uint64_t> bytes_sent_{0};
};

}  // namespace cohort::compute

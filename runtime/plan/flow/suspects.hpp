#pragma once
/// Which groups of a round kill the processes that play them. Every loss of a process makes the
/// groups that it had open suspects; one that two losses have hit is played alone; one that kills
/// its process twice while nothing else is open anywhere is convicted, and played no more. Pure.
/// Owner: the driver, one per round. Bound: the deaths of the groups of one round, at most four
/// each.
///
/// SUSPECT-1: a group is convicted only by k_alone_losses losses of processes that played it and
/// nothing else, after k_shared_losses others. Kills that strike at random convict an innocent one
/// only if four of them hit the same group in one round, the last two while it is played alone.
/// SUSPECT-2: a group that ends is acquitted: only what is open when a process dies is blamed.
/// SUSPECT-3: a group costs at most k_shared_losses + k_alone_losses processes.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cohort::plan {

/// How a process ended that had a group open.
struct Death {
  uint32_t card = 0;  // of the replica
  std::string text;
  bool operator==(const Death&) const = default;
};

class Suspects {
 public:
  static constexpr size_t k_shared_losses = 2;
  static constexpr size_t k_alone_losses = 2;
  static constexpr uint32_t k_convicted_max = 8;  // of a round: more are no bad luck with prompts

  /// `groups`: of the round.
  explicit Suspects(uint32_t groups) : groups_(groups) {}

  struct Verdict {
    std::vector<uint64_t> isolated;  // from now on each is played alone
    std::optional<uint64_t> convicted;
  };
  /// A process has ended; `open`: what it had open of the groups that are not over.
  Verdict blame(const std::vector<uint64_t>& open, const Death& death);
  /// The group has been played.
  void acquit(uint64_t group);

  bool is_isolated(uint64_t group) const;
  /// Returns the deaths that a group is blamed for, in order.
  const std::vector<Death>& deaths_of(uint64_t group) const;
  uint32_t convicted() const { return convicted_; }
  /// Returns how many groups of a round may be convicted: a twentieth of them, one at least, and at
  /// most k_convicted_max.
  uint32_t limit() const;
  bool is_over_limit() const { return convicted_ > limit(); }

 private:
  uint32_t groups_;
  uint32_t convicted_ = 0;
  std::map<uint64_t, std::vector<Death>> deaths_;
};

}  // namespace cohort::plan

#include "runtime/plan/check/stall.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>

namespace cohort::plan {
namespace {

constexpr double k_busy_cores = 0.1;
// A disk that turns gives about a hundred pages a second. To take in ten thousand of a fast one
// costs a tenth of a core.
constexpr double k_paging_pages = 50, k_paging_cores = 0.5;

struct Seen {
  const ProcessWaits* process = nullptr;
  const WaitEntry* wait = nullptr;
};

std::string shown_age(double s) {
  return s < 9.95 ? fmt::format("{:.1f} s", s) : fmt::format("{:.0f} s", s);
}

class Look {
 public:
  explicit Look(const StallInput& input) : in_(input) {
    for (const ProcessWaits& process : in_.processes)
      for (const WaitEntry& wait : process.waits) all_.push_back({&process, &wait});
    for (const ProcessWaits& process : in_.processes)
      has_hosts_ = has_hosts_ || process.host != in_.processes.front().host;
    std::ranges::stable_sort(all_, [](const Seen& a, const Seen& b) {
      if (a.wait->since != b.wait->since) return a.wait->since < b.wait->since;
      return a.wait->pid > b.wait->pid;  // one that names its child says more
    });
  }

  Diagnosis answer() const {
    if (!in_.silent.empty()) return of_silent();
    if (auto found = of_process()) return *found;
    for (const Seen& seen : all_)
      if (seen.wait->level == WaitLevel::outside && is_cause(seen)) return of_wait(seen);
    // Of roles that wait for one another the last began to wait last: it is the nearest to the
    // cause.
    for (WaitLevel level : {WaitLevel::call, WaitLevel::link, WaitLevel::role})
      for (const Seen& seen : std::views::reverse(all_))
        if (seen.wait->level == level && is_cause(seen)) return of_wait(seen);
    for (WaitLevel level : {WaitLevel::step, WaitLevel::run})
      for (const Seen& seen : all_)
        if (seen.wait->level == level && is_cause(seen)) return of_wait(seen);
    Diagnosis healthy;
    healthy.sentence = fmt::format("nothing waits longer than {:g} s", in_.after_s);
    if (all_.empty()) return healthy;
    healthy.waited_s = age(*all_.front().wait);
    healthy.sentence += fmt::format("; the longest wait: {}", text(all_.front()));
    return healthy;
  }

 private:
  double age(const WaitEntry& wait) const { return std::max(0.0, in_.now - wait.since); }
  bool is_old(const WaitEntry& wait) const { return age(wait) >= in_.after_s; }
  /// A healthy process reads its program and its weights so, too: then nothing waits for long.
  bool is_paging(const ProcessState& state) const {
    return state.disk_pages >= k_paging_pages && state.cpu < k_paging_cores &&
           std::ranges::any_of(all_, [&](const Seen& seen) { return is_old(*seen.wait); });
  }
  const ProcessState* state_of(const ProcessWaits& process, pid_t pid) const {
    auto found = in_.states.find({process.host, pid});
    return found == in_.states.end() ? nullptr : &found->second;
  }

  std::string on_host(const ProcessWaits& process) const {
    return has_hosts_ ? " on " + process.host : "";
  }

  Diagnosis of_silent() const {
    Diagnosis found;
    found.cause = StallCause::silent;
    found.who = in_.silent.front().node;
    add_outer(found, nullptr);
    std::string said;
    for (const SilentNode& each : in_.silent)
      said += fmt::format("{}{} {}", said.empty() ? "" : ", ", each.node, each.why);
    found.chain.push_back(std::move(said));
    return close(std::move(found));
  }

  /// Of the process itself: nothing that it registered can have ended since.
  std::optional<Diagnosis> of_process() const {
    for (const ProcessWaits& process : in_.processes) {
      const ProcessState* state = state_of(process, process.pid);
      if (state == nullptr) continue;
      Diagnosis found;
      found.who = fmt::format("process {} ({}){}", process.pid, process.name, on_host(process));
      found.pid = process.pid;
      std::string what;
      if (state->state == 0 || state->state == 'Z') {
        found.cause = StallCause::gone;
        what = "is gone and has not said why (killed?)";
      } else if (state->state == 'T' || state->state == 't') {
        found.cause = StallCause::stopped;
        what = fmt::format("is stopped; kill -CONT {} lets it go on", process.pid);
      } else if (state->state == 'D' && state->swap_bytes > state->rss_bytes) {
        found.cause = StallCause::swapped;
        what = fmt::format("is swapped out: {} of {} MiB", state->swap_bytes >> 20,
                           (state->swap_bytes + state->rss_bytes) >> 20);
      } else if (is_paging(*state)) {
        found.cause = StallCause::swapped;
        what = fmt::format(
            "waits for its memory: a disk gives it {:.0f} pages a second; {} MiB are in memory, {} "
            "MiB swapped out",
            state->disk_pages, state->rss_bytes >> 20, state->swap_bytes >> 20);
      } else {
        continue;
      }
      add_outer(found, nullptr);
      found.chain.push_back(fmt::format("{} {}", found.who, what));
      return close(std::move(found));
    }
    return std::nullopt;
  }

  bool is_cause(const Seen& seen) const {
    const WaitEntry& wait = *seen.wait;
    if (!is_old(wait)) return false;
    if (wait.level == WaitLevel::outside) return true;
    for (const ProcessWaits& process : in_.processes) {
      const bool is_of_all = wait.level <= WaitLevel::step;
      if (!is_of_all && &process != seen.process) continue;
      const ProcessState* state = state_of(process, process.pid);
      if (state != nullptr && state->cpu >= k_busy_cores) return false;
    }
    return std::ranges::none_of(all_, [&](const Seen& other) {
      return other.wait->level > wait.level && !is_old(*other.wait);
    });
  }

  Diagnosis of_wait(const Seen& seen) const {
    Diagnosis found;
    found.cause = StallCause::wait;
    found.who = seen.wait->who;
    found.pid = seen.process->pid;
    found.waited_s = age(*seen.wait);
    const ProcessState* child = state_of(*seen.process, seen.wait->pid);
    if (child != nullptr && child->state == 'T') found.cause = StallCause::stopped;
    add_outer(found, &seen);
    found.chain.push_back(text(seen));
    return close(std::move(found));
  }

  /// The driver's oldest wait, and the role's from which the cause's came: a role registers its
  /// wait before it calls what waits outside, so the youngest that is not younger is the nearest.
  void add_outer(Diagnosis& found, const Seen* cause) const {
    for (const Seen& seen : all_) {
      if (seen.wait->level != WaitLevel::run || !is_old(*seen.wait)) continue;
      if (cause == nullptr || seen.wait != cause->wait) found.chain.push_back(text(seen));
      break;
    }
    if (cause == nullptr ||
        (cause->wait->level != WaitLevel::link && cause->wait->level != WaitLevel::outside))
      return;
    const Seen* nearest = nullptr;
    for (const Seen& seen : all_)
      if (seen.wait->level == WaitLevel::role && seen.process == cause->process &&
          seen.wait->since <= cause->wait->since)
        nearest = &seen;
    if (nearest != nullptr) found.chain.push_back(text(*nearest));
  }

  static Diagnosis close(Diagnosis found) {
    for (const std::string& each : found.chain)
      found.sentence += (found.sentence.empty() ? "" : ": ") + each;
    return found;
  }

  std::string text(const Seen& seen) const {
    WaitEntry wait = *seen.wait;
    if (wait.level > WaitLevel::step) wait.who += on_host(*seen.process);
    std::string said = wait_text(wait, in_.now);
    const ProcessState* child = state_of(*seen.process, wait.pid);
    if (child == nullptr || wait.pid == 0) return said;
    if (child->state == 'T' || child->state == 't') return said + ", which is stopped";
    if (child->state == 0 || child->state == 'Z') return said + ", which is gone";
    if (is_paging(*child))
      return said +
             fmt::format(", which waits for a disk ({:.0f} pages a second)", child->disk_pages);
    if (child->state == 'D') return said + ", which waits for a disk";
    if (child->cpu >= k_busy_cores) said += fmt::format(", which takes {:.1f} cores", child->cpu);
    return said;
  }

  const StallInput& in_;
  bool has_hosts_ = false;  // more than one: they are named
  std::vector<Seen> all_;   // the oldest first
};

}  // namespace

std::string_view to_string(StallCause cause) {
  constexpr std::string_view k_names[] = {"none", "gone", "stopped", "swapped", "wait", "silent"};
  return k_names[static_cast<size_t>(cause)];
}

std::string wait_text(const WaitEntry& wait, double now) {
  std::string said = fmt::format("{} waits {} for {}", wait.who,
                                 shown_age(std::max(0.0, now - wait.since)), wait.what);
  if (!wait.where.empty()) said += ", " + wait.where;
  return said;
}

Diagnosis diagnose(const StallInput& input) { return Look(input).answer(); }

}  // namespace cohort::plan

#pragma once
/// Why a run stands still, in one sentence: from the waits of its processes (base/waits.hpp) and
/// the states that the system gives for them. Pure. Bound: the waits that it is given.
///
/// STALL-1: a node that does not answer is a cause, then a stopped or swapped-out process, and one
/// that hardly computes since a disk gives it its memory page by page; so is a wait `outside` as
/// long as `after_s`. STALL-2: a wait of another level is a cause only if its
/// process computes nothing, and no younger wait of a later level shows that something moves.
/// STALL-3: of the roles that wait the one that began last is the cause; of what is outside, the
/// oldest.
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/waits.hpp"

namespace cohort::plan {

struct ProcessState {
  char state = 0;  // of /proc/PID/stat: R, S, D, T, Z; 0: there is no such process
  double cpu = 0;  // [cores] that it used while it was looked at
  uint64_t rss_bytes = 0, swap_bytes = 0;
  double disk_pages = 0;  // of its memory that a disk gave it [pages/s: major faults]
};

/// A node of a cluster that has not said what its processes wait for.
struct SilentNode {
  std::string node;  // "node 2 (worker-2 at 10.0.0.2)"
  std::string why;   // "does not answer"
};

struct StallInput {
  double now = 0;                       // as WaitEntry::since, of all hosts
  double after_s = 10;                  // a wait that is shorter is none
  std::vector<ProcessWaits> processes;  // of one host or several
  // By host and process id: of them, and of the children that they name.
  std::map<std::pair<std::string, pid_t>, ProcessState> states;
  std::vector<SilentNode> silent = {};
};

enum class StallCause : uint8_t { none, gone, stopped, swapped, wait, silent };
std::string_view to_string(StallCause cause);

struct Diagnosis {
  StallCause cause = StallCause::none;
  std::string sentence;
  std::vector<std::string> chain;  // who waits for whom; the cause is the last
  std::string who;                 // of the cause
  pid_t pid = 0;                   // of the process that is the cause or that waits
  double waited_s = 0;             // the cause; of a healthy run the longest wait
};

Diagnosis diagnose(const StallInput& input);

/// Returns "reward math_rule waits 14 s for 3 rows, in sympy".
std::string wait_text(const WaitEntry& wait, double now);

}  // namespace cohort::plan

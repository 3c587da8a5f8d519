#pragma once
/// The waits of this process: who waits, for what, since when, and what ends the wait. Each is
/// registered while it lasts, in memory that publish_waits() maps to a file of the run's folder, so
/// that another process reads them when this one is stopped or locked up (docs/diagnose.md).
/// Thread-safe. Bound: k_waits_max at a time; later ones are counted and not shown. A wait costs
/// two uncontended locks and no allocation.
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort {

inline constexpr size_t k_waits_max = 512;

/// How near to the cause: a wait of a level is explained by one of a later level.
enum class WaitLevel : uint8_t {
  run,     // the driver for a role
  step,    // the collector for a step's trajectories, which every other role may hold up
  role,    // a role for trajectories, weights or an answer of another role
  link,    // a link for credit
  call,    // a role in a call of its own, in which it takes in nothing that would end the others
  outside  // for what no role decides: a child, a server, a disk, another rank
};
std::string_view to_string(WaitLevel level);

struct WaitEntry {
  WaitLevel level = WaitLevel::run;
  std::string who, what, ends_by;
  std::string where;  // inside the child: its Python stack, or empty
  pid_t pid = 0;      // the child that is waited for, or 0
  double since = 0;   // now_seconds() of this host
  bool operator==(const WaitEntry&) const = default;
};

/// What a wait says. Longer texts are cut.
struct WaitText {
  WaitLevel level = WaitLevel::run;
  std::string_view who, what, ends_by;
  pid_t pid = 0;
  double since = 0;  // now_seconds(); 0: now
};

/// One wait, from its construction to its end.
class Wait {
 public:
  Wait() = default;
  explicit Wait(const WaitText& text);
  Wait(Wait&& other) noexcept;
  Wait& operator=(Wait&& other) noexcept;
  ~Wait() { end(); }

  /// Something came: the wait counts from now.
  void moved();
  void set_where(std::string_view where);
  void end();

 private:
  int slot_ = -1;
};

/// The waits of a process, as its file has them.
struct ProcessWaits {
  pid_t pid = 0;
  std::string name;  // "run", "card process 1"
  std::string host;
  uint64_t started = 0;   // start time of /proc/PID/stat, against reused ids
  uint64_t left_out = 0;  // waits beyond k_waits_max, so far
  std::vector<WaitEntry> waits;
};

/// Maps this process's waits to FOLDER/waits_HOST_PID, once; makes the folder; removes the files of
/// processes of this host that are gone. The file goes at the end of the process. Errc::io if it
/// cannot be written: the waits stay in memory.
Expected<void> publish_waits(const std::filesystem::path& folder, std::string_view name);
/// Reads a file of publish_waits(); Errc::corrupt if it is none, or of another version.
Expected<ProcessWaits> read_waits(const std::filesystem::path& file);
/// Returns the files of a folder, in the order of their names.
std::vector<std::filesystem::path> waits_files(const std::filesystem::path& folder);
/// Returns the start time of a process [clock ticks], 0 if there is none.
uint64_t process_started(pid_t pid);

}  // namespace cohort

#pragma once
/// What a supervised run and its supervisor (supervisor.hpp) say to each other: by environment
/// variables the run learns who it must not outlive, and on which descriptor to write its folder.
#include <string>

#include "runtime/base/error.hpp"

namespace cohort {

inline constexpr const char* k_note_variable = "COHORT_RUN_NOTE_FD";
inline constexpr const char* k_supervisor_variable = "COHORT_SUPERVISOR_PID";

/// The run's end of it. Not supervised: does nothing.
class RunNote {
 public:
  /// Takes both variables out of the environment: processes of the run are not their business.
  RunNote();
  ~RunNote();
  RunNote(const RunNote&) = delete;
  RunNote& operator=(const RunNote&) = delete;
  bool is_supervised() const { return supervisor_ > 0; }
  /// The kernel ends this process with its supervisor. Errc::closed if that has happened.
  Expected<void> die_with_supervisor() const;
  /// Tells the run's folder, once.
  void tell(const std::string& folder);

 private:
  int supervisor_ = 0;
  int fd_ = -1;
};

}  // namespace cohort

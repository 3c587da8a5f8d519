#pragma once
/// What the pages of a run show of its folder beside the stream: metrics and config, to be compared
/// with other runs', and logs; and where these pages are.
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/observe/browse_data.hpp"

namespace cohort {

inline constexpr size_t k_log_bytes_shown = size_t{64} << 10;
inline constexpr size_t k_choices_max = 40;

/// A run's folder, under a name that no other of a list has.
struct NamedRun {
  std::string name;
  std::filesystem::path folder;
};

/// Returns `run`, `others`, and the newest runs that lie beside `run`.
std::vector<NamedRun> comparable_runs(const std::filesystem::path& run,
                                      const std::vector<std::filesystem::path>& others);
observe::ComparedRun read_compared(const NamedRun& run);
/// Returns the end of a file in RUN/log; empty: the first one.
observe::LogView read_log(const std::filesystem::path& run, const std::string& file);

/// Notes in the run's folder where its process serves its pages; the note goes at the run's end.
Expected<void> write_pages_address(const std::filesystem::path& run, const std::string& url);
/// Returns what was noted; "" if nothing was.
std::string read_pages_address(const std::filesystem::path& run);

}  // namespace cohort

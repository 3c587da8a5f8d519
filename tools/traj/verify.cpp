#include "runtime/stream/verify.hpp"

#include <fmt/format.h>

#include "runtime/base/clock.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/table.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

void print_report(const stream::VerifyReport& report, double seconds) {
  double bytes = static_cast<double>(report.bytes);
  fmt::print("{} intact records, {} in {} segments ({:.0f} MB/s)\n", report.records,
             format_bytes(bytes), report.segments, bytes / 1e6 / seconds);
  for (const stream::Damage& damage : report.damages) fmt::print("damage: {}\n", damage.describe());
  if (report.damage_count > report.damages.size())
    fmt::print("damage: {} more\n", report.damage_count - report.damages.size());
  if (report.torn_tail_bytes > 0)
    fmt::print("torn tail: {} bytes in segment {} at {}, after {}\n", report.torn_tail_bytes,
               report.torn_tail.segment, report.torn_tail.offset,
               report.last_good ? report.last_good->describe() : "no record");
}

}  // namespace

Expected<void> verify(const VerifyOptions& options) {
  COHORT_ASSIGN(std::filesystem::path folder, stream::folder_of(options.run));
  if (options.is_repair) {
    COHORT_ASSIGN(stream::RepairReport repaired, stream::repair(folder));
    fmt::print("repair: cut {} bytes, {} damaged records among them\n", repaired.cut_bytes,
               repaired.cut_records);
    if (repaired.is_end_given_up)
      fmt::print("repair: removed the indexes that named records which are lost at the end\n");
  }
  double start = now_seconds();
  COHORT_ASSIGN(stream::VerifyReport report, stream::verify(folder));
  print_report(report, now_seconds() - start);
  if (report.damage_count > 0)
    return Error{Errc::corrupt,
                 fmt::format("{}: {}", folder.string(), report.damages.front().describe())};
  if (report.torn_tail_bytes > 0)
    fmt::print("no damage; the torn tail goes at the next start of the run, or with --repair\n");
  else
    fmt::print("no damage\n");
  return {};
}

}  // namespace cohort::traj

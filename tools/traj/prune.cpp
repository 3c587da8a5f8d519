/// prune, compact and merge: what is kept, and what is said about it.
#include <fmt/format.h>

#include <filesystem>

#include "runtime/query/expression.hpp"
#include "runtime/stream/stream_file.hpp"
#include "tools/traj/recompute/step_range.hpp"
#include "tools/traj/rewrite.hpp"
#include "tools/traj/table.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

void print_report(const RewriteReport& report, const std::string& where) {
  Table table({"TYPE", "KEPT", "REPLACED", "LEFT_OUT"});
  uint64_t kept = 0;
  for (const auto& [type, count] : report.records) {
    table.add({std::string(stream::to_string(type)), fmt::to_string(count.kept),
               fmt::to_string(count.replaced), fmt::to_string(count.left_out)});
    kept += count.kept;
  }
  fmt::print("{}", table.render());
  if (report.damaged > 0) fmt::print("{} damaged records were left out\n", report.damaged);
  fmt::print("{}: {} records, {} of {}; each was read back with the hashes it had\n", where, kept,
             format_bytes(static_cast<double>(report.written_bytes)),
             format_bytes(static_cast<double>(report.source_bytes)));
}

std::optional<stream::Compression> compression_of(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return name == "zstd" ? stream::Compression::zstd : stream::Compression::none;
}

/// Exactly one of OUT and --in-place.
Expected<RewriteOptions> options_of(const RewriteCommand& command) {
  if (command.out.empty() != command.is_in_place)
    return Error{Errc::invalid_argument,
                 "give -o OUT, a run folder to make, or --in-place, one of them"};
  COHORT_ASSIGN(const std::filesystem::path source, stream::folder_of(command.run));
  return RewriteOptions{
      {source}, command.out, command.drops_damaged, false, compression_of(command.compression)};
}

Expected<bool> everything(const stream::Record&) { return true; }

}  // namespace

Expected<void> prune(const PruneOptions& options) {
  if (options.keep_steps.empty() && options.where.empty())
    return Error{Errc::invalid_argument,
                 "prune: say what to keep: --keep-steps A:B, --where QUERY"};
  COHORT_ASSIGN(const StepRange steps, parse_steps(options.keep_steps, "--keep-steps"));
  COHORT_ASSIGN(
      const query::Expression where,
      query::Expression::parse(options.where.empty() ? "true" : options.where, query::Type::truth));
  COHORT_ASSIGN(const RewriteOptions rewriting, options_of(options.command));
  COHORT_ASSIGN(const RewriteReport report,
                rewrite(rewriting, [&](const stream::Record& record) -> Expected<bool> {
                  if (record.info.key.step && !steps.contains(*record.info.key.step)) return false;
                  if (record.info.type != stream::RecordType::trajectory) return true;
                  COHORT_ASSIGN(const proto::Trajectory trajectory, record.trajectory());
                  return where.holds(trajectory);
                }));
  print_report(report, options.command.is_in_place ? options.command.run : options.command.out);
  return {};
}

Expected<void> compact(const RewriteCommand& command) {
  COHORT_ASSIGN(const RewriteOptions rewriting, options_of(command));
  COHORT_ASSIGN(const RewriteReport report, rewrite(rewriting, everything));
  print_report(report, command.is_in_place ? command.run : command.out);
  return {};
}

Expected<void> merge(const MergeOptions& options) {
  RewriteOptions rewriting{{},
                           options.out,
                           options.drops_damaged,
                           options.last_wins,
                           compression_of(options.compression)};
  for (const std::string& run : options.runs) {
    COHORT_ASSIGN(const std::filesystem::path source, stream::folder_of(run));
    rewriting.sources.push_back(source);
  }
  COHORT_ASSIGN(const RewriteReport report, rewrite(rewriting, everything));
  print_report(report, options.out);
  return {};
}

}  // namespace cohort::traj

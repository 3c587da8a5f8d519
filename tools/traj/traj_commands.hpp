#pragma once
/// The commands of traj, one file each. All print to stdout and return what main turns into an exit
/// code: Errc::corrupt is 1 (damage, a difference), any other error 2 (usage, missing), each with
/// one line on stderr.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::traj {

struct LsOptions {
  std::string run;
  std::optional<uint64_t> step;
  std::optional<proto::TrajectoryKind> kind;
  uint64_t limit = 0;  // 0 = all
  bool is_json = false;
};
Expected<void> ls(const LsOptions& options);

struct ShowOptions {
  std::string run;
  std::string key;  // STEP/GROUP/INDEX
  proto::TrajectoryKind kind = proto::TrajectoryKind::train;
  bool with_tokens = false;
};
Expected<void> show(const ShowOptions& options);

struct StatsOptions {
  std::string run;
  std::optional<uint64_t> step;
  std::optional<proto::TrajectoryKind> kind;
  bool is_json = false;
};
Expected<void> stats(const StatsOptions& options);

struct VerifyOptions {
  std::string run;
  bool is_repair = false;
};
Expected<void> verify(const VerifyOptions& options);

struct ExportOptions {
  std::string run;
  std::string jsonl;  // path, or "-" for stdout
  std::optional<uint64_t> step;
  std::optional<proto::TrajectoryKind> kind;
};
Expected<void> export_jsonl(const ExportOptions& options);

struct CsvOptions {
  std::string run;
  std::optional<uint64_t> step;
  std::optional<proto::TrajectoryKind> kind;
  std::string file = "-";   // path, or "-" for stdout
  bool with_texts = false;  // also observations and answers
};
/// A row per trajectory: the fields of queries, reward parts and metrics (RFC 4180).
Expected<void> csv(const CsvOptions& options);

struct ImportOptions {
  std::string file;      // rows as jsonl
  std::string run;       // folder that is made; must not be there, or be empty
  bool is_verl = false;  // whose rules hold for its advantages; else ROLL's
};
Expected<void> import_jsonl(const ImportOptions& options);

struct RecordsOptions {
  std::string run;
  std::string type;  // empty = all but trajectories
  std::optional<uint64_t> step;
};
Expected<void> records(const RecordsOptions& options);

struct GrepOptions {
  std::string run;
  std::string pattern;    // empty: every text
  bool is_regex = false;  // the pattern is a regular expression (tasks::Pattern), else a literal
  std::string where;      // a query of type truth (runtime/query); empty: true
  std::optional<uint64_t> step;
  std::optional<proto::TrajectoryKind> kind;
  uint64_t limit = 0;     // trajectories; 0 = all
  bool is_count = false;  // only how many
  bool is_json = false;   // one object a line
};
/// Prints, of each trajectory, the first match in each observation and answer.
Expected<void> grep(const GrepOptions& options);

struct TopOptions {
  std::string run;
  std::string by;     // a query of type number (runtime/query)
  std::string where;  // a query of type truth; empty: true
  std::optional<uint64_t> step;
  std::optional<proto::TrajectoryKind> kind;
  uint64_t count = 10;
  bool is_bottom = false;  // the lowest, not the highest
};
Expected<void> top(const TopOptions& options);

struct TailOptions {
  std::string run;
  std::string where;          // a query of type truth; empty: true
  uint64_t count = 10;        // trajectories that are there already
  bool is_following = false;  // also what is appended from then on
  uint64_t limit = 0;         // trajectories; 0: no end
  double for_s = 0;           // [s] of following; 0: no end
};
/// Prints the last trajectories and results of steps in the order of the stream, a line each.
Expected<void> tail(const TailOptions& options);

/// A stream written anew (rewrite.hpp).
struct RewriteCommand {
  std::string run;
  std::string out;             // run folder to make; empty with is_in_place alone
  bool is_in_place = false;    // the run's stream is replaced
  bool drops_damaged = false;  // leaves damaged records out, instead of an error
  std::string compression;     // none, zstd; empty: as the run's
};
struct PruneOptions {
  RewriteCommand command;
  std::string keep_steps;  // A:B; empty: all. Records without a step stay
  std::string where;       // a query of type truth, for trajectories; empty: true
};
Expected<void> prune(const PruneOptions& options);
/// Without trajectories that a later record replaces, and in full segments.
Expected<void> compact(const RewriteCommand& command);

struct MergeOptions {
  std::string out;  // run folder to make
  std::vector<std::string> runs;
  bool last_wins = false;  // of a trajectory that several have; else an error
  bool drops_damaged = false;
  std::string compression;  // none, zstd; empty: as the first run's
};
Expected<void> merge(const MergeOptions& options);

struct DiffOptions {
  std::string a, b;  // runs
  bool is_json = false;
};
/// Prints where two runs first differ, what both agree on before, and the keys in which their
/// configs differ. Returns Errc::corrupt if they differ.
Expected<void> diff(const DiffOptions& options);

/// Prints what queries may name.
Expected<void> fields();

}  // namespace cohort::traj

// traj: what is in the stream of a run (docs/stream.md). Exit codes: 0 fine, 1 damage, 2 usage or
// missing.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "runtime/base/blas_core.hpp"
#include "tools/traj/traj_commands.hpp"
#include "tools/traj/traj_program.hpp"

namespace {

using namespace cohort;

struct Options {
  std::string run, key, jsonl, type, kind, file, dialect = "roll", other, pattern, where, by;
  std::string file_out = "-", out, keep_steps, compression;
  std::vector<std::string> runs;
  uint64_t step = 0, limit = 0, count = 10;
  bool is_json = false, with_tokens = false, is_repair = false, is_regex = false, is_count = false;
  bool is_following = false, with_texts = false, is_in_place = false, drops_damaged = false;
  bool last_wins = false;
  double for_s = 0;
};

CLI::App* add_command(CLI::App& app, Options& options, const char* name, const char* what) {
  CLI::App* command = app.add_subcommand(name, what);
  command->add_option("RUN", options.run, "run folder (with stream/ in it) or stream folder")
      ->required();
  return command;
}

void add_choice(CLI::App* command, Options& options) {
  command->add_option("--step", options.step, "only this step")->check(traj::whole_number());
  command->add_option("--kind", options.kind, "train | val | val_greedy | warm_start")
      ->check(CLI::IsMember({"train", "val", "val_greedy", "warm_start"}));
}

std::optional<uint64_t> step_of(const CLI::App& command, const Options& options) {
  return command.count("--step") > 0 ? std::optional(options.step) : std::nullopt;
}

std::optional<proto::TrajectoryKind> kind_of(const Options& options) {
  auto it = traj::k_kinds.find(options.kind);
  return it == traj::k_kinds.end() ? std::nullopt : std::optional(it->second);
}

Expected<void> dispatch(const CLI::App& command, const Options& x) {
  const std::string& name = command.get_name();
  if (name == "ls") return traj::ls({x.run, step_of(command, x), kind_of(x), x.limit, x.is_json});
  if (name == "show")
    return traj::show(
        {x.run, x.key, kind_of(x).value_or(proto::TrajectoryKind::train), x.with_tokens});
  if (name == "stats") return traj::stats({x.run, step_of(command, x), kind_of(x), x.is_json});
  if (name == "verify") return traj::verify({x.run, x.is_repair});
  if (name == "export")
    return traj::export_jsonl({x.run, x.jsonl, step_of(command, x), kind_of(x)});
  if (name == "csv")
    return traj::csv({x.run, step_of(command, x), kind_of(x), x.file_out, x.with_texts});
  if (name == "grep")
    return traj::grep({x.run, x.pattern, x.is_regex, x.where, step_of(command, x), kind_of(x),
                       x.limit, x.is_count, x.is_json});
  if (name == "top" || name == "bottom")
    return traj::top(
        {x.run, x.by, x.where, step_of(command, x), kind_of(x), x.count, name == "bottom"});
  if (name == "tail")
    return traj::tail({x.run, x.where, x.count, x.is_following, x.limit, x.for_s});
  if (name == "diff") return traj::diff({x.run, x.other, x.is_json});
  const traj::RewriteCommand rewriting{x.run, x.out, x.is_in_place, x.drops_damaged, x.compression};
  if (name == "prune") return traj::prune({rewriting, x.keep_steps, x.where});
  if (name == "compact") return traj::compact(rewriting);
  if (name == "merge")
    return traj::merge({x.out, x.runs, x.last_wins, x.drops_damaged, x.compression});
  if (name == "fields") return traj::fields();
  if (name == "import") return traj::import_jsonl({x.file, x.run, x.dialect == "verl"});
  return traj::records({x.run, x.type, step_of(command, x)});
}

/// Their options are those of traj-compute, which this process becomes.
void add_computing_commands(CLI::App& app) {
  for (const auto& [name, what] :
       {std::pair{"advantages", "a step's advantages, under any estimator"},
        std::pair{"loss", "a step's loss terms, under any policy loss"},
        std::pair{"rescore", "a step's scores and advantages under another reward"},
        std::pair{"replay", "proves that a run is what it recorded"},
        std::pair{"what-if", "the updates of a run under changed keys, beside the recorded"},
        std::pair{"bisect", "the step, group and trajectory that make a predicate hold"},
        std::pair{"html", "one trajectory as a page, its tokens coloured"}})
    app.add_subcommand(name, what)->prefix_command()->set_help_flag();
}

/// Returns only if this process did not become traj-compute.
Error become_computing(char** argv) {
  std::error_code ignored;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "traj-compute";
  choose_blas_core(true);
  ::execv(program.c_str(), argv);
  return {Errc::io, fmt::format("cannot start {}, which belongs beside traj: {}", program.string(),
                                std::strerror(errno))};
}

void add_query_commands(CLI::App& app, Options& x) {
  constexpr const char* k_where = "only trajectories of which this query is true (docs/stream.md)";
  CLI::App* grep =
      add_command(app, x, "grep", "texts with a pattern, trajectories with a property");
  grep->add_option("PATTERN", x.pattern, "a literal text; none: every text");
  grep->add_flag("--regex", x.is_regex, "PATTERN is a regular expression");
  grep->add_option("--where", x.where, k_where);
  grep->add_option("--limit", x.limit, "at most so many trajectories")->check(traj::whole_number());
  grep->add_flag("--count", x.is_count, "only how many trajectories");
  grep->add_flag("--json", x.is_json, "one JSON object a line");
  add_choice(grep, x);
  for (const auto& [name, what] :
       {std::pair{"top", "the trajectories with the highest numbers"},
        std::pair{"bottom", "the trajectories with the lowest numbers"}}) {
    CLI::App* top = add_command(app, x, name, what);
    top->add_option("--by", x.by, "a query that is a number, e.g. score, or length - sampled")
        ->required();
    top->add_option("--where", x.where, k_where);
    top->add_option("-n,--count", x.count, "so many")
        ->check(traj::whole_number())
        ->capture_default_str();
    add_choice(top, x);
  }
  CLI::App* tail = add_command(app, x, "tail", "the last trajectories, and those that come");
  tail->add_flag("-f,--follow", x.is_following, "go on with what is appended");
  tail->add_option("-n,--count", x.count, "so many of those that are there")
      ->check(traj::whole_number())
      ->capture_default_str();
  tail->add_option("--where", x.where, k_where);
  tail->add_option("--limit", x.limit, "end after so many trajectories")
      ->check(traj::whole_number());
  tail->add_option("--for", x.for_s, "end after so many seconds of following (0: no end)")
      ->check([](const std::string& text) {
        double seconds = 0;
        const bool is_number = CLI::detail::lexical_cast(text, seconds);
        return is_number && std::isfinite(seconds) && seconds >= 0
                   ? std::string()
                   : "'" + text + "' is no number of seconds from 0 on";
      });
  CLI::App* diff = add_command(app, x, "diff", "where two runs first differ; exit 1 if they do");
  diff->add_option("OTHER", x.other, "the second run")->required();
  diff->add_flag("--json", x.is_json, "one JSON object");
  app.add_subcommand("fields", "what queries may name");
}

void add_rewriting_commands(CLI::App& app, Options& x) {
  constexpr const char* k_damaged = "leave damaged records out, instead of an error";
  const auto add_compression = [&](CLI::App* command) {
    command->add_option("--compression", x.compression, "none | zstd; default: the run's own")
        ->check(CLI::IsMember({"none", "zstd"}));
  };
  const auto add = [&](const char* name, const char* what) {
    CLI::App* command = add_command(app, x, name, what);
    command->add_option("-o", x.out, "run folder to make");
    command->add_flag("--in-place", x.is_in_place, "replace the run's stream");
    command->add_flag("--drop-damaged", x.drops_damaged, k_damaged);
    add_compression(command);
    return command;
  };
  CLI::App* prune = add("prune", "a stream of some steps or trajectories of this one");
  prune->add_option("--keep-steps", x.keep_steps, "A:B, the first and the last step to keep");
  prune->add_option("--where", x.where, "keep the trajectories of which this query is true");
  add("compact", "without trajectories that were recorded again, in full segments");
  CLI::App* merge = app.add_subcommand("merge", "the streams of several runs, one behind another");
  merge->add_option("OUT", x.out, "run folder to make")->required();
  merge->add_option("RUN", x.runs, "run folders or stream folders")->required();
  merge->add_flag("--last-wins", x.last_wins, "of a trajectory that several have: the last one's");
  merge->add_flag("--drop-damaged", x.drops_damaged, k_damaged);
  add_compression(merge);
}

void add_commands(CLI::App& app, Options& x) {
  CLI::App* ls = add_command(app, x, "ls", "list trajectories");
  add_choice(ls, x);
  ls->add_option("--limit", x.limit, "at most so many")->check(traj::whole_number());
  ls->add_flag("--json", x.is_json, "one JSON array");
  CLI::App* show = add_command(app, x, "show", "one trajectory, readable");
  show->add_option("KEY", x.key, "STEP/GROUP/INDEX")->required();
  show->add_option("--kind", x.kind, "train (default) | val | val_greedy | warm_start")
      ->check(CLI::IsMember({"train", "val", "val_greedy", "warm_start"}));
  show->add_flag("--tokens", x.with_tokens, "also every token with mask and log-probs");
  CLI::App* stats = add_command(app, x, "stats", "one line per kind and step");
  add_choice(stats, x);
  stats->add_flag("--json", x.is_json, "one JSON array");
  CLI::App* verify = add_command(app, x, "verify", "read every byte; exit 1 names the damage");
  verify->add_flag("--repair", x.is_repair, "first cut what is torn or damaged at the very end");
  CLI::App* out = add_command(app, x, "export", "trajectories with all fields and columns");
  out->add_option("--jsonl", x.jsonl, "file, or - for stdout")->required();
  add_choice(out, x);
  CLI::App* csv = add_command(app, x, "csv", "a row per trajectory: what queries may name");
  csv->add_option("-o", x.file_out, "file, or - for stdout (default)");
  csv->add_flag("--texts", x.with_texts, "also observations and answers");
  add_choice(csv, x);
  CLI::App* in = app.add_subcommand("import", "rows of another system, as a run of their own");
  in->add_option("FILE", x.file, "jsonl: a row per trajectory (docs/stream.md)")->required();
  in->add_option("RUN", x.run, "folder to make")->required();
  in->add_option("--dialect", x.dialect, "whose rules hold for advantages: roll | verl")
      ->check(CLI::IsMember({"roll", "verl"}))
      ->capture_default_str();
  CLI::App* records = add_command(app, x, "records", "the JSON records, one a line");
  records->add_option("--type", x.type, "run_config | plan | phase | weight_version | …");
  records->add_option("--step", x.step, "only this step")->check(traj::whole_number());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("traj: what is in the trajectory stream of a run");
  Options options;
  add_commands(app, options);
  add_query_commands(app, options);
  add_rewriting_commands(app, options);
  add_computing_commands(app);
  return traj::run_program(app, argc, argv, [&](const CLI::App& command) -> Expected<void> {
    for (const char* name :
         {"advantages", "loss", "rescore", "replay", "what-if", "bisect", "html"})
      if (command.get_name() == name) return become_computing(argv);
    return dispatch(command, options);
  });
}

#include "actors/run/run_folder.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>

#include "runtime/plan/place/residency.hpp"

namespace cohort::actors {

namespace fs = std::filesystem;

namespace {

std::optional<Checkpoint> parse_checkpoint(const fs::path& folder) {
  std::string name = folder.filename();
  bool is_policy = name.starts_with("step_");
  if (!is_policy && !name.starts_with("warm_")) return std::nullopt;
  uint64_t number = 0;
  const char* end = name.data() + name.size();
  auto [rest, error] = std::from_chars(name.data() + 5, end, number);
  // A checkpoint folder gets its name when it is complete; a temporary one has a suffix.
  std::error_code unreadable;
  if (error != std::errc() || rest != end || !fs::exists(folder / "state.json", unreadable))
    return std::nullopt;
  return Checkpoint{folder, is_policy, number};
}

/// Calls `f` with every entry of a folder. Returns Errc::io, which names it, if it cannot be read,
/// Errc::not_found if it is not there.
Expected<void> for_each_entry(const fs::path& folder,
                              const std::function<void(const fs::directory_entry&)>& f) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    f(*at);
  if (!error) return {};
  const bool is_missing =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  return Error{is_missing ? Errc::not_found : Errc::io,
               fmt::format("{}: cannot be read: {}", folder.string(), error.message())};
}

/// The checkpoints of a run, oldest first, and what could not be read on the way.
struct Found {
  std::vector<Checkpoint> checkpoints;
  std::optional<Error> unreadable;
};
Found look_for_checkpoints(const fs::path& run) {
  Found found;
  auto read = for_each_entry(run / "checkpoints", [&](const fs::directory_entry& entry) {
    std::error_code error;
    const std::string name = entry.path().filename();
    if (auto checkpoint = parse_checkpoint(entry.path()))
      found.checkpoints.push_back(*checkpoint);
    else if (name.starts_with("step_") && !fs::exists(entry.path() / "state.json", error) && error)
      found.unreadable = Error{
          Errc::io, fmt::format("{}: cannot be read: {}", entry.path().string(), error.message())};
  });
  if (!read && read.error().code != Errc::not_found) found.unreadable = read.error();
  std::ranges::sort(found.checkpoints, {},
                    [](const Checkpoint& each) { return std::pair(each.is_policy, each.number); });
  return found;
}

/// As list_checkpoints; a folder that cannot be read is an error.
Expected<std::vector<Checkpoint>> find_checkpoints(const fs::path& run) {
  Found found = look_for_checkpoints(run);
  if (found.unreadable) return *found.unreadable;
  return std::move(found.checkpoints);
}

// The run id's attempt counter: one line per start of the run.
uint32_t next_attempt(const fs::path& run) {
  fs::path path = run / "log" / "attempts";
  std::ifstream in(path);
  uint32_t lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  std::ofstream(path, std::ios::app)
      << fmt::format("{:%Y-%m-%d %H:%M:%S}\n", fmt::localtime(std::time(nullptr)));
  return lines;
}

Expected<RunFolder> resume_run(const Checkpoint& checkpoint) {
  RunFolder run;
  run.path = checkpoint.folder.parent_path().parent_path();
  run.run_id = run.path.filename();
  run.resume_from = checkpoint.folder;
  if (checkpoint.is_policy) run.resume_step = checkpoint.number;
  fs::path first = checkpoint.folder.parent_path() / "step_0";
  if (parse_checkpoint(first)) run.resume_first = first;
  std::error_code error;
  fs::create_directories(run.path / "log", error);
  run.attempt = next_attempt(run.path);
  run.is_new = false;
  return run;
}

Expected<std::optional<Checkpoint>> newest_checkpoint(const fs::path& experiment) {
  std::vector<fs::path> runs;
  auto read = for_each_entry(experiment, [&](const fs::directory_entry& entry) {
    std::error_code error;
    if (entry.is_directory(error)) runs.push_back(entry.path());
  });
  if (!read && read.error().code != Errc::not_found) return read.error();
  std::sort(runs.begin(), runs.end());  // run ids begin with their time
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    COHORT_ASSIGN(const std::vector<Checkpoint> found, find_checkpoints(*run));
    if (!found.empty()) return std::optional(found.back());
  }
  return std::optional<Checkpoint>();
}

Expected<RunFolder> new_run(const fs::path& experiment) {
  RunFolder run;
  std::string stamp = fmt::format("{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr)));
  std::error_code error;
  auto failed = [&error](const fs::path& path, const char* hint = "") {
    return Error{Errc::io,
                 fmt::format("cannot create {}: {}{}", path.string(), error.message(), hint)};
  };
  fs::create_directories(experiment, error);
  if (error) return failed(experiment, "; set output_dir=DIR to a writable place");
  for (int suffix = 0; suffix < 1000; ++suffix) {
    run.run_id = suffix == 0 ? stamp : fmt::format("{}-{}", stamp, suffix);
    run.path = experiment / run.run_id;
    if (fs::create_directory(run.path, error)) break;
    if (error) return failed(run.path);
  }
  for (const char* part : {"log", "checkpoints", "stream", "tensorboard"}) {
    fs::create_directories(run.path / part, error);
    if (error) return failed(run.path / part);
  }
  run.attempt = next_attempt(run.path);
  return run;
}

}  // namespace

std::vector<Checkpoint> list_checkpoints(const fs::path& run_folder) {
  return look_for_checkpoints(run_folder).checkpoints;
}

std::optional<Checkpoint> checkpoint_before(const fs::path& checkpoint) {
  std::optional<Checkpoint> before;
  for (const Checkpoint& each : list_checkpoints(checkpoint.parent_path().parent_path())) {
    if (each.folder == checkpoint) return before;
    before = each;
  }
  return std::nullopt;
}

fs::path hf_folder_of(const fs::path& checkpoint) {
  return checkpoint.parent_path().parent_path() / "hf" / checkpoint.filename();
}

std::string ahead_in(const fs::path& checkpoint) { return checkpoint / "ahead"; }

std::string ahead_beside(const fs::path& checkpoint) { return checkpoint.string() + ".ahead"; }

std::string running_in(const fs::path& checkpoint) { return checkpoint / "running"; }

std::string running_beside(const fs::path& checkpoint) { return checkpoint.string() + ".running"; }

void prune_checkpoints(const std::filesystem::path& run_folder, size_t keep) {
  if (keep == 0) return;
  std::vector<Checkpoint> found = list_checkpoints(run_folder);
  std::erase_if(found, [](const Checkpoint& c) { return c.is_policy && c.number == 0; });
  for (size_t i = 0; i + keep < found.size(); ++i) {
    std::error_code ignored;
    std::filesystem::remove_all(found[i].folder, ignored);
    std::filesystem::remove_all(hf_folder_of(found[i].folder), ignored);
  }
}

Expected<RunFolder> open_run_folder(const config::RunConfig& config) {
  std::error_code error;
  const fs::path name = fs::path(config.output_dir) / config.exp_name;
  fs::path experiment = fs::absolute(name.empty() ? "." : name, error);
  if (error) return Error{Errc::io, fmt::format("{}: {}", name.string(), error.message())};
  const auto& resume = config.resume_from_checkpoint;
  if (!resume.is_enabled) return new_run(experiment);
  if (resume.path.empty()) {
    COHORT_ASSIGN(const std::optional<Checkpoint> checkpoint, newest_checkpoint(experiment));
    if (checkpoint) return resume_run(*checkpoint);
    COHORT_ASSIGN(RunFolder run, new_run(experiment));
    if (config.dialect == config::Dialect::roll)  // of verl's auto that is what one asks for
      run.warning = fmt::format(
          "resume_from_checkpoint: no run in {} has a checkpoint: this one "
          "starts from nothing",
          experiment.string());
    return run;
  }
  fs::path path = fs::absolute(resume.path, error);
  if (error) return Error{Errc::io, fmt::format("{}: {}", resume.path, error.message())};
  if (!path.has_filename()) path = path.parent_path();
  if (auto checkpoint = parse_checkpoint(path)) return resume_run(*checkpoint);
  if (!fs::exists(path / "state.json", error) && error &&
      path.filename().string().starts_with("step_"))
    return Error{Errc::io, fmt::format("resume_from_checkpoint: {}: cannot be read: {}",
                                       path.string(), error.message())};
  COHORT_ASSIGN(const std::vector<Checkpoint> found, find_checkpoints(path));
  if (!found.empty()) return resume_run(found.back());
  return Error{Errc::not_found, fmt::format("resume_from_checkpoint: {} is neither a checkpoint (a "
                                            "folder step_N with state.json) nor "
                                            "a run folder with checkpoints/",
                                            path.string())};
}

Expected<void> write_file(const fs::path& path, const std::string& text) {
  fs::path temporary = path.string() + ".tmp";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    if (!out)
      return Error{Errc::io,
                   fmt::format("cannot write {}: {}", temporary.string(), std::strerror(errno))};
  }
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error)
    return Error{Errc::io, fmt::format("cannot rename {} to {}: {}", temporary.string(),
                                       path.string(), error.message())};
  return {};
}

Expected<void> check_free_space(const fs::path& path, uint64_t bytes) {
  std::error_code error;
  fs::space_info space = fs::space(path, error);
  if (error) return Error{Errc::io, fmt::format("{}: {}", path.string(), error.message())};
  if (space.available < bytes)
    return Error{
        Errc::io,
        fmt::format("{}: the disk has {} bytes free, the run needs about {}; set output_dir=DIR to "
                    "a place with room",
                    path.string(), plan::with_thousands(space.available),
                    plan::with_thousands(bytes))};
  return {};
}

}  // namespace cohort::actors

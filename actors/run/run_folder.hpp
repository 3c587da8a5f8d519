#pragma once
/// <output_dir>/<exp_name>/<run id>/ : the folder of a run (docs/architecture.md), made at start,
/// found again at resume. No actor in it. Files only; not thread-safe.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort::actors {

struct Checkpoint {
  std::filesystem::path folder;
  bool is_policy = false;  // step_N, else warm_N
  uint64_t number = 0;
};

struct RunFolder {
  std::filesystem::path path;
  std::string run_id;
  std::filesystem::path resume_from;   // checkpoint, empty when fresh
  std::filesystem::path resume_first;  // step_0 of the same run, empty when absent
  std::optional<uint64_t> resume_step;
  uint32_t attempt = 0;
  bool is_new = true;   // this call made it: remove it if the start fails
  std::string warning;  // for the user; empty: none
};

/// Returns the complete checkpoints of a run folder, oldest first (warm_* before step_*).
std::vector<Checkpoint> list_checkpoints(const std::filesystem::path& run_folder);

/// Returns the checkpoint of the same run that is the newest one older than this one.
std::optional<Checkpoint> checkpoint_before(const std::filesystem::path& checkpoint);

/// Returns where the Hugging Face folder of a checkpoint is (`save_hf`): RUN/hf/step_N for
/// RUN/checkpoints/step_N.
std::filesystem::path hf_folder_of(const std::filesystem::path& checkpoint);

/// Returns where the trajectories of later steps are that a checkpoint has (docs/async.md), and
/// where they are until it is complete.
std::string ahead_in(const std::filesystem::path& checkpoint);
std::string ahead_beside(const std::filesystem::path& checkpoint);
/// Likewise for trajectories that rollouts had begun: a folder with a stream of each rollout.
std::string running_in(const std::filesystem::path& checkpoint);
std::string running_beside(const std::filesystem::path& checkpoint);

/// Removes all checkpoints but the newest `keep` (0: none), with their Hugging Face folders; that
/// of step 0 stays always, because it is the reference's policy.
void prune_checkpoints(const std::filesystem::path& run_folder, size_t keep);

/// Makes the folder of a new run, or finds the run to go on with: resume_from_checkpoint true takes
/// the newest checkpoint under output_dir/exp_name (none: a new run), a path takes that checkpoint
/// or the newest in that run. A folder on the way that cannot be read is an error: an older
/// checkpoint, or none, would be taken in its place. Returns Errc::io (path and errno) or
/// Errc::not_found naming the path and what is missing in it.
Expected<RunFolder> open_run_folder(const config::RunConfig& config);

/// Writes `text` to `path` by way of a temporary file and a rename.
Expected<void> write_file(const std::filesystem::path& path, const std::string& text);

/// Returns Errc::io when fewer than `bytes` are free where `path` lies.
Expected<void> check_free_space(const std::filesystem::path& path, uint64_t bytes);

}  // namespace cohort::actors

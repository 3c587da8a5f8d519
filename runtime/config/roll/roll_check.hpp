#pragma once
/// Rules across keys, and the numbers that follow from them. Pure but for asking whether a resume
/// folder is there.
#include <string>
#include <vector>

#include "runtime/config/bind/binder.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort::config {

/// Fills what follows from other keys (pipeline, sequence_length, partitions, head_dim, rewards,
/// derived, origins) and adds problems, warnings and notes. Rules whose keys have a problem already
/// are left out.
void complete_and_check(RunConfig& config, Findings& findings, const LoadOptions& options);

// Parts of it, in this order.
void complete_pipeline(RunConfig& config, Findings& findings);
/// On-policy distillation: its roles under the names of the other roles, and what it takes out.
void check_opd(RunConfig& config, Findings& findings);
/// What cannot stand beside demonstrations. Behind check_algorithm.
void check_demonstrations(const RunConfig& config, Findings& findings);
void check_roles(RunConfig& config, Findings& findings, const LoadOptions& options);
void check_batches(RunConfig& config, Findings& findings);
void check_algorithm(RunConfig& config, Findings& findings);
/// Returns whether a reference, if one is needed, is a role with cards: under LoRA the policy
/// without its adapter is the reference, and cards that the config gives it are taken back.
bool has_reference_role(RunConfig& config, Findings& findings);
/// Of pipelines dpo and rm: their loss, and what of it needs a reference.
void check_pairs(RunConfig& config, Findings& findings);
void check_environments(RunConfig& config, Findings& findings);
void check_rlvr(RunConfig& config, Findings& findings);
/// Completes `async`, from async_generation_ratio too, and refuses what cannot run beside training.
void check_async(RunConfig& config, Findings& findings);
void check_runtime(RunConfig& config, Findings& findings);
void note_inert(RunConfig& config, Findings& findings);

/// Where the estimator sets its baseline itself: says so in `derived`, warns of keys that it passes
/// over and of groups of one, and returns true.
bool set_own_baseline(RunConfig& config, Findings& findings, const std::string& group_key,
                      int64_t group_size);

/// "nearest that work: 256, 512" for a value that should be a multiple of `unit`.
std::string nearest_multiples(int64_t value, int64_t unit);

struct NamedRole {
  std::string name;
  WorkerConfig* role;
};
/// The roles that are in the file, rewards with a model included.
std::vector<NamedRole> roles_of(RunConfig& config);

}  // namespace cohort::config

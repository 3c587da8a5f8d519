#pragma once
/// Rules across verl's keys, and the numbers that follow from them (docs/config.md). Pure but for
/// asking data files for their rows and the environment for one variable.
#include <cstdint>

#include "runtime/config/bind/binder.hpp"
#include "runtime/config/tree/interpolate.hpp"
#include "runtime/config/verl/verl_config.hpp"

namespace cohort::config {

/// How a role's passes are cut.
struct VerlPasses {
  int64_t per_card = 0;  // [trajectories] of a pass; 0: cut by tokens
  bool is_dynamic = false;
  int64_t tokens_max = 0;  // [tokens] of a pass when dynamic
};

/// Numbers behind a valid config; those that a problem hides are 0.
struct VerlNumbers {
  int64_t train_cards = 0;
  int64_t rollout_cards = 0;  // the same cards under hybrid_engine
  int64_t train_dp = 0;       // D: cards / (TP * PP * CP), or / Ulysses
  int64_t ref_dp = 0;
  int64_t critic_dp = 0;
  int64_t replicas = 0;       // engines
  int64_t prompt = 0;         // P [tokens]
  int64_t response = 0;       // R [tokens]
  int64_t trajectories = 0;   // N = prompts * n
  int64_t per_rank = 0;       // N / D
  int64_t mini_per_rank = 0;  // normalised mini-batch [trajectories]
  int64_t critic_mini_per_rank = 0;
  int64_t optimizer_steps = 0;  // of an RL step, ppo_epochs included
  VerlPasses train;
  VerlPasses log_prob;
  VerlPasses ref;
  VerlPasses critic;
  int64_t rows = 0;  // of the training files; 0: not known
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;  // 0: not known
  bool has_critic = false;
  bool has_reference = false;
};

/// Adds problems, warnings and notes to `f`; rules whose keys have a problem already are left out.
VerlNumbers check_verl(const VerlConfig& c, Findings& f, const InterpolationSources& sources);

/// A problem of one key: at the place of the key, or of the command line if it is not there.
void verl_problem(Findings& f, const std::string& path, std::string_view text);

// Parts of it.
void check_verl_cards(const VerlConfig& c, Findings& f, VerlNumbers& n);
void check_verl_batches(const VerlConfig& c, Findings& f, VerlNumbers& n);
void check_verl_rows(const VerlConfig& c, Findings& f, VerlNumbers& n);
void check_verl_algorithm(const VerlConfig& c, Findings& f, VerlNumbers& n);
void check_verl_rollout(const VerlConfig& c, Findings& f, const VerlNumbers& n);
void check_verl_built(const VerlConfig& c, Findings& f);
void check_verl_run(const VerlConfig& c, Findings& f, const InterpolationSources& sources);

}  // namespace cohort::config

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

/// Numbers behind a valid config, those of Derived among them; what a problem hides is 0.
struct VerlNumbers : Derived {
  int64_t rollout_cards = 0;  // the training cards under hybrid_engine
  int64_t ref_dp = 0;
  int64_t critic_dp = 0;
  int64_t prompt = 0;                 // P [tokens]
  int64_t response = 0;               // R [tokens]
  int64_t critic_mini_per_rank = 0;   // normalised mini-batch [trajectories]
  int64_t critic_steps_per_step = 0;  // of its optimizer
  VerlPasses train;
  VerlPasses log_prob;
  VerlPasses ref;
  VerlPasses critic;
  bool has_critic = false;
};

/// Adds problems, warnings and notes to `f`; rules whose keys have a problem already are left out.
VerlNumbers check_verl(const VerlConfig& c, Findings& f, const InterpolationSources& sources);

/// A problem of one key: at the place of the key, or of the command line if it is not there.
void verl_problem(Findings& f, const std::string& path, std::string_view text);
template <class First, class... Rest>
void verl_problem(Findings& f, const std::string& path, fmt::format_string<First, Rest...> text,
                  First&& first, Rest&&... rest) {
  verl_problem(f, path, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

/// VerlConfig -> RunConfig, with verl's meaning of each number (docs/config.md, Batch algebra).
/// `n`: what check_verl() found, without a problem. `f`: tells which keys the user gave.
RunConfig translate_verl(const VerlConfig& c, const VerlNumbers& n, Findings& f);

/// What rollout_correction asks for. Returns Errc::config for a threshold or a rejection that is
/// none.
Expected<catalog::Correction> correction_of(const VerlRolloutCorrection& correction);

/// RL steps of warm-up: the number, or int(ratio x steps of the run), as verl derives it.
int64_t warmup_steps_of(const VerlOptim& optim, int64_t total_steps);

/// On-policy distillation in terms of verl's other keys, as far as they can say it: without policy
/// gradient it is the KL loss to the teacher; without task rewards nothing else counts.
VerlConfig with_distillation(const VerlConfig& c);
/// Adds the teacher to what translate_verl() has made.
void set_distillation(RunConfig& r, const VerlConfig& c, Findings& f);

// Parts of check_verl().
/// `c`: as the user wrote it.
void check_verl_distillation(const VerlConfig& c, Findings& f);
void check_verl_cards(const VerlConfig& c, Findings& f, VerlNumbers& n);
void check_verl_batches(const VerlConfig& c, Findings& f, VerlNumbers& n);
void check_verl_rows(const VerlConfig& c, Findings& f, VerlNumbers& n);
/// Warns, with k_not_run in front, of what a run lacks (not_built.hpp). Last: only of a config
/// without a problem.
void check_verl_run(const VerlConfig& c, Findings& f, const VerlNumbers& n);

}  // namespace cohort::config

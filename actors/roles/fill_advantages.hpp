#pragma once
/// From a step's trajectories to one advantage per token, as the config asks: where the estimators
/// of algorithms/ meet configs and trajectories. Pure. ROLL's order: normalise scores per group,
/// put them on the last token, KL in the reward (optional), returns, whiten → mask → clip. verl's
/// estimators over groups take the KL off the scores before they compare them. A teacher's leads
/// join behind the returns; where it alone counts, no reward is placed.
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/advantage.hpp"
#include "algorithms/reward_norm.hpp"
#include "algorithms/teacher.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::actors {

/// The packed columns of a batch, alive while the engine reads the samples that point into them.
struct PackedBatch {
  std::vector<int32_t> cu_seqlens = {0};
  std::vector<uint8_t> mask;  // without what a correction has taken out
  std::vector<float> old_logp, ref_logp, teacher_logp, values, advantages;
  std::vector<float> weights, marks;  // loss_columns.hpp; empty: none
  /// Of each trajectory: the score of the greedy answer to its prompt. Empty: there are none.
  std::vector<double> baselines = {};
  /// Of each trajectory: 0 if it counts in its group alone; empty: all of them train.
  std::vector<uint8_t> trained = {};
  /// A mask has taken all its tokens: it costs no pass.
  bool is_untrained(size_t index) const { return !trained.empty() && trained[index] == 0; }
};
PackedBatch pack(const std::vector<proto::Trajectory>& batch);

/// Whether an advantage depends on the other trajectories of its group.
bool compares_groups(const config::RunConfig& config);

struct AdvantageMetrics {
  algorithms::AdvantageSummary summary;
  algorithms::GroupStats groups;
  double kl = 0;
  /// How near the student is to its teacher, where there is one.
  std::optional<algorithms::TeacherMetrics> teacher;
  double untrained = 0;  // share of trajectories that count in their group alone (sample_masks.hpp)
};
/// Scores of the run so far: of each domain in rlvr, else under "".
using RunningScores = std::map<std::string, algorithms::RunningMoments>;
/// Whether norm_mean_type or norm_std_type is running.
bool has_running_norm(const config::RunConfig& config);

/// Scores to advantages, as the config asks. `running` takes the batch's scores, and is needed with
/// has_running_norm alone. Errc::unsupported: it is missing, or the estimator is not built in.
Expected<AdvantageMetrics> fill_advantages(const config::RunConfig& config, double kl_coef,
                                           const std::vector<proto::Trajectory>& batch,
                                           PackedBatch& packed, RunningScores* running = nullptr);
/// The same as JSON {domain: [count, mean, squares]}, for a checkpoint, and back; what is no such
/// object is taken for none.
nlohmann::json json_of(const RunningScores& running);
RunningScores running_scores_of(const nlohmann::json& json);

}  // namespace cohort::actors

#pragma once
/// Sections of a run's config that say how it is trained: groups without a signal, generation
/// beside training, corrections, and the numbers of policy losses. Value types; RunConfig has them.
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/catalog/correction_rules.hpp"
#include "runtime/config/enums.hpp"

namespace cohort::config {

/// Which groups are left out of a step, by their scores.
struct QueryFilter {
  GroupFilter type = GroupFilter::no_filter;
  double threshold_down = 0.0;  // mean_filter keeps down < mean < up
  double threshold_up = 1.0;
  double std_threshold = 0.0;  // std_filter keeps deviation > this
  bool operator==(const QueryFilter&) const = default;
};

/// Groups that carry no signal, and those that take their places (docs/leases.md).
struct DynamicSampling {
  QueryFilter filter;  // where a domain's query_filter_config says no other
  FilterMetric metric = FilterMetric::score;
  int64_t max_num_gen_batches = 10;  // of a step, the first one included
  bool operator==(const DynamicSampling&) const = default;
};

/// Generation beside training (docs/async.md).
struct AsyncSection {
  AsyncMode mode = AsyncMode::sync;
  double depth = 1;   // [steps] that are played before the one that trains
  int64_t bound = 0;  // [steps] that a trained token may be old; 0, until load: depth, rounded up
  bool keep_kv_cache = false;  // over a publish; fully_async
  bool operator==(const AsyncSection&) const = default;
};

/// Weights and filters against the gap between the engine's log-probabilities and the trainer's.
struct TrainInferCorrection {
  catalog::Correction rules;         // after load rules.rejections are what the two texts say
  std::string rejections;            // verl's rollout_rs: "token_k1,seq_mean_k3"
  std::string rejection_thresholds;  // "0.6_1.6,0.06"
  bool operator==(const TrainInferCorrection&) const = default;
};

/// Numbers of a policy loss that pg_clip and its range do not give (docs/algorithms.md).
struct PolicyLossSection {
  std::optional<double> dual_clip_bound;  // none: 1 + 2 pg_clip; of dppo_*: 20
  std::optional<double> ratio_cap;        // ppo: TRL's delta; cispo_cap: its epsilon_high
  std::optional<double> off_policy_mask;  // [nats per token] none: no sequence is masked
  std::optional<double> quadratic_coef;   // of (lp - old)^2; none: kimi15 0.1, prime_rl 0.001
  double tau_pos = 1.0, tau_neg = 1.05;   // sapo
  double clip_cov_ratio = 0.0002, clip_cov_lb = 1.0, clip_cov_ub = 5.0;
  double kl_cov_ratio = 0.0002, ppo_kl_coef = 0.1;
  double k_pos = 2, lambda_pos = 3, k_neg = 3, lambda_neg = 2;  // vespo
  double shaping_gamma = 0.1;                                   // luffy
  bool operator==(const PolicyLossSection&) const = default;
};

}  // namespace cohort::config

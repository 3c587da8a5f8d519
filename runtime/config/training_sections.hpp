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
  std::string schedule;        // run or stream folder: its versions sample its tokens; fully_async
  bool operator==(const AsyncSection&) const = default;
};

/// Weights and filters against the gap between the engine's log-probabilities and the trainer's.
struct TrainInferCorrection {
  catalog::Correction rules;         // after load rules.rejections are what the two texts say
  std::string rejections;            // verl's rollout_rs: "token_k1,seq_mean_k3"
  std::string rejection_thresholds;  // "0.6_1.6,0.06"
  bool operator==(const TrainInferCorrection&) const = default;
};

/// Pipelines dpo and rm: columns of the pairs and their loss; its keys are at the top of the file.
struct PreferenceSection {
  bool use_reference_model = true;                // false: its log-probabilities count as 0
  PreferenceKind loss = PreferenceKind::sigmoid;  // key preference_loss; after load also by `ipo`
  bool ipo = false;                               // ROLL's name of preference_loss: ipo
  double beta = 0.1;
  double label_smoothing = 0;                   // share of pairs that are taken for mislabelled
  AnswerScale answer_scale = AnswerScale::sum;  // simpo, after load: mean
  double gamma_beta_ratio = 0.5;                // simpo's margin over beta
  double center_rewards_coefficient = 0;        // rm
  std::string chosen_key = "chosen", rejected_key = "rejected";
  bool operator==(const PreferenceSection&) const = default;
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

/// On-policy distillation: what a teacher's log-probabilities of the sampled tokens do
/// (docs/distillation.md). Its keys are at the top of the file.
struct OpdSection {
  bool is_pure = false;        // is_pure_opd: they alone give the advantages
  bool is_mixed = false;       // use_opd: they are added to the estimator's
  double coef = 1.0;           // of use_opd
  std::optional<KlKind> kind;  // none: kl_penalty
  std::optional<double> clip;  // [nats] a token's KL is clamped to plus and minus this
  // opsd_mode: the teacher reads the row's solution, too (actors/run/teacher_hints.hpp).
  bool is_self = false;
  std::string solution_key = "reference_solution";  // column
  std::string teacher_template =                    // of its user's message
      "{problem}\n\nA solution of this problem is known:\n--- begin of the solution "
      "---\n{solution}\n"
      "--- end of the solution ---\n\nUnderstand why each of its steps holds. Then solve the "
      "problem "
      "yourself, step by step and in words of your own.\n";
  int64_t solution_tokens = 0;  // at most of a solution; 0: what sequence_length leaves
  bool is_asked() const { return is_pure || is_mixed; }
  bool operator==(const OpdSection&) const = default;
};

/// Pipeline distill: a student learns its teacher's distribution over the tokens of rows
/// (docs/distillation.md). Its keys are at the top of the file, with ROLL's names and defaults.
struct DistillSection {
  DivergenceKind objective = DivergenceKind::forward_kl;  // kd_objective
  double loss_weight = 0.5;  // of the teacher; the rest is the answers'
  int64_t topk = 64;         // of the teacher's entries; 0: all
  double temperature = 1.0, teacher_temperature = 1.0;
  double adaptive_alpha = 0.5, skew_lambda = 0.1, gkd_beta = 0.5;
  bool is_on_prompt = false;  // tokens of the prompt count too
  std::string question_key = "question", answer_key = "answer";
  bool operator==(const DistillSection&) const = default;
};

}  // namespace cohort::config

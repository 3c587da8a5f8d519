#pragma once
/// On-policy distillation: a teacher's log-probabilities of what the student sampled become
/// advantages. Pure; std only. Source: K. Lu, "On-Policy Distillation" (Thinking Machines, 2025);
/// names and rules as ROLL's is_pure_opd and use_opd.
#include <optional>
#include <span>
#include <vector>

#include "algorithms/kl.hpp"

namespace cohort::algorithms {

struct TeacherOptions {
  KlKind kind = KlKind::kl;         // k1: -k is the estimate of -KL(student || teacher) with the
                                    // gradient of that KL; the others weigh tokens differently
  double coef = 1;                  // of k
  std::optional<double> clip = {};  // [nats] k is clamped to plus and minus this
};

/// Returns [N] the leads -coef k_t, 0 where the mask is 0: no token gets credit for a later one.
/// logp and teacher_logp: [N] log-probabilities of the sampled tokens under student and teacher,
/// finite where the mask is 1.
std::vector<double> teacher_leads(const TeacherOptions& options, std::span<const uint8_t> mask,
                                  std::span<const double> logp,
                                  std::span<const double> teacher_logp);

/// Means over the sampled tokens; 0 without one.
struct TeacherMetrics {
  double kl = 0;  // of lp - lp_teacher: the estimate k1 of KL(student || teacher) [nats per token]
  /// Of min(1, p_teacher / p): the estimate of sum_v min(s_v, q_v) = 1 - total variation, 1 where
  /// both distributions are the same.
  double agreement = 0;
};
TeacherMetrics teacher_metrics(std::span<const uint8_t> mask, std::span<const double> logp,
                               std::span<const double> teacher_logp);

}  // namespace cohort::algorithms

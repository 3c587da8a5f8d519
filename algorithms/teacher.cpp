#include "algorithms/teacher.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/base/check.hpp"

namespace cohort::algorithms {

std::vector<double> teacher_leads(const TeacherOptions& options, std::span<const uint8_t> mask,
                                  std::span<const double> logp,
                                  std::span<const double> teacher_logp) {
  COHORT_CHECK(logp.size() == mask.size() && teacher_logp.size() == mask.size(),
               "teacher: one log-probability per mask entry");
  std::vector<double> leads(mask.size(), 0);
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] == 0) continue;
    double kl = kl_estimate(options.kind, logp[t], teacher_logp[t]);
    if (options.clip) kl = std::clamp(kl, -*options.clip, *options.clip);
    leads[t] = -options.coef * kl;
  }
  return leads;
}

TeacherMetrics teacher_metrics(std::span<const uint8_t> mask, std::span<const double> logp,
                               std::span<const double> teacher_logp) {
  TeacherMetrics sums;
  double tokens = 0;
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] == 0) continue;
    const double lead = teacher_logp[t] - logp[t];
    sums.kl -= lead;
    sums.agreement += std::exp(std::min(lead, 0.0));
    ++tokens;
  }
  if (tokens == 0) return {};
  return {sums.kl / tokens, sums.agreement / tokens};
}

}  // namespace cohort::algorithms

#include "algorithms/kl.hpp"

#include <algorithm>
#include <cmath>

namespace cohort::algorithms {
namespace {

constexpr double k_error_clip = 0.2;

}  // namespace

double kl_estimate(KlKind kind, double lp, double ref) {
  const double d = ref - lp;
  switch (kind) {
    case KlKind::kl:
      return -d;
    case KlKind::abs:
      return std::abs(d);
    case KlKind::mse:
      return 0.5 * d * d;
    case KlKind::full:  // refused by preflight
    case KlKind::k3: {
      const double clamped = std::clamp(d, -k_log_ratio_clamp, k_log_ratio_clamp);
      return std::clamp(std::expm1(clamped) - clamped, -k_k3_clamp, k_k3_clamp);
    }
  }
  return 0;
}

void KlController::update(double kl, double batch_size) {
  if (!target_kl_) return;
  const double error = std::clamp(kl / *target_kl_ - 1, -k_error_clip, k_error_clip);
  coefficient_ *= 1 + error * batch_size / horizon_;
}

double sequence_mean(std::span<const double> kl, std::span<const uint8_t> mask,
                     std::span<const int32_t> cu_seqlens) {
  double total = 0;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    double sum = 0;
    size_t tokens = 0;
    for (auto t = static_cast<size_t>(cu_seqlens[s]); t < static_cast<size_t>(cu_seqlens[s + 1]);
         ++t) {
      if (mask[t] != 0) {
        sum += kl[t];
        ++tokens;
      }
    }
    if (tokens > 0) total += sum / static_cast<double>(tokens);
  }
  return cu_seqlens.size() > 1 ? total / static_cast<double>(cu_seqlens.size() - 1) : 0;
}

}  // namespace cohort::algorithms

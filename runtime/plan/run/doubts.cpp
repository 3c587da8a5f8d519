#include "runtime/plan/run/doubts.hpp"

namespace cohort::plan::run {

std::optional<Failure> Doubts::verdict(double now, const std::function<bool(uint64_t)>& is_open) {
  constexpr double k_before_s = 3;  // an error may be told so long before the loss behind it
  while (!doubts_.empty() && doubts_.front().since + wait_s_ <= now) {
    Doubt doubt = std::move(doubts_.front());
    doubts_.erase(doubts_.begin());
    const bool is_explained =
        (doubt.excuse == Excuse::lease && !is_open(doubt.lease)) ||
        (doubt.excuse == Excuse::loss && last_loss_ && *last_loss_ > doubt.since - k_before_s);
    if (is_explained) continue;
    doubt.failure.is_consequence = false;
    return doubt.failure;
  }
  return std::nullopt;
}

std::optional<double> Doubts::due() const {
  if (doubts_.empty()) return std::nullopt;
  return doubts_.front().since + wait_s_;
}

}  // namespace cohort::plan::run

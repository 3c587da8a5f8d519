#include "actors/roles/step_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::actors {

StepSums::StepSums(std::string role, int64_t nonfinite_max, int64_t& nonfinite_in_row)
    : role_(std::move(role)),
      loss_(role_ == "actor" ? "loss" : role_ + "/loss"),
      nonfinite_max_(nonfinite_max),
      nonfinite_in_row_(nonfinite_in_row) {}

Expected<void> StepSums::take(const compute::StepReport& report) {
  if (report.is_finite) {
    nonfinite_in_row_ = 0;
    ++count_;
    sums_.add(loss_, report.loss);
    sums_.add(role_ + "/grad_norm", report.grad_norm);
    sums_.add(report.numbers);
    learning_rate_ = report.learning_rate;
    tokens_ += report.tokens;
    param_hash_ = report.param_hash;
    return {};
  }
  ++nonfinite_;
  if (++nonfinite_in_row_ <= nonfinite_max_) return {};
  return Error{Errc::compute,
               fmt::format("the loss or a gradient is not finite in {} optimizer steps in a row "
                           "(nonfinite_steps_max: {}); the parameters are those before them",
                           nonfinite_in_row_, nonfinite_max_)};
}

void StepSums::write(control::UpdateReport& report) const {
  const double n = std::max<double>(1, static_cast<double>(count_));
  const std::string norm = role_ + "/grad_norm";
  report.tokens = tokens_;
  report.param_hash = param_hash_.value_or(0);
  report.metrics.emplace_back(loss_, sums_.at(loss_) / n);
  report.metrics.emplace_back(norm, sums_.at(norm) / n);
  report.metrics.emplace_back(role_ + "/lr", learning_rate_);
  if (nonfinite_ > 0)
    report.metrics.emplace_back(role_ + "/nonfinite_steps", static_cast<double>(nonfinite_));
  if (skipped_ > 0)
    report.metrics.emplace_back(role_ + "/skipped_steps", static_cast<double>(skipped_));
  for (const Number& number : sums_.all())
    if (number.name() != loss_ && number.name() != norm)
      report.metrics.emplace_back(std::string(number.name()),
                                  number.reduce == Reduce::max ? number.value : number.value / n);
}

}  // namespace cohort::actors

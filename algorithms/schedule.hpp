#pragma once
/// Learning rate as a function of the optimizer step. Pure; std only.
/// Warm-up: base * (step + 1) / warmup_steps for step < warmup_steps, so that the first step
/// already moves (verl's and HF's first step at rate 0 spends a batch on nothing). Then, with f
/// from 0 to 1 over the steps left:
///   base (min_ratio + (1 - min_ratio) g), with g of
///   constant 1 | linear 1 - f | cosine (1 + cos(pi f))/2 | polynomial (1 - f)^power
///   cosine_with_restarts (1 + cos(pi (cycles f mod 1)))/2, and 0 at the end
///   warmup_stable_decay 1, and a cosine over the last decay_steps
/// inverse_sqrt: base / sqrt(1 + (step - warmup_steps)/timescale). Source: transformers'
/// optimization.py, but for the first step.
/// trapezoid (the warm start's): base min(1, (step + 1)/warmup_steps) min(1, (total_steps -
/// step)/(decay_fraction total_steps)), level between the two slopes.
#include <cstdint>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::algorithms {

enum class ScheduleKind : uint8_t {
  constant,
  linear,
  cosine,
  trapezoid,
  cosine_with_restarts,
  polynomial,
  inverse_sqrt,
  warmup_stable_decay
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;
  double base = 1e-3;
  uint64_t warmup_steps = 0;
  uint64_t total_steps =
      0;  // optimizer steps of the run; 0 or less than warmup: the rate stays at base
  double min_ratio = 0;
  double decay_fraction = 0;  // trapezoid: last share of the steps; 0: it stays level
  double cycles = 1;          // cosine_with_restarts
  double power = 1;           // polynomial
  double timescale = 10'000;  // inverse_sqrt [steps]
  uint64_t decay_steps = 0;   // warmup_stable_decay
};

/// Reads a name of transformers' get_scheduler; constant_with_warmup is constant, and
/// cosine_with_min_lr is cosine. Returns Errc::config for anything else.
Expected<ScheduleKind> parse_schedule_kind(std::string_view name);
/// Returns the rate of optimizer step `step`, from 0. Steps past total_steps keep the last value.
double learning_rate(const ScheduleOptions& options, uint64_t step);

}  // namespace cohort::algorithms

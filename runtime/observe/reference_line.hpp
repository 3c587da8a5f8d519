#pragma once
/// A fixed level that a curve is read against, e.g. {"shortest path", 0.997}. A value.
#include <string>

namespace cohort::observe {

struct ReferenceLine {
  std::string name;
  double value = 0;
};

}  // namespace cohort::observe

#include "tools/traj/recompute/closeness.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace cohort::traj {
namespace {

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

double share_of(double off, double way) {
  if (off == 0 && way == 0) return 0;
  const double share = off / way;
  return std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
}

bool alike(const NamedValues& a, const NamedValues& b) {
  return a.name == b.name && a.values.size() == b.values.size();
}

}  // namespace

Expected<Closeness> closeness(std::span<const NamedValues> start,
                              std::span<const NamedValues> recorded,
                              std::span<const NamedValues> computed, double tolerance) {
  if (start.size() != recorded.size() || computed.size() != recorded.size())
    return Error{Errc::invalid_argument,
                 fmt::format("{} tensors at the start, {} recorded, {} computed", start.size(),
                             recorded.size(), computed.size())};
  Closeness found;
  found.of = recorded.size();
  for (size_t i = 0; i < recorded.size(); ++i) {
    if (!alike(recorded[i], start[i]) || !alike(recorded[i], computed[i]))
      return Error{
          Errc::invalid_argument,
          fmt::format("tensor {}: '{}' of {} values at the start, '{}' of {} recorded, "
                      "'{}' of {} computed",
                      i, start[i].name, start[i].values.size(), recorded[i].name,
                      recorded[i].values.size(), computed[i].name, computed[i].values.size())};
    const TensorDistance own{recorded[i].name,
                             share_of(distance(computed[i].values, recorded[i].values),
                                      distance(recorded[i].values, start[i].values))};
    if (found.farthest.tensor.empty() || own.share > found.farthest.share) found.farthest = own;
    if (own.share <= tolerance) continue;
    ++found.beyond;
    if (!found.first) found.first = own;
  }
  return found;
}

}  // namespace cohort::traj

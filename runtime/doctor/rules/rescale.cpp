#include "runtime/doctor/rules/rescale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cohort::doctor {
namespace {

constexpr uint64_t k_max_cards = 32768;  // world_size stays within 32 bits
constexpr uint64_t k_max_batch = uint64_t{1} << 40;

Expected<void> check_ranges(const RescaleOptions& x) {
  auto is_card_count = [](uint64_t n) { return n >= 1 && n <= k_max_cards; };
  if (!is_card_count(x.from) || !is_card_count(x.to))
    return Error{Errc::invalid_argument,
                 fmt::format("rescale: cards per node are 1 to {}, not {} -> {}", k_max_cards,
                             x.from, x.to)};
  if (!is_card_count(x.nodes))
    return Error{Errc::invalid_argument,
                 fmt::format("rescale: nodes are 1 to {}, not {}", k_max_cards, x.nodes)};
  if (x.batch < 1 || x.batch > k_max_batch)
    return Error{Errc::invalid_argument,
                 fmt::format("rescale: a batch is 1 to {}, not {}", k_max_batch, x.batch)};
  if (x.unit < 1 || x.unit > k_max_batch)
    return Error{
        Errc::invalid_argument,
        fmt::format("rescale: the unit of a batch is 1 to {}, not {}", k_max_batch, x.unit)};
  if (!(x.learning_rate > 0) || !std::isfinite(x.learning_rate))
    return Error{Errc::invalid_argument,
                 fmt::format("rescale: a learning rate is above 0, not {}", x.learning_rate)};
  return {};
}

bool works(const RescaleOptions& x, uint64_t batch, uint64_t to) {
  return batch * to % x.from == 0 && batch * to / x.from % x.unit == 0 && batch > 0;
}

/// Returns the batches around x.batch that scale to a whole multiple of the unit. Those are the
/// multiples of one number.
std::string near_batches(const RescaleOptions& x) {
  // b*k'/(k*u) whole: b is a multiple of k*u / gcd(k*u, k').
  uint64_t per = uint64_t{x.from} * x.unit;
  uint64_t step = per / std::gcd(per, uint64_t{x.to});
  uint64_t below = x.batch / step * step;
  return below > 0 ? fmt::format("{}, {}", below, below + step) : fmt::format("{}", below + step);
}

/// Returns the card counts from 1 to 2*max(from, to) that work for x.batch, the nearest four.
std::string near_counts(const RescaleOptions& x) {
  std::vector<uint64_t> found;
  uint64_t last = std::min<uint64_t>(2 * uint64_t{std::max(x.from, x.to)}, k_max_cards);
  for (uint64_t to = 1; to <= last; ++to)
    if (works(x, x.batch, to)) found.push_back(to);
  auto distance = [&](uint64_t to) { return to > x.to ? to - x.to : x.to - to; };
  std::stable_sort(found.begin(), found.end(),
                   [&](uint64_t a, uint64_t b) { return distance(a) < distance(b); });
  found.resize(std::min<size_t>(found.size(), 4));
  std::sort(found.begin(), found.end());
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace

Expected<Rescaled> rescale(const RescaleOptions& x) {
  COHORT_TRY(check_ranges(x));
  if (!works(x, x.batch, x.to)) {
    uint64_t product = x.batch * x.to;
    std::string why = product % x.from == 0
                          ? fmt::format("batch {}*{}/{} = {} is not a multiple of {}", x.batch,
                                        x.to, x.from, product / x.from, x.unit)
                          : fmt::format("batch {}*{}/{} = {:.6g} is not whole", x.batch, x.to,
                                        x.from, static_cast<double>(product) / x.from);
    std::string counts = near_counts(x);
    return Error{Errc::config, why + "; nearest batches that work: " + near_batches(x) +
                                   (counts.empty() ? "" : "; card counts that work: " + counts)};
  }
  Rescaled out;
  out.batch = x.batch * x.to / x.from;
  // lr*b'/b, the ratio taken first: powers of two come out exact.
  out.learning_rate =
      x.learning_rate * (static_cast<double>(out.batch) / static_cast<double>(x.batch));
  out.nproc_per_node = x.to;
  out.world_size = x.to * x.nodes;
  return out;
}

}  // namespace cohort::doctor

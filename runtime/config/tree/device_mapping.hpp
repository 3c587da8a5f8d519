#pragma once
/// The card lists that ROLL passes to Python's eval, parsed: sums of list(range(a, b, c)),
/// range(...), list([1, 3]) and [1, 3]. Pure.
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::config {

inline constexpr int64_t k_max_card_id = 65535;  // a typing error, not a cluster, beyond it
inline constexpr size_t k_max_mapped_cards = 4096;

/// Returns the ids in the order written; gaps and any order are fine. Returns Errc::config with the
/// character and what was expected there: also for a card that is listed twice or out of range.
Expected<std::vector<uint32_t>> parse_device_mapping(std::string_view expression);

/// Checks ids that came as a YAML list: in range, distinct, not too many.
Expected<std::vector<uint32_t>> check_device_ids(const std::vector<int64_t>& ids);

}  // namespace cohort::config

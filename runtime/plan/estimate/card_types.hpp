#pragma once
/// What the planner knows of each card type: bytes, what stays with the runtime, and the links that
/// weights travel on. Data, pure; sources beside the rows in card_types.cpp.
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::plan {

/// Product series that HCCL's rules tell apart. `training`: Atlas training series, 910A dies.
enum class Series : uint8_t { unknown, training, a2, a3 };

std::string_view to_string(Series x);

struct CardType {
  std::string_view name;    // "910A", "A2", "A3", "H100", "H200", "A100-40", "A100-80", "cpu"
  std::string_view device;  // in words
  Series series = Series::unknown;
  uint64_t capacity_bytes = 0;  // 0 for cpu: the config's budget
  uint64_t reserve_bytes = 0;   // driver context, collectives' buffers, allocator slack
  uint32_t cards_per_node = 0;  // of the usual server; a die is a card on A3. 0: no such thing
  double link_gb_per_s = 0;     // [10^9 bytes] one direction, to the other cards of the server
  double network_gb_per_s = 0;  // [10^9 bytes] one direction, per card, to another server
  double host_gb_per_s = 0;     // [10^9 bytes] one direction, to host memory
};

/// Returns the row, by name or a usual other name ("910B", "910C", "Ascend910B3", "A100"), case
/// ignored; Errc::not_found with all names.
Expected<CardType> find_card_type(std::string_view name);

}  // namespace cohort::plan

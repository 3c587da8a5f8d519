#pragma once
/// What HCCL allows per product: the numbers behind H01 to H06, as data with their sources. Pure.
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

struct Product {
  std::string_view name;
  Series series = Series::unknown;
  uint32_t cards_max = 0;            // devices of one server
  std::span<const uint32_t> counts;  // devices of one server in one job; empty: 1…cards_max
  uint32_t group_size = 0;           // devices of one in-server ring; 0: no groups
  uint32_t servers_max = 0;          // of one job
  std::string_view source;
};

/// Returns the product of `series` whose server holds `cards` devices (the smallest that does), or
/// the largest of the series, or nullptr for Series::unknown.
const Product* find_product(Series series, uint32_t cards);

/// Returns the series of a die from npu-smi's name, its memory and the dies per NPU ("910B3" a2;
/// "Ascend910" with two dies per NPU a3; "910A", "910ProB", "910B" with 32 GiB training).
Series series_of(std::string_view name, uint64_t hbm_mib, uint32_t dies_per_npu);

}  // namespace cohort::doctor

#include "runtime/doctor/rules/hccl_products.hpp"

#include <array>
#include <cctype>
#include <string>

#include "runtime/base/text.hpp"

namespace cohort::doctor {
namespace {

constexpr std::array<uint32_t, 4> k_training_counts{1, 2, 4, 8};
constexpr std::string_view k_guide = "Ascend guide to multi-machine training";

/// The guide gives 1…8 per server for A2 and A3 alike, where servers of 16 dies exist: A3 servers
/// hold 8 NPUs of 2 dies (cann-recipes-train runs 16 ranks a node there), the A2 Box16 subrack 16
/// NPUs. Hence the maximum is a field of the product.
constexpr std::array<Product, 4> k_products{{
    {"Atlas 800 (910A)", Series::training, 8, k_training_counts, 4, 512, k_guide},
    {"Atlas 800T A2 / 900 A2 PoDc", Series::a2, 8, {}, 0, 1152, k_guide},
    {"Atlas 200T A2 Box16", Series::a2, 16, {}, 0, 1152, k_guide},
    {"Atlas 800T A3", Series::a3, 16, {}, 0, 1152, k_guide},
}};

}  // namespace

const Product* find_product(Series series, uint32_t cards) {
  const Product* found = nullptr;
  for (const Product& product : k_products) {
    if (product.series != series) continue;
    found = &product;
    if (product.cards_max >= cards) break;
  }
  return found;
}

Series series_of(std::string_view name, uint64_t hbm_mib, uint32_t dies_per_npu) {
  std::string text = to_lower(name);
  if (text.starts_with("ascend")) text.erase(0, 6);
  while (!text.empty() && (text.front() == ' ' || text.front() == '-')) text.erase(0, 1);
  if (!text.starts_with("910")) return Series::unknown;
  std::string rest = text.substr(3);
  if (rest.starts_with("_95")) return Series::unknown;
  if (rest.starts_with("_93") || rest.starts_with("c")) return Series::a3;
  if (rest.starts_with("b") && rest.size() > 1 && std::isdigit(static_cast<unsigned char>(rest[1])))
    return Series::a2;
  // npu-smi prints plain "910B" for late 910A dies (32 GiB) and by some drivers for A2 (64 GiB).
  constexpr uint64_t k_training_hbm_mib = 32768;
  if (rest == "b") return hbm_mib > k_training_hbm_mib ? Series::a2 : Series::training;
  if (rest.empty())
    return dies_per_npu > 1 || hbm_mib > k_training_hbm_mib ? Series::a3 : Series::training;
  if (rest == "a" || rest.starts_with("pro") || rest.starts_with("premium"))
    return Series::training;
  return Series::unknown;
}

}  // namespace cohort::doctor

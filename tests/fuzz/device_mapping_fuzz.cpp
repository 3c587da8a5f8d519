// A text as a card expression.
#include <cstdint>
#include <set>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/config/tree/device_mapping.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cohort::config;
  auto ids = parse_device_mapping({reinterpret_cast<const char*>(data), size});
  if (!ids) {
    COHORT_CHECK(ids.error().detail.find("at character ") != std::string::npos,
                 "an error names its place: " + ids.error().detail);
    return 0;
  }
  std::set<uint32_t> distinct(ids->begin(), ids->end());
  COHORT_CHECK(distinct.size() == ids->size() && ids->size() <= k_max_mapped_cards, "distinct");
  COHORT_CHECK(distinct.empty() || *distinct.rbegin() <= k_max_card_id, "in range");
  return 0;
}

// One override a line, applied to a small tree.
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/config/tree/compose.hpp"
#include "runtime/config/tree/override.hpp"
#include "runtime/config/tree/yaml_reader.hpp"

namespace {

constexpr std::string_view k_tree =
    "a: {b: 1, c: [x, {d: 2}]}\ne: ${a}\nf: ~\ng:\n  h: ${e}\n  i: ???\n";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cohort;
  using namespace cohort::config;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  auto root = parse_yaml(k_tree, "t.yaml");
  while (!rest.empty()) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string text(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    auto applied = apply_override(*root, text);
    COHORT_CHECK(applied || applied.error().detail.starts_with("override '"),
                 "an error names its override");
    auto parsed = parse_override(text);
    COHORT_CHECK(parsed || !applied, "what applies also parses");
  }
  std::string text = to_yaml(*root);
  auto again = parse_yaml(text, "again.yaml");
  if (!again && again.error().detail.find("deep") != std::string::npos) return 0;
  COHORT_CHECK(again && to_yaml(*again) == text, "what is written reads back:\n" + text);
  return 0;
}

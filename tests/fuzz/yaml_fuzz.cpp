// A text as a config file: read, compose, resolve, write, read again. Whatever it is, it ends with
// a tree or with one error that names a place.
#include <cstdint>
#include <string>

#include "runtime/base/check.hpp"
#include "runtime/config/tree/compose.hpp"
#include "runtime/config/tree/interpolate.hpp"
#include "runtime/config/tree/yaml_reader.hpp"

namespace {

using namespace cohort;
using namespace cohort::config;

InterpolationSources fixed_sources() {
  return {[](const std::string& name) -> std::optional<std::string> {
            return name == "HOME" ? std::optional<std::string>("/home/x") : std::nullopt;
          },
          [](const std::string& format) { return format; }};
}

void check_error(const Error& error) {
  COHORT_CHECK(error.detail.starts_with("fuzz.yaml:") || error.detail.starts_with("<shipped>/"),
               "an error names file and line: " + error.detail);
}

void check_round_trip(const Node& tree) {
  std::string text = to_yaml(tree);
  auto again = parse_yaml(text, "again.yaml");
  // what expands may be too large or too deep to be a file
  if (!again && again.error().detail.find("more than") != std::string::npos) return;
  if (!again && again.error().detail.find("deep") != std::string::npos) return;
  if (!again && again.error().detail.find("at most") != std::string::npos) return;
  COHORT_CHECK(again.has_value(), "what is written reads back: " + again.error().detail);
  COHORT_CHECK(to_yaml(*again) == text, "and is the same:\n" + text + "\n" + to_yaml(*again));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  auto root = parse_yaml(text, "fuzz.yaml");
  if (!root) {
    check_error(root.error());
    return 0;
  }
  check_round_trip(*root);
  auto tree = compose(std::move(*root), "/nonexistent");
  if (!tree) {
    check_error(tree.error());
    return 0;
  }
  Interpolated result = interpolate(*tree, fixed_sources());
  for (const Problem& problem : result.problems)
    COHORT_CHECK(problem.mark.line > 0, "a problem names its line: " + problem.text);
  if (result.problems.empty()) check_round_trip(result.root);
  return 0;
}

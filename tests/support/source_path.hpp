#pragma once
/// Where the files of the source tree are.
#include <cstdlib>
#include <string>

namespace cohort::test {

/// Path of a file of the source tree.
inline std::string source_path(const std::string& path) {
  const char* root = std::getenv("COHORT_SOURCE_DIR");
  return std::string(root == nullptr ? "." : root) + "/" + path;
}

}  // namespace cohort::test

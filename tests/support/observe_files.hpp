#pragma once
/// Temporary folders and golden files for the tests of runtime/observe.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace cohort::observe::sample {

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_all(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// A folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "cohort_observe.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Compares with tests/golden/data/<name>; COHORT_UPDATE_GOLDEN=1 rewrites the file.
inline void expect_golden(const std::string& name, const std::string& bytes) {
  const char* root = std::getenv("COHORT_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run by ctest, or set COHORT_SOURCE_DIR";
  auto path = std::filesystem::path(root) / "tests/golden/data" / name;
  if (const char* update = std::getenv("COHORT_UPDATE_GOLDEN"); update != nullptr && *update == '1')
    write_all(path, bytes);
  EXPECT_EQ(read_all(path), bytes) << name << ": COHORT_UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace cohort::observe::sample

// The rooms of some seeds, as text: the same in every process and on every machine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "runtime/tasks/sokoban.hpp"

namespace cohort::tasks {
namespace {

std::string rooms_of(const char* name, const SokobanConfig& config) {
  auto game = Sokoban::create(config);
  EXPECT_TRUE(game.has_value());
  std::string text;
  for (uint64_t seed : {0ULL, 1ULL, 2ULL, 42ULL, 1'000'000ULL, 18'446'744'073'709'551'615ULL})
    text += std::string(name) + " " + std::to_string(seed) + "\n" + (*game)->reset(seed) + "\n\n";
  return text;
}

TEST(SokobanGolden, RoomsOfTheThreeTags) {
  SokobanConfig larger;
  larger.dim_room = {10, 10};
  larger.num_boxes = 2;
  larger.search_depth = 10;
  SokobanConfig letters;
  letters.search_depth = 30;
  letters.grid_lookup = {{0, "W"}, {1, "."}, {2, "G"}, {3, "C"}, {4, "B"}, {5, "A"}, {6, "@"}};
  const std::string made = rooms_of("SimpleSokoban", {}) + rooms_of("LargerSokoban", larger) +
                           rooms_of("SokobanDifferentGridVocab", letters);
  const char* root = std::getenv("COHORT_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run by ctest, or set COHORT_SOURCE_DIR";
  const std::string path = std::string(root) + "/tests/golden/data/sokoban_rooms.txt";
  if (const char* update = std::getenv("COHORT_UPDATE_GOLDEN"); update != nullptr && *update == '1')
    std::ofstream(path) << made;
  std::ifstream file(path);
  EXPECT_EQ(made, std::string(std::istreambuf_iterator<char>(file), {}))
      << "COHORT_UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace
}  // namespace cohort::tasks

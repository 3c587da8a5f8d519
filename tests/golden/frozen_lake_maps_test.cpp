// What numpy drew (tools/golden/make_frozen_lake_maps.py), reproduced bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/tasks/frozen_lake_map.hpp"
#include "runtime/tasks/pcg64.hpp"

namespace cohort::tasks {
namespace {

struct GoldenLine {
  uint64_t seed = 0;
  std::vector<std::string> values;
};

/// Returns the lines of one kind; the file is read once.
const std::vector<GoldenLine>& golden(const std::string& kind) {
  static const auto lines = [] {
    std::map<std::string, std::vector<GoldenLine>> by_kind;
    const char* root = std::getenv("COHORT_SOURCE_DIR");
    std::ifstream file(std::string(root ? root : ".") + "/tests/golden/data/frozen_lake_maps.txt");
    for (std::string text; std::getline(file, text);) {
      std::istringstream words(text);
      std::string name;
      GoldenLine line;
      words >> name >> line.seed;
      for (std::string word; words >> word;) line.values.push_back(word);
      by_kind[name].push_back(line);
    }
    return by_kind;
  }();
  static const std::vector<GoldenLine> none;
  auto found = lines.find(kind);
  return found == lines.end() ? none : found->second;
}

/// Draws one text per golden value from a fresh generator of the line's seed.
void expect_draws(const std::string& kind, const std::function<std::string(Pcg64&)>& draw) {
  ASSERT_FALSE(golden(kind).empty());
  for (const GoldenLine& line : golden(kind)) {
    Pcg64 rng(line.seed);
    for (size_t i = 0; i < line.values.size(); ++i)
      ASSERT_EQ(draw(rng), line.values[i]) << kind << " seed " << line.seed << " draw " << i;
  }
}

TEST(SeedSequenceGolden, StateWords) {
  ASSERT_FALSE(golden("state").empty());
  for (const GoldenLine& line : golden("state")) {
    std::vector<uint32_t> words = SeedSequence(line.seed).generate_state_u32(line.values.size());
    for (size_t i = 0; i < words.size(); ++i)
      ASSERT_EQ(std::to_string(words[i]), line.values[i]) << "seed " << line.seed;
  }
}

TEST(Pcg64Golden, RawBits) {
  expect_draws("raw", [](Pcg64& rng) { return std::to_string(rng.next_u64()); });
}

TEST(Pcg64Golden, RandomDoubles) {
  ASSERT_FALSE(golden("random").empty());
  for (const GoldenLine& line : golden("random")) {
    Pcg64 rng(line.seed);
    for (const std::string& value : line.values)
      ASSERT_EQ(rng.random(), std::strtod(value.c_str(), nullptr)) << "seed " << line.seed;
  }
}

TEST(Pcg64Golden, BoundedIntegers) {
  ASSERT_FALSE(golden("integers").empty());
  for (const GoldenLine& line : golden("integers")) {
    Pcg64 rng(line.seed);
    const uint64_t bound = std::stoull(line.values[0]);
    for (size_t i = 1; i < line.values.size(); ++i)
      ASSERT_EQ(std::to_string(rng.integers(bound)), line.values[i])
          << "seed " << line.seed << " bound " << bound << " draw " << i;
  }
}

TEST(Pcg64Golden, DoublesLeaveTheBufferedHalfAlone) {
  bool is_integer = true;
  expect_draws("mixed", [&](Pcg64& rng) {
    std::string value =
        is_integer ? std::to_string(rng.integers(5)) : (rng.random() >= 0.5 ? "1" : "0");
    is_integer = !is_integer;
    return value;
  });
}

TEST(Pcg64Golden, Choice) {
  const std::vector<double> p{0.1, 0.2, 0.3, 0.4};
  expect_draws("choice", [&](Pcg64& rng) { return std::to_string(rng.choice(p)); });
}

TEST(FrozenLakeMapGolden, EveryMap) {
  ASSERT_GT(golden("map").size(), 600U);
  for (const GoldenLine& line : golden("map")) {
    const FrozenLakeMap map =
        generate_map(line.seed, std::stoi(line.values[0]), std::stod(line.values[1]));
    std::string rows;
    for (size_t i = 0; i < map.cells.size(); ++i) {
      if (i > 0 && i % static_cast<size_t>(map.size) == 0) rows += '/';
      rows += map.cells[i];
    }
    ASSERT_EQ(rows, line.values[2]) << "seed " << line.seed;
    ASSERT_EQ(map.cells[static_cast<size_t>(map.start)], 'S');
    ASSERT_EQ(map.cells[static_cast<size_t>(map.goal)], 'G');
  }
}

}  // namespace
}  // namespace cohort::tasks

/// Text of a plan: words for numbers, and a page that keeps to its width.
#include "tools/actor-node/plan_page.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>

#include "tools/actor-node/plan_bytes.hpp"

namespace cohort {
namespace {

std::vector<CardId> ids(const std::vector<uint32_t>& values) {
  std::vector<CardId> out;
  for (uint32_t value : values) out.push_back({value});
  return out;
}

TEST(PlanBytes, ThreeFigures) {
  struct Case {
    uint64_t bytes;
    const char* text;
  };
  for (const Case& x :
       {Case{0, "0"}, Case{1, "1 B"}, Case{1023, "1023 B"}, Case{1024, "1.00 KiB"},
        Case{10'239, "10.0 KiB"}, Case{102'400, "100 KiB"}, Case{(1u << 20) - 1, "1.00 MiB"},
        Case{uint64_t{64} << 30, "64.0 GiB"}, Case{UINT64_MAX, "16384 PiB"}})
    EXPECT_EQ(bytes_text(x.bytes), x.text);
}

TEST(PlanBytes, CardsAreRuns) {
  EXPECT_EQ(cards_text(ids({3})), "3");
  EXPECT_EQ(cards_text(ids({0, 1, 2, 3, 8, 9})), "0-3, 8-9");
  EXPECT_EQ(cards_text(ids({0, 2, 4, 6, 8, 10, 12, 14})), "0, 2, 4, 6, 8, 10, … (8)");
  EXPECT_EQ(counted_cards_text(ids({7})), "card 7");
  EXPECT_EQ(counted_cards_text(ids({0, 1})), "2 cards 0-1");
}

TEST(PlanBytes, LongListsBecomeRunsAndOtherTextStays) {
  EXPECT_EQ(with_short_lists("on [0, 1, 2, 3, 4, 5, 6, 7, 8, 10] now"), "on [0-8, 10] now");
  for (const char* text : {"[0, 1]", "key[3]", "[", "]", "[]", "a [x, y, 1, 2, 3, 4, 5, 6, 7, 8] b",
                           "[1,2,3,4,5,6,7,8,9,10]"})
    EXPECT_EQ(with_short_lists(text), text);
}

TEST(PlanBytes, OverIsNeverWrittenAsFull) {
  EXPECT_EQ(percent_text(1000, 1000), "100 %");
  EXPECT_EQ(percent_text(1001, 1000), "101 %");
  EXPECT_EQ(percent_text(999, 1000), "99 %");
  EXPECT_EQ(percent_text(1, 0), "-");
}

TEST(PlanBytes, BarsHaveTheirWidthAndShowWhatIsThere) {
  EXPECT_EQ(bar_text(50, 0, 100, 10), "█████░░░░░");
  EXPECT_EQ(bar_text(50, 20, 100, 10), "█████▒▒░░░");
  EXPECT_EQ(bar_text(1, 0, 1000, 10), "█░░░░░░░░░");
  EXPECT_EQ(bar_text(0, 0, 100, 4), "░░░░");
  EXPECT_EQ(bar_text(90, 20, 100, 10), "█████████»");
  EXPECT_EQ(bar_text(200, 0, 100, 4), "███»");
  std::mt19937_64 rng(7);
  for (int i = 0; i < 10'000; ++i) {
    uint64_t whole = rng() % 1000, full = rng() % 1200, light = rng() % 1200;
    size_t width = 4 + rng() % 40;
    ASSERT_EQ(text_width(bar_text(full, light, whole, width)), width)
        << full << " " << light << " " << whole;
  }
}

std::string random_text(std::mt19937_64& rng) {
  static constexpr const char* k_words[] = {
      "a", "card", "actor_train", "1,024",
      "·", "≤",    "64.0",        "a_name_that_is_longer_than_a_narrow_column_is_wide"};
  std::string text;
  for (size_t i = 0, count = rng() % 12; i < count; ++i)
    text += (i == 0 ? "" : " ") + std::string(k_words[rng() % std::size(k_words)]);
  return text;
}

TEST(PlanPage, NoLineIsWiderThanThePage) {
  const char* seed = std::getenv("COHORT_SEED");
  uint64_t start = seed == nullptr ? 11 : std::strtoull(seed, nullptr, 10);
  std::mt19937_64 rng(start);
  for (int round = 0; round < 500; ++round) {
    PageStyle style;
    style.width = 60 + rng() % 100;
    style.is_utf8 = true;
    Page page(style);
    page.wrapped("  - ", random_text(rng));
    std::vector<Row> rows;
    for (size_t i = 0, count = rng() % 5; i < count; ++i)
      rows.push_back({{random_text(rng), random_text(rng), random_text(rng)}, Tone::plain});
    page.table(2, {{false, 14}, {true, 12}, {}}, rows);
    std::istringstream lines(page.text());
    for (std::string line; std::getline(lines, line);) {
      ASSERT_LE(text_width(line), style.width) << "COHORT_SEED=" << start << "\n" << page.text();
      ASSERT_TRUE(line.empty() || line.back() != ' ');
    }
  }
}

TEST(PlanPage, AsciiWhereTheTerminalNeedsIt) {
  PageStyle style;
  style.is_utf8 = false;
  Page page(style);
  page.line("┌─ 0 ─┐ █▒░» a × b · c … 猫");
  EXPECT_EQ(page.text(), "+- 0 -+ #+.> a x b - c ... ?\n");
}

TEST(PlanPage, ColoursOnlyWhenAskedFor) {
  PageStyle style;
  Page plain(style);
  plain.line("x", Tone::bad);
  EXPECT_EQ(plain.text(), "x\n");
  style.has_colour = true;
  Page coloured(style);
  coloured.line("x", Tone::bad);
  EXPECT_EQ(coloured.text(), "\x1b[31mx\x1b[0m\n");
}

TEST(PlanPage, TiedWordsStayTogether) {
  PageStyle style;
  style.width = 60;
  Page page(style);
  page.wrapped("", std::string(56, 'x') + " " + tied("64.0 GiB"));
  EXPECT_EQ(page.text(), std::string(56, 'x') + "\n64.0 GiB\n");
}

}  // namespace
}  // namespace cohort

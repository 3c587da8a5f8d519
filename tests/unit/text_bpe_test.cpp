// Byte-pair encoding: order of merges, unknown characters, and steps that grow with the text.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/text/bpe.hpp"

namespace cohort::text {
namespace {

Vocabulary vocabulary_of(const std::vector<std::string>& tokens) {
  Vocabulary vocabulary;
  for (size_t i = 0; i < tokens.size(); ++i) vocabulary.add(tokens[i], static_cast<TokenId>(i));
  return vocabulary;
}

using Ids = std::vector<TokenId>;

Ids encode(const BpeModel& model, std::string_view piece) {
  BpeScratch scratch;
  Ids ids, again;
  std::vector<uint32_t> sizes;
  EXPECT_TRUE(model.encode(piece, scratch, ids, nullptr));
  EXPECT_TRUE(model.encode(piece, scratch, again, &sizes));
  EXPECT_EQ(ids, again);
  EXPECT_EQ(ids.size(), sizes.size());
  return ids;
}

TEST(Bpe, JoinsTheLowestRankFirstAndTheLeftmostOfEquals) {
  const auto model = BpeModel::make(vocabulary_of({"a", "b", "c", "ab", "bc", "aa"}),
                                    {{"b", "c"}, {"a", "b"}, {"a", "a"}}, {})
                         .value();
  EXPECT_EQ(encode(model, "abc"), (Ids{0, 4}));
  EXPECT_EQ(encode(model, "aab"), (Ids{0, 3}));
  EXPECT_EQ(encode(model, "aaa"), (Ids{5, 0}));
  EXPECT_EQ(encode(model, ""), Ids());
}

TEST(Bpe, FewAndManySymbolsGiveTheSame) {
  const auto model =
      BpeModel::make(vocabulary_of({"a", "b", "aa", "ab", "aaaa", "ba", "abab", "c"}),
                     {{"a", "b"}, {"a", "a"}, {"ab", "ab"}, {"aa", "aa"}, {"b", "a"}}, {})
          .value();
  // Looking at every pair merges a piece of at most 24 symbols, a heap a longer one.
  for (const std::string piece :
       {"aababbaaabbbabaaaaab", "bbbbaaaaabababababab", "aaaaaaaaaaaab"}) {
    Ids expected = encode(model, piece);
    const Ids once = expected;
    expected.push_back(7);
    expected.insert(expected.end(), once.begin(), once.end());
    EXPECT_EQ(encode(model, piece + "c" + piece), expected) << piece;
  }
}

TEST(Bpe, UnknownCharacters) {
  const std::vector<std::string> tokens = {"<unk>", "a", "<0xC3>", "<0xA9>"};
  BpeOptions options{.unknown_token = "<unk>"};
  EXPECT_EQ(encode(BpeModel::make(vocabulary_of(tokens), {}, options).value(), "xya"),
            (Ids{0, 0, 1}));
  options.fuses_unknown = true;
  EXPECT_EQ(encode(BpeModel::make(vocabulary_of(tokens), {}, options).value(), "xya"), (Ids{0, 1}));
  options.has_byte_fallback = true;
  EXPECT_EQ(encode(BpeModel::make(vocabulary_of(tokens), {}, options).value(), "a\xC3\xA9x"),
            (Ids{1, 2, 3, 0}));
  EXPECT_EQ(encode(BpeModel::make(vocabulary_of(tokens), {}, {}).value(), "xay"), (Ids{1}));
  const auto model = BpeModel::make(vocabulary_of(tokens), {}, {.unknown_token = "[UNK]"}).value();
  BpeScratch scratch;
  Ids ids;
  const auto done = model.encode("x", scratch, ids, nullptr);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().detail.find("unk_token \"[UNK]\""), std::string::npos);
}

TEST(Bpe, DroppedCharactersMakeNeighbours) {
  const std::vector<std::string> tokens = {"\xE2\x96\x81", "a", "\xE2\x96\x81\xE2\x96\x81"};
  const std::string mark = tokens[0], piece = mark + "a" + mark + "\xC3\xA9" + mark + "a";
  const std::vector<BpeModel::Merge> merges = {{mark, mark}};
  EXPECT_EQ(encode(BpeModel::make(vocabulary_of(tokens), merges, {}).value(), piece),
            (Ids{0, 1, 2, 1}));
  // Byte fallback without the bytes makes no difference.
  BpeOptions options;
  options.has_byte_fallback = true;
  EXPECT_EQ(encode(BpeModel::make(vocabulary_of(tokens), merges, options).value(), piece),
            (Ids{0, 1, 2, 1}));
}

TEST(Bpe, NamesTheMergeOfAnAbsentToken) {
  const auto model = BpeModel::make(vocabulary_of({"a", "b", "ab"}), {{"a", "b"}, {"ab", "b"}}, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().detail, "model.merges[1]: the token \"abb\" is not in model.vocab");
}

/// The steps that a text without spaces takes.
double steps_of(const BpeModel& model, const std::string& text) {
  BpeScratch scratch;
  Ids ids;
  EXPECT_TRUE(model.encode(text, scratch, ids, nullptr));
  return static_cast<double>(scratch.steps);
}

TEST(Bpe, StepsGrowWithTheText) {
  std::vector<std::string> tokens = {"a", "b"};
  std::vector<std::string> halves;
  for (size_t size = 1; size <= 64; size *= 2) halves.emplace_back(size, 'a');
  tokens.insert(tokens.end(), halves.begin() + 1, halves.end());
  tokens.push_back("ab");
  tokens.push_back("ba");
  std::vector<BpeModel::Merge> merges = {{"b", "a"}, {"a", "b"}};
  for (size_t i = 0; i + 1 < halves.size(); ++i) merges.push_back({halves[i], halves[i]});
  const auto model = BpeModel::make(vocabulary_of(tokens), merges, {}).value();
  const size_t small = 1 << 16, large = 1 << 20;
  std::string mixed;
  for (size_t i = 0; i < large; ++i) mixed += (i * 2654435761U >> 13 & 3) == 0 ? 'b' : 'a';
  for (const std::string& text : {std::string(large, 'a'), mixed}) {
    const double ratio = steps_of(model, text) / steps_of(model, text.substr(0, small));
    EXPECT_LT(ratio, 1.1 * large / small);
    EXPECT_LT(steps_of(model, text), 4.0 * large);
  }
}

}  // namespace
}  // namespace cohort::text

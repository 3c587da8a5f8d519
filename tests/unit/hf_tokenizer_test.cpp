// tokenizer.json that is broken or not built, added tokens with each flag, offsets and streams, on
// a vocabulary of a few tokens.
#include "runtime/text/hf_tokenizer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "runtime/text/tokenizer_json.hpp"

namespace cohort::text {
namespace {

using Ids = std::vector<TokenId>;

/// A byte-fallback tokenizer: ids of a to d are 3 to 6, of "ab" 7, of U+2581 8, of <0xE4>, <0xBD>,
/// <0xA0> 9 to 11.
nlohmann::json small() {
  return nlohmann::json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true, "normalized": false},
                     {"id": 1, "content": "<s>", "special": true, "normalized": false},
                     {"id": 2, "content": "</s>", "special": true, "normalized": false}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "c": 5, "d": 6, "ab": 7, "▁": 8,
                "<0xE4>": 9, "<0xBD>": 10, "<0xA0>": 11},
      "merges": ["a b"]}})");
}

Tokenizer made(const nlohmann::json& json) {
  auto tokenizer = Tokenizer::from_json(json.dump(), "t.json");
  EXPECT_TRUE(tokenizer) << tokenizer.error().to_string();
  return *std::move(tokenizer);
}

struct BrokenCase {
  const char* pointer;  // JSON pointer of what is set
  const char* value;
  const char* expected;
};

TEST(HfTokenizer, NamesWhatIsBrokenOrNotBuilt) {
  const BrokenCase cases[] = {
      {"/model/type", R"("Unigram")", "t.json: model.type \"Unigram\" is not built; BPE is"},
      {"/model/vocab", "[]", "model.vocab must be an object"},
      {"/model/vocab", "null", "model.vocab must be an object"},
      {"/model/vocab/a", "-1", "model.vocab[\"a\"] must be a whole number"},
      {"/model/vocab/a", "1.5", "model.vocab[\"a\"] must be a whole number"},
      {"/model/vocab/a", "\"x\"", "model.vocab[\"a\"] must be a whole number"},
      {"/model/vocab/a", "{}", "model.vocab[\"a\"] must be a whole number"},
      {"/model/vocab/a", "[]", "model.vocab[\"a\"] must be a whole number"},
      {"/model/vocab/a", "4000000000", "model.vocab[\"a\"] must be a whole number"},
      {"/model/merges", "null", "model.merges must be an array"},
      {"/model/merges", "[\"a  b\"]", "model.merges[0] must be \"a b\""},
      {"/model/merges", "[\"ab\"]", "model.merges[0] must be \"a b\""},
      {"/model/merges", "[[\"a\"]]", "model.merges[1] must be"},
      {"/model/merges", "[[\"a\", \"b\", \"c\"]]", "model.merges[1] must be"},
      {"/model/merges", "[3]", "model.merges[0] must be"},
      {"/model/merges", "[{}]", "model.merges[0] must be"},
      {"/model/merges", "[\"a z\"]", "the token \"z\" is not in model.vocab"},
      {"/model/dropout", "0.1", "model.dropout is not built"},
      {"/model/continuing_subword_prefix", "\"##\"", "continuing_subword_prefix is not built"},
      {"/model/byte_fallback", "1", "model.byte_fallback must be true or false"},
      {"/model", "null", "model must be an object"},
      {"/normalizer", R"({"type": "Lowercase"})", "normalizer: the normalizer \"Lowercase\""},
      {"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}]})",
       "normalizer.normalizers[0]: the normalizer \"NFKC\" is not built"},
      {"/normalizer", R"j({"type": "Replace", "pattern": {"Regex": "(?<=a)"}, "content": ""})j",
       "normalizer.pattern : regular expression \"(?<=a)\""},
      {"/normalizer", R"({"type": "Replace", "pattern": "a", "content": ""})",
       "normalizer.pattern must be {\"String\": text}"},
      {"/normalizer", "[]", "normalizer must be an object with a \"type\""},
      {"/pre_tokenizer", R"({"type": "BertPreTokenizer"})", "\"BertPreTokenizer\" is not built"},
      {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "ab"})", "must be one character"},
      {"/pre_tokenizer", R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Cut"})",
       "pre_tokenizer.behavior must be"},
      {"/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
        {"type": "Digits"}]})",
       "pretokenizers[1]: nothing may stand behind ByteLevel"},
      {"/post_processor", R"({"type": "BertProcessing"})", "\"BertProcessing\" is not built"},
      {"/post_processor", R"({"type": "TemplateProcessing", "single": []})", "one Sequence"},
      {"/post_processor", R"({"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]})",
       "post_processor.special_tokens[\"<s>\"] is missing"},
      {"/decoder", R"({"type": "WordPiece"})", "decoder: the decoder \"WordPiece\" is not built"},
      {"/decoder", R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})",
       "decoder.start must be a whole number"},
      {"/added_tokens", "{}", "added_tokens must be an array"},
      {"/added_tokens/0/id", "77",
       "\"<unk>\" has id 77, but the same text in model.vocab has id 0"},
      {"/added_tokens/0/content", "\"new\"", "has id 0, but \"<unk>\" of model.vocab has id 0"},
      {"/added_tokens/0/id", "\"x\"", "added_tokens[0].id must be a whole number"},
      {"/added_tokens/0/lstrip", "1", "added_tokens[0].lstrip must be true or false"},
  };
  for (const BrokenCase& x : cases) {
    nlohmann::json json = small();
    json[nlohmann::json::json_pointer(x.pointer)] = nlohmann::json::parse(x.value);
    const auto tokenizer = Tokenizer::from_json(json.dump(), "t.json");
    ASSERT_FALSE(tokenizer) << x.pointer << " " << x.value;
    EXPECT_TRUE(tokenizer.error().detail.starts_with("t.json: ")) << tokenizer.error().detail;
    EXPECT_NE(tokenizer.error().detail.find(x.expected), std::string::npos)
        << tokenizer.error().detail;
  }
  EXPECT_FALSE(Tokenizer::from_json("", "t"));
  EXPECT_FALSE(Tokenizer::from_json("[]", "t"));
  EXPECT_FALSE(Tokenizer::from_json(R"({"model": {"vocab": {"a": 1}, "merges": [)", "t"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const auto nested = Tokenizer::from_json(deep, "t");
  ASSERT_FALSE(nested);
  EXPECT_EQ(nested.error().detail, "t: is nested deeper than 32");
}

TEST(HfTokenizer, AddedTokensOfEachFlag) {
  nlohmann::json json = small();
  const auto add = [&](int id, const char* content, const char* flag) {
    nlohmann::json token = {{"id", id}, {"content", content}, {"normalized", false}};
    token[flag] = true;
    json["added_tokens"].push_back(token);
  };
  add(20, "<left>", "lstrip");
  add(21, "<right>", "rstrip");
  add(22, "word", "single_word");
  add(23, "wordy", "single_word");
  add(24, "<m>", "special");
  add(25, "<m>x", "single_word");
  const Tokenizer tokenizer = made(json);
  const auto ids = [&](std::string_view text) { return tokenizer.encode(text).value().ids; };
  EXPECT_EQ(ids("a  <left>b"), (Ids{3, 20, 4}));
  EXPECT_EQ(ids("a<right>\t\n b"), (Ids{3, 21, 4}));
  EXPECT_EQ(ids("a<right>  <left>b"), (Ids{3, 21, 20, 4}));
  EXPECT_EQ(ids("word.word"), (Ids{22, 0, 22}));
  EXPECT_EQ(ids("aword"), (Ids{3, 0, 6}));   // w, o and r are unknown
  EXPECT_EQ(ids("wordys"), (Ids{0, 6, 0}));  // the longer one is discarded, the shorter not tried
  EXPECT_EQ(ids("<m><m>x"), (Ids{24, 25}));
  EXPECT_EQ(ids("<m>xa"), (Ids{0, 3}));
  const auto plain = [&](std::string_view text) {
    return tokenizer.encode(text, k_plain_text).value().ids;
  };
  EXPECT_EQ(plain("<m>"), (Ids{0}));
  EXPECT_EQ(plain("a</s><left>"), (Ids{3, 0, 20}));
  EXPECT_EQ(tokenizer.encode("<left>", {.added_tokens = AddedTokenUse::none}).value().ids, Ids{0});
  EXPECT_TRUE(tokenizer.is_special(24));
  EXPECT_FALSE(tokenizer.is_special(20));
  EXPECT_EQ(tokenizer.id_end(), 26);
  EXPECT_EQ(tokenizer.id_of("<left>"), 20);
  EXPECT_EQ(tokenizer.id_of("ab"), 7);
  EXPECT_EQ(tokenizer.id_of("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.token(15), std::nullopt);
}

TEST(HfTokenizer, SpacesThatATokenStrippedMayBeginAnother) {
  nlohmann::json json = small();
  const auto add = [&](int id, const char* content, bool left, bool right) {
    json["added_tokens"].push_back({{"id", id},
                                    {"content", content},
                                    {"normalized", false},
                                    {"lstrip", left},
                                    {"rstrip", right}});
  };
  add(20, "<r>", false, true);
  add(21, "\n", false, false);
  add(22, "\t", true, true);
  const Tokenizer tokenizer = made(json);
  const auto ids = [&](std::string_view text) { return tokenizer.encode(text).value().ids; };
  // The reference goes on behind the second token, with text that the first one took as well.
  EXPECT_EQ(ids("<r> \n b"), (Ids{20, 21, 0, 4}));
  EXPECT_EQ(ids("<r>\n"), (Ids{20, 21}));
  EXPECT_EQ(ids("b\t\t"), (Ids{4, 22})) << "a token of no text is none";
  const auto encoding = tokenizer.encode("<r> \nb", {.wants_offsets = true}).value();
  EXPECT_EQ(encoding.offsets, (std::vector<Span>{{0, 5}, {4, 5}, {5, 6}}));
}

TEST(HfTokenizer, OffsetsAreBytesOfTheText) {
  nlohmann::json json = small();
  json["normalizer"] = nlohmann::json::parse(R"({"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");
  const Tokenizer tokenizer = made(json);
  const auto encoding = tokenizer.encode("ab \xE4\xBD\xA0<s>c", {.wants_offsets = true}).value();
  EXPECT_EQ(encoding.ids, (Ids{8, 7, 8, 9, 10, 11, 1, 8, 5}));
  EXPECT_EQ(
      encoding.offsets,
      (std::vector<Span>{{0, 0}, {0, 2}, {2, 3}, {3, 6}, {3, 6}, {3, 6}, {6, 9}, {9, 9}, {9, 10}}));
}

TEST(HfTokenizer, ABrokenRunOfBytesStreamsAsReplacementCharacters) {
  const Tokenizer tokenizer = made(small());
  const Ids ids = {8, 3, 9, 10, 11, 9, 10, 4, 9};
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(tokenizer.decode(ids), "a" + r + r + r + r + r + "b" + r);
  StreamDecoder stream(tokenizer);
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(stream.next(id));
  // What is out stays, so the run has U+FFFD only for the bytes that no character took.
  EXPECT_EQ(pieces,
            (std::vector<std::string>{"", "a", "", "", "\xE4\xBD\xA0", "", "", r + r + "b", ""}));
  EXPECT_EQ(stream.finish(), r);
  EXPECT_EQ(stream.next(3), "a") << "a stream begins anew";
  EXPECT_EQ(tokenizer.decode(Ids{1, 3, 99, 2}), "<s>a</s>");
  EXPECT_EQ(tokenizer.decode(Ids{1, 3, 99, 2}, {.skips_special_tokens = true}), "a");
}

TEST(HfTokenizer, TextThatIsNotUtf8IsReplacedFirst) {
  const Tokenizer tokenizer = made(small());
  EXPECT_EQ(tokenizer.encode("a\xFF\xE4\xBDz").value().ids,
            tokenizer.encode("a\xEF\xBF\xBD\xEF\xBF\xBDz").value().ids);
}

TEST(HfTokenizer, APatternThatGoesBackAndForthIsAnError) {
  nlohmann::json json = small();
  json["pre_tokenizer"] = nlohmann::json::parse(
      R"j({"type": "Split", "pattern": {"Regex": "(?:(?:a|aa)+(?:a|aa)+)+b"},
           "behavior": "Isolated"})j");
  const auto encoding = made(json).encode(std::string(100, 'a'));
  ASSERT_FALSE(encoding);
  EXPECT_EQ(encoding.error().code, Errc::capacity);
}

TEST(HfTokenizer, ALongTextHasStepsInProportionAndNoMore) {
  nlohmann::json json = small();
  const auto encoded = [&](const char* pattern, const std::string& text) {
    json["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
    return made(json).encode(text);
  };
  // Each a begins a run of its own that ends without a b: about n * n / 2 steps.
  const auto endless = encoded("(?:a|aa)b|a+c", std::string(400'000, 'a'));
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, Errc::capacity);
  std::string words;
  for (int i = 0; i < 400'000; ++i) words += i % 5 == 0 ? " ab\n" : "aab'd 12 ";
  EXPECT_TRUE(encoded(R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|)"
                      R"( ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
                      words));
}

TEST(HfTokenizer, ATextThatGrowsWithoutBoundIsAnError) {
  nlohmann::json json = small();
  const nlohmann::json grow = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(100, 'a')}};
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", {grow, grow, grow, grow, grow}}};
  const auto encoding = made(json).encode("a");
  ASSERT_FALSE(encoding);
  EXPECT_EQ(encoding.error().code, Errc::capacity);
}

TEST(HfTokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer = made(small());
  std::string text;
  for (int i = 0; i < 500; ++i) text += i % 7 == 0 ? "ab" : i % 3 == 0 ? " c" : "d\xE4\xBD\xA0";
  const Ids expected = tokenizer.encode(text).value().ids;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) EXPECT_EQ(tokenizer.encode(text).value().ids, expected);
    });
}

}  // namespace
}  // namespace cohort::text

// Each pipeline of tokenizer.json against what the reference made of the same texts
// (tools/golden/make_tokenizer_vectors.py). COHORT_TOKENIZER_VECTORS names another folder of that
// script, for a longer run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/text/hf_tokenizer.hpp"
#include "runtime/text/normalizer.hpp"
#include "runtime/text/pre_tokenizer.hpp"
#include "tests/support/source_path.hpp"

namespace cohort::text {
namespace {

using TestJson = nlohmann::json;

TestJson read_vectors(const std::string& name) {
  const char* folder = std::getenv("COHORT_TOKENIZER_VECTORS");
  const std::string path =
      (folder == nullptr ? test::source_path("tests/data/tokenizers") : std::string(folder)) + "/" +
      name + ".json";
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return TestJson::parse(file);
}

class Pipeline : public testing::TestWithParam<const char*> {};

using Ids = std::vector<TokenId>;

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const Ids& ids, std::string* rest) {
  StreamDecoder stream(tokenizer);
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(stream.next(id));
  *rest = stream.finish();
  return pieces;
}

/// Offsets lie in the text and cover whole characters.
void check_offsets(const Encoding& encoding, const std::string& text) {
  ASSERT_EQ(encoding.offsets.size(), encoding.ids.size());
  const auto is_border = [&](size_t at) {
    return at == text.size() || (at < text.size() && (text[at] & 0xC0) != 0x80);
  };
  for (const Span& span : encoding.offsets) {
    ASSERT_LE(span.begin, span.end);
    ASSERT_TRUE(is_border(span.begin) && is_border(span.end)) << span.begin << " " << span.end;
  }
}

TEST_P(Pipeline, EqualsTheReference) {
  const TestJson vectors = read_vectors(GetParam());
  const auto tokenizer = Tokenizer::from_json(vectors["tokenizer"].dump(), GetParam());
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  ASSERT_GT(vectors["cases"].size(), 20U);
  for (const TestJson& x : vectors["cases"]) {
    const std::string text = x["text"];
    SCOPED_TRACE(x["text"].dump(-1, ' ', true));
    const Ids ids = x["ids"];
    const Ids bare = x.value("bare", ids), plain = x.value("plain", bare);
    EXPECT_EQ(tokenizer->encode(text).value().ids, ids);
    EXPECT_EQ(tokenizer->encode(text).value().ids, ids) << "from the cache";
    EXPECT_EQ(tokenizer->encode(text, {.adds_special_tokens = false}).value().ids, bare);
    EXPECT_EQ(tokenizer->encode(text, k_plain_text).value().ids, plain);
    const Encoding encoding = tokenizer->encode(text, {.wants_offsets = true}).value();
    EXPECT_EQ(encoding.ids, ids) << "with offsets";
    check_offsets(encoding, text);
    const std::string decoded = x.value("decoded", text);
    EXPECT_EQ(tokenizer->decode(ids), decoded);
    EXPECT_EQ(tokenizer->decode(ids, {.skips_special_tokens = true}), x.value("skipped", decoded));
    std::string rest;
    const std::vector<std::string> pieces = pieces_of(*tokenizer, ids, &rest);
    EXPECT_EQ(pieces, x["pieces"].get<std::vector<std::string>>());
    std::string joined;
    for (const std::string& piece : pieces) joined += piece;
    EXPECT_EQ(joined + rest, decoded);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Pipeline,
                         testing::Values("qwen2", "llama3", "deepseek", "gpt2", "smollm2", "tekken",
                                         "possessive", "llama2", "metaspace_first",
                                         "metaspace_split", "unknown_fused", "unknown_dropped",
                                         "bytes_dropped", "fallback_metaspace", "spaces_added",
                                         "kimi", "borders"),
                         [](const auto& x) { return std::string(x.param); });

TEST(TokenizerParts, PreTokenizersEqualTheReference) {
  const TestJson vectors = read_vectors("parts");
  for (const TestJson& x : vectors["pre_tokenizers"]) {
    SCOPED_TRACE(x["json"].dump() + " on " + x["text"].dump(-1, ' ', true));
    const auto pre_tokenizer = PreTokenizer::read(x["json"]);
    ASSERT_TRUE(pre_tokenizer) << pre_tokenizer.error().to_string();
    const std::string text = x["text"];
    TextBuffers buffers(true);
    StepBudget budget{1'000'000};
    std::vector<TextPiece> pieces(1, {.text = text, .is_first = true}), spare;
    if (text.empty()) pieces.clear();
    ASSERT_TRUE(pre_tokenizer->apply(pieces, spare, buffers, budget));
    std::vector<std::string> texts;
    for (const TextPiece& piece : pieces) texts.emplace_back(piece.text);
    EXPECT_EQ(texts, x["pieces"].get<std::vector<std::string>>());
  }
}

TEST(TokenizerParts, NormalizersEqualTheReference) {
  const TestJson vectors = read_vectors("parts");
  for (const TestJson& x : vectors["normalizers"]) {
    SCOPED_TRACE(x["json"].dump() + " on " + x["text"].dump(-1, ' ', true));
    const auto normalizer = Normalizer::read(x["json"]);
    ASSERT_TRUE(normalizer) << normalizer.error().to_string();
    const std::string text = x["text"];
    TextBuffers buffers(true);
    StepBudget budget{1'000'000};
    TextPiece piece{.text = text, .is_first = true};
    ASSERT_TRUE(normalizer->apply(piece, buffers, budget));
    EXPECT_EQ(piece.text, x["result"].get<std::string>());
  }
}

}  // namespace
}  // namespace cohort::text

// TRAIN-BPE-1: a tokenizer that is trained here is the one that the `tokenizers` package trains
// (tests/data/bpe, made by tools/golden/make_bpe_merges.py), reads back, and gives any bytes back.
#include "runtime/text/tokenizer_trainer.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/rng.hpp"
#include "runtime/text/byte_level.hpp"
#include "runtime/text/template/chat_template.hpp"
#include "runtime/text/tokenizer_folder.hpp"
#include "runtime/text/unicode.hpp"
#include "tests/support/child_process.hpp"

namespace cohort::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path k_data = fs::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/data/bpe";

json golden() { return json::parse(std::ifstream(k_data / "merges.json")); }

TokenizerTrainer::Files trained(const std::string& text, size_t size, uint64_t frequency_min = 2) {
  TokenizerTrainer trainer;
  EXPECT_TRUE(trainer.add(text));
  return trainer.train({size, frequency_min}).value();
}

/// The files as a folder that is read.
TokenizerFolder folder_of(const TokenizerTrainer::Files& files, const test::TempFolder& temp) {
  for (const auto& [name, text] : files.texts) std::ofstream(temp.path() / name) << text;
  auto folder = TokenizerFolder::read(temp.path().string());
  EXPECT_TRUE(folder) << folder.error().detail;
  return std::move(*folder);
}

TEST(TokenizerTrainer, LearnsWhatTheReferenceLearns) {
  const json expected = golden();
  const auto files =
      trained(test::slurp(k_data / "corpus.txt"), expected["size"], expected["min_frequency"]);
  const json model = json::parse(files.texts.at("tokenizer.json"))["model"];
  EXPECT_EQ(model["merges"], expected["merges"]);
  ASSERT_EQ(model["vocab"].size(), expected["tokens"].size());
  for (size_t id = 0; id < expected["tokens"].size(); ++id)
    EXPECT_EQ(model["vocab"].value(expected["tokens"][id].get<std::string>(), json()), id);
  const test::TempFolder temp;
  const TokenizerFolder folder = folder_of(files, temp);
  EXPECT_EQ(folder.tokenizer.encode(expected["probe"].get<std::string>()).value().ids,
            expected["probe_ids"].get<std::vector<TokenId>>());
}

TEST(TokenizerTrainer, AnyBytesComeBack) {
  const test::TempFolder temp;
  const TokenizerFolder folder = folder_of(trained(test::slurp(k_data / "corpus.txt"), 500), temp);
  Rng rng(7);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (uint64_t i = rng.below(60); i > 0; --i)
      append_utf8(text,
                  static_cast<char32_t>(rng.below(3) == 0 ? rng.below(0x250) : rng.below(128)));
    const auto ids = folder.tokenizer.encode(text, k_plain_text).value().ids;
    const std::string decoded = folder.tokenizer.decode(ids);
    EXPECT_EQ(folder.tokenizer.encode(decoded, k_plain_text).value().ids, ids);
    EXPECT_EQ(decoded, text);  // NFC changes nothing below U+0250
  }
}

TEST(TokenizerTrainer, PiecesInAnyOrderGiveTheSameMerges) {
  const TrainedBpe one = train_bpe({{"abba", 3}, {"baab", 3}, {"cc", 1}}, {300, 2});
  const TrainedBpe other = train_bpe({{"cc", 1}, {"baab", 3}, {"abba", 3}}, {300, 2});
  EXPECT_EQ(one.merges, other.merges);
  EXPECT_EQ(one.tokens, other.tokens);
  // Twice two pairs are equally frequent: the lowest ids win.
  const std::vector<std::string> learned(one.tokens.begin() + 256, one.tokens.end());
  EXPECT_EQ(learned, (std::vector<std::string>{"ab", "ba", "abba", "baab"}));
}

TEST(TokenizerTrainer, RunsOfOneLetterAreCountedAsTheyAreJoined) {
  const TrainedBpe bpe = train_bpe({{"aaaaa", 2}}, {300, 1});
  std::vector<std::string> learned(bpe.tokens.begin() + 256, bpe.tokens.end());
  EXPECT_EQ(learned, (std::vector<std::string>{"aa", "aaa", "aaaaa"}));
}

TEST(TokenizerTrainer, EndsWhereNoPairIsFrequent) {
  EXPECT_EQ(trained("ab cd", 1000).tokens, k_tokenizer_size_min);
  EXPECT_EQ(trained("ab ab", 1000).tokens, k_tokenizer_size_min + 1);  // "ab"; " ab" occurs once
  TokenizerTrainer trainer;
  EXPECT_FALSE(trainer.train({k_tokenizer_size_min - 1, 2}));
}

TEST(TokenizerTrainer, TextWithoutBlanksTakesTimeInProportion) {
  TokenizerTrainer trainer;
  Rng rng(3);
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += static_cast<char>('a' + rng.below(4));
  ASSERT_TRUE(trainer.add(text));
  EXPECT_EQ(trainer.train({600, 2}).value().tokens, 600U);
}

TEST(TokenizerTrainer, TheChatTemplateMarksWhatTheAssistantSays) {
  const test::TempFolder temp;
  const TokenizerFolder folder = folder_of(trained("hello", 259), temp);
  EXPECT_EQ(folder.eos_ids, (std::vector<TokenId>{0, 2}));
  EXPECT_EQ(folder.pad_id, 0);
  const auto compiled = ChatTemplate::compile(folder.chat_template(false).value()).value();
  ChatInput input;
  input.messages = {{{"role", "user"}, {"content", "hi"}},
                    {{"role", "assistant"}, {"content", "yes"}}};
  input.adds_generation_prompt = true;
  const RenderedChat chat = compiled.render(input).value();
  EXPECT_EQ(chat.text,
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n"
            "<|im_start|>assistant\n");
  ASSERT_EQ(chat.generated.size(), 1U);
  const ByteRange said = chat.generated.front();
  EXPECT_EQ(chat.text.substr(said.begin, said.end - said.begin), "yes<|im_end|>");
}

}  // namespace
}  // namespace cohort::text

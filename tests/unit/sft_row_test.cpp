// Rows of pipeline sft: columns, masks of ChatML, truncation.
#include "runtime/tasks/sft_row.hpp"

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/rng.hpp"
#include "runtime/tasks/demo_data.hpp"

namespace cohort::tasks {
namespace {

std::string messages_of(const char* line, const SftColumns& columns = {}) {
  const auto row = read_sft_row(line, columns);
  return row ? row->messages.dump() : row.error().detail;
}

TEST(SftRow, ReadsChatsAndPairs) {
  const char* chat = R"([{"role":"user","content":"q"},{"role":"assistant","content":"a"}])";
  EXPECT_EQ(messages_of((std::string(R"({"messages": )") + chat + "}").c_str()), chat);
  EXPECT_EQ(messages_of(R"({"messages": "[{\"role\":\"user\",\"content\":\"q\"},)"
                        R"({\"role\":\"assistant\",\"content\":\"a\"}]"})"),
            chat);
  EXPECT_EQ(messages_of(R"({"prompt": "q", "response": "a"})"), chat);
  EXPECT_EQ(messages_of(R"({"question": "q", "answer": "a"})"), chat);
  EXPECT_EQ(
      messages_of(R"({"x": "q", "y": "a", "prompt": "other"})", {.prompt = "x", .response = "y"}),
      chat);
  EXPECT_EQ(messages_of(R"({"prompt": [{"role":"user","content":"q"}], "output": "a"})"), chat);
  EXPECT_EQ(messages_of(R"({"info": {"q": "q", "deep": {"a": "a"}}})",
                        {.prompt = "info.q", .response = "info.deep.a"}),
            chat);
  EXPECT_EQ(messages_of(R"({"a.b": "q", "a": {"b": "x"}, "output": "a"})", {.prompt = "a.b"}),
            chat);
  EXPECT_EQ(messages_of(R"({"instruction": "do", "input": "x", "output": "a", "s": "be brief"})",
                        {.system = "s"}),
            R"([{"role":"system","content":"be brief"},{"role":"user","content":"do\nx"},)"
            R"({"role":"assistant","content":"a"}])");
}

std::string pair_of(const char* line, const SftColumns& columns = {},
                    const PairColumns& answers = {}) {
  const auto row = read_pair_row(line, columns, answers);
  return row ? row->chosen.messages.dump() + " " + row->rejected.messages.dump() + " " +
                   std::to_string(row->prompt_turns)
             : row.error().detail;
}

TEST(PairRow, ReadsPromptsAndDialogues) {
  const char* pair = R"([{"role":"user","content":"q"},{"role":"assistant","content":"a"}] )"
                     R"([{"role":"user","content":"q"},{"role":"assistant","content":"b"}] 1)";
  EXPECT_EQ(pair_of(R"({"prompt": "q", "chosen": "a", "rejected": "b"})"), pair);
  EXPECT_EQ(pair_of(R"({"messages": [{"role":"user","content":"q"}], "chosen": "a",
                        "rejected": [{"role":"assistant","content":"b"}]})"),
            pair);
  EXPECT_EQ(
      pair_of(R"({"chosen": [{"role":"user","content":"q"},{"role":"assistant","content":"a"}],
                        "rejected": [{"role":"user","content":"q"},
                                     {"role":"assistant","content":"b"}]})"),
      pair);
  EXPECT_EQ(pair_of(R"({"x": "q", "good": "a", "bad": "b"})", {.prompt = "x"}, {"good", "bad"}),
            pair);
}

TEST(PairRow, SaysWhatIsWrong) {
  for (const auto& [line, words] :
       {std::pair{R"({"prompt": "q", "chosen": "a"})", "no answer rejected"},
        std::pair{R"({"prompt": "q", "chosen": "a", "rejected": "a"})", "are the same"},
        std::pair{R"({"prompt": "q", "chosen": "", "rejected": "a"})", "chosen is empty"},
        std::pair{R"({"prompt": "q", "chosen": 3, "rejected": "a"})", "neither a text nor"},
        std::pair{R"({"prompt": "q", "chosen": [{"role": "user", "content": "a"}],
                      "rejected": "b"})",
                  "ends with the assistant's"},
        std::pair{R"({"chosen": "a", "rejected": "b"})", "no prompt"},
        std::pair{R"({"chosen": [{"role": "user", "content": "p"},
                                 {"role": "assistant", "content": "a"}],
                      "rejected": [{"role": "user", "content": "q"},
                                   {"role": "assistant", "content": "a"}]})",
                  "do not begin with one prompt"}})
    EXPECT_NE(pair_of(line).find(words), std::string::npos) << line << ": " << pair_of(line);
}

TEST(PairRow, OnlyTheAnswersTurnsCount) {
  const RowJson messages = RowJson::parse(
      R"([{"role": "user"}, {"role": "assistant"}, {"role": "user"}, {"role": "assistant"}])");
  MaskedTokens row{{1, 2, 3, 4, 5, 6, 7}, {0, 1, 1, 0, 0, 1, 1}};
  ASSERT_TRUE(count_behind(row, messages, 3));
  EXPECT_EQ(row.mask, (std::vector<uint8_t>{0, 0, 0, 0, 0, 1, 1}));
  MaskedTokens merged{{1, 2, 3, 4, 5, 6, 7}, {0, 1, 1, 1, 1, 1, 1}};
  EXPECT_FALSE(count_behind(merged, messages, 3));
  MaskedTokens alone{{1, 2, 3}, {0, 1, 1}};
  ASSERT_TRUE(count_behind(alone, RowJson::parse(R"([{"role": "assistant"}])"), 0));
  EXPECT_EQ(alone.counted(), 2U);
}

TEST(PairRow, ABuiltInTaskRejectsAWrongDigit) {
  const std::vector<Sample> samples = builtin_rows("builtin:arithmetic").value();
  for (const Sample& sample : samples) {
    const PairRow pair = pair_row_of(sample);
    const auto text = [](const SftRow& row) {
      return row.messages.back().at("content").get<std::string>();
    };
    const std::string good = text(pair.chosen), bad = text(pair.rejected);
    ASSERT_EQ(good.size(), bad.size());
    int changed = 0;
    for (size_t i = 0; i < good.size(); ++i) changed += good[i] != bad[i] ? 1 : 0;
    ASSERT_EQ(changed, 1) << good << " " << bad;
  }
}

TEST(SftRow, ReadsToolsAndVariables) {
  const auto row = read_sft_row(
      R"({"messages": [{"role": "assistant", "content": "a"}], "tools": "[{\"name\": \"f\"}]",
          "chat_template_kwargs": {"depth": 2}, "enable_thinking": false})",
      {});
  ASSERT_TRUE(row) << row.error().detail;
  EXPECT_EQ(row->tools.dump(), R"([{"name":"f"}])");
  EXPECT_EQ(row->variables.dump(), R"({"depth":2,"enable_thinking":false})");
}

TEST(SftRow, SaysWhatIsWrong) {
  for (const auto& [line, words] :
       {std::pair{R"({"text": "x"})", "neither messages nor prompt is there, but text"},
        std::pair{R"({"prompt": "q"})", "no answer to imitate"},
        std::pair{R"({"prompt": "q", "response": ""})", "response is empty"},
        std::pair{R"({"prompt": "q", "response": 3})", "response is a number, not a text"},
        std::pair{R"({"messages": []})", "messages is no list of messages"},
        std::pair{R"({"messages": "[{"})", "messages is a text, but"},
        std::pair{R"([1])", "one JSON object per line"}})
    EXPECT_NE(messages_of(line).find(words), std::string::npos) << messages_of(line);
}

MaskedTokens masked(const SftRow& row, const Tokenizer& tokenizer) {
  auto read = mask_of_chatml(row, tokenizer, false);
  EXPECT_TRUE(read) << read.error().detail;
  return *std::move(read);
}

TEST(SftRow, TheMaskOfChatmlSelectsTheAnswersAndTheirEnds) {  // MASK-1
  const auto tokenizer = make_word_tokenizer(byte_vocabulary()).value();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    SftRow row;
    std::string expected, text;
    for (uint64_t turn = 0, turns = 2 + rng.below(5); turn < turns; ++turn) {
      const std::string role = turn + 1 == turns || rng.below(2) == 0 ? "assistant" : "user";
      const std::string content(1 + rng.below(9), static_cast<char>('a' + rng.below(26)));
      row.messages.push_back({{"role", role}, {"content", content}});
      if (role == "assistant") expected += content + "<|im_end|>";
      text += "<|im_start|>" + role + "\n" + content + "<|im_end|>\n";
    }
    const MaskedTokens read = masked(row, *tokenizer);
    std::string said;
    for (size_t i = 0; i < read.tokens.size(); ++i)
      if (read.mask[i] != 0) said += tokenizer->decode(std::span(&read.tokens[i], 1));
    EXPECT_EQ(said, expected) << "seed " << seed;
    EXPECT_EQ(tokenizer->decode(read.tokens) + "\n", text) << "seed " << seed;
  }
}

TEST(SftRow, ADialogueWithoutAnAnswerIsRefused) {
  const auto tokenizer = make_word_tokenizer(byte_vocabulary()).value();
  SftRow row;
  row.messages = RowJson::parse(R"([{"role": "user", "content": "q"}])");
  EXPECT_NE(mask_of_chatml(row, *tokenizer, false).error().detail.find("nothing to imitate"),
            std::string::npos);
  row.messages = RowJson::parse(R"([{"role": "judge", "content": "q"}])");
  EXPECT_NE(mask_of_chatml(row, *tokenizer, false).error().detail.find("role is \"judge\""),
            std::string::npos);
  row.messages = RowJson::parse(R"([{"role": "assistant", "content": null}])");
  EXPECT_NE(mask_of_chatml(row, *tokenizer, false).error().detail.find("has no content"),
            std::string::npos);
}

TEST(SftRow, TruncationSaysWhatIsLost) {
  const MaskedTokens whole{{1, 2, 3, 4, 5}, {0, 1, 0, 1, 0}, false, false};
  MaskedTokens row = whole;
  ASSERT_TRUE(fit_row(row, 5, RowCut::error));
  EXPECT_FALSE(row.is_truncated);
  ASSERT_FALSE(fit_row(row, 4, RowCut::error));
  ASSERT_TRUE(fit_row(row, 4, RowCut::right));
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_TRUE(row.is_truncated);
  EXPECT_FALSE(row.has_lost_end);
  row = whole;
  ASSERT_TRUE(fit_row(row, 3, RowCut::right));
  EXPECT_TRUE(row.has_lost_end);
  EXPECT_EQ(row.counted(), 1U);
  row = whole;
  ASSERT_TRUE(fit_row(row, 1, RowCut::right));
  EXPECT_EQ(row.counted(), 0U);
  row = whole;
  ASSERT_TRUE(fit_row(row, 2, RowCut::left));
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(row.counted(), 0U) << "nothing predicts the first token";
}

}  // namespace
}  // namespace cohort::tasks

// DIALOGUE-1: sampled ids stay, whatever the tokenizer would make of their text.
#include "runtime/text/dialogue.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/child_process.hpp"
#include "tests/support/tokenizer_file.hpp"

namespace cohort::text {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

constexpr const char* k_plain =
    "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}<e>{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}";
constexpr const char* k_trimming =
    "{% for m in messages %}<{{ m.role[0] }}>{{ m.content | trim }}<e>{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}";
/// As Qwen3's: what stands before '/' in an earlier answer is dropped.
constexpr const char* k_dropping =
    "{% for m in messages %}<{{ m.role[0] }}>{{ m.content.split('/')[-1] }}<e>{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}";
constexpr const char* k_raising =
    "{% if messages | length > 1 %}{{ raise_exception('one turn only') }}{% endif %}"
    "<u>{{ messages[0].content }}<e><a>";

/// a … h are 1 … 8, '/' 9, ' ' 10; "ab" 11 by a merge; <s> 12, <u> 13, <a> 14, <e> 15, <f> 16.
class Dialogues : public ::testing::Test {
 protected:
  Dialogue begin(const char* source, const std::string& system = "") {
    tests::TokenizerFile file{.merges = {{"a", "b"}},
                              .first_special = 12,
                              .specials = {"<s>", "<u>", "<a>", "<e>", "<f>"},
                              .splits_words = false};
    for (char letter = 'a'; letter <= 'h'; ++letter)
      file.vocabulary[std::string(1, letter)] = letter - 'a' + 1;
    file.vocabulary["/"] = 9;
    file.vocabulary["\u0120"] = 10;
    file.vocabulary["ab"] = 11;
    put("tokenizer.json", tests::tokenizer_json(file));
    put("tokenizer_config.json", {{"chat_template", source}, {"eos_token", "<e>"}});
    put("generation_config.json", {{"eos_token_id", {15, 16}}});
    folder_.emplace(TokenizerFolder::read(temp_.path().string()).value());
    return Dialogue::begin({.folder = &*folder_, .system = system}).value();
  }
  void put(const char* name, const json& value) const {
    std::ofstream(temp_.path() / name) << value.dump();
  }

  test::TempFolder temp_;
  std::optional<TokenizerFolder> folder_;
};

TEST_F(Dialogues, AnAnswerKeepsIdsThatItsTextWouldNotGive) {
  Dialogue dialogue = begin(k_plain, "c");
  ASSERT_TRUE(dialogue.ask("ab"));
  EXPECT_EQ(dialogue.ids(), (Ids{12, 3, 15, 13, 11, 15, 14}));
  dialogue.answer(Ids{1, 2, 3, 15});  // "abc", which is {11, 3} when it is encoded
  ASSERT_TRUE(dialogue.ask("d"));
  EXPECT_EQ(dialogue.ids(), (Ids{12, 3, 15, 13, 11, 15, 14, 1, 2, 3, 15, 13, 4, 15, 14}));
  EXPECT_FALSE(dialogue.has_changed_text());
}

TEST_F(Dialogues, AnAnswerThatWasCutIsEndedByTheTemplate) {
  Dialogue dialogue = begin(k_plain);
  ASSERT_TRUE(dialogue.ask("c"));
  dialogue.answer(Ids{1, 2});
  ASSERT_TRUE(dialogue.ask("d"));
  EXPECT_EQ(dialogue.ids(), (Ids{13, 3, 15, 14, 1, 2, 15, 13, 4, 15, 14}));
}

TEST_F(Dialogues, AnotherEndOfAnAnswerGivesWayToTheTemplates) {
  Dialogue dialogue = begin(k_plain);
  ASSERT_TRUE(dialogue.ask("c"));
  dialogue.answer(Ids{1, 16});
  ASSERT_TRUE(dialogue.ask("d"));
  EXPECT_EQ(dialogue.ids(), (Ids{13, 3, 15, 14, 1, 15, 13, 4, 15, 14}));
}

TEST_F(Dialogues, IdsWithoutATokenStay) {
  Dialogue dialogue = begin(k_plain);
  ASSERT_TRUE(dialogue.ask("c"));
  dialogue.answer(Ids{900, 1});
  ASSERT_TRUE(dialogue.ask("d"));
  EXPECT_EQ(dialogue.ids(), (Ids{13, 3, 15, 14, 900, 1, 15, 13, 4, 15, 14}));
}

TEST_F(Dialogues, ATemplateMayTrimAnswers) {
  Dialogue dialogue = begin(k_trimming);
  ASSERT_TRUE(dialogue.ask("c"));
  dialogue.answer(Ids{10, 1, 2, 10, 15});
  ASSERT_TRUE(dialogue.ask("d"));
  EXPECT_EQ(dialogue.ids(), (Ids{13, 3, 15, 14, 10, 1, 2, 10, 15, 13, 4, 15, 14}));
  EXPECT_FALSE(dialogue.has_changed_text());
}

TEST_F(Dialogues, WhatATemplateDropsIsEncodedAnewFromTheChangeOn) {
  Dialogue dialogue = begin(k_dropping);
  ASSERT_TRUE(dialogue.ask("c"));
  dialogue.answer(Ids{3, 1, 2, 15});
  ASSERT_TRUE(dialogue.ask("d"));
  EXPECT_FALSE(dialogue.has_changed_text());
  dialogue.answer(Ids{5, 9, 1, 2, 15});  // "e/ab"
  ASSERT_TRUE(dialogue.ask("f"));
  EXPECT_TRUE(dialogue.has_changed_text());
  EXPECT_EQ(dialogue.ids(),
            (Ids{13, 3, 15, 14, 3, 1, 2, 15, 13, 4, 15, 14, 11, 15, 13, 6, 15, 14}));
}

TEST_F(Dialogues, WhatCannotBeAskedChangesNothing) {
  Dialogue dialogue = begin(k_raising);
  ASSERT_TRUE(dialogue.ask("c"));
  dialogue.answer(Ids{1, 15});
  const Ids before = dialogue.ids();
  const auto raised = dialogue.ask("d");
  ASSERT_FALSE(raised);
  EXPECT_NE(raised.error().detail.find("one turn only"), std::string::npos);
  EXPECT_FALSE(dialogue.ask("\xff"));
  EXPECT_EQ(dialogue.ids(), before);
  dialogue.reset();
  ASSERT_TRUE(dialogue.ask("d"));
  EXPECT_EQ(dialogue.ids(), (Ids{13, 4, 15, 14}));
}

}  // namespace
}  // namespace cohort::text

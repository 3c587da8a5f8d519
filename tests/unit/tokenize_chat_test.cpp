// Rows of messages for actor-node tokenize: with a folder, with a template alone, and what is wrong
// with them.
#include "tools/actor-node/tokenize_chat.hpp"

#include <gtest/gtest.h>

#include <string>

#include "runtime/text/local_time.hpp"

namespace cohort {
namespace {

using RowJson = nlohmann::ordered_json;

text::TokenizerFolder small_folder() {
  auto tokenizer = text::Tokenizer::from_json(R"({
      "added_tokens": [{"id": 3, "content": "<end>", "special": true, "normalized": false}],
      "decoder": {"type": "Fuse"},
      "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<end>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<end>": {"id": "<end>", "ids": [3], "tokens": ["<end>"]}}},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})",
                                              "tokenizer.json");
  text::TokenizerFolder folder(*std::move(tokenizer));
  folder.special_tokens = {{"eos_token", "<end>"}};
  folder.chat_templates = {
      {"default",
       "{% for m in messages %}a{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"
       "{% endfor %}{{ 'b' if add_generation_prompt }}"},
      {"tool_use", "{{ tools[0] }}"}};
  return folder;
}

std::string answer_to(ChatRows& rows, const char* row) {
  const auto answer = rows.answer(RowJson::parse(row));
  return answer ? answer->dump() : answer.error().to_string();
}

TEST(TokenizeChat, GivesTextIdsAndMask) {
  const text::TokenizerFolder folder = small_folder();
  ChatRows rows({.folder = &folder});
  // The post-processor's token is not put in front; "ab" begins before the range and ends in it.
  EXPECT_EQ(answer_to(rows, R"({"messages": [{"content": "ba"}, {"content": "b"}],
                                "kwargs": {"add_generation_prompt": true}})"),
            R"({"text":"aba<end>ab<end>b","generation":[[1,8],[9,15]],)"
            R"("ids":[2,0,3,2,3,1],"mask":[1,1,1,1,1,0]})");
  EXPECT_EQ(answer_to(rows, R"({"messages": [], "tools": ["ab"]})"),
            R"({"text":"ab","generation":[],"ids":[2],"mask":[0]})");
}

TEST(TokenizeChat, ATemplateAloneGivesText) {
  ChatRows rows({.source = "{{ bos_token }}{{ messages[0].tool_calls[0].arguments | tojson }}",
                 .bos = "<s>"});
  const char* row = R"({"messages": [{"tool_calls": [{"arguments": "{\"x\": 1}"}]}]})";
  EXPECT_EQ(answer_to(rows, row), R"({"text":"<s>\"{\\\"x\\\": 1}\"","generation":[]})");
  EXPECT_EQ(answer_to(rows, R"({"messages": [{"tool_calls": [{"arguments": "{\"x\": 1}"}]}],
                                "parse_arguments": true})"),
            R"({"text":"<s>{\"x\": 1}","generation":[]})");
}

TEST(TokenizeChat, SaysWhatIsWrong) {
  ChatRows broken({.source = "{% if %}"});
  EXPECT_NE(answer_to(broken, R"({"messages": []})").find("TemplateSyntaxError"),
            std::string::npos);
  ChatRows raises({.source = "{{ raise_exception('stop') }}"});
  EXPECT_NE(answer_to(raises, R"({"messages": []})").find("TemplateError: stop"),
            std::string::npos);
  EXPECT_NE(answer_to(raises, R"({"messages": [], "kwargs": 3})").find("kwargs must be"),
            std::string::npos);
  EXPECT_NE(answer_to(raises, R"({"messages": [], "kwargs": {"add_generation_prompt": 1}})")
                .find("add_generation_prompt must be"),
            std::string::npos);
  text::TokenizerFolder folder = small_folder();
  folder.chat_templates.clear();
  ChatRows none({.folder = &folder});
  EXPECT_NE(answer_to(none, R"({"messages": []})").find("not found"), std::string::npos);
}

TEST(TokenizeChat, ReadsATime) {
  const auto time = text::local_time_of("2026-03-07 09:05:03");
  ASSERT_TRUE(time);
  EXPECT_EQ(time->tm_wday, 6);
  EXPECT_EQ(time->tm_yday, 65);
  EXPECT_EQ(time->tm_sec, 3);
  EXPECT_EQ(text::local_time_of("2026-03-07T09:05")->tm_min, 5);
  EXPECT_EQ(text::local_time_of("2026-03-07")->tm_hour, 0);
  for (const char* bad : {"", "today", "2026-02-30", "2026-03-07x", "2026-03-07 09",
                          "2026-03-07 25:00", "2026-03-07 09:05:", "2026-03-07 09:05:03Z"})
    EXPECT_FALSE(text::local_time_of(bad)) << bad;
}

}  // namespace
}  // namespace cohort

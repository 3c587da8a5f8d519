// MASK-1 and MASK-2 over random dialogues: what the mask selects is what the assistant says, turn
// for turn, with and without {% generation %} blocks; what cannot be said is an error.
#include "runtime/text/chat_encoder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/rng.hpp"

namespace cohort::text {
namespace {

using DialogueJson = nlohmann::ordered_json;

constexpr const char* k_turns =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}<call>{{ call.function.arguments | tojson }}</call>"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr const char* k_blocks =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content "
    "}}<|im_end|>"
    "{% endif %}\n{% endfor %}";
/// Only the last turn keeps its thoughts, as with Qwen3.
constexpr const char* k_forgets =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last %}"
    "<think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// One token a byte, and three that are special.
TokenizerFolder byte_folder(const std::string& chat_template) {
  DialogueJson vocabulary = DialogueJson::object();
  int next = 0;
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = next++;
  vocabulary["\u0120"] = next++;  // blank
  vocabulary["\u010a"] = next++;  // newline
  DialogueJson added = DialogueJson::array();
  for (const char* text : {"<|im_start|>", "<|im_end|>", "<s>"})
    added.push_back({{"id", next++}, {"content", text}, {"special", true}, {"normalized", false}});
  const DialogueJson byte_level = {{"type", "ByteLevel"},
                                   {"add_prefix_space", false},
                                   {"trim_offsets", false},
                                   {"use_regex", false}};
  const DialogueJson file = {
      {"added_tokens", added},
      {"pre_tokenizer", byte_level},
      {"decoder", byte_level},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {next - 1}}, {"tokens", {"<s>"}}}}}}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", DialogueJson::array()}}}};
  auto tokenizer = Tokenizer::from_json(file.dump(), "tokenizer.json");
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().detail;
  TokenizerFolder folder(*std::move(tokenizer));
  folder.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "<|im_end|>"}};
  folder.chat_templates = {{"default", chat_template}};
  return folder;
}

/// What the mask selects, run by run.
std::vector<std::string> said(const EncodedChat& chat, const Tokenizer& tokenizer) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < chat.ids.size(); ++i) {
    if (!chat.mask[i]) continue;
    if (i == 0 || !chat.mask[i - 1]) runs.emplace_back();
    runs.back() += tokenizer.decode(std::span(&chat.ids[i], 1));
  }
  return runs;
}

std::string random_text(Rng& rng) {
  static constexpr std::string_view k_letters = "ab <|im_>\n\nassistant user.";
  std::string text;
  for (uint64_t i = 0, count = 1 + rng.below(20); i < count; ++i)
    text += k_letters[rng.below(k_letters.size())];
  return text;
}

/// Turns in any order; at least one is the assistant's.
DialogueJson random_dialogue(Rng& rng) {
  static constexpr const char* k_roles[] = {"user", "assistant", "tool", "system"};
  DialogueJson messages = DialogueJson::array();
  for (uint64_t i = 0, count = 1 + rng.below(6); i < count; ++i)
    messages.push_back({{"role", k_roles[rng.below(4)]}, {"content", random_text(rng)}});
  messages.push_back({{"role", "assistant"}, {"content", random_text(rng)}});
  if (rng.below(3) == 0) messages.push_back({{"role", "user"}, {"content", random_text(rng)}});
  return messages;
}

std::vector<std::string> spoken_in(const DialogueJson& messages) {
  std::vector<std::string> texts;
  for (const auto& m : messages)
    if (m["role"] == "assistant") texts.push_back(m["content"].get<std::string>() + "<|im_end|>");
  return texts;
}

TEST(ChatEncoder, TheMaskSelectsWhatTheAssistantSays) {  // MASK-1, MASK-2
  for (const char* source : {k_turns, k_blocks}) {
    const TokenizerFolder folder = byte_folder(source);
    ChatEncoder encoder({.folder = &folder});
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Rng rng(seed);
      ChatInput input;
      input.messages = random_dialogue(rng);
      const auto chat = encoder.imitate(input, false);
      ASSERT_TRUE(chat) << chat.error().detail;
      EXPECT_EQ(said(*chat, folder.tokenizer), spoken_in(input.messages)) << "seed " << seed;
      EXPECT_EQ(folder.tokenizer.decode(chat->ids), chat->text) << "seed " << seed;
      EXPECT_EQ(encoder.encode(input)->ids, chat->ids) << "seed " << seed;
    }
  }
}

TEST(ChatEncoder, AToolCallIsTheAssistantsItsAnswerIsNot) {
  const TokenizerFolder folder = byte_folder(k_turns);
  ChatEncoder encoder({.folder = &folder});
  ChatInput input;
  input.messages = DialogueJson::parse(R"([
      {"role": "user", "content": "q"},
      {"role": "assistant", "content": "see",
       "tool_calls": [{"function": {"arguments": {"x": 1}}}]},
      {"role": "tool", "content": "7"}, {"role": "assistant", "content": "seven"}])");
  const auto chat = encoder.imitate(input, false);
  ASSERT_TRUE(chat) << chat.error().detail;
  const std::vector<std::string> expected = {"see<call>{\"x\": 1}</call><|im_end|>",
                                             "seven<|im_end|>"};
  EXPECT_EQ(said(*chat, folder.tokenizer), expected);
}

TEST(ChatEncoder, ATemplateThatForgetsIsAnErrorUnlessItIsIgnored) {
  const TokenizerFolder folder = byte_folder(k_forgets);
  ChatEncoder encoder({.folder = &folder});
  ChatInput input;
  for (const char* text : {"a", "b"}) {
    input.messages.push_back({{"role", "user"}, {"content", text}});
    input.messages.push_back({{"role", "assistant"}, {"content", text}});
  }
  const auto refused = encoder.imitate(input, false);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("messages[1]: the template writes this turn differently"),
            std::string::npos)
      << refused.error().detail;
  const auto chat = encoder.imitate(input, true);
  ASSERT_TRUE(chat) << chat.error().detail;
  const std::vector<std::string> expected = {"<think>a<|im_end|>", "<think>b<|im_end|>"};
  EXPECT_EQ(said(*chat, folder.tokenizer), expected);
  EXPECT_EQ(chat->text,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>a<|im_end|>\n"
            "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n<think>b<|im_end|>\n");
}

TEST(ChatEncoder, AGenerationPromptThatThinksIsNoHeaderOfAToolCall) {
  const TokenizerFolder folder = byte_folder(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}");
  ChatEncoder encoder({.folder = &folder});
  for (const char* text : {"<tool>1</tool>", "plain", "<think>\nhm</think>yes"}) {
    ChatInput input;
    input.messages = {{{"role", "user"}, {"content", "q"}},
                      {{"role", "assistant"}, {"content", text}}};
    const bool thinks = std::string_view(text).starts_with("<think>\n");
    EXPECT_EQ(encoder.imitate(input, false).has_value(), thinks) << text;
    const auto chat = encoder.imitate(input, true);
    ASSERT_TRUE(chat) << chat.error().detail;
    EXPECT_EQ(
        said(*chat, folder.tokenizer),
        (std::vector<std::string>{(thinks ? "hm</think>yes" : std::string(text)) + "<|im_end|>"}));
  }
}

TEST(ChatEncoder, WhatATemplateMovesIsNeverTakenForTheAssistants) {
  // The system message goes into the last turn of the user, as with Mistral.
  const TokenizerFolder folder = byte_folder(
      "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n"
      "{% if loop.last and m.role == 'user' %}{{ messages[0].content }} {% endif %}"
      "{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  ChatEncoder encoder({.folder = &folder});
  ChatInput input;
  for (const char* role : {"system", "user", "assistant"})
    input.messages.push_back({{"role", role}, {"content", std::string(role) + "s words"}});
  for (const bool ignores : {false, true}) {
    const auto chat = encoder.imitate(input, ignores);
    ASSERT_FALSE(chat);
    EXPECT_NE(chat.error().detail.find("messages[2]: "), std::string::npos);
  }
}

TEST(ChatEncoder, SaysWhatCannotBeImitated) {
  const TokenizerFolder folder = byte_folder(k_turns);
  ChatEncoder encoder({.folder = &folder});
  const auto error_of = [&](const char* messages) {
    ChatInput input;
    input.messages = DialogueJson::parse(messages);
    const auto chat = encoder.imitate(input, false);
    return chat ? std::string("no error") : chat.error().detail;
  };
  EXPECT_NE(error_of("[]").find("at least one message"), std::string::npos);
  EXPECT_NE(error_of(R"([{"role": "user", "content": "q"}])").find("nothing to imitate"),
            std::string::npos);
  EXPECT_NE(error_of(R"([{"role": "judge", "content": "q"}])").find("role is \"judge\""),
            std::string::npos);
  EXPECT_NE(error_of(R"([{"content": "q"}])").find("messages[0]: an object with a role"),
            std::string::npos);
  ChatEncoder raises({.folder = &folder, .source = "{{ raise_exception('no system role') }}"});
  ChatInput input;
  input.messages = DialogueJson::parse(R"([{"role": "assistant", "content": "a"}])");
  EXPECT_NE(raises.imitate(input, false).error().detail.find("no system role"), std::string::npos);
}

}  // namespace
}  // namespace cohort::text

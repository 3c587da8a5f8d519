// actor-node chat with a scripted dialogue: what it says is what `logprobs --greedy` finds for the
// same ids, turn after turn, with the sampled ids kept.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/child_process.hpp"
#include "tests/support/tokenizer_file.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Process;
using test::TempFolder;
using Ids = std::vector<int32_t>;

constexpr const char* k_chat_ml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// Writes the last answer in capitals nowhere but drops it, as templates drop thoughts.
constexpr const char* k_forgetful =
    "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>user\n{{ m.content }}<|im_end|>\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The tiny model of 48 rows with a tokenizer of letters and three special tokens.
class Chat : public ::testing::Test {
 protected:
  Chat() : folder_(temp_.path() / "model") {
    fs::copy(fs::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/data/language_models/qwen2",
             folder_);
    tests::TokenizerFile file{.specials = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}};
    for (char letter = 'a'; letter <= 'z'; ++letter)
      file.vocabulary[std::string(1, letter)] = letter - 'a' + 3;
    file.vocabulary["\u0120"] = 29;
    file.vocabulary["\u010a"] = 30;
    put("tokenizer.json", tests::tokenizer_json(file));
    put("generation_config.json", {{"eos_token_id", {2}}});
    set_template(k_chat_ml);
  }
  void put(const char* name, const json& value) const {
    std::ofstream(folder_ / name) << value.dump();
  }
  void set_template(const std::string& source) const {
    put("tokenizer_config.json", {{"chat_template", source}, {"eos_token", "<|im_end|>"}});
  }
  Process& chat(const std::string& lines, const std::vector<std::string>& options) {
    std::ofstream(temp_.path() / "lines") << lines;
    std::vector<std::string> command = {"sh",
                                        "-c",
                                        "exec \"$@\" < " + (temp_.path() / "lines").string(),
                                        "sh",
                                        test::binary("actor-node"),
                                        "chat",
                                        folder_.string()};
    command.insert(command.end(), options.begin(), options.end());
    process_ = std::make_unique<Process>(command, temp_);
    return *process_;
  }
  json ask(const char* tool, const json& row, const std::vector<std::string>& options = {}) const {
    std::ofstream(temp_.path() / "rows") << row.dump() << "\n";
    std::vector<std::string> command = {test::binary("actor-node"), tool, folder_.string(),
                                        (temp_.path() / "rows").string()};
    command.insert(command.end(), options.begin(), options.end());
    Process process(command, temp_);
    EXPECT_EQ(process.wait(), 0) << process.err();
    return json::parse(process.out());
  }
  Ids ids_of(const std::string& text) const {
    return ask("tokenize", {{"text", text}})["ids"].get<Ids>();
  }
  std::string text_of(const Ids& ids) const {
    return ask("tokenize", {{"ids", ids}, {"skip_special_tokens", true}})["text"];
  }
  /// Appends the greedy answer of at most `count` tokens; returns what it says.
  std::string answer(Ids& ids, size_t count) const {
    Ids found = ask("logprobs", {{"ids", ids}}, {"--greedy", std::to_string(count)})["greedy"];
    if (const auto end = std::find(found.begin(), found.end(), 2); end != found.end())
      found.erase(end, found.end());
    ids.insert(ids.end(), found.begin(), found.end());
    return text_of(found) + "\n";
  }
  static void append(Ids& ids, const Ids& more) { ids.insert(ids.end(), more.begin(), more.end()); }

  TempFolder temp_;
  fs::path folder_;
  std::unique_ptr<Process> process_;
};

TEST_F(Chat, SaysTheGreedyTokensAndKeepsTheirIds) {
  Process& said = chat("hello there\nand then\n/reset\nhello there\n",
                       {"--temperature", "0", "--max-new-tokens", "9", "--system", "be kind"});
  ASSERT_EQ(said.wait(), 0) << said.err();
  Ids ids = ids_of(
      "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nhello there<|im_end|>\n"
      "<|im_start|>assistant\n");
  const std::string first = answer(ids, 9);
  append(ids, ids_of("<|im_end|>\n<|im_start|>user\nand then<|im_end|>\n<|im_start|>assistant\n"));
  const std::string second = answer(ids, 9);
  EXPECT_NE(first, second);
  EXPECT_EQ(said.out(), first + second + first);
  EXPECT_EQ(said.err(), "");
}

TEST_F(Chat, AnAnswerEndsAtTheEndOfTurn) {
  // The first greedy token is made the one that ends an answer.
  Ids ids = ids_of("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
  const Ids greedy = ask("logprobs", {{"ids", ids}}, {"--greedy", "5"})["greedy"];
  const auto last = std::find(greedy.begin(), greedy.end(), greedy[3]);
  put("generation_config.json", {{"eos_token_id", {greedy[3]}}});
  Process& said = chat("hello\n", {"--temperature", "0", "--max-new-tokens", "40"});
  ASSERT_EQ(said.wait(), 0) << said.err();
  EXPECT_EQ(said.out(), text_of(Ids(greedy.begin(), last)) + "\n");
}

TEST_F(Chat, ATemplateThatDropsTurnsIsEncodedAnewWithANotice) {
  set_template(k_forgetful);
  Process& said =
      chat("hello there\nand then\nand now\n", {"--temperature", "0", "--max-new-tokens", "6"});
  ASSERT_EQ(said.wait(), 0) << said.err();
  std::string dialogue, expected;
  for (const char* line : {"hello there", "and then", "and now"}) {
    dialogue += std::string("<|im_start|>user\n") + line + "<|im_end|>\n";
    Ids ids = ids_of(dialogue + "<|im_start|>assistant\n");
    expected += answer(ids, 6);
  }
  EXPECT_EQ(said.out(), expected);
  const std::string notice = "notice: the chat template changes earlier turns";
  EXPECT_EQ(said.err().find(notice), 0U) << said.err();
  EXPECT_EQ(said.err().rfind(notice), 0U) << "told once";
}

TEST_F(Chat, ASeedRepeatsADialogueAndAnotherChangesIt) {
  const auto said = [&](const char* seed) {
    Process& process = chat("hello\nagain\n", {"--seed", seed, "--max-new-tokens", "12",
                                               "--temperature", "2", "--top-k", "30"});
    EXPECT_EQ(process.wait(), 0) << process.err();
    return process.out();
  };
  const std::string first = said("1");
  EXPECT_EQ(said("1"), first);
  EXPECT_NE(said("2"), first);
}

TEST_F(Chat, AFullContextEndsADialogueAndResetBeginsAnew) {
  Process& said = chat("hello\nhello\n/reset\nhello\n",
                       {"--temperature", "0", "--context", "50", "--max-new-tokens", "8"});
  EXPECT_EQ(said.wait(), 1) << said.err();
  EXPECT_NE(said.err().find("leave no room in a context of 50 (/reset begins anew)"),
            std::string::npos)
      << said.err();
  Ids ids = ids_of("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
  const std::string answered = answer(ids, 8);
  EXPECT_EQ(said.out(), answered + "\n" + answered);
}

TEST_F(Chat, BadFoldersAreRefused) {
  struct Case {
    const char* file;
    std::string text;
    const char* message;
  };
  const Case cases[] = {
      {"tokenizer_config.json", "{}", "no chat template"},
      {"tokenizer.json", "{", "tokenizer.json"},
      {"config.json", "{}", "model_type"},
      {"model.safetensors", "", "too short for a header"},
  };
  for (const Case& bad : cases) {
    const std::string before = test::slurp(folder_ / bad.file);
    std::ofstream(folder_ / bad.file) << bad.text;
    Process& said = chat("hello\n", {});
    EXPECT_EQ(said.wait(), 2) << bad.file;
    EXPECT_NE(said.err().find(bad.message), std::string::npos) << said.err();
    std::ofstream(folder_ / bad.file, std::ios::binary) << before;
  }
  Process& said = chat("hello\n", {"--kwargs", "[1]"});
  EXPECT_EQ(said.wait(), 2);
  EXPECT_NE(said.err().find("is no JSON object"), std::string::npos) << said.err();
}

}  // namespace
}  // namespace cohort

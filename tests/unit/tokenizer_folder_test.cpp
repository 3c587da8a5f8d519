// What a folder says beside tokenizer.json, in both spellings; stop strings; actor-node tokenize.
#include "runtime/text/tokenizer_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/actor-node/tokenize_command.hpp"

namespace cohort::text {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_tokenizer = R"({
  "added_tokens": [{"id": 3, "content": "<end>", "special": true, "normalized": false},
                   {"id": 4, "content": "<pad>", "special": true, "normalized": false}],
  "decoder": {"type": "Fuse"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<end>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<end>": {"id": "<end>", "ids": [3], "tokens": ["<end>"]}}},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})";

/// A folder that is gone with the object.
class TokenizerFiles {
 public:
  TokenizerFiles() {
    std::string pattern = (fs::temp_directory_path() / "cohort_text.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
    put("tokenizer.json", k_tokenizer);
  }
  ~TokenizerFiles() { fs::remove_all(path_); }
  TokenizerFiles(const TokenizerFiles&) = delete;
  TokenizerFiles& operator=(const TokenizerFiles&) = delete;
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  std::string path(const std::string& name = "") const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }
  std::string error() const {
    const auto folder = TokenizerFolder::read(path());
    return folder ? "" : folder.error().to_string();
  }

 private:
  fs::path path_;
};

TEST(TokenizerFolder, ReadsTheFilesBesideTokenizerJson) {
  const TokenizerFiles files;
  files.put("tokenizer_config.json",
            R"({"eos_token": {"content": "<end>", "lstrip": false}, "bos_token": null,
      "pad_token": "<pad>", "model_max_length": 1000000000000000019884624838656,
      "chat_template": "old",
      "extra_special_tokens": {"image_token": "a"},
      "added_tokens_decoder": {"3": {"content": "<end>", "special": true},
                               "9": {"content": "<more>", "normalized": false}}})");
  files.put("special_tokens_map.json", R"({"eos_token": "b", "unk_token": "a"})");
  files.put("generation_config.json", R"({"eos_token_id": [1, 3], "pad_token_id": 0})");
  files.put("config.json", R"({"eos_token_id": 2, "bos_token_id": 1})");
  files.put("chat_template.jinja", "new");
  files.put("additional_chat_templates/tool_use.jinja", "tools");
  const auto folder = TokenizerFolder::read(files.path());
  ASSERT_TRUE(folder) << folder.error().to_string();
  EXPECT_EQ(folder->special_tokens, (std::map<std::string, std::string>{{"eos_token", "<end>"},
                                                                        {"pad_token", "<pad>"},
                                                                        {"unk_token", "a"},
                                                                        {"image_token", "a"}}));
  EXPECT_EQ(folder->eos_ids, (std::vector<TokenId>{1, 3}));
  EXPECT_EQ(folder->pad_id, 4);
  EXPECT_EQ(folder->bos_id, 1);
  EXPECT_EQ(folder->model_max_length, std::nullopt);
  EXPECT_EQ(folder->chat_template(false).value(), "new");
  EXPECT_EQ(folder->chat_template(true).value(), "tools");
  EXPECT_EQ(folder->tokenizer.encode("<more>", {.adds_special_tokens = false}).value().ids,
            std::vector<TokenId>{9});
}

TEST(TokenizerFolder, ReadsTemplatesAsAList) {
  const TokenizerFiles files;
  files.put("tokenizer_config.json", R"({"model_max_length": 4096, "chat_template": [
    {"name": "default", "template": "x"}, {"name": "tool_use", "template": "y"}]})");
  files.put("config.json", R"({"eos_token_id": 2})");
  const auto folder = TokenizerFolder::read(files.path());
  ASSERT_TRUE(folder) << folder.error().to_string();
  EXPECT_EQ(folder->chat_template(false).value(), "x");
  EXPECT_EQ(folder->chat_template(true).value(), "y");
  EXPECT_EQ(folder->eos_ids, std::vector<TokenId>{2});
  EXPECT_EQ(folder->model_max_length, 4096U);
}

struct FolderCase {
  const char* file;
  const char* text;
  const char* expected;
};

TEST(TokenizerFolder, NamesFileAndKeyOfWhatIsWrong) {
  const FolderCase cases[] = {
      {"tokenizer.json", "{", "tokenizer.json: is no JSON"},
      {"tokenizer_config.json", "[", "tokenizer_config.json is no JSON"},
      {"tokenizer_config.json", "[]", "tokenizer_config.json must be a JSON object"},
      {"tokenizer_config.json", R"({"eos_token": "<eos>"})", "eos_token \"<eos>\" is no token of"},
      {"tokenizer_config.json", R"({"eos_token": 3})", "tokenizer_config.json: eos_token must be"},
      {"tokenizer_config.json", R"({"chat_template": 3})",
       "chat_template must be a text or a list"},
      {"tokenizer_config.json", R"({"chat_template": [{}]})", "chat_template.name must be a text"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "a"}}})",
       "added_tokens_decoder[\"x\"] must have the id"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"3": {"content": "<new>"}}})",
       "\"<new>\" has id 3, but \"<end>\" above has id 3"},
      {"special_tokens_map.json", R"({"pad_token": []})",
       "special_tokens_map.json: pad_token must"},
      {"generation_config.json", R"({"eos_token_id": "x"})",
       "generation_config.json: eos_token_id"},
      {"config.json", R"({"eos_token_id": [1.5]})", "config.json: eos_token_id must be"},
      {"chat_template.jinja", "\xFF", "chat_template.jinja is not UTF-8"},
  };
  for (const FolderCase& x : cases) {
    const TokenizerFiles files;
    files.put(x.file, x.text);
    EXPECT_NE(files.error().find(x.expected), std::string::npos) << files.error();
  }
  const TokenizerFiles bare;
  fs::remove(bare.path("tokenizer.json"));
  EXPECT_NE(bare.error().find("has no tokenizer.json"), std::string::npos) << bare.error();
  bare.put("tokenizer.model", "x");
  EXPECT_NE(bare.error().find("AutoTokenizer"), std::string::npos) << bare.error();
  EXPECT_FALSE(TokenizerFolder::read("/nowhere/at/all"));
  const TokenizerFiles none;
  EXPECT_NE(
      TokenizerFolder::read(none.path())->chat_template(true).error().detail.find("--template"),
      std::string::npos);
}

std::string rows_of(TokenizeCommand command, const TokenizerFiles& files, const std::string& rows) {
  files.put("rows.jsonl", rows);
  command.paths = {files.path(), files.path("rows.jsonl")};
  std::ostringstream out;
  const auto done = tokenize_rows(command, out);
  return out.str() + (done ? "" : done.error().to_string());
}

TEST(TokenizeCommand, AnswersEachRow) {
  const TokenizerFiles files;
  EXPECT_EQ(rows_of({}, files,
                    R"({"text": "ab<end>"}
)"
                    "\n"
                    R"({"ids": [3, 2, 0, 77]}
{"ids": [3, 2], "skip_special_tokens": true}
{"text": "b", "add_special_tokens": false}
{"text": "ab", "offsets": true})"),
            R"({"ids":[3,2,3]}
{"text":"<end>aba","pieces":["<end>","ab","a",""]}
{"text":"ab","pieces":["","ab"]}
{"ids":[1]}
{"ids":[3,2],"offsets":[[0,0],[0,2]]}
)");
  TokenizeCommand plain;
  plain.is_plain = true;
  EXPECT_EQ(rows_of(plain, files, R"({"text": "ab<end>"})"), "{\"ids\":[2]}\n");
}

TEST(TokenizeCommand, ALineIsALineForEveryReader) {
  const TokenizerFiles files;
  files.put("echo.jinja", "{{ messages[0].content }}");
  TokenizeCommand command;
  command.template_file = files.path("echo.jinja");
  const std::string content = "\xe2\x80\xa8 \xc2\x85 \xe2\x80\xa9 \xe2\x80\xa6";
  const std::string out =
      rows_of(command, files, "{\"messages\": [{\"content\": \"" + content + "\"}]}");
  EXPECT_TRUE(out.starts_with("{\"text\":\"\\u2028 \\u0085 \\u2029 \xe2\x80\xa6\"")) << out;
}

TEST(TokenizeCommand, ALineThatIsNoJsonIsAnsweredAndOthersGoOn) {
  const TokenizerFiles files;
  for (const std::string row : {R"({"text": NaN})", R"({"text": Infinity})", R"({"text": 1e400})",
                                R"({"text": "\ud800"})", "{", "\xFF"}) {
    const std::string out = rows_of({}, files, "\n" + row + "\n{\"text\": \"b\"}");
    EXPECT_TRUE(out.starts_with("{\"error\":\"") && out.ends_with("\"}\n{\"ids\":[3,1]}\n")) << out;
    EXPECT_NE(out.find("rows.jsonl:2 is no JSON: "), std::string::npos) << out;
  }
}

TEST(TokenizeCommand, TheLastPieceIsWhatTheStreamHeldBack) {
  const TokenizerFiles files;
  files.put("tokenizer.json", R"({"decoder": {"type": "ByteFallback"}, "model": {"type": "BPE",
    "vocab": {"a": 0, "<0xE4>": 1}, "merges": []}})");
  EXPECT_EQ(rows_of({}, files, R"({"ids": [0, 1, 1]})"),
            "{\"text\":\"a\uFFFD\uFFFD\",\"pieces\":[\"a\",\"\",\"\",\"\uFFFD\uFFFD\"]}\n");
}

TEST(TokenizeCommand, NamesTheRowThatIsNone) {
  const TokenizerFiles files;
  for (const std::string row : {"[]", "{}", R"({"text": 3})", R"({"ids": ["a"]})",
                                R"({"ids": [-1]})", R"({"text": "a", "add_special_tokens": 1})"}) {
    const std::string out = rows_of({}, files, "\n" + row);
    EXPECT_NE(out.find("rows.jsonl:2"), std::string::npos) << out;
  }
  std::ostringstream out;
  TokenizeCommand command;
  command.paths = {"rows.jsonl"};
  EXPECT_EQ(tokenize_rows(command, out).error().code, Errc::invalid_argument);
  command.paths = {files.path(), "/nowhere/rows.jsonl"};
  EXPECT_EQ(tokenize_rows(command, out).error().code, Errc::not_found);
}

}  // namespace
}  // namespace cohort::text

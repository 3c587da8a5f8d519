#include "tools/actor-node/data_command.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/tasks/data_gsm8k.hpp"
#include "runtime/tasks/dataset.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_first = R"({"question": "Natalia sold clips to 48 friends. How many?",)"
                                R"( "answer": "48+24 = <<48+24=72>>72 clips.\n#### 72"})";

/// A folder with GSM8K's two files, gone with the object.
class Folder {
 public:
  Folder(const std::string& train, const std::string& test) {
    std::string pattern = (fs::temp_directory_path() / "cohort_data.XXXXXX").string();
    path = ::mkdtemp(pattern.data());
    std::ofstream(path / "train.jsonl") << train;
    std::ofstream(path / "test.jsonl") << test;
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::vector<std::string> names(const fs::path& folder) const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder))
      result.push_back(entry.path().filename());
    std::sort(result.begin(), result.end());
    return result;
  }
  fs::path path;
};

std::string truth(const std::string& answer) {
  const std::string line = R"({"question": "q", "answer": ")" + answer + R"("})";
  auto row = tasks::gsm8k_line({line, "test", 5}, "{question}");
  if (!row) return "refused: " + row.error().detail;
  const std::string lead = "\"ground_truth\":\"";
  const size_t at = row->find(lead) + lead.size();
  return row->substr(at, row->find('"', at) - at);
}

TEST(Gsm8kLine, VerlsColumns) {
  auto row = tasks::gsm8k_line({k_first, "train", 0}, tasks::k_gsm8k_template);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(*row,
            R"({"data_source":"openai/gsm8k","prompt":[{"role":"user","content":"Natalia sold )"
            R"(clips to 48 friends. How many? Let's think step by step and output the final )"
            R"(answer after \"####\"."}],"ability":"math","reward_model":{"style":"rule",)"
            R"("ground_truth":"72"},"extra_info":{"split":"train","index":0,"answer":"48+24 = )"
            R"(<<48+24=72>>72 clips.\n#### 72","question":"Natalia sold clips to 48 friends. )"
            R"(How many?"}})");
}

TEST(Gsm8kLine, TakesTheNumberBehindTheMark) {
  EXPECT_EQ(truth("#### 1,234,567"), "1234567");
  EXPECT_EQ(truth("#### -7"), "-7");
  EXPECT_EQ(truth("#### 18.50 dollars"), "18.50");
  EXPECT_EQ(truth("#### x then #### 3"), "3");
  EXPECT_EQ(truth("#### - #### 4"), "4");
  EXPECT_EQ(truth("the answer is 5"), "refused: no number behind \"#### \" in answer");
  EXPECT_EQ(truth("####6"), "refused: no number behind \"#### \" in answer");
}

TEST(DataCommand, MakesRowsThatADatasetReads) {
  const Folder folder(std::string(k_first) + "\n" + k_first + "\n", std::string(k_first) + "\n\n");
  const fs::path out = folder.path / "out" / "deep";
  auto text = data_text({"gsm8k", folder.path, out, "", {}});
  ASSERT_TRUE(text.has_value()) << text.error().to_string();
  EXPECT_TRUE(text->starts_with((out / "gsm8k_train.jsonl").string() + ": 2 rows\n" +
                                (out / "gsm8k_test.jsonl").string() + ": 1 rows\nfirst row: {"))
      << *text;
  EXPECT_EQ(folder.names(out), (std::vector<std::string>{"gsm8k_test.jsonl", "gsm8k_train.jsonl"}));
  tasks::DatasetOptions options;
  options.files = {out / "gsm8k_train.jsonl", out / "gsm8k_test.jsonl"};
  auto data = tasks::Dataset::load(options);
  ASSERT_TRUE(data.has_value()) << data.error().to_string();
  ASSERT_EQ((*data)->size(), 3U);
  EXPECT_EQ((*data)->at(1).ground_truth, "72");
  EXPECT_EQ((*data)->at(1).data_source, "openai/gsm8k");
  EXPECT_EQ((*data)->at(1).answer, "48+24 = <<48+24=72>>72 clips.\n#### 72");
}

TEST(DataCommand, ABadRowIsNamedAndNothingIsWritten) {
  const Folder folder(std::string(k_first) + "\n", std::string(k_first) + "\n{\"question\": 3}\n");
  const std::vector<std::string> before = folder.names(folder.path);
  auto text = data_text({"gsm8k", folder.path, "", "", {}});
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().detail,
            (folder.path / "test.jsonl").string() +
                ":2: no text question: GSM8K's rows are {\"question\": …, \"answer\": …}");
  EXPECT_EQ(folder.names(folder.path), before);
}

TEST(DataCommand, SaysWhatIsMissing) {
  const Folder folder(std::string(k_first) + "\n", "");
  EXPECT_NE(data_text({"gsm8k", "/nowhere", folder.path, "", {}})
                .error()
                .detail.find("/nowhere/train.jsonl: No such file or directory; GSM8K's"),
            std::string::npos);
  EXPECT_EQ(data_text({"gsm8k", folder.path, "", "", {}}).error().detail,
            (folder.path / "test.jsonl").string() + ": no rows");
  EXPECT_EQ(data_text({"gsm8k", folder.path, "", "Q: {Question}", {}}).error().detail,
            "template \"Q: {Question}\": {question} has to be in it exactly once");
  EXPECT_EQ(data_text({"math", folder.path, "", "", {}}).error().code, Errc::invalid_argument);
}

TEST(DataCommand, MakesATokenizerOutOfTexts) {
  const Folder folder("the cat\n", "the hat and the bat\n");
  const fs::path out = folder.path / "made";
  CLI::App app;
  DataCommand command;
  add_data_command(app, command);
  const auto parse = [&](const std::string& size) {
    app.parse("data tokenizer " + (folder.path / "train.jsonl").string() + " " +
              (folder.path / "test.jsonl").string() + " --out " + out.string() + " --size " + size);
  };
  EXPECT_THROW(parse("258"), CLI::ParseError);
  parse("262");
  const auto text = data_text(command);
  ASSERT_TRUE(text.has_value()) << text.error().detail;
  EXPECT_EQ(*text, (out / "tokenizer.json").string() + ": 262 tokens of 28 bytes in 2 files\n");
  EXPECT_EQ(folder.names(out), (std::vector<std::string>{"generation_config.json", "tokenizer.json",
                                                         "tokenizer_config.json"}));
  std::ifstream file(out / "tokenizer.json");
  const std::string json((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(json.find("\"a t\",\n   \"h e\",\n   \"t he\""), std::string::npos) << json;
  command.tokenizer.texts.push_back("/nowhere/text");
  EXPECT_NE(data_text(command).error().detail.find("/nowhere/text"), std::string::npos);
}

TEST(DataCommand, ReadsItsOptions) {
  CLI::App app;
  DataCommand command;
  add_data_command(app, command);
  app.parse("data gsm8k /data/gsm8k --out /tmp/x --template \"Q: {question}\"");
  EXPECT_EQ(command.kind, "gsm8k");
  EXPECT_EQ(command.folder, "/data/gsm8k");
  EXPECT_EQ(command.out, "/tmp/x");
  EXPECT_EQ(command.prompt_template, "Q: {question}");
  EXPECT_THROW(app.parse("data"), CLI::ParseError);
}

}  // namespace
}  // namespace cohort

#include "runtime/tasks/dataset.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/tasks/data_row.hpp"

namespace cohort::tasks {
namespace {

constexpr const char* k_roll_row =
    R"({"id": "7", "source": "aime2024", "difficulty": 4.5, "prompt": "How many?",)"
    R"( "messages": "[{\"role\": \"system\", \"content\": \"Box it.\"}, {\"role\": \"user\",)"
    R"( \"content\": \"How \\\\frac12?\"}]", "ground_truth": "204", "case_type": "input",)"
    R"( "test_cases": "[{\"stdin\": \"1\"}]", "tag": "aime", "domain": "math_rule"})";
constexpr const char* k_verl_row =
    R"({"data_source": "openai/gsm8k", "prompt": [{"role": "user", "content": "2 + 2?"}],)"
    R"( "ability": "math", "reward_model": {"style": "rule", "ground_truth": "4"},)"
    R"( "extra_info": {"split": "train", "index": 3, "answer": "2 + 2 = 4\n#### 4"}})";

Sample read(const std::string& line, const DatasetOptions& options = {}) {
  auto row = read_row(line, options);
  EXPECT_TRUE(row.has_value()) << row.error().to_string();
  return row.has_value() ? *row : Sample{};
}

std::string reason(const std::string& line) {
  auto row = read_row(line, {});
  return row.has_value() ? "accepted" : row.error().detail;
}

/// A file that goes away with the object.
class DataFile {
 public:
  explicit DataFile(const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "cohort_rows.XXXXXX").string();
    const int file = ::mkstemp(pattern.data());
    EXPECT_GE(file, 0);
    ::close(file);
    path = pattern;
    std::ofstream(path, std::ios::binary) << text;
  }
  ~DataFile() { std::filesystem::remove(path); }
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  std::string path;
};

std::string line_of(int number) {
  return R"({"prompt": "question )" + std::to_string(number) + R"(", "tag": "t"})" + "\n";
}

TEST(DataRow, RollsColumns) {
  const Sample row = read(k_roll_row);
  const std::vector<ChatMessage> messages{{"system", "Box it."}, {"user", "How \\frac12?"}};
  EXPECT_EQ(row.messages, messages);
  EXPECT_EQ(row.ground_truth, "204");
  EXPECT_EQ(row.data_source, "aime");
  EXPECT_EQ(row.domain, "math_rule");
  EXPECT_EQ(row.answer, "");
  EXPECT_EQ(row.columns,
            R"({"id":"7","source":"aime2024","difficulty":4.5,"prompt":"How many?",)"
            R"("case_type":"input","test_cases":"[{\"stdin\": \"1\"}]","tag":"aime"})");
}

TEST(DataRow, VerlsColumns) {
  const Sample row = read(k_verl_row);
  EXPECT_EQ(row.messages, (std::vector<ChatMessage>{{"user", "2 + 2?"}}));
  EXPECT_EQ(row.ground_truth, "4");
  EXPECT_EQ(row.data_source, "openai/gsm8k");
  EXPECT_EQ(row.domain, "");
  EXPECT_EQ(row.answer, "2 + 2 = 4\n#### 4");
  EXPECT_EQ(row.columns,
            R"({"ability":"math","reward_model":{"style":"rule"},"extra_info":{"split":"train",)"
            R"("index":3,"answer":"2 + 2 = 4\n#### 4"}})");
}

TEST(DataRow, MessagesMayBeAListAndPromptAText) {
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": "hi"}]})").messages,
            (std::vector<ChatMessage>{{"user", "hi"}}));
  EXPECT_EQ(read(R"({"prompt": "[1] what is cited?", "messages": null})").messages,
            (std::vector<ChatMessage>{{"user", "[1] what is cited?"}}));
}

TEST(DataRow, KeysMayHaveOtherNames) {
  DatasetOptions options;
  options.messages_key = "chat";
  options.prompt_key = "question";
  options.tag_key = "kind";
  options.answer_key = "worked";
  const Sample row = read(
      R"({"question": "1+1?", "kind": "sums", "worked": 2, "answer": "no", "tag": "x"})", options);
  EXPECT_EQ(row.messages, (std::vector<ChatMessage>{{"user", "1+1?"}}));
  EXPECT_EQ(row.data_source, "sums");
  EXPECT_EQ(row.answer, "2");
}

TEST(DataRow, TheAssistantsLastWordsAreTheAnswer) {
  const Sample row = read(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
      R"( {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})");
  EXPECT_EQ(row.messages.size(), 3U);
  EXPECT_EQ(row.answer, "d");
}

TEST(DataRow, GroundTruthsThatAreNoText) {
  auto truth = [](const std::string& value) {
    return read(R"({"prompt": "?", "ground_truth": )" + value + "}").ground_truth;
  };
  EXPECT_EQ(truth("18"), "18");
  EXPECT_EQ(truth("-0.5"), "-0.5");
  EXPECT_EQ(truth("9007199254740993"), "9007199254740993");
  EXPECT_EQ(truth("true"), "true");
  EXPECT_EQ(truth("null"), "");
  EXPECT_EQ(truth(R"(["a", 1])"), R"(["a",1])");
  EXPECT_EQ(truth(R"("0.50")"), "0.50");
}

TEST(DataRow, ReasonsOfBadRows) {
  EXPECT_EQ(reason("{\"prompt\": \"a\""),
            "no valid JSON: column 15: syntax error while parsing object - unexpected end of "
            "input; expected '}'");
  EXPECT_NE(reason("{\"prompt\": \"a\xff\"}").find("ill-formed UTF-8"), std::string::npos);
  EXPECT_EQ(reason("{\"prompt\": \"a\xff\"}").find('\xff'), std::string::npos);
  EXPECT_EQ(reason("[1]"), "a list: one JSON object per line is expected");
  EXPECT_EQ(reason("{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
            "nested deeper than 64 levels");
  EXPECT_EQ(reason("{}"), "no prompt: neither messages nor prompt is there, but nothing");
  EXPECT_EQ(reason(R"({"question": "a", "answer": "b"})"),
            "no prompt: neither messages nor prompt is there, but question, answer");
  EXPECT_EQ(reason(R"({"messages": 3})"),
            "messages is a number: a list of messages, or its JSON as a text, is expected");
  EXPECT_NE(reason(R"({"messages": "[{'role': 'user'}]"})")
                .find("messages is a text, but: no valid JSON: column"),
            std::string::npos);
  EXPECT_EQ(reason(R"({"messages": []})"), "messages is an empty list");
  EXPECT_EQ(reason(R"({"messages": ["hi"]})"),
            "messages[0] is a text, not an object with role and content");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user"}]})"), "messages[0] has no content");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user", "content": ""}]})"),
            "messages[0].content is empty");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})"),
            "messages[0].content is a list, not a text (only text is supported)");
  EXPECT_EQ(reason(R"({"messages": [{"role": "human", "content": "x"}]})"),
            "messages[0].role is \"human\": system, user, assistant or tool is expected");
  EXPECT_EQ(reason(R"({"messages": [{"role": "system", "content": "x"}]})"),
            "the conversation has no message of the user");
  EXPECT_EQ(reason(R"({"prompt": ""})"), "prompt is empty");
  EXPECT_EQ(reason(R"({"prompt": "a", "tag": 3})"), "tag is a number, not a text");
  EXPECT_EQ(reason(R"({"prompt": "a", "reward_model": "rule"})"),
            "reward_model is a text, not an object");
  EXPECT_EQ(reason(R"({"prompt": "a", "images": ["x.png"]})"),
            "images is not empty: only text is supported");
  EXPECT_EQ(reason(R"({"prompt": "a", "ground_truth": 123456789012345678901234567890})"),
            "ground_truth is a number that may have lost digits: write it as a text");
  EXPECT_NE(reason(R"({"prompt": "a", "ground_truth": 1e999})").find("no valid JSON: "),
            std::string::npos);
}

TEST(Dataset, NamesFileAndLineAndCountsTheOthers) {
  const DataFile file("\xEF\xBB\xBF" + line_of(1) + "\n" + line_of(2) + "nonsense\n  \r\n{}\n" +
                      line_of(3));
  auto strict = Dataset::load({.files = {file.path}});
  ASSERT_FALSE(strict.has_value());
  EXPECT_EQ(strict.error().code, Errc::config);
  EXPECT_TRUE(strict.error().detail.starts_with(file.path + ":4: no valid JSON: column 2: "))
      << strict.error().detail;
  EXPECT_TRUE(strict.error().detail.ends_with("(and 1 more bad rows)"));

  auto lenient = Dataset::load({.files = {file.path}, .skips_bad_rows = true});
  ASSERT_TRUE(lenient.has_value());
  const Dataset& data = **lenient;
  ASSERT_EQ(data.size(), 3U);
  EXPECT_EQ(data.at(0).id, file.path + ":1");
  EXPECT_EQ(data.at(1).id, file.path + ":3");
  EXPECT_EQ(data.at(2).id, file.path + ":7");
  EXPECT_EQ(data.bad_row_count(), 2U);
  ASSERT_EQ(data.bad_rows().size(), 2U);
  EXPECT_EQ(data.bad_rows()[1].where, file.path + ":6");
  EXPECT_EQ(data.bad_rows()[1].reason,
            "no prompt: neither messages nor prompt is there, but nothing");
}

TEST(Dataset, ReadsFilesInOrderAndCountsRepeatedConversations) {
  const DataFile first(line_of(1) + line_of(2)), second(line_of(2) + line_of(9));
  auto data = Dataset::load({.files = {second.path, first.path}});
  ASSERT_TRUE(data.has_value());
  ASSERT_EQ((*data)->size(), 4U);
  EXPECT_EQ((*data)->at(1).messages[0].content, "question 9");
  EXPECT_EQ((*data)->at(2).messages[0].content, "question 1");
  EXPECT_EQ((*data)->repeated_count(), 1U);
}

TEST(Dataset, KeepsAThousandBadRowsAndCountsAll) {
  std::string text = line_of(1);
  for (int i = 0; i < 1500; ++i) text += "{}\n";
  const DataFile file(text);
  auto data = Dataset::load({.files = {file.path}, .skips_bad_rows = true});
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ((*data)->bad_rows().size(), Dataset::k_bad_rows_kept);
  EXPECT_EQ((*data)->bad_row_count(), 1500U);
}

std::string parquet_folder() {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/tests/data/parquet/";
}

TEST(Dataset, RowsOfParquetAreThoseOfTheSameJsonl) {
  const std::string path = parquet_folder() + "gsm8k.parquet";
  const auto data = Dataset::load({.files = {path}});
  ASSERT_TRUE(data.has_value()) << data.error().to_string();
  const auto lines = Dataset::load({.files = {parquet_folder() + "gsm8k.jsonl"}});
  ASSERT_TRUE(lines.has_value());
  ASSERT_EQ((*data)->size(), (*lines)->size());
  for (size_t i = 0; i < (*data)->size(); ++i) {
    Sample row = (*data)->at(i);
    EXPECT_EQ(row.id, path + ":" + std::to_string(i + 1));
    row.id = (*lines)->at(i).id;
    EXPECT_EQ(row, (*lines)->at(i));
  }
  EXPECT_EQ((*data)->at(0).data_source, "openai/gsm8k");
  EXPECT_EQ((*data)->at(0).ground_truth, "14");
}

TEST(Dataset, NamesTheRowOfAParquetFile) {
  const std::string mixed = parquet_folder() + "mixed_zstd_v2.parquet";
  EXPECT_EQ(Dataset::load({.files = {mixed}}).error().detail.substr(0, mixed.size() + 15),
            mixed + ":1: no prompt: ");
  const std::string brotli = parquet_folder() + "refused_brotli.parquet";
  EXPECT_EQ(Dataset::load({.files = {brotli}}).error().to_string(),
            "unsupported: " + brotli +
                ":1: row group 0: column text, page 0: codec BROTLI is not read; write the file "
                "with zstd, snappy, gzip or none");
}

TEST(Dataset, RefusesWhatCannotBeRead) {
  EXPECT_EQ(Dataset::load({}).error().code, Errc::config);
  EXPECT_EQ(Dataset::load({.files = {"/nowhere/rows.jsonl"}}).error().to_string(),
            "not found: data file /nowhere/rows.jsonl: No such file or directory");
  EXPECT_EQ(Dataset::load({.files = {"/tmp"}}).error().to_string(),
            "not found: data file /tmp: is a folder");
  const DataFile parquet("PAR1\x15\x04");
  EXPECT_EQ(Dataset::load({.files = {parquet.path}}).error().to_string(),
            "corrupt: data file " + parquet.path +
                ": no whole parquet file: its last bytes are not those of a footer");
  const DataFile empty("\n\n"), bad("{}\n");
  EXPECT_EQ(Dataset::load({.files = {empty.path}}).error().detail, "no row in " + empty.path);
  EXPECT_EQ(Dataset::load({.files = {bad.path}, .skips_bad_rows = true}).error().detail,
            "no row in " + bad.path + ": all are bad, first " + bad.path +
                ":1: no prompt: neither messages nor prompt is there, but nothing");
}

TEST(DomainOf, EveryDataSourceHasAScorerOrTheLoadFails) {
  const TagsOfDomains tags{{"math_rule", {"aime", "openai/gsm8k"}}, {"code", {"kodcode"}}};
  Sample row;
  row.id = "a.jsonl:3";
  row.data_source = "kodcode";
  EXPECT_EQ(*domain_of(row, tags), "code");
  row.domain = "math_rule";  // ROLL's column wins
  EXPECT_EQ(*domain_of(row, tags), "math_rule");
  row.domain = "";
  row.data_source = "code";
  EXPECT_EQ(*domain_of(row, tags), "code");
  row.data_source = "kodcod";
  EXPECT_EQ(domain_of(row, tags).error().to_string(),
            "config: a.jsonl:3: nothing scores data_source \"kodcod\": put it, or \"*\" for all "
            "that are left, into the tags of a domain; there is code [kodcode], math_rule [aime, "
            "openai/gsm8k]");
  EXPECT_EQ(*domain_of(row, {{"a", {"x"}}, {"b", {"y", "*"}}}), "b");
  EXPECT_NE(domain_of(row, {{"a", {"*"}}, {"b", {"*"}}}).error().detail.find("two domains"),
            std::string::npos);
  row.data_source = "x";
  EXPECT_EQ(*domain_of(row, {{"a", {"x"}}, {"b", {"*"}}}), "a");
  EXPECT_NE(domain_of(row, {{"a", {"x"}}, {"b", {"x"}}}).error().detail.find("claimed by two"),
            std::string::npos);
}

}  // namespace
}  // namespace cohort::tasks

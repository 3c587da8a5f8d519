// Code in answers, cases in rows, outputs that agree.
#include "runtime/plugin/code/code_task.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cohort::plugin {
namespace {

using Json = nlohmann::json;

TEST(ExtractCode, TakesTheBlockThatDefines) {
  struct Row {
    const char* response;
    CodeLanguage wanted;
    const char* code;
    CodeLanguage language;
  };
  constexpr auto k_any = CodeLanguage::automatic;
  const Row rows[] = {
      {"print(1)", k_any, "print(1)", k_any},
      {"a\n```python\nprint(1)\n```\nb", k_any, "print(1)\n", CodeLanguage::python},
      {"```\nx\n```\n```py\ndef f(): pass\n```", k_any, "def f(): pass\n", CodeLanguage::python},
      {"```\nx\n```\n```\ny\n```", k_any, "x\n", k_any},
      {"<think>```\ndef g(): 1\n```</think>```\ndef f(): 2\n```", k_any, "def f(): 2\n", k_any},
      {"a</think>b</think>c", k_any, "c", k_any},
      {"```C++\nint main(){}\n```", k_any, "int main(){}\n", CodeLanguage::cpp},
      {"```python\ndef f(): 1\n```\n```cpp\nint x;\n```", CodeLanguage::cpp, "int x;\n",
       CodeLanguage::cpp},
      {"```python\nprint(1", k_any, "print(1", CodeLanguage::python},
      {"  ```python\n  def f(): 1\n  ```", k_any, "  def f(): 1\n", CodeLanguage::python},
      {"", k_any, "", k_any},
      {"```", k_any, "", k_any},
  };
  for (const Row& row : rows) {
    ExtractedCode got = extract_code(row.response, row.wanted);
    EXPECT_EQ(got.code, row.code) << row.response;
    EXPECT_EQ(got.language, row.language) << row.response;
  }
}

CodeTask read(const Json& columns, const std::string& ground_truth = "") {
  tasks::RewardRow row;
  row.id = "rows.jsonl:7";
  row.response = "```python\ndef f(): pass\n```";
  row.columns = columns.dump();
  row.ground_truth = ground_truth;
  Expected<CodeTask> task = code_task(row, CodeLanguage::automatic);
  EXPECT_TRUE(task) << task.error().to_string();
  return task ? *task : CodeTask();
}

std::string error_of(const Json& columns) {
  tasks::RewardRow row;
  row.id = "rows.jsonl:7";
  row.columns = columns.dump();
  Expected<CodeTask> task = code_task(row, CodeLanguage::automatic);
  EXPECT_FALSE(task);
  return task ? "" : task.error().detail;
}

TEST(CodeTask, ReadsRollsColumns) {
  Json cases = {{{"stdin", "1\n"}, {"expected_stdout", "2\n"}}};
  for (const Json& given : {cases, Json(cases.dump())}) {
    CodeTask task = read({{"case_type", "input"}, {"test_cases", given}});
    EXPECT_EQ(task.kind, CaseKind::input);
    EXPECT_EQ(task.cases, (std::vector<CodeCase>{{"1\n", "2\n"}}));
  }
  for (const char* type : {"pytest", "assert"}) {
    CodeTask task = read({{"case_type", type}, {"test_cases", {{{"assert_code", "assert f()"}}}}});
    EXPECT_EQ(task.kind, CaseKind::test);
    EXPECT_EQ(task.cases, (std::vector<CodeCase>{{"", "assert f()"}}));
  }
  CodeTask check = read({{"case_type", "check_based"},
                         {"test_cases",
                          {{{"assert_code", "def check(c): pass"},
                            {"entry_point", "f"},
                            {"import_prefix", "import math"}}}}});
  EXPECT_EQ(check.kind, CaseKind::check);
  EXPECT_EQ(check.entry, "f");
  EXPECT_EQ(check.prefix, "import math");
  EXPECT_EQ(read({{"case_type", "text"}, {"test_cases", {"assert '{response}'"}}}).kind,
            CaseKind::text);
  EXPECT_EQ(read({{"case_type", "pytest"}, {"test_case_function", "def test_a(): pass"}}).cases,
            (std::vector<CodeCase>{{"", "def test_a(): pass"}}));
}

TEST(CodeTask, ReadsCallsAndVerlsTables) {
  CodeTask call =
      read({{"fn_name", "f"}, {"test_cases", {{{"stdin", "1\n2"}, {"expected_stdout", "3"}}}}});
  EXPECT_EQ(call.kind, CaseKind::call);
  EXPECT_EQ(call.entry, "f");
  EXPECT_EQ(call.cases, (std::vector<CodeCase>{{"\"1\\n2\"", "\"3\""}}));
  Json table = {{"inputs", {{1, 2}}}, {"outputs", {3}}, {"fn_name", "add"}};
  CodeTask apps = read(Json::object(), table.dump());
  EXPECT_EQ(apps.kind, CaseKind::call);
  EXPECT_EQ(apps.cases, (std::vector<CodeCase>{{"[1,2]", "3"}}));
  Json programs = {{"inputs", {"1\n", "2\n"}}, {"outputs", {"1", "2"}}};
  EXPECT_EQ(read(Json::object(), programs.dump()).cases,
            (std::vector<CodeCase>{{"1\n", "1"}, {"2\n", "2"}}));
}

TEST(CodeTask, SaysWhatIsWrongWithARow) {
  EXPECT_NE(error_of(Json::object()).find("rows.jsonl:7: code_sandbox: no test cases"),
            std::string::npos);
  EXPECT_NE(error_of({{"case_type", "magic"}}).find("case_type 'magic'"), std::string::npos);
  EXPECT_NE(error_of({{"test_cases", {{{"stdin", ""}}}}}).find("no expected_stdout"),
            std::string::npos);
  EXPECT_NE(error_of({{"case_type", "assert"}, {"test_cases", {3}}}).find("no assert_code"),
            std::string::npos);
  EXPECT_NE(error_of({{"test_cases", {{"inputs", {1}}, {"outputs", Json::array()}}}})
                .find("not lists of one length"),
            std::string::npos);
}

TEST(OutputsAgree, ByLinesAndWords) {
  struct Row {
    const char *expected, *got;
    bool agree;
  };
  const Row rows[] = {{"1\n", "1", true},
                      {"1", "1  \n\n\n", true},
                      {"1 2", "1  2", true},
                      {"1\n2", "1 2", false},
                      {"a", "A", false},
                      {"", "", true},
                      {"", "x", false},
                      {"x", "", false},
                      {"0.5", "0.50", true},
                      {"0.333333", "0.3333333333", true},
                      {"1", "1.0", true},
                      {"1", "2", false},
                      {"1e6", "1000000", true},
                      {"100", "1e2", true},
                      {"0.5", "0.6", false},
                      {"1000000", "1000001", false},
                      {"inf", "inf", true},
                      {"nan", "nan", true},
                      {"0.5", "inf", false},
                      {"1 2 3", "1 2", false},
                      {"10.0", "10.00001", true},
                      {"10.0", "10.0001", false},
                      {"Case 1:\n YES", "Case 1:\nYES", true}};
  for (const Row& row : rows)
    EXPECT_EQ(outputs_agree(row.expected, row.got), row.agree) << row.expected << "|" << row.got;
  EXPECT_EQ(difference("1\n4\n", "1\n5\n"), "line 2: expected '4', got '5'");
  EXPECT_EQ(difference("1\n4\n", "1\n"), "line 2: expected '4', got the end of the output");
}

}  // namespace
}  // namespace cohort::plugin

#pragma once
/// The task of code_sandbox, read from a row: the code in the answer, and the test cases in the
/// row's columns, in ROLL's forms (case_type, test_cases, test_case_function) and verl's (inputs,
/// outputs, fn_name in ground_truth or a column). Pure; thread-safe.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

enum class CodeLanguage : uint8_t { automatic, python, cpp };

enum class CaseKind : uint8_t {
  input,   // stdin -> stdout of the whole program
  call,    // a function of the answer with arguments -> its value (fn_name)
  test,    // asserts and test functions that use the answer's names (case_type pytest, assert)
  check,   // check(candidate) with entry_point and import_prefix (case_type check_based)
  text,    // asserts over the text of the answer, "{response}" (case_type text)
  session  // a tool's call: run once, the value of a last expression printed; nothing is expected
};

struct CodeCase {
  std::string input;     // stdin; of a call JSON: a list of arguments, or text with one a line
  std::string expected;  // stdout; of a call JSON; else the test's code
  bool operator==(const CodeCase&) const = default;
};

struct CodeTask {
  CodeLanguage language = CodeLanguage::python;
  CaseKind kind = CaseKind::input;
  std::string code;    // of the answer; of kind text the whole answer
  std::string entry;   // fn_name or entry_point; may be empty
  std::string prefix;  // import_prefix
  std::vector<CodeCase> cases;
};

struct ExtractedCode {
  std::string code;
  CodeLanguage language = CodeLanguage::automatic;  // by the fence; automatic: it names none
};

/// Returns the code of an answer: behind the last </think>, the first fenced block that holds "def
/// " (of C++: the first that its fence calls C++), else the first block, else all of it. A block
/// that is not closed (a cut answer) ends with the text.
ExtractedCode extract_code(std::string_view response, CodeLanguage wanted);

/// Returns Errc::config naming the column that is missing or wrong; the row cannot be scored.
Expected<CodeTask> code_task(const tasks::RewardRow& row, CodeLanguage language);

/// Returns whether `got` is `expected`: line by line after white space at the ends of lines and
/// empty lines at the end are dropped; within a line word by word. Two words are equal if their
/// characters are, or if both are decimal numbers, one of them with a point or an exponent, that
/// differ by at most 1e-6, or by 1e-6 of the expected one if that is larger.
bool outputs_agree(std::string_view expected, std::string_view got);

/// Returns "line 2: expected '4', got '5'" for outputs that do not agree, cut to a length for
/// people.
std::string difference(std::string_view expected, std::string_view got);

}  // namespace cohort::plugin

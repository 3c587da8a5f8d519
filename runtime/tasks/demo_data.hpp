#pragma once
/// Generated rows for the demonstrations of pipeline rlvr: tasks that a 100,000-parameter policy
/// learns from nothing in a minute, named like files:
///   builtin:arithmetic     x+y= for x, y in 0..99, the carries written out, least digit first:
///                          12+7= -> 2+7+0=9,1+0+0=1,;19
///   builtin:word_problems  five templates over names, objects and numbers 2..9, answered in
///                          GSM8K's style: <<6+7=13>><<13-4=9>>####9
///   builtin:tool_arithmetic  x*y= for x, y in 10..99; every other row's worked answers call a tool
///                          named python before they give the product (docs/tools.md)
/// Each with the suffix /held_out for the tenth of the prompts that training never shows (a
/// checksum of the text decides). Pure: the same rows in the same order everywhere.
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/dataset.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::tasks {

inline constexpr std::string_view k_builtin_prefix = "builtin:";

/// Returns the rows of `name` ("builtin:…"), or Errc::not_found naming those there are.
Expected<std::vector<Sample>> builtin_rows(std::string_view name);

/// Returns the answer with one of its digits, if it has any, changed; the text decides which. Pairs
/// of answers reject it.
std::string with_wrong_digit(std::string answer);

/// Vocabularies of the two tasks.
WordVocabulary arithmetic_vocabulary();
WordVocabulary word_problem_vocabulary();
/// Every byte is a token: any text encodes, at one token per byte.
WordVocabulary byte_vocabulary();

}  // namespace cohort::tasks

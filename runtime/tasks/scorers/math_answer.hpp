#pragma once
/// Are two answers the same? docs/rewards.md states the rules (order, brackets, units, decimals).
/// Pure, symmetric; any thread. MATH-3: whatever the texts, it ends within tens of milliseconds:
/// texts beyond k_max_bytes are compared as text, nodes and depth are bounded (MATH-1), work too
/// (MATH-2).
#include <string>
#include <string_view>

namespace cohort::tasks::math {

struct AnswerRules {
  bool strict_percent = false;  // 10% is 0.1 and never 10
};

/// Returns true if `a` and `b`, each LaTeX or plain, say the same.
bool same_answer(std::string_view a, std::string_view b, const AnswerRules& rules = {});

/// Returns the answer without typesetting: a key for counting equal ones.
std::string normal_form(std::string_view answer);

}  // namespace cohort::tasks::math

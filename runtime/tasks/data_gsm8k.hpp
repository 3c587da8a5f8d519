#pragma once
/// GSM8K's own rows {question, answer} as verl's preprocessing writes them. Pure; any thread.
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

inline constexpr std::string_view k_gsm8k_template =
    "{question} Let's think step by step and output the final answer after \"####\".";

struct Gsm8kRow {
  std::string_view line;   // one JSON object
  std::string_view split;  // "train" | "test": extra_info.split
  uint64_t index = 0;      // extra_info.index
};

/// Returns Errc::invalid_argument unless the template holds {question} exactly once.
Expected<void> check_gsm8k_template(std::string_view prompt_template);
/// Returns one line of verl's columns: data_source openai/gsm8k, prompt (one user message by the
/// template), ability, reward_model.ground_truth (the number behind "#### ", without commas),
/// extra_info {split, index, answer, question}. Returns Errc::config saying what is wrong with the
/// row. The template has passed its check.
Expected<std::string> gsm8k_line(const Gsm8kRow& row, std::string_view prompt_template);

}  // namespace cohort::tasks

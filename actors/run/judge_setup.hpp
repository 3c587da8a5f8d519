#pragma once
/// What a judge on cards of the run is asked, and how (docs/judges.md): read from its entry in
/// `rewards` and from its folder before a card is touched. Immutable afterwards; any thread.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "runtime/compute/generate/sampling.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/plugin/http/judge_text.hpp"
#include "runtime/tasks/chat_format.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::actors {

struct JudgeSetup {
  compute::ModelConfig model;
  std::string folder;  // of its weights
  plugin::JudgeTemplate prompt;
  std::string system;                                 // text of a system message; empty: none
  double scale = 0;                                   // of "Score: x" (judge_text.hpp)
  std::shared_ptr<const tasks::Tokenizer> tokenizer;  // its own
  std::shared_ptr<const tasks::ChatFormat> chat;      // likewise
  compute::SamplingOptions sampling;
  int max_new_tokens = 512;
  int64_t context = 0;    // [tokens] of question and reply
  uint32_t at_once = 16;  // replies under way on a card
};

/// Returns the judges of the run by role, "rewards.x"; they compute in `dtype`. Returns
/// Errc::config naming the key: no folder, a classifier, no chat template, a weight that is
/// missing, an option that is unknown or wrong.
Expected<std::map<std::string, JudgeSetup>> open_judges(const config::RunConfig& config,
                                                        tensor::Dtype dtype);

}  // namespace cohort::actors

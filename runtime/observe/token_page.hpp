#pragma once
/// One trajectory as a file that needs nothing else: each token in its place, coloured by a column
/// that the reader picks. Pure. OBS-4 and OBS-5 (report.hpp) hold: texts are escaped, the page
/// names no other server. It runs no script: radio buttons and style switch the colours.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/observe/browse_data.hpp"

namespace cohort::observe {

/// A stretch of tokens: what was shown, or what the policy answered.
struct TokenPart {
  std::string title;  // "turn 1, observation"
  bool is_answer = false;
  uint32_t begin = 0, end = 0;  // -> TokenPage::tokens
  std::string note = {};        // of an answer: its reward, and whether it was an action
  bool is_faulty = false;       // the note is a complaint
  std::string text = {};        // shown where the tokens have no text
};

struct TokenPage {
  std::string title;
  std::string up;  // address of the page that it was opened from; empty: none
  std::vector<Fact> facts;
  std::vector<Fact> scores;        // parts of the score, and metrics
  std::vector<std::string> notes;  // what the page lacks, a sentence each
  std::vector<TokenPart> parts;    // in order; tokens outside of them are not shown
  std::vector<TokenLine> tokens;   // of the whole trajectory
  std::vector<double> advantages;  // one a token, NaN where none was sampled; empty: not known
};

std::string token_page(const TokenPage& shown);

}  // namespace cohort::observe

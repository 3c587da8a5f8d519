#pragma once
/// Texts that end an answer while it is sampled (generating_args.stop_strings). Tokens stay as they
/// were sampled: the one that completes a stop string is the answer's last, with what it holds
/// behind the string.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tasks/tokenizer.hpp"

namespace cohort::tasks {

/// Returns whether one of `stops` is in the text; empty ones are in none.
bool has_stop_string(std::string_view text, const std::vector<std::string>& stops);

/// Returns a function for one answer: it takes the answer's tokens in order, and returns whether
/// the token completes a stop string. Bound: the last tokens are kept, one for each byte of the
/// longest string and eight more, and decoded each time, so that a token costs the same however
/// long the answer is. (Tokens without text among these, e.g. ids that no token has, may hide a
/// string.) Empty function: there is no stop string. One thread at a time.
std::function<bool(int32_t token)> watch_for(std::shared_ptr<const Tokenizer> tokenizer,
                                             std::vector<std::string> stops);

}  // namespace cohort::tasks

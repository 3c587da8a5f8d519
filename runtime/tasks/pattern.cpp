#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/tasks/pattern.hpp"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>

namespace cohort::tasks {
namespace {

struct MatchState {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;

  explicit MatchState(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    if (context != nullptr) pcre2_set_match_limit(context, Pattern::k_match_limit);
  }
  ~MatchState() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;
};

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

Expected<Pattern> Pattern::compile(std::string_view expression) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  // Byte-wise matching: a model's text may be cut inside a character, which PCRE2_UTF refuses.
  pcre2_code* compiled =
      pcre2_compile(units(expression), expression.size(), PCRE2_DOTALL, &code, &offset, nullptr);
  if (compiled == nullptr) {
    std::array<PCRE2_UCHAR, 128> why{};
    pcre2_get_error_message(code, why.data(), why.size());
    return Error{Errc::invalid_argument,
                 fmt::format("pattern '{}': {} at offset {}", expression,
                             reinterpret_cast<const char*>(why.data()), offset)};
  }
  Pattern pattern;
  pattern.code_ = std::shared_ptr<const void>(compiled, [](const void* x) {
    pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(x)));
  });
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // without a JIT the interpreter is used
  uint32_t groups = 0;
  pcre2_pattern_info(compiled, PCRE2_INFO_CAPTURECOUNT, &groups);
  pattern.group_count_ = groups;
  return pattern;
}

std::optional<Pattern::Match> Pattern::search(std::string_view text) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  MatchState state(code);
  int count = pcre2_match(code, units(text), text.size(), 0, 0, state.data, state.context);
  if (count == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter keeps its states on the heap
    count = pcre2_match(code, units(text), text.size(), 0, PCRE2_NO_JIT, state.data, state.context);
  if (count <= 0) return std::nullopt;  // no match, or over the limit
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.data);
  Match match(group_count_ + 1);
  for (size_t i = 0; i < match.size(); ++i)
    if (bounds[2 * i] != PCRE2_UNSET && bounds[2 * i] <= bounds[2 * i + 1])
      match[i] = text.substr(bounds[2 * i], bounds[2 * i + 1] - bounds[2 * i]);
  return match;
}

}  // namespace cohort::tasks

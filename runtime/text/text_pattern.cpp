#include "runtime/text/text_pattern.hpp"

#include <algorithm>
#include <utility>

namespace cohort::text {

Pattern Pattern::of_string(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Expected<Pattern> Pattern::of_regex(std::string_view regex) {
  Pattern pattern;
  pattern.scanner_ = find_scanner(regex);
  if (pattern.scanner_ != nullptr) return pattern;
  COHORT_ASSIGN(Regex compiled, Regex::compile(regex));
  pattern.regex_ = std::make_shared<const Regex>(std::move(compiled));
  return pattern;
}

Expected<bool> Pattern::find(std::string_view text, size_t from, Span& match,
                             StepBudget& budget) const {
  if (scanner_ != nullptr) return scanner_(text, from, match);
  if (regex_ == nullptr) {
    const size_t at = literal_.empty() ? std::string_view::npos : text.find(literal_, from);
    match = {at, at + literal_.size()};
    return at != std::string_view::npos;
  }
  const Regex::Result result = regex_->find(text, from, match, budget);
  if (result == Regex::Result::out_of_steps)
    return Error{Errc::capacity,
                 "a regular expression of tokenizer.json goes back and forth too often on this "
                 "text; shorten the text or simplify the pattern"};
  return result == Regex::Result::found;
}

Expected<void> cut(std::string_view text, const Pattern& pattern, StepBudget& budget,
                   std::vector<CutPart>& parts) {
  parts.clear();
  size_t done = 0, from = 0, last_end = SIZE_MAX;
  Span match;
  while (from <= text.size()) {
    COHORT_ASSIGN(const bool is_found, pattern.find(text, from, match, budget));
    if (!is_found) break;
    if (match.begin == match.end && match.end == last_end) {
      // An empty match right behind a match is none: look one character further.
      from = match.end + (match.end < text.size() ? utf8_size(text[match.end]) : 1);
      continue;
    }
    if (done < match.begin) parts.push_back({{done, match.begin}, false});
    parts.push_back({match, true});
    done = from = last_end = match.end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, false});
  return {};
}

namespace {

/// Lets each match join the part before it, unless that is a match too.
template <class Join>
void merge_matches(std::vector<CutPart>& parts, Join join) {
  bool was_match = false;
  size_t size = 0;
  for (const CutPart part : parts) {
    if (part.is_match && !was_match && size > 0)
      join(parts[size - 1].span, part.span);
    else
      parts[size++] = part;
    was_match = part.is_match;
  }
  parts.resize(size);
}

void merge_equals(std::vector<CutPart>& parts) {
  bool was_match = false;
  size_t size = 0;
  for (const CutPart part : parts) {
    if (part.is_match == was_match && size > 0)
      parts[size - 1].span.end = part.span.end;
    else
      parts[size++] = part;
    was_match = part.is_match;
  }
  parts.resize(size);
}

}  // namespace

void apply_behavior(SplitBehavior behavior, std::vector<CutPart>& parts) {
  switch (behavior) {
    case SplitBehavior::isolated:
      break;
    case SplitBehavior::removed:
      std::erase_if(parts, [](const CutPart& part) { return part.is_match; });
      break;
    case SplitBehavior::contiguous:
      merge_equals(parts);
      break;
    case SplitBehavior::merged_with_previous:
      merge_matches(parts, [](Span& a, const Span& b) { a.end = b.end; });
      break;
    case SplitBehavior::merged_with_next:
      std::ranges::reverse(parts);
      merge_matches(parts, [](Span& a, const Span& b) { a.begin = b.begin; });
      std::ranges::reverse(parts);
      break;
  }
  std::erase_if(parts, [](const CutPart& part) { return part.span.begin == part.span.end; });
}

}  // namespace cohort::text

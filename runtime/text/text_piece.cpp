#include "runtime/text/text_piece.hpp"

#include <algorithm>
#include <utility>

namespace cohort::text {
namespace {

Error too_large() {
  return {Errc::capacity,
          "the normalizers and pre-tokenizers of tokenizer.json make a text too large"};
}

}  // namespace

Span TextPiece::origin_of(Span part) const {
  if (origins == nullptr) return {origin + part.begin, origin + part.end};
  if (part.begin == part.end) return {origin, origin};
  Span all = origins[part.begin];
  for (size_t i = part.begin; i < part.end; ++i) {
    all.begin = std::min(all.begin, origins[i].begin);
    all.end = std::max(all.end, origins[i].end);
  }
  return all;
}

TextPiece TextPiece::sub(Span part) const {
  TextPiece piece = *this;
  piece.text = text.substr(part.begin, part.end - part.begin);
  if (origins != nullptr) {
    piece.origins = origins + part.begin;
    if (part.begin < text.size()) piece.origin = origins[part.begin].begin;
  } else {
    piece.origin = origin + part.begin;
  }
  piece.is_first = is_first && part.begin == 0;
  return piece;
}

Expected<void> TextBuffers::put(TextPiece& piece, std::string text,
                                const std::vector<Span>& origins, StepBudget& budget) {
  const uint64_t cost = text.size() * k_steps_per_new_byte;
  if (cost > budget.steps) return too_large();
  budget.steps -= cost;
  texts_.push_back(std::move(text));
  if (wants_origins_) {
    std::vector<Span>& all = origins_.emplace_back();
    all.reserve(origins.size());
    for (const Span& span : origins) all.push_back(piece.origin_of(span));
    piece.origins = all.data();
  }
  piece.text = texts_.back();
  return {};
}

Expected<void> TextBuffers::prepend(TextPiece& piece, std::string_view prefix, StepBudget& budget) {
  std::vector<Span> origins;
  if (wants_origins_) {
    origins.assign(prefix.size(), Span{0, 0});
    for (size_t i = 0; i < piece.text.size(); ++i) origins.push_back({i, i + 1});
  }
  return put(piece, std::string(prefix) + std::string(piece.text), origins, budget);
}

Expected<void> TextBuffers::replace(TextPiece& piece, const Pattern& pattern,
                                    std::string_view content, StepBudget& budget) {
  std::vector<CutPart> parts;
  COHORT_TRY(cut(piece.text, pattern, budget, parts));
  if (std::ranges::none_of(parts, &CutPart::is_match)) return {};
  std::string text;
  std::vector<Span> origins;
  for (const CutPart& part : parts) {
    if (part.is_match)
      text += content;
    else
      text += piece.text.substr(part.span.begin, part.span.end - part.span.begin);
    if (text.size() > budget.steps) return too_large();
    if (!wants_origins_) continue;
    if (part.is_match) {
      origins.insert(origins.end(), content.size(), part.span);
      continue;
    }
    for (size_t i = part.span.begin; i < part.span.end; ++i) origins.push_back({i, i + 1});
  }
  return put(piece, std::move(text), origins, budget);
}

}  // namespace cohort::text

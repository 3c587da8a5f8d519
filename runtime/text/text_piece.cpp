#include "runtime/text/text_piece.hpp"

#include <algorithm>
#include <utility>

namespace cohort::text {

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

void TextBuffers::put(TextPiece& piece, std::string text, const std::vector<Span>& origins) {
  texts_.push_back(std::move(text));
  if (wants_origins_) {
    std::vector<Span>& all = origins_.emplace_back();
    all.reserve(origins.size());
    for (const Span& span : origins) all.push_back(piece.origin_of(span));
    // A span that nothing stands for begins where its piece does.
    piece.origins = all.data();
  }
  piece.text = texts_.back();
}

void TextBuffers::prepend(TextPiece& piece, std::string_view prefix) {
  std::vector<Span> origins;
  if (wants_origins_) {
    origins.assign(prefix.size(), Span{0, 0});
    for (size_t i = 0; i < piece.text.size(); ++i) origins.push_back({i, i + 1});
  }
  put(piece, std::string(prefix) + std::string(piece.text), origins);
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
    if (text.size() > k_replaced_bytes_max)
      return Error{Errc::capacity, "a Replace of tokenizer.json makes the text larger than 1 GiB"};
    if (!wants_origins_) continue;
    if (part.is_match) {
      origins.insert(origins.end(), content.size(), part.span);
      continue;
    }
    for (size_t i = part.span.begin; i < part.span.end; ++i) origins.push_back({i, i + 1});
  }
  put(piece, std::move(text), origins);
  return {};
}

}  // namespace cohort::text

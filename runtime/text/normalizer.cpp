#include "runtime/text/normalizer.hpp"

#include <utility>

#include "runtime/text/json_fields.hpp"
#include "runtime/text/nfc.hpp"

namespace cohort::text {
namespace {

constexpr int k_normalizer_depth_max = 8;

}  // namespace

Expected<Normalizer> Normalizer::read(const nlohmann::json& json) {
  Normalizer normalizer;
  COHORT_TRY(normalizer.add(json, "normalizer", 0));
  return normalizer;
}

Expected<void> Normalizer::add(const nlohmann::json& json, const std::string& where, int depth) {
  if (json.is_null()) return {};
  COHORT_ASSIGN(const std::string type, type_of(json, where));
  JsonFields fields(json, where);
  Step step;
  if (type == "Sequence") {
    if (depth >= k_normalizer_depth_max) return Error{Errc::config, where + " is nested too deep"};
    size_t i = 0;
    for (const nlohmann::json& inner : fields.array("normalizers"))
      COHORT_TRY(
          add(inner, fields.path("normalizers") + "[" + std::to_string(i++) + "]", depth + 1));
    return fields.finish();
  }
  if (type == "NFC") {
    step.kind = Step::Kind::nfc;
  } else if (type == "Prepend") {
    step.kind = Step::Kind::prepend;
    step.content = fields.text("prepend");
  } else if (type == "Replace") {
    step.kind = Step::Kind::replace;
    step.pattern = fields.pattern("pattern");
    step.content = fields.text("content");
  } else {
    return Error{Errc::unsupported, where + ": the normalizer \"" + type.substr(0, 64) +
                                        "\" is not built; NFC, Prepend, Replace and Sequence are"};
  }
  COHORT_TRY(fields.finish());
  steps_.push_back(std::move(step));
  return {};
}

Expected<void> Normalizer::apply(TextPiece& piece, TextBuffers& buffers, StepBudget& budget) const {
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::nfc: {
        if (is_surely_nfc(piece.text)) break;
        std::vector<Span> origins;
        std::string text = to_nfc(piece.text, buffers.wants_origins() ? &origins : nullptr);
        COHORT_TRY(buffers.put(piece, std::move(text), origins, budget));
        break;
      }
      case Step::Kind::prepend:
        if (!piece.text.empty()) COHORT_TRY(buffers.prepend(piece, step.content, budget));
        break;
      case Step::Kind::replace:
        COHORT_TRY(buffers.replace(piece, step.pattern, step.content, budget));
        break;
    }
  }
  return {};
}

}  // namespace cohort::text

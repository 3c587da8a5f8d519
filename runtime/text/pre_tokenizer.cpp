#include "runtime/text/pre_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/text/json_fields.hpp"

namespace cohort::text {
namespace {

constexpr int k_pre_tokenizer_depth_max = 8;

struct NamedBehavior {
  std::string_view name;
  SplitBehavior behavior;
};
constexpr std::array<NamedBehavior, 5> k_behaviors = {{
    {"Removed", SplitBehavior::removed},
    {"Isolated", SplitBehavior::isolated},
    {"MergedWithPrevious", SplitBehavior::merged_with_previous},
    {"MergedWithNext", SplitBehavior::merged_with_next},
    {"Contiguous", SplitBehavior::contiguous},
}};

Pattern gpt2_pattern() {
  const auto known = std::ranges::find(known_patterns(), "gpt2", &KnownPattern::name);
  return Pattern::of_regex(known->regex).value();
}

}  // namespace

Expected<PreTokenizer> PreTokenizer::read(const nlohmann::json& json) {
  PreTokenizer pre_tokenizer;
  COHORT_TRY(pre_tokenizer.add(json, "pre_tokenizer", 0));
  return pre_tokenizer;
}

Expected<void> PreTokenizer::add(const nlohmann::json& json, const std::string& where, int depth) {
  if (json.is_null()) return {};
  COHORT_ASSIGN(const std::string type, type_of(json, where));
  JsonFields fields(json, where);
  if (is_byte_level_)
    return Error{Errc::unsupported, where + ": nothing may stand behind ByteLevel"};
  if (type == "Sequence") {
    if (depth >= k_pre_tokenizer_depth_max)
      return Error{Errc::config, where + " is nested too deep"};
    size_t i = 0;
    for (const nlohmann::json& inner : fields.array("pretokenizers"))
      COHORT_TRY(
          add(inner, fields.path("pretokenizers") + "[" + std::to_string(i++) + "]", depth + 1));
    return fields.finish();
  }
  if (type == "Split") {
    COHORT_ASSIGN(Step step, read_split(json, where));
    steps_.push_back(std::move(step));
  } else if (type == "Digits") {
    Step step;
    step.pattern = Pattern::of_regex("\\p{N}").value();
    step.behavior = fields.flag("individual_digits", false) ? SplitBehavior::isolated
                                                            : SplitBehavior::contiguous;
    steps_.push_back(std::move(step));
  } else if (type == "ByteLevel") {
    is_byte_level_ = true;
    if (fields.flag("add_prefix_space", true)) {
      Step step;
      step.kind = Step::Kind::prepend_space;
      steps_.push_back(std::move(step));
    }
    if (fields.flag("use_regex", true)) {
      Step step;
      step.pattern = gpt2_pattern();
      steps_.push_back(std::move(step));
    }
  } else if (type == "Metaspace") {
    COHORT_ASSIGN(Step step, read_metaspace(json, where));
    steps_.push_back(std::move(step));
  } else {
    return Error{Errc::unsupported,
                 where + ": the pre-tokenizer \"" + type.substr(0, 64) +
                     "\" is not built; Split, Digits, ByteLevel, Metaspace and Sequence are"};
  }
  return fields.finish();
}

Expected<PreTokenizer::Step> PreTokenizer::read_split(const nlohmann::json& json,
                                                      const std::string& where) const {
  JsonFields fields(json, where);
  Step step;
  step.pattern = fields.pattern("pattern");
  step.is_inverted = fields.flag("invert", false);
  const std::string behavior = fields.text("behavior");
  const auto* named = std::ranges::find(k_behaviors, behavior, &NamedBehavior::name);
  if (named == k_behaviors.end())
    fields.fail("behavior",
                "must be Removed, Isolated, MergedWithPrevious, MergedWithNext or "
                "Contiguous");
  else
    step.behavior = named->behavior;
  COHORT_TRY(fields.finish());
  return step;
}

Expected<PreTokenizer::Step> PreTokenizer::read_metaspace(const nlohmann::json& json,
                                                          const std::string& where) const {
  JsonFields fields(json, where);
  Step step;
  step.kind = Step::Kind::metaspace;
  step.replacement = fields.character("replacement");
  step.splits = fields.flag("split", true);
  const std::string scheme = fields.text("prepend_scheme", "always");
  if (scheme == "first")
    step.prepend = Step::Prepend::first;
  else if (scheme == "always")
    step.prepend = Step::Prepend::always;
  else if (scheme != "never")
    fields.fail("prepend_scheme", "must be first, always or never");
  // The older spelling; files that have both agree but for this case.
  if (!fields.flag("add_prefix_space", true)) step.prepend = Step::Prepend::never;
  COHORT_TRY(fields.finish());
  step.pattern = Pattern::of_string(step.replacement);
  step.behavior = SplitBehavior::merged_with_next;
  return step;
}

Expected<void> PreTokenizer::change(const Step& step, TextPiece& piece, TextBuffers& buffers,
                                    StepBudget& budget) const {
  if (step.kind == Step::Kind::prepend_space) {
    if (piece.text.starts_with(' ')) return {};
    return buffers.prepend(piece, " ", budget);
  }
  static const Pattern space = Pattern::of_string(" ");
  COHORT_TRY(buffers.replace(piece, space, step.replacement, budget));
  const bool may_prepend = step.prepend == Step::Prepend::always ||
                           (step.prepend == Step::Prepend::first && piece.is_first);
  if (!may_prepend || piece.text.starts_with(step.replacement)) return {};
  return buffers.prepend(piece, step.replacement, budget);
}

Expected<void> PreTokenizer::apply(std::vector<TextPiece>& pieces, std::vector<TextPiece>& spare,
                                   TextBuffers& buffers, StepBudget& budget) const {
  std::vector<CutPart> parts;
  for (const Step& step : steps_) {
    spare.clear();
    for (TextPiece& piece : pieces) {
      if (step.kind != Step::Kind::split) COHORT_TRY(change(step, piece, buffers, budget));
      if (step.kind == Step::Kind::prepend_space ||
          (step.kind == Step::Kind::metaspace && !step.splits)) {
        spare.push_back(piece);
        continue;
      }
      COHORT_TRY(cut(piece.text, step.pattern, budget, parts));
      if (step.is_inverted)
        for (CutPart& part : parts) part.is_match = !part.is_match;
      apply_behavior(step.behavior, parts);
      for (const CutPart& part : parts) spare.push_back(piece.sub(part.span));
    }
    pieces.swap(spare);
  }
  return {};
}

}  // namespace cohort::text

#pragma once
/// The losses of pairs of answers, by the names that configs and cases use. Equations and sources:
/// algorithms/preference.hpp. Value types.
#include <cstdint>
#include <string_view>

namespace cohort::catalog {

enum class PreferenceKind : uint8_t { sigmoid, robust, hinge, ipo, simpo };
constexpr std::string_view names_of(PreferenceKind) { return "sigmoid robust hinge ipo simpo"; }

/// What stands for an answer's log-probability: those of its tokens added up, or their mean. The
/// same name means either elsewhere: the ipo of ROLL and OpenRLHF takes sums, that of TRL means.
enum class AnswerScale : uint8_t { sum, mean };
constexpr std::string_view names_of(AnswerScale) { return "sum mean"; }

}  // namespace cohort::catalog

#pragma once
/// What a regular expression cannot match without: so that a search looks for bytes first. Pure.
#include <string>
#include <string_view>

namespace cohort::traj {

/// Returns a text that stands in every match of an expression that compiles (tasks::Pattern): the
/// longest run of plain characters outside of its groups and classes. Empty where there is none, or
/// where the expression has what this look at it does not understand.
std::string required_literal(std::string_view expression);

}  // namespace cohort::traj

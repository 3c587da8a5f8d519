#pragma once
/// Gives each name of a tree its place, by Jinja's rules of scope, which hold before anything is
/// rendered: loops, macros, with, set and filter blocks have a scope; if has none; a name that a
/// scope only reads is the nearest outer one, or a variable of the rendering. Refuses what Jinja's
/// compiler refuses: unknown filters outside of conditions, break outside of loops. Pure.
#include "runtime/text/template/ast.hpp"

namespace cohort::text::jinja {

void resolve_names(Tree& tree);

}  // namespace cohort::text::jinja

#pragma once
/// Tokens of a template to its tree, with Jinja's grammar and its tags for loops and generation.
/// include, import, extends and block are refused: a template is one file. Pure. Fails with a
/// TemplateSyntaxError and its line.
#include <string_view>

#include "runtime/text/template/ast.hpp"

namespace cohort::text::jinja {

/// REQUIRES: valid UTF-8.
Tree parse_template(std::string_view source);

}  // namespace cohort::text::jinja

#pragma once
/// Visits the names of a tree in Jinja's order of fields, through all scopes. One thread.
#include "runtime/text/template/ast.hpp"

namespace cohort::text::jinja {

/// `visit(name, is_load)`: each variable that is read, stored or declared.
template <class Visit>
void walk_names(const Expr* x, const Visit& visit) {
  if (x == nullptr) return;
  if (x->kind == ExprKind::name) visit(*x, !x->is_target);
  for (const auto& item : x->items) walk_names(item.get(), visit);
  for (const auto& item : x->arguments.positional) walk_names(item.get(), visit);
  for (const auto& [key, item] : x->arguments.named) walk_names(item.get(), visit);
  walk_names(x->arguments.star.get(), visit);
  walk_names(x->arguments.star_star.get(), visit);
}

template <class Visit>
void walk_names(const Block& block, const Visit& visit) {
  for (const auto& x : block) {
    const bool is_filter_block = x->kind == StmtKind::filter_block;
    walk_names(x->kind == StmtKind::macro ? nullptr : x->target.get(), visit);
    for (const auto& target : x->targets) walk_names(target.get(), visit);
    for (const auto& value : x->values) walk_names(value.get(), visit);
    if (!is_filter_block) walk_names(x->value.get(), visit);
    if (x->macro) {
      for (const auto& parameter : x->macro->parameters) walk_names(parameter.get(), visit);
      for (const auto& value : x->macro->defaults) walk_names(value.get(), visit);
      walk_names(x->macro->body, visit);
    }
    for (const auto& branch : x->branches) {
      walk_names(branch.test.get(), visit);
      walk_names(branch.body, visit);
    }
    walk_names(x->body, visit);
    walk_names(x->otherwise, visit);
    walk_names(x->test.get(), visit);
    if (is_filter_block) walk_names(x->value.get(), visit);
  }
}

}  // namespace cohort::text::jinja

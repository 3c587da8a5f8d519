#include "runtime/text/template/parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "runtime/text/template/expression_parser.hpp"
#include "runtime/text/template/token_stream.hpp"

namespace cohort::text::jinja {
namespace {

using EndTags = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(std::string_view source)
      : stream_(tokens_of(source)), expressions_(stream_) {}

  Tree run() {
    Tree tree;
    tree.body = block({});
    return tree;
  }

 private:
  /// Parses up to one of the end tags, which stays; without any, to the end of the template.
  Block block(EndTags end_tags) {
    if (++nesting_ > k_max_nesting)
      fail_syntax(fmt::format("statements nest more than {} deep", k_max_nesting), stream_.line());
    Block body;
    while (!stream_.current().is(Token::Type::end)) {
      const Token& token = stream_.next();
      if (token.is(Token::Type::data)) {
        auto x = make(StmtKind::data, token.line);
        x->data = token.content;
        body.push_back(std::move(x));
      } else if (token.is(Token::Type::variable_begin)) {
        auto x = make(StmtKind::print, token.line);
        x->values.push_back(expressions_.tuple({}));
        body.push_back(std::move(x));
        stream_.expect(Token::Type::variable_end, "end of print statement");
      } else {
        if (is_end_tag(end_tags)) break;
        body.push_back(statement(end_tags));
        stream_.expect(Token::Type::block_end, "end of statement block");
      }
    }
    --nesting_;
    return body;
  }
  bool is_end_tag(EndTags end_tags) const {
    return std::ranges::any_of(end_tags, [&](auto tag) { return stream_.current().is_name(tag); });
  }
  /// Parses the rest of an opening tag and the body up to one of the end tags, which stays.
  Block body_until(EndTags end_tags) {
    stream_.skip_op(":");
    stream_.expect(Token::Type::block_end, "end of statement block");
    auto body = block(end_tags);
    if (stream_.current().is(Token::Type::end))
      fail_syntax(fmt::format("Unexpected end of template: '{}' is missing", *end_tags.begin()),
                  stream_.line());
    return body;
  }
  Block body_through(std::string_view end_tag) {
    auto body = body_until({end_tag});
    stream_.next();
    return body;
  }
  static std::unique_ptr<Stmt> make(StmtKind kind, int line) {
    auto x = std::make_unique<Stmt>();
    x->kind = kind;
    x->line = line;
    return x;
  }

  std::unique_ptr<Stmt> statement(EndTags end_tags) {
    const Token& token = stream_.current();
    if (!token.is(Token::Type::name)) fail_syntax("tag name expected", token.line);
    const std::string& tag = token.content;
    stream_.next();
    if (tag == "for") return loop(token.line);
    if (tag == "if") return conditional(token.line);
    if (tag == "set") return set(token.line);
    if (tag == "print") return print(token.line);
    if (tag == "macro") return macro(token.line);
    if (tag == "call") return call_block(token.line);
    if (tag == "filter") return filter_block(token.line);
    if (tag == "with") return with(token.line);
    if (tag == "generation") {
      auto x = make(StmtKind::generation, token.line);
      x->macro = std::make_unique<MacroPlan>();
      x->macro->body = body_through("endgeneration");
      return x;
    }
    if (tag == "break") return make(StmtKind::loop_break, token.line);
    if (tag == "continue") return make(StmtKind::loop_continue, token.line);
    unknown(token, end_tags);
  }

  [[noreturn]] static void unknown(const Token& tag, EndTags end_tags) {
    for (const std::string_view refused : {"include", "import", "from", "extends", "block"})
      if (tag.content == refused)
        fail_syntax(fmt::format("'{}' is not supported: a chat template is one file", tag.content),
                    tag.line);
    if (tag.content == "autoescape")
      fail_syntax("'autoescape' is not supported: chat templates never escape", tag.line);
    std::string expected;
    for (const auto end : end_tags)
      expected += fmt::format("{}'{}'", expected.empty() ? "" : " or ", end);
    fail_syntax(fmt::format("Encountered unknown tag '{}'.{}", tag.content,
                            expected.empty() ? "" : " Looking for " + expected + "."),
                tag.line);
  }

  std::unique_ptr<Stmt> loop(int line) {
    auto x = make(StmtKind::loop, line);
    x->target = expressions_.target("in", false);
    stream_.expect_name("in");
    x->value = expressions_.tuple({.has_condition = false, .end_name = "recursive"});
    if (stream_.skip_name("if")) x->test = expressions_.expression();
    if (stream_.current().is_name("recursive"))
      fail_syntax("recursive loops are not supported: use a macro that calls itself", line);
    x->body = body_until({"endfor", "else"});
    if (stream_.next().content == "else") x->otherwise = body_through("endfor");
    return x;
  }

  std::unique_ptr<Stmt> conditional(int line) {
    auto x = make(StmtKind::conditional, line);
    while (true) {
      Branch branch;
      branch.test = expressions_.tuple({.has_condition = false});
      branch.body = body_until({"endif", "elif", "else"});
      x->branches.push_back(std::move(branch));
      const std::string& tag = stream_.next().content;
      if (tag == "elif") continue;
      if (tag == "else") x->otherwise = body_through("endif");
      return x;
    }
  }

  std::unique_ptr<Stmt> set(int line) {
    auto target = expressions_.target("", true);
    if (stream_.skip_op("=")) {
      auto x = make(StmtKind::set, line);
      x->target = std::move(target);
      x->value = expressions_.tuple({});
      return x;
    }
    auto x = make(StmtKind::set_block, line);
    x->target = std::move(target);
    x->value = expressions_.filter_chain(nullptr, false);
    x->body = body_through("endset");
    return x;
  }

  std::unique_ptr<Stmt> print(int line) {
    auto x = make(StmtKind::print, line);
    while (!stream_.current().is(Token::Type::block_end)) {
      if (!x->values.empty()) stream_.expect_op(",");
      x->values.push_back(expressions_.expression());
    }
    return x;
  }

  void signature(MacroPlan& macro) {
    stream_.expect_op("(");
    while (!stream_.current().is_op(")")) {
      if (!macro.parameters.empty()) stream_.expect_op(",");
      const int line = stream_.line();
      auto parameter = expressions_.name_target();
      for (const auto& other : macro.parameters)
        if (other->name == parameter->name)
          fail("SyntaxError", fmt::format("duplicate argument '{}'", parameter->name), line);
      macro.parameters.push_back(std::move(parameter));
      if (stream_.skip_op("="))
        macro.defaults.push_back(expressions_.expression());
      else if (!macro.defaults.empty())
        fail_syntax("non-default argument follows default argument", line);
    }
    stream_.expect_op(")");
  }

  std::unique_ptr<Stmt> macro(int line) {
    auto x = make(StmtKind::macro, line);
    x->target = expressions_.name_target();
    x->macro = std::make_unique<MacroPlan>();
    x->macro->name = x->target->name;
    signature(*x->macro);
    x->macro->body = body_through("endmacro");
    return x;
  }

  std::unique_ptr<Stmt> call_block(int line) {
    auto x = make(StmtKind::call_block, line);
    x->macro = std::make_unique<MacroPlan>();
    if (stream_.current().is_op("(")) signature(*x->macro);
    x->value = expressions_.expression();
    if (x->value->kind != ExprKind::call) fail_syntax("expected call", line);
    x->macro->body = body_through("endcall");
    return x;
  }

  std::unique_ptr<Stmt> filter_block(int line) {
    auto x = make(StmtKind::filter_block, line);
    x->value = expressions_.filter_chain(nullptr, true);
    x->body = body_through("endfilter");
    return x;
  }

  std::unique_ptr<Stmt> with(int line) {
    auto x = make(StmtKind::with, line);
    while (!stream_.current().is(Token::Type::block_end)) {
      if (!x->targets.empty()) stream_.expect_op(",");
      x->targets.push_back(expressions_.target("", false));
      stream_.expect_op("=");
      x->values.push_back(expressions_.expression());
    }
    x->body = body_through("endwith");
    return x;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int nesting_ = 0;
};

}  // namespace

Tree parse_template(std::string_view source) { return StatementParser(source).run(); }

}  // namespace cohort::text::jinja

#include "runtime/config/tree/override.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/config/tree/utf8_text.hpp"
#include "runtime/config/tree/yaml_reader.hpp"

namespace cohort::config {
namespace {

Error fault(const Mark& mark, size_t offset, std::string_view text) {
  return {Errc::config,
          fmt::format("{}: at character {}: {}", mark.file_line_column(), offset + 1, text)};
}

bool is_space(char c) { return c == ' ' || c == '\t'; }

bool equals_no_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
  });
}

/// One value. The grammar is Hydra's OverrideParser, by recursive descent.
class ValueParser {
 public:
  ValueParser(std::string_view text, const Mark& mark, size_t offset)
      : text_(text), mark_(mark), offset_(offset) {}

  Expected<Node> run() {
    skip_space();
    if (at_ == text_.size()) return marked(Node::make_scalar("", true));
    COHORT_ASSIGN(Node node, element(0, ""));
    skip_space();
    if (peek() == ',')
      return stop(
          "a comma outside of brackets starts a sweep over several runs; quote the text, or "
          "write a list as [a,b]");
    if (at_ < text_.size())
      return stop(fmt::format("expected the end, found '{}'; quote the text", text_[at_]));
    return node;
  }

 private:
  Error stop(std::string_view text) const { return fault(mark_, offset_ + at_, text); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (is_space(peek())) ++at_;
  }

  Node marked(Node node) const {
    node.mark = mark_;
    return node;
  }

  /// `close`: the brackets that may end a plain text here.
  Expected<Node> element(int depth, std::string_view close) {
    skip_space();
    if (depth > k_max_depth) return stop(fmt::format("nested deeper than {} levels", k_max_depth));
    if (++count_ > k_max_nodes) return stop(fmt::format("more than {} values", k_max_nodes));
    if (peek() == '[') return list(depth);
    if (peek() == '{') return map(depth);
    if (peek() == '\'' || peek() == '"') {
      COHORT_ASSIGN(std::string text, quoted());
      return marked(Node::make_scalar(std::move(text), true));
    }
    return plain(close);
  }

  Expected<Node> list(int depth) {
    Node node = marked({});
    node.kind = NodeKind::sequence;
    ++at_;
    for (skip_space(); peek() != ']'; skip_space()) {
      if (!node.items.empty()) {
        if (peek() != ',') return stop("expected ',' or ']'");
        ++at_;
      }
      COHORT_ASSIGN(Node item, element(depth + 1, "]"));
      node.items.push_back(std::move(item));
    }
    ++at_;
    return node;
  }

  Expected<Node> map(int depth) {
    Node node = marked({});
    node.kind = NodeKind::map;
    ++at_;
    for (skip_space(); peek() != '}'; skip_space()) {
      if (!node.entries.empty()) {
        if (peek() != ',') return stop("expected ',' or '}'");
        ++at_;
        skip_space();
      }
      size_t start = at_;
      COHORT_ASSIGN(std::string key, map_key());
      if (key.size() > k_max_key_bytes)
        return stop(fmt::format("a key of {} bytes; at most {}", key.size(), k_max_key_bytes));
      if (node.find(key) != nullptr) {
        at_ = start;
        return stop(fmt::format("the key '{}' is given twice", shown_text(key)));
      }
      ++at_;  // the colon
      COHORT_ASSIGN(Node value, element(depth + 1, "}"));
      node.set(key, mark_, std::move(value));
    }
    ++at_;
    return node;
  }

  /// Ends before the colon.
  Expected<std::string> map_key() {
    std::string key;
    if (peek() == '\'' || peek() == '"') {
      COHORT_ASSIGN(key, quoted());
    } else {
      while (at_ < text_.size() && std::string_view(":,{}[]'\"").find(peek()) == text_.npos) {
        take_escape();
        key += text_[at_++];
      }
      while (!key.empty() && is_space(key.back())) key.pop_back();
      if (key.empty()) return stop("expected a key");
    }
    skip_space();
    if (peek() != ':' || at_ == text_.size()) return stop("expected ':' after the key");
    return key;
  }

  /// A backslash before a quote stands for the quote; elsewhere it is a backslash.
  Expected<std::string> quoted() {
    const char quote = peek();
    const size_t start = at_++;
    std::string out;
    while (at_ < text_.size()) {
      size_t slashes = 0;
      while (at_ + slashes < text_.size() && text_[at_ + slashes] == '\\') ++slashes;
      at_ += slashes;
      bool is_quote = peek() == quote && at_ < text_.size();
      out.append(is_quote ? slashes / 2 : slashes, '\\');
      if (is_quote && slashes % 2 == 0) {
        ++at_;
        return out;
      }
      if (at_ < text_.size()) out += text_[at_++];
    }
    at_ = start;
    return stop(fmt::format("the quote {} has no end", quote));
  }

  /// Steps over a backslash that escapes the next character. Returns whether it did.
  bool take_escape() {
    if (peek() != '\\' || at_ + 1 >= text_.size() ||
        std::string_view("\\()[]{}:=, \t").find(text_[at_ + 1]) == text_.npos)
      return false;
    ++at_;
    return true;
  }

  /// Copies "${…}" as it stands.
  Expected<void> interpolation(std::string& out) {
    size_t end = closing_brace(text_, at_);
    if (end == text_.npos) return stop("'${' without '}'");
    out += text_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    return {};
  }

  Expected<Node> plain(std::string_view close) {
    if (close.empty() && is_card_expression()) return rest();
    const size_t start = at_;
    std::string out;
    size_t kept = 0;  // bytes of `out` that trailing spaces do not reach
    bool has_escape = false;
    int parentheses = 0;
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with("${")) {
        COHORT_TRY(interpolation(out));
        kept = out.size();
        continue;
      }
      if (take_escape()) {
        has_escape = true;
        out += text_[at_++];
        kept = out.size();
        continue;
      }
      char c = peek();
      if (parentheses == 0 && (c == ',' || close.find(c) != close.npos)) break;
      if (parentheses == 0 && std::string_view("[]{}'\"").find(c) != text_.npos)
        return stop(fmt::format("unexpected {} inside a plain text; quote the whole text", c));
      parentheses += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (parentheses < 0) return stop("')' without '('; quote the whole text");
      out += c;
      ++at_;
      if (!is_space(c)) kept = out.size();
    }
    if (parentheses > 0) return stop("'(' without ')'; quote the whole text");
    out.resize(kept);
    if (out.empty() && !has_escape) return stop("expected a value");
    COHORT_TRY(refuse_function(out, start));
    return scalar(std::move(out), has_escape);
  }

  /// list(range(0,4)) + list([8]): a text for parse_device_mapping().
  bool is_card_expression() const {
    std::string_view text = text_.substr(at_);
    for (std::string_view name : {"list", "range"}) {
      if (!text.starts_with(name)) continue;
      size_t open = text.find_first_not_of(" \t", name.size());
      return open != text.npos && text[open] == '(';
    }
    return false;
  }

  Node rest() {
    std::string_view text = text_.substr(at_);
    at_ = text_.size();
    return marked(
        Node::make_scalar(std::string(text.substr(0, text.find_last_not_of(" \t") + 1)), false));
  }

  Expected<void> refuse_function(std::string_view text, size_t start) {
    static constexpr std::array<std::string_view, 13> k_functions = {
        "choice(", "range(", "interval(", "glob(", "shuffle(",  "sort(",       "tag(",
        "int(",    "float(", "str(",      "bool(", "json_str(", "extend_list("};
    for (std::string_view name : k_functions) {
      if (!text.starts_with(name)) continue;
      at_ = start;
      return stop(
          fmt::format("Hydra's function {}…) is not known here: write the value itself, or "
                      "quote it if it is a text",
                      name));
    }
    return {};
  }

  Node scalar(std::string text, bool has_escape) const {
    if (!has_escape && (text == "~" || equals_no_case(text, "null"))) return marked({});
    return marked(Node::make_scalar(std::move(text), has_escape));
  }

  std::string_view text_;
  const Mark& mark_;
  size_t offset_;
  size_t at_ = 0;
  size_t count_ = 0;
};

Expected<std::vector<std::string>> parse_key(std::string_view key, const Mark& mark,
                                             size_t offset) {
  static constexpr std::string_view k_groups = "@:/";
  if (size_t at = key.find_first_of(k_groups); at != key.npos)
    return fault(mark, offset + at,
                 fmt::format("'{}' in a key chooses a config group, which is not known here; name "
                             "the file in the defaults list",
                             key[at]));
  std::vector<std::string> pieces;
  for (size_t start = 0; start <= key.size();) {
    size_t end = std::min(key.find('.', start), key.size());
    std::string_view piece = key.substr(start, end - start);
    size_t odd = piece.find_first_of(" \t[]{}()'\"\\,=~+");
    if (piece.size() > k_max_key_bytes)
      return fault(mark, offset + start,
                   fmt::format("a key of {} bytes; at most {}", piece.size(), k_max_key_bytes));
    if (piece.empty() || odd != piece.npos)
      return fault(mark, offset + start + (piece.empty() ? 0 : odd),
                   fmt::format("'{}' is not a key path (write a.b, or a.0 for an item of a list)",
                               shown_text(key)));
    pieces.emplace_back(piece);
    start = end + 1;
  }
  if (pieces.size() > k_max_override_pieces)
    return fault(
        mark, offset,
        fmt::format("a key path of {} pieces; at most {}", pieces.size(), k_max_override_pieces));
  return pieces;
}

}  // namespace

Expected<Node> parse_override_value(std::string_view text, const Mark& mark, size_t offset) {
  if (text.size() > k_max_override_bytes)
    return fault(
        mark, offset,
        fmt::format("{} bytes; a value has at most {}", text.size(), k_max_override_bytes));
  if (auto bad = find_bad_byte(text)) return fault(mark, offset + bad->offset, bad->text);
  return ValueParser(text, mark, offset).run();
}

Expected<Override> parse_override(std::string_view text) {
  Override parsed;
  parsed.mark.source =
      std::make_shared<const std::string>(fmt::format("override '{}'", shown_text(text)));
  if (auto bad = find_bad_byte(text)) return fault(parsed.mark, bad->offset, bad->text);
  size_t start = 0;
  if (text.starts_with("++"))
    parsed.kind = Override::Kind::force, start = 2;
  else if (text.starts_with('+'))
    parsed.kind = Override::Kind::add, start = 1;
  else if (text.starts_with('~'))
    parsed.kind = Override::Kind::remove, start = 1;
  bool is_removing = parsed.kind == Override::Kind::remove;
  size_t equals = text.find('=');
  if (equals == text.npos && !is_removing)
    return Error{Errc::config,
                 fmt::format("{}: expected 'key=value', '+key=value', '++key=value' or '~key'",
                             parsed.mark.file_line_column())};
  std::string_view key = text.substr(start, std::min(equals, text.size()) - start);
  COHORT_ASSIGN(parsed.path, parse_key(key, parsed.mark, start));
  if (equals == text.npos) return parsed;
  std::string_view value = text.substr(equals + 1);
  COHORT_ASSIGN(parsed.value, parse_override_value(value, parsed.mark, equals + 1));
  return parsed;
}

}  // namespace cohort::config

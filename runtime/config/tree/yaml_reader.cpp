#include "runtime/config/tree/yaml_reader.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>

#include "runtime/config/tree/utf8_text.hpp"

namespace cohort::config {
namespace {

/// Thrown out of yaml-cpp's parser by the handler below; caught in parse_document().
struct Refused {
  Mark mark;
  std::string text;
};

/// Builds the tree from yaml-cpp's events, so that each bound holds while it parses and no second
/// tree is made. (YAML::LoadAll must not be used: on a stray bracket yaml-cpp 0.7 hands out empty
/// documents until the memory is full.)
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::shared_ptr<const std::string> source) : source_(std::move(source)) {}

  Node take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& at) override {
    if (++documents_ > 1)
      throw Refused{mark(at), "more than one YAML document, or a stray bracket after its end"};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& at, YAML::anchor_t anchor) override { add(leaf(at), anchor); }

  void OnScalar(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    static constexpr std::array<std::string_view, 5> k_tags = {"?", "int", "float", "bool", "null"};
    Node node = leaf(at);
    std::string_view name = core_name(tag);
    node.is_quoted = name == "!" || name == "str";
    if (!node.is_quoted && std::find(k_tags.begin(), k_tags.end(), name) == k_tags.end())
      throw Refused{node.mark, fmt::format("the tag '{}' is not known here", shown_text(tag))};
    if (!is_utf8(value))  // yaml-cpp 0.7 makes a single byte of each
      throw Refused{node.mark, "the escapes '\\_' and '\\N' are not known here"};
    if (node.is_quoted || (name != "null" && !is_null_text(value))) {
      node.kind = NodeKind::scalar;
      node.scalar = value;
    }
    spend(node);
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& at, YAML::anchor_t anchor) override {
    auto named = anchors_.find(anchor);
    if (named == anchors_.end()) throw Refused{mark(at), "an alias inside of what it stands for"};
    spend_tree(named->second, mark(at));
    if (!stack_.empty() && depth_of(named->second) + static_cast<int>(stack_.size()) > k_max_depth)
      throw Refused{mark(at), too_deep()};
    Node copy = named->second;
    add(std::move(copy), 0);
  }

  void OnSequenceStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(at, tag, anchor, NodeKind::sequence);
  }
  void OnMapStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(at, tag, anchor, NodeKind::map);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    std::optional<Node> key;    // of a map: read, its value not yet
    std::vector<Node> sources;  // of `<<`, the strongest first
    bool is_merge = false;      // `key` is a plain `<<`
  };

  Mark mark(const YAML::Mark& at) const {
    return at.is_null() ? Mark{source_, 1, 1} : Mark{source_, at.line + 1, at.column + 1};
  }

  Node leaf(const YAML::Mark& at) {
    Node node;
    node.mark = mark(at);
    if (++count_ > k_max_nodes) throw Refused{node.mark, too_many()};
    return node;
  }

  static std::string too_many() {
    return fmt::format("more than {} nodes (aliases that multiply?)", k_max_nodes);
  }
  static std::string too_deep() { return fmt::format("nested deeper than {} levels", k_max_depth); }

  static std::string_view core_name(std::string_view tag) {
    static constexpr std::string_view k_prefix = "tag:yaml.org,2002:";
    if (tag.starts_with(k_prefix)) tag.remove_prefix(k_prefix.size());
    return tag.empty() ? "?" : tag;
  }

  void spend(const Node& node) {
    bytes_ += node.scalar.size();
    if (bytes_ > k_max_scalar_bytes)
      throw Refused{node.mark, fmt::format("texts of more than {} bytes in all (aliases that "
                                           "multiply?)",
                                           k_max_scalar_bytes)};
  }

  /// Counts what a copy of `node` adds.
  void spend_tree(const Node& node, const Mark& at) {
    if (++count_ > k_max_nodes) throw Refused{at, too_many()};
    spend(node);
    for (const Node& item : node.items) spend_tree(item, at);
    for (const Entry& entry : node.entries) spend_tree(entry.node(), at);
  }

  static int depth_of(const Node& node) {
    int deepest = 0;
    for (const Node& item : node.items) deepest = std::max(deepest, depth_of(item));
    for (const Entry& entry : node.entries) deepest = std::max(deepest, depth_of(entry.node()));
    return deepest + 1;
  }

  void open(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor, NodeKind kind) {
    Node node = leaf(at);
    node.kind = kind;
    std::string_view name = core_name(tag);
    if (name != "?" && name != "!" && name != (kind == NodeKind::map ? "map" : "seq"))
      throw Refused{node.mark, fmt::format("the tag '{}' is not known here", shown_text(tag))};
    if (static_cast<int>(stack_.size()) >= k_max_depth) throw Refused{node.mark, too_deep()};
    stack_.push_back({std::move(node), anchor, std::nullopt, {}, false});
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    for (Node& source : frame.sources) {  // a key that is there is stronger
      for (Entry& entry : source.entries) {
        if (frame.node.find(entry.key) == nullptr) frame.node.entries.push_back(std::move(entry));
      }
    }
    add(std::move(frame.node), frame.anchor);
  }

  void add(Node node, YAML::anchor_t anchor) {
    if (anchor != 0) {
      spend_tree(node, node.mark);  // kept for its aliases
      anchors_[anchor] = node;
    }
    if (stack_.empty()) {
      root_ = std::move(node);
    } else if (Frame& frame = stack_.back(); frame.node.kind == NodeKind::sequence) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.key) {
      add_key(frame, std::move(node));
    } else {
      add_value(frame, std::move(node));
    }
  }

  static void add_key(Frame& frame, Node key) {
    if (key.kind != NodeKind::scalar)
      throw Refused{key.mark, "a key must be a text or a number (quote it)"};
    if (key.scalar.size() > k_max_key_bytes)
      throw Refused{key.mark, fmt::format("a key of {} bytes; at most {}", key.scalar.size(),
                                          k_max_key_bytes)};
    frame.is_merge = !key.is_quoted && key.scalar == "<<";
    if (const Entry* first = frame.node.find(key.scalar))
      throw Refused{key.mark, fmt::format("duplicate key '{}' (first at line {})",
                                          shown_text(key.scalar), first->mark.line)};
    frame.key = std::move(key);
  }

  static void add_value(Frame& frame, Node value) {
    Node key = std::move(*frame.key);
    frame.key.reset();
    if (!frame.is_merge) {
      frame.node.entries.push_back({std::move(key.scalar), key.mark, {}});
      frame.node.entries.back().value.push_back(std::move(value));
      return;
    }
    std::vector<Node> sources;
    if (value.kind == NodeKind::sequence)
      sources = std::move(value.items);
    else
      sources.push_back(std::move(value));
    for (Node& source : sources) {
      if (source.kind != NodeKind::map)
        throw Refused{key.mark, fmt::format("'<<' merges maps, got {}", describe_value(source))};
      frame.sources.push_back(std::move(source));
    }
  }

  std::shared_ptr<const std::string> source_;
  Node root_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Node> anchors_;
  size_t count_ = 0;
  size_t bytes_ = 0;
  int documents_ = 0;
};

/// Place of byte `offset`.
Mark mark_at(std::string_view text, size_t offset, std::shared_ptr<const std::string> source) {
  std::string_view before = text.substr(0, offset);
  size_t line_start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  return {std::move(source), static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(offset - line_start) + 1};
}

/// yaml-cpp keeps every token of a flow list until its end: open brackets are bounded before it
/// sees them. Those in texts and comments count too.
std::optional<size_t> find_too_deep_bracket(std::string_view text) {
  static constexpr int k_max_brackets = 1000;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '[' || text[i] == '{' ? 1 : 0;
    depth -= (text[i] == ']' || text[i] == '}') && depth > 0 ? 1 : 0;
    if (depth > k_max_brackets) return i;
  }
  return std::nullopt;
}

/// Why a line that yaml-cpp refuses is often wrong.
std::string_view hint(std::string_view text, int line) {
  for (; line > 0; --line) {
    size_t end = text.find('\n');
    if (end == text.npos) return "";
    text.remove_prefix(end + 1);
  }
  size_t first = text.find_first_not_of(' ');
  bool is_tab = first != text.npos && text[first] == '\t';
  return is_tab ? " (the line starts with a tab: indent with spaces)" : "";
}

Expected<Node> parse_document(std::string_view text, std::shared_ptr<const std::string> source) {
  const Mark start{source, 1, 1};
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(source);
    if (parser.HandleNextDocument(builder)) (void)parser.HandleNextDocument(builder);
    Node root = builder.take_root();
    if (root.mark.line == 0) root.mark = start;
    return root;
  } catch (const Refused& refused) {
    return fault(refused.mark, refused.text);
  } catch (const YAML::Exception& failure) {
    Mark at = start;
    if (!failure.mark.is_null()) at = Mark{source, failure.mark.line + 1, failure.mark.column + 1};
    return fault(at, fmt::format("not valid YAML: {}{}", failure.msg, hint(text, at.line - 1)));
  } catch (const std::exception& failure) {
    return fault(start, fmt::format("not valid YAML: {}", failure.what()));
  }
}

}  // namespace

Expected<Node> parse_yaml(std::string_view text, const std::string& source_name) {
  auto source = std::make_shared<const std::string>(source_name);
  auto fault_at = [&](size_t offset, std::string_view what) {
    return fault(mark_at(text, offset, source), what);
  };
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (text.size() > k_max_text_bytes)
    return fault_at(
        0, fmt::format("{} bytes; a config has at most {}", text.size(), k_max_text_bytes));
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return fault_at(0, "UTF-16; save it as UTF-8");
  if (auto bad = find_bad_byte(text)) return fault_at(bad->offset, bad->text);
  if (auto bracket = find_too_deep_bracket(text))
    return fault_at(*bracket, "brackets nest too deep");
  return parse_document(text, std::move(source));
}

Expected<std::string> read_text(const std::filesystem::path& path) {
  std::error_code failure;
  auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status))
    return Error{Errc::not_found, fmt::format("{}: no such file", path.string())};
  if (!std::filesystem::is_regular_file(status))
    return Error{Errc::io, fmt::format("{}: not a file", path.string())};
  if (auto size = std::filesystem::file_size(path, failure); !failure && size > k_max_text_bytes)
    return Error{Errc::config, fmt::format("{}:1:1: {} bytes; a config has at most {}",
                                           path.string(), size, k_max_text_bytes)};
  std::ifstream stream(path, std::ios::binary);
  std::string text(k_max_text_bytes + 1, '\0');  // it may grow while it is read
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.eof() || stream.bad())
    return Error{Errc::io, fmt::format("{}: cannot read: {}", path.string(), std::strerror(errno))};
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

Expected<Node> read_yaml(const std::filesystem::path& path) {
  COHORT_ASSIGN(std::string text, read_text(path));
  return parse_yaml(text, path.string());
}

}  // namespace cohort::config

#include "runtime/config/yaml_reader.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

namespace cohort::config {
namespace {

/// Copies yaml-cpp's tree; the first fault stops it.
class Converter {
 public:
  Converter(std::shared_ptr<const std::string> source, const Mark* fixed_mark)
      : source_(std::move(source)), fixed_mark_(fixed_mark) {}

  Expected<Node> convert(const YAML::Node& from, const Mark& parent, int depth) {
    Node node;
    node.mark = mark_of(from, parent);
    if (++count_ > k_max_nodes)
      return fault(node.mark,
                   fmt::format("more than {} nodes (aliases that multiply?)", k_max_nodes));
    if (depth > k_max_depth)
      return fault(node.mark, fmt::format("nested deeper than {} levels", k_max_depth));
    if (from.IsScalar())
      fill_scalar(node, from);
    else if (from.IsSequence())
      COHORT_TRY(fill_sequence(node, from, depth));
    else if (from.IsMap())
      COHORT_TRY(fill_map(node, from, depth));
    return node;
  }

 private:
  static Error fault(const Mark& mark, std::string_view text) {
    return {Errc::config, fmt::format("{}: {}", mark.file_line_column(), text)};
  }

  Mark mark_of(const YAML::Node& from, const Mark& parent) const {
    if (fixed_mark_ != nullptr) return *fixed_mark_;
    YAML::Mark at = from.Mark();
    return at.is_null() ? parent : Mark{source_, at.line + 1, at.column + 1};
  }

  static void fill_scalar(Node& node, const YAML::Node& from) {
    bool is_string = from.Tag() == "!" || from.Tag() == "tag:yaml.org,2002:str";
    if (!is_string && is_null_text(from.Scalar())) return;
    node.kind = NodeKind::scalar;
    node.scalar = from.Scalar();
    node.is_quoted = is_string;
  }

  Expected<void> fill_sequence(Node& node, const YAML::Node& from, int depth) {
    node.kind = NodeKind::sequence;
    for (const auto& item : from) {
      COHORT_ASSIGN(Node child, convert(item, node.mark, depth + 1));
      node.items.push_back(std::move(child));
    }
    return {};
  }

  Expected<void> fill_map(Node& node, const YAML::Node& from, int depth) {
    node.kind = NodeKind::map;
    for (const auto& pair : from) {
      Mark key_mark = mark_of(pair.first, node.mark);
      if (!pair.first.IsScalar()) return fault(key_mark, "a key must be a scalar");
      std::string key = pair.first.Scalar();
      if (const Entry* first = node.find(key))
        return fault(key_mark,
                     fmt::format("duplicate key '{}' (first at line {})", key, first->mark.line));
      COHORT_ASSIGN(Node child, convert(pair.second, key_mark, depth + 1));
      node.set(key, key_mark, std::move(child));
    }
    return {};
  }

  std::shared_ptr<const std::string> source_;
  const Mark* fixed_mark_;
  size_t count_ = 0;
};

/// yaml-cpp recurses over flow brackets and block indents: deep nesting is refused before it can
/// use up the stack.
bool nests_too_deep(std::string_view text) {
  static constexpr int k_max_brackets = 1000;
  int depth = 0;
  for (char c : text) {
    depth += c == '[' || c == '{' ? 1 : 0;
    depth -= (c == ']' || c == '}') && depth > 0 ? 1 : 0;
    if (depth > k_max_brackets) return true;
  }
  return false;
}

class IgnoreEvents final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

/// Not YAML::LoadAll: on a stray bracket yaml-cpp 0.7 hands out empty documents for ever.
bool has_more_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  IgnoreEvents events;
  return parser.HandleNextDocument(events) && parser.HandleNextDocument(events);
}

Expected<Node> parse(std::string_view text, std::shared_ptr<const std::string> source,
                     const Mark* fixed_mark) {
  Mark start = fixed_mark != nullptr ? *fixed_mark : Mark{source, 1, 1};
  auto fault = [&](const Mark& mark, std::string_view what) {
    return Error{Errc::config, fmt::format("{}: {}", mark.file_line_column(), what)};
  };
  if (text.size() > k_max_text_bytes)
    return fault(start,
                 fmt::format("{} bytes; a config has at most {}", text.size(), k_max_text_bytes));
  if (text.find('\0') != std::string_view::npos)
    return fault(start, "not a text: it contains a zero byte");
  if (nests_too_deep(text)) return fault(start, "brackets nest too deep");
  try {
    if (has_more_documents(std::string(text)))
      return fault(start, "more than one YAML document, or a stray bracket after its end");
    YAML::Node document = YAML::Load(std::string(text));
    return Converter(std::move(source), fixed_mark).convert(document, start, 0);
  } catch (const YAML::Exception& failure) {
    Mark at = start;
    if (fixed_mark == nullptr && !failure.mark.is_null())
      at = Mark{start.source, failure.mark.line + 1, failure.mark.column + 1};
    return fault(at, fmt::format("not valid YAML: {}", failure.msg));
  } catch (const std::exception& failure) {
    return fault(start, fmt::format("not valid YAML: {}", failure.what()));
  }
}

}  // namespace

Expected<Node> parse_yaml(std::string_view text, const std::string& source) {
  return parse(text, std::make_shared<const std::string>(source), nullptr);
}

Expected<Node> parse_override_value(std::string_view text, const Mark& mark) {
  return parse(text, mark.source, &mark);
}

Expected<Node> read_yaml(const std::filesystem::path& path) {
  std::error_code failure;
  auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status))
    return Error{Errc::not_found, fmt::format("{}: no such file", path.string())};
  if (!std::filesystem::is_regular_file(status))
    return Error{Errc::io, fmt::format("{}: not a file", path.string())};
  if (auto size = std::filesystem::file_size(path, failure); !failure && size > k_max_text_bytes)
    return Error{Errc::io, fmt::format("{}: {} bytes; a config has at most {}", path.string(), size,
                                       k_max_text_bytes)};
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf() || stream.peek() == std::ifstream::traits_type::eof()))
    return Error{Errc::io, fmt::format("{}: cannot read: {}", path.string(), std::strerror(errno))};
  return parse_yaml(text.str(), path.string());
}

}  // namespace cohort::config

#include "runtime/columnar/column_tree.hpp"

#include <fmt/format.h>

#include "runtime/text/unicode.hpp"

namespace cohort::columnar {
namespace {

constexpr int k_depth_max = 32;

/// How deep a node lies: levels of its ancestors.
struct Levels {
  int32_t definition = 0;
  int32_t repetition = 0;
};

class Builder {
 public:
  explicit Builder(const std::vector<SchemaElement>& elements) : elements_(elements) {}

  Expected<SchemaNode> root() {
    SchemaNode node;
    const SchemaElement& top = elements_[at_++];
    if (top.type) return broken();
    COHORT_TRY(add_members(node, top, {}, "", 0));
    if (at_ != elements_.size()) return broken();
    if (node.end_leaf == 0) return Error{Errc::corrupt, "the parquet schema has no column"};
    return node;
  }

 private:
  static Error broken() { return {Errc::corrupt, "the parquet schema is damaged"}; }

  static Error refused(const std::string& path, const std::string& what) {
    return {Errc::unsupported,
            fmt::format("column {}: {}; drop it, or write it as text or numbers", path, what)};
  }

  Expected<void> add_members(SchemaNode& node, const SchemaElement& element, Levels levels,
                             const std::string& path, int depth) {
    if (element.child_count < 0) return broken();
    node.shape = Shape::object;
    node.first_leaf = leaf_count_;
    for (int32_t i = 0; i < element.child_count; ++i) {
      COHORT_ASSIGN(SchemaNode child, next(levels, path, depth + 1));
      node.children.push_back(std::move(child));
    }
    node.end_leaf = leaf_count_;
    return {};
  }

  /// The node of the next element and of all below it.
  Expected<SchemaNode> next(Levels levels, const std::string& parent, int depth) {
    if (at_ >= elements_.size() || depth > k_depth_max) return broken();
    const SchemaElement& element = elements_[at_++];
    if (!text::is_valid_utf8(element.name)) return broken();
    const std::string path = parent.empty() ? element.name : parent + "." + element.name;
    if (element.repetition == Repetition::repeated) {
      SchemaNode list = repeated(levels, element, path);
      COHORT_ASSIGN(SchemaNode child,
                    content(element, {list.definition, list.repetition}, path, depth));
      return wrapped(std::move(list), std::move(child));
    }
    const bool is_optional = element.repetition == Repetition::optional;
    if (!is_optional && element.repetition != Repetition::required) return broken();
    if (is_optional) ++levels.definition;
    const bool is_sequence = !element.type && element.child_count == 1 &&
                             (element.meaning == Meaning::list || element.meaning == Meaning::map);
    auto node = is_sequence ? sequence(element, levels, path, depth)
                            : content(element, levels, path, depth);
    if (!node) return node.error();
    node->is_optional = is_optional;
    node->there = levels.definition;
    return node;
  }

  static SchemaNode repeated(Levels levels, const SchemaElement& element, const std::string& path) {
    SchemaNode list;
    list.shape = Shape::list;
    list.name = element.name;
    list.path = path;
    list.there = levels.definition;
    list.definition = levels.definition + 1;
    list.repetition = levels.repetition + 1;
    return list;
  }

  static SchemaNode wrapped(SchemaNode list, SchemaNode child) {
    list.first_leaf = child.first_leaf;
    list.end_leaf = child.end_leaf;
    list.children.push_back(std::move(child));
    return list;
  }

  /// A group marked LIST or MAP around one repeated field.
  Expected<SchemaNode> sequence(const SchemaElement& outer, Levels levels, const std::string& path,
                                int depth) {
    if (at_ >= elements_.size()) return broken();
    const SchemaElement& inner = elements_[at_];
    if (inner.repetition != Repetition::repeated) return content(outer, levels, path, depth);
    if (!text::is_valid_utf8(inner.name)) return broken();
    ++at_;
    const std::string inner_path = path + "." + inner.name;
    SchemaNode list = repeated(levels, outer, path);
    const Levels below{list.definition, list.repetition};
    if (outer.meaning == Meaning::map) return map(std::move(list), inner, below, inner_path, depth);
    // The repeated field is the element itself where it has no level of its own around it.
    const bool is_element = inner.type || inner.child_count != 1 || inner.name == "array" ||
                            inner.name == outer.name + "_tuple";
    auto child = is_element ? content(inner, below, inner_path, depth + 1)
                            : next(below, inner_path, depth + 1);
    if (!child) return child.error();
    return wrapped(std::move(list), std::move(*child));
  }

  Expected<SchemaNode> map(SchemaNode list, const SchemaElement& pair, Levels levels,
                           const std::string& path, int depth) {
    if (pair.type || pair.child_count != 2) return refused(path, "a map without key and value");
    list.shape = Shape::map;
    list.first_leaf = leaf_count_;
    for (int i = 0; i < 2; ++i) {
      COHORT_ASSIGN(SchemaNode child, next(levels, path, depth + 1));
      list.children.push_back(std::move(child));
    }
    list.end_leaf = leaf_count_;
    const SchemaNode& key = list.children.front();
    if (key.shape != Shape::value || key.type != Physical::bytes || key.is_optional)
      return refused(key.path, "a map's key that is no text");
    return list;
  }

  /// A leaf, or a group as an object.
  Expected<SchemaNode> content(const SchemaElement& element, Levels levels, const std::string& path,
                               int depth) {
    SchemaNode node;
    node.name = element.name;
    node.path = path;
    node.there = levels.definition;
    if (!element.type) {
      if (element.meaning == Meaning::other) return refused(path, element.meaning_name);
      COHORT_TRY(add_members(node, element, levels, path, depth));
      if (node.first_leaf == node.end_leaf) return refused(path, "a group without fields");
      return node;
    }
    const Physical type = *element.type;
    if (element.meaning == Meaning::other) return refused(path, "type " + element.meaning_name);
    if (type == Physical::int96 || type < Physical::boolean || type > Physical::bytes)
      return refused(path, "type " + name_of(type));
    node.shape = Shape::value;
    node.type = type;
    node.meaning = element.meaning;
    node.definition_max = levels.definition;
    node.repetition_max = levels.repetition;
    node.first_leaf = leaf_count_++;
    node.end_leaf = leaf_count_;
    return node;
  }

  const std::vector<SchemaElement>& elements_;
  size_t at_ = 0;
  size_t leaf_count_ = 0;
};

void collect(const SchemaNode& node, std::vector<const SchemaNode*>& leaves) {
  if (node.shape == Shape::value) leaves.push_back(&node);
  for (const SchemaNode& child : node.children) collect(child, leaves);
}

}  // namespace

std::vector<const SchemaNode*> leaves_of(const SchemaNode& root) {
  std::vector<const SchemaNode*> leaves;
  collect(root, leaves);
  return leaves;
}

Expected<SchemaNode> build_schema(const std::vector<SchemaElement>& elements) {
  return Builder(elements).root();
}

}  // namespace cohort::columnar

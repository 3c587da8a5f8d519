#pragma once
/// The schema of a parquet file as a tree of what becomes JSON: objects, lists, maps, values. The
/// annotations LIST and MAP are followed as the format's backward-compatibility rules have them.
/// Pure.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/columnar/footer.hpp"

namespace cohort::columnar {

enum class Shape : uint8_t {
  object,  // children: its members
  list,    // one child: the element
  map,     // two children: key (a text) and value
  value,   // a leaf
};

/// A node. `definition`: a level at or above it says that the node is there (a list: that it has an
/// element). `repetition`: the level at which another element of this list begins.
struct SchemaNode {
  Shape shape = Shape::object;
  std::string name;
  std::string path;  // names from the root with dots, as the file has them
  bool is_optional = false;
  int32_t there = 0;       // definition level from which on it is not null
  int32_t definition = 0;  // of a list or map: from which on it has an element
  int32_t repetition = 0;  // of a list or map
  Physical type = Physical::bytes;
  Meaning meaning = Meaning::plain;
  int32_t definition_max = 0;  // of a leaf
  int32_t repetition_max = 0;
  size_t first_leaf = 0;  // leaves below it: [first_leaf, end_leaf)
  size_t end_leaf = 0;
  std::vector<SchemaNode> children;
};

/// Leaves, in the order of the column chunks of a row group.
std::vector<const SchemaNode*> leaves_of(const SchemaNode& root);

/// Returns Errc::corrupt for a schema that is no tree, Errc::unsupported naming the column for a
/// type without JSON.
Expected<SchemaNode> build_schema(const std::vector<SchemaElement>& elements);

}  // namespace cohort::columnar

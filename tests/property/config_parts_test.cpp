#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/base/rng.hpp"
#include "runtime/config/tree/device_mapping.hpp"
#include "runtime/config/tree/override.hpp"
#include "runtime/config/tree/utf8_text.hpp"
#include "tests/support/config_tree.hpp"

namespace cohort::config::config_parts_test {
namespace {

uint64_t test_seed() {
  const char* text = std::getenv("COHORT_SEED");
  uint64_t seed = text == nullptr ? 20261121 : std::strtoull(text, nullptr, 10);
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

std::string random_text(Rng& rng) {
  static constexpr std::string_view k_letters = "ab1.-_ ,:=[]{}()'\"\\${}~+#@/\n";
  std::string text;
  for (uint64_t i = rng.below(10); i > 0; --i) {
    size_t letter = rng.below(k_letters.size() + 1);
    text += letter < k_letters.size() ? k_letters.substr(letter, 1) : "√";
  }
  return text;
}

/// A tree of maps, lists, quoted texts and nulls.
Node random_tree(Rng& rng, int depth) {
  Node node;
  uint64_t kind = depth > 3 ? 2 + rng.below(2) : rng.below(4);
  if (kind == 0) {
    node = Node::make_map({});
    for (uint64_t i = rng.below(4); i > 0; --i)
      node.set(std::string(1, static_cast<char>('a' + rng.below(4))), {},
               random_tree(rng, depth + 1));
  } else if (kind == 1) {
    node.kind = NodeKind::sequence;
    for (uint64_t i = rng.below(3); i > 0; --i) node.items.push_back(random_tree(rng, depth + 1));
  } else if (kind == 2) {
    node = Node::make_scalar(random_text(rng), true);
  }
  return node;
}

Node random_map(Rng& rng) {
  Node node = Node::make_map({});
  for (const char* key : {"a", "b", "c", "d"}) {
    if (rng.below(3) > 0) node.set(key, {}, random_tree(rng, 1));
  }
  return node;
}

/// `node` as Hydra's grammar spells it.
std::string spelled(const Node& node) {
  std::string out;
  switch (node.kind) {
    case NodeKind::null:
      return "null";
    case NodeKind::scalar: {
      size_t slashes = 0;  // those before a quote count double
      for (char c : node.scalar) {
        if (c == '\'') out += std::string(slashes + 1, '\\');
        slashes = c == '\\' ? slashes + 1 : 0;
        out += c;
      }
      return "'" + out + std::string(slashes, '\\') + "'";
    }
    case NodeKind::sequence:
      for (const Node& item : node.items) out += (out.empty() ? "" : " , ") + spelled(item);
      return "[" + out + "]";
    case NodeKind::map:
      for (const Entry& entry : node.entries)
        out += (out.empty() ? "" : ", ") + entry.key + ": " + spelled(entry.node());
      return "{" + out + "}";
  }
  return out;
}

std::string laid(Node base, const Node& over) {
  merge(base, over);
  return to_yaml(base);
}

TEST(ConfigPartsProperty, MergeIsIdempotentAndTheLastOneWins) {
  Rng rng(test_seed());
  for (int round = 0; round < 500; ++round) {
    Node a = random_map(rng);
    Node b = random_map(rng);
    Node both = a;
    merge(both, b);
    ASSERT_EQ(laid(a, a), to_yaml(a));
    ASSERT_EQ(laid(both, b), to_yaml(both));
    ASSERT_EQ(laid(both, both), to_yaml(both));
    for (const Entry& entry : a.entries) {
      if (b.find(entry.key) != nullptr) continue;
      ASSERT_EQ(to_yaml(both.find(entry.key)->node()), to_yaml(entry.node()));
    }
    for (const Entry& entry : b.entries) {
      if (entry.node().kind == NodeKind::map) continue;
      ASSERT_EQ(to_yaml(both.find(entry.key)->node()), to_yaml(entry.node()));
    }
  }
}

TEST(ConfigPartsProperty, WrittenTreesReadBack) {
  Rng rng(test_seed() + 1);
  for (int round = 0; round < 1000; ++round) {
    Node tree = random_map(rng);
    auto again = parse_yaml(to_yaml(tree), "again.yaml");
    ASSERT_TRUE(again) << to_yaml(tree) << again.error().detail;
    ASSERT_EQ(to_yaml(*again), to_yaml(tree));
  }
}

TEST(ConfigPartsProperty, SpelledValuesAreReadAsTheyWere) {
  Rng rng(test_seed() + 2);
  for (int round = 0; round < 1000; ++round) {
    Node tree = random_tree(rng, 0);
    auto again = parse_override_value(spelled(tree), Mark{});
    ASSERT_TRUE(again) << spelled(tree) << "\n" << again.error().detail;
    ASSERT_EQ(to_yaml(*again), to_yaml(tree)) << spelled(tree);
    Node root = Node::make_map({});
    ASSERT_TRUE(apply_override(root, "x.y=" + spelled(tree)));
    ASSERT_EQ(to_yaml(*root.at_path("x.y")), to_yaml(tree));
    ASSERT_TRUE(apply_override(root, "~x.y=" + spelled(tree)));
  }
}

TEST(ConfigPartsProperty, EscapedTextsStayThemselves) {
  Rng rng(test_seed() + 3);
  for (int round = 0; round < 2000; ++round) {
    std::string text = random_text(rng);
    if (rng.below(2) == 0) text.insert(rng.below(text.size() + 1), "${");
    if (!is_utf8(text)) continue;  // the "${" may cut a √
    Node root = Node::make_map({});
    root.set("x", {}, Node::make_scalar(escape_interpolation(text), true));
    Interpolated result = interpolate(root, test::fixed_sources());
    ASSERT_TRUE(result.problems.empty()) << text << "\n" << result.problems[0].text;
    ASSERT_EQ(result.root.find("x")->node().scalar, text);
  }
}

/// An expression, and its ids by Python's rules.
std::string random_cards(Rng& rng, std::vector<int64_t>& ids, int depth) {
  switch (depth > 2 ? rng.below(2) : rng.below(4)) {
    case 0: {
      auto begin = static_cast<int64_t>(rng.below(40));
      auto end = static_cast<int64_t>(rng.below(40));
      int64_t step = rng.below(2) == 0 ? 1 + static_cast<int64_t>(rng.below(4))
                                       : -1 - static_cast<int64_t>(rng.below(4));
      for (int64_t id = begin; step > 0 ? id < end : id > end; id += step) ids.push_back(id);
      return "list(range(" + std::to_string(begin) + "," + std::to_string(end) + ", " +
             std::to_string(step) + "))";
    }
    case 1: {
      std::string text;
      for (uint64_t i = rng.below(4); i > 0; --i) {
        ids.push_back(static_cast<int64_t>(rng.below(60)));
        text += (text.empty() ? "" : ", ") + std::to_string(ids.back());
      }
      return "[" + text + "]";
    }
    case 2:
      return "(" + random_cards(rng, ids, depth + 1) + ")";
    default: {
      std::string left = random_cards(rng, ids, depth + 1);
      return left + " + " + random_cards(rng, ids, depth + 1);
    }
  }
}

TEST(ConfigPartsProperty, CardExpressionsGivePythonsIds) {
  Rng rng(test_seed() + 4);
  size_t accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> ids;
    std::string text = random_cards(rng, ids, 0);
    std::vector<int64_t> sorted = ids;
    std::sort(sorted.begin(), sorted.end());
    bool is_distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    auto found = parse_device_mapping(text);
    ASSERT_EQ(found.has_value(), is_distinct) << text;
    if (!found) continue;
    ASSERT_EQ(std::vector<int64_t>(found->begin(), found->end()), ids) << text;
    ++accepted;
  }
  EXPECT_GT(accepted, 300u);
}

}  // namespace
}  // namespace cohort::config::config_parts_test

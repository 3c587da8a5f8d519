#include <gtest/gtest.h>

#include "runtime/config/tree/compose.hpp"
#include "tests/support/config_tree.hpp"

namespace cohort::config::config_compose_test {
namespace {

using test::ConfigFolder;

TEST(Compose, LaterWinsAndTheFileItselfIsLast) {
  ConfigFolder folder;
  folder.write("config/a.yaml", "k: a\nm: {x: 1, l: [1, 2]}\nonly_a: 1\n");
  folder.write("config/b.yaml", "k: b\nm: {y: 2}\n");
  folder.write("run/main.yaml",
               "defaults:\n  - ../config/a@_here_\n  - ../config/b@_here_\nm: {l: [3]}\nz: 1\n");
  EXPECT_EQ(folder.composed("run/main.yaml"),
            "k: b\nm:\n  x: 1\n  l: [3]\n  y: 2\nonly_a: 1\nz: 1\n");
  folder.write("run/first.yaml", "defaults: [_self_, ../config/a@_here_]\nk: mine\n");
  EXPECT_EQ(folder.composed("run/first.yaml"), "k: a\nm:\n  x: 1\n  l: [1, 2]\nonly_a: 1\n");
  folder.write("run/null.yaml", "defaults: [../config/a@_here_]\nm: ~\n");
  EXPECT_EQ(folder.composed("run/null.yaml"), "k: a\nm: ~\nonly_a: 1\n");
  folder.write("run/none.yaml", "defaults: ~\nm: 1\n");
  EXPECT_EQ(folder.composed("run/none.yaml"), "m: 1\n");
}

TEST(Compose, FragmentsHaveDefaultsOfTheirOwn) {
  ConfigFolder folder;
  folder.write("x/deep/leaf.yaml", "v: leaf\nw: leaf\nu: leaf\n");
  folder.write("x/mid.yaml", "defaults: [deep/leaf@_here_]\nv: mid\nw: mid\n");
  folder.write("main.yaml", "defaults: [x/mid@_here_]\nv: main\n");
  EXPECT_EQ(folder.composed("main.yaml"), "v: main\nw: mid\nu: leaf\n");
  // one fragment twice is no circle
  folder.write("twice.yaml", "defaults: [x/mid@_here_, x/deep/leaf@_here_]\n");
  EXPECT_EQ(folder.composed("twice.yaml"), "v: leaf\nw: leaf\nu: leaf\n");
}

TEST(Compose, PackagesSayWhereAFragmentLands) {
  ConfigFolder folder;
  folder.write("db/mysql.yaml", "host: h\n");
  folder.write("db/header.yaml", "# a comment\n# @package net.db\n\nhost: h\n");
  folder.write("db/pair.yaml", "defaults: [mysql, mysql@other, mysql@_global_.top]\nkind: p\n");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"db/mysql", "db:\n  host: h\n"},
      {"db: mysql", "db:\n  host: h\n"},
      {"db@a.b: mysql", "a:\n  b:\n    host: h\n"},
      {"db/mysql@_here_", "host: h\n"},
      {"db/mysql@_global_", "host: h\n"},
      {"/db/mysql@_group_._name_", "db:\n  mysql:\n    host: h\n"},
      {"./db/mysql.yaml@_here_", "host: h\n"},
      {"db/header", "net:\n  db:\n    host: h\n"},
      {"db/header@_here_", "host: h\n"},
      {"db: ~", ""},
      {"db: [mysql, header]", "db:\n  host: h\nnet:\n  db:\n    host: h\n"},
      {"db/pair", "db:\n  host: h\n  other:\n    host: h\n  kind: p\ntop:\n  host: h\n"},
      {"optional db: none", ""},
      {"optional nowhere@_here_", ""},
      {"override hydra/job_logging: disabled", ""},
  };
  for (const auto& [entry, tree] : cases) {
    folder.write("main.yaml", "defaults:\n  - " + entry + "\nz: 1\n");
    EXPECT_EQ(folder.composed("main.yaml"), tree + "z: 1\n") << entry;
  }
  folder.write("sub/main.yaml", "defaults: [../db/mysql]\nz: 1\n");  // leaves the folder: here
  EXPECT_EQ(folder.composed("sub/main.yaml"), "host: h\nz: 1\n");
}

TEST(Compose, ShippedFragmentsAreFoundFromAnyFolder) {
  ConfigFolder folder;
  folder.write("any/main.yaml", "defaults: [../config/deepspeed_zero3@_here_, traj_envs]\n");
  auto root = read_yaml(folder.path("any/main.yaml"));
  ASSERT_TRUE(root);
  auto tree = compose(std::move(*root), folder.path("any"));
  ASSERT_TRUE(tree) << tree.error().detail;
  EXPECT_EQ(tree->at_path("deepspeed_zero3.zero_optimization.stage")->scalar, "3");
  EXPECT_EQ(tree->at_path("deepspeed_zero3.zero_optimization.stage")->mark.file_line(),
            "<shipped>/deepspeed_zero3.yaml:15");
  ASSERT_NE(tree->at_path("custom_env.FrozenLake"), nullptr);
  // a file of one's own is stronger
  folder.write("config/deepspeed_zero3.yaml", "deepspeed_zero3: mine\n");
  EXPECT_NE(folder.composed("any/main.yaml").find("deepspeed_zero3: mine\n"), std::string::npos);
}

TEST(Compose, AMapLandsOnACopyOfWhatAReferenceNames) {
  ConfigFolder folder;
  folder.write("base.yaml", "z:\n  s: 3\n  t: ???\nuse: ${z}\nmust: given\n");
  folder.write("main.yaml", "defaults: [base]\nuse: {s: 2}\nmust: ???\n");
  EXPECT_EQ(folder.composed("main.yaml"),
            "z:\n  s: 3\n  t: \"???\"\nuse:\n  s: 2\n  t: \"???\"\nmust: given\n");
}

TEST(Compose, NamesTheFault) {
  ConfigFolder folder;
  folder.write("config/a.yaml", "defaults: [b]\n");
  folder.write("config/b.yaml", "k: 1\ndefaults:\n  - ../config/a\n");
  folder.write("config/self.yaml", "defaults: [self]\n");
  folder.write("config/list.yaml", "- 1\n");
  folder.write("config/c.yaml", "a: 1\n");
  folder.write("config/dup.yaml", "a: 1\na: 2\n");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"- config/a@_here_",
       "config/b.yaml:3:5: defaults go in a circle: main.yaml -> config/a.yaml -> config/b.yaml "
       "-> config/a.yaml"},
      {"- main@_here_", "main.yaml:2:3: defaults go in a circle: main.yaml -> main.yaml"},
      {"- config/self@_here_", "config/self.yaml:1:12: defaults go in a circle: main.yaml -> "},
      {"- config/none@_here_",
       "main.yaml:2:3: defaults entry 'config/none@_here_': no file config/none.yaml, and no "
       "shipped fragment 'none' (shipped: deepspeed_zero, deepspeed_zero2, "},
      {"- config/list@_here_", "config/list.yaml:1:1: expected a map of keys, got a list"},
      {"- config/dup@_here_", "config/dup.yaml:2:1: duplicate key 'a' (first at line 1)"},
      {"- config/c@a..b",
       "main.yaml:2:3: defaults entry 'config/c@a..b': 'a..b' is not a place to put it"},
      {"- config/@_here_",
       "main.yaml:2:3: defaults entry 'config/@_here_': 'config/' names no file"},
      {"- [1]", "main.yaml:2:3: defaults: expected 'path@_here_', 'group: option' or '_self_', "},
      {"- {a: 1, b: 2}", "main.yaml:2:3: defaults: expected 'path@_here_', 'group: option' or "},
      {"- db: {a: 1}", "main.yaml:2:7: defaults entry 'db': expected the name of an option"},
      {"- override db: x", "main.yaml:2:3: defaults entry 'override db': 'override' is not known"},
      {"- db: ${x}", "main.yaml:2:3: defaults entry 'db: ${x}': 'db/${x}' names no file"},
      {"- ''", "main.yaml:2:3: defaults entry '': '' names no file"},
      {"- _self_\n- _self_", "main.yaml:3:3: defaults: '_self_' is there twice"},
      {"  x", "main.yaml:2:3: defaults: expected a list, got 'x'"},
  };
  for (const auto& [entry, message] : cases) {
    folder.write("main.yaml", "defaults:\n" + entry + "\nz: 1\n");
    EXPECT_EQ(folder.composed("main.yaml").substr(0, message.size()), message)
        << entry << "\n"
        << folder.composed("main.yaml");
  }
}

TEST(Compose, BoundsCountDepthAndSize) {
  ConfigFolder folder;
  for (int i = 0; i < 30; ++i)
    folder.write("d" + std::to_string(i) + ".yaml", "defaults: [d" + std::to_string(i + 1) + "]\n");
  folder.write("d30.yaml", "z: 1\n");
  EXPECT_NE(folder.composed("d0.yaml").find("more than 64 fragments, or more than 16 that name"),
            std::string::npos);
  folder.write("z.yaml", "z: 1\n");
  std::string many = "defaults:\n";
  for (int i = 0; i < 70; ++i) many += "  - z\n";
  folder.write("many.yaml", many);
  EXPECT_NE(folder.composed("many.yaml").find("more than 64 fragments"), std::string::npos);
  std::string large = "k: [0";
  for (int i = 0; i < 9'000; ++i) large += ", 1";
  folder.write("large.yaml", large + "]\n");
  folder.write("three.yaml", "defaults: [large, large, large]\n");
  EXPECT_NE(folder.composed("three.yaml").find("more than 20000 values with this file"),
            std::string::npos);
}

}  // namespace
}  // namespace cohort::config::config_compose_test

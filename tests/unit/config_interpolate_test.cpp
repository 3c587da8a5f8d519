#include <gtest/gtest.h>

#include "runtime/config/tree/interpolate.hpp"
#include "tests/support/config_tree.hpp"

namespace cohort::config::config_interpolate_test {
namespace {

struct Case {
  std::string text;
  std::string path;
  std::string value;
};

void expect_values(const std::vector<Case>& cases) {
  for (const Case& x : cases)
    EXPECT_EQ(test::interpolated(test::parsed(x.text), x.path), x.value + "\n") << x.text;
}

TEST(Interpolate, ResolvesFromTheRoot) {
  expect_values({
      {"a: {b: 7}\nc: ${a.b}\n", "c", "7"},
      {"a: x\nb: /m/${a}/${a}y\n", "b", "/m/x/xy"},
      {"a: {k: 1, l: [2, 3]}\nb: ${a}\n", "b", "k: 1\nl: [2, 3]"},
      {"n: 64\nenv:\n  L:\n    t: ${n}\nuse:\n  L:\n    ${env.L}\n", "use.L.t", "64"},
      {"a: ${b}\nb: {c: 5}\nd: ${a.c}\n", "d", "5"},
      {"a: ${b}\nb: ${c}\nc: {d: {e: 5}}\nf: ${a.d.e}\n", "f", "5"},
      {"l: [10, {k: 20}]\nb: ${l.1.k}\n", "b", "20"},
      {"l: [10, {k: 20}]\nb: ${l[1].k}\nc: ${l[1][k]}\n", "c", "20"},
      {"k: b\na: {b: 3}\nx: ${a.${k}}\n", "x", "3"},
      {"k: b\na: {b: {c: 3}}\ny: ${a.${k}}\nx: ${y.c}\n", "x", "3"},
      {"x: ${ a }\na: 1\n", "x", "1"},
      {"a: '12'\nx: ${a}\n", "x", "\"12\""},
      {"a: ~\nx: p${a}\n", "x", "pnull"},
  });
}

TEST(Interpolate, DotsStartAtTheMapAround) {
  expect_values({
      {"a: {b: 1, c: '${.b}'}\n", "a.c", "1"},
      {"a: {b: {d: '${..e}'}, e: 2}\n", "a.b.d", "2"},
      {"a: {b: {d: '${...e}'}}\ne: 3\n", "a.b.d", "3"},
      {"e: 3\nf: ${.e}\n", "f", "3"},
      {"a: {l: [5, '${.0}', '${..m}'], m: 6}\n", "a.l", "[5, 5, 6]"},
      // a copied map keeps the values it has at its own place
      {"a: {b: 1, c: '${.b}'}\nz: ${a}\nb: 9\n", "z.c", "1"},
  });
}

TEST(Interpolate, BackslashesKeepADollar) {
  expect_values({
      {"x: \\${a}\n", "x", "\"${a}\""},
      {"a: 1\nx: \\\\${a}\n", "x", "\"\\\\1\""},
      {"a: 1\nx: p\\${a}q${a}\n", "x", "\"p${a}q1\""},
      {"x: a\\b$c\n", "x", "\"a\\\\b$c\""},
  });
  for (std::string text : {"${a}", "\\${a}", "x\\\\${a}y${", "no", "$", "\\"}) {
    Node root = Node::make_map({});
    root.set("x", {}, Node::make_scalar(escape_interpolation(text), true));
    Interpolated result = interpolate(root, test::fixed_sources());
    ASSERT_TRUE(result.problems.empty()) << text;
    EXPECT_EQ(result.root.find("x")->node().scalar, text);
  }
}

TEST(Interpolate, KnowsFourResolvers) {
  expect_values({
      {"x: ${oc.env:HOME_DIR}/y\n", "x", "/home/x/y"},
      {"x: ${oc.env:MISSING,12}\n", "x", "12"},
      {"x: ${oc.env:MISSING,1e-6}\n", "x", "1e-6"},
      {"x: ${oc.env:MISSING, 'a, b'}\n", "x", "\"a, b\""},
      {"x: ${oc.env:MISSING,}\n", "x", "\"\""},
      {"x: ${oc.env:MISSING,null}\n", "x", "~"},
      {"x: ${oc.env:MISSING,${oc.env:HOME_DIR}}\n", "x", "/home/x"},
      {"n: HOME_DIR\nx: ${oc.env:${n}}\n", "x", "/home/x"},
      {"x: r-${now:%Y%m%d}\n", "x", "\"r-<%Y%m%d>\""},
      {"x: ${now:%H:%M, %S}\n", "x", "\"<%H:%M, %S>\""},
      {"a: {b: 1}\nx: ${oc.select:a.b,2}\ny: ${oc.select:a.c,2}\nz: ${oc.select:q.r}\n", "",
       "a:\n  b: 1\nx: 1\ny: 2\nz: ~"},
      {"x: ${oc.decode:'[1, 2]'}\n", "x", "[1, 2]"},
  });
}

TEST(Interpolate, NamesTheFault) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"batch_size: 1\nx: ${batch_sise}\n",
       "t.yaml:2:4: '${batch_sise}' names no key: there is no 'batch_sise'; did you mean "
       "'batch_size'?\n"},
      {"a: {b: 1}\nx: ${a.c}\n",
       "t.yaml:2:4: '${a.c}' names no key: there is no 'c' in 'a'; did you mean "
       "'b'?\n"},
      {"x: ${x}\n", "t.yaml:1:4: references go in a circle: x -> x\n"},
      {"a:\n  b: ${a}\n", "t.yaml:2:6: references go in a circle: a.b -> a.b\n"},
      {"a: ${b}\nb: ${c.d}\nc: {d: '${a}'}\n",
       "t.yaml:1:4: references go in a circle: a -> b -> c.d -> a\n"},
      {"a: ${a.b}\n", "t.yaml:1:4: references go in a circle: a -> a\n"},
      {"x: ${oc.env:MISSING}\ny: ${x}\nz: ${y}/z\n",
       "t.yaml:1:4: environment variable MISSING is not set and has no default (write "
       "${oc.env:MISSING,value})\n"},
      {"x: ${eval:1+1}\n",
       "t.yaml:1:4: unknown resolver 'eval' (known: now, oc.env, oc.select, oc.decode)\n"},
      {"a: {b: 1}\nx: s${a}\n", "t.yaml:2:4: 's${a}' splices a map into a text\n"},
      {"x: a${b\n", "t.yaml:1:4: '${' without '}' in 'a${b'\n"},
      {"a: 1\nx: ${a.b}\n", "t.yaml:2:4: '${a.b}' names no key: there is no 'b' in 'a'\n"},
      {"a: p${c}\nc: 1\nx: ${a.b}\n", "t.yaml:3:4: 'a' is a text, it has no keys\n"},
      {"a: {x: '${...b}'}\n",
       "t.yaml:1:8: '${...b}' has more dots than there are maps around it\n"},
      {"x: ${}\n", "t.yaml:1:4: '${}' is not a path\n"},
      {"x: ${a..b}\n", "t.yaml:1:4: '${a..b}' is not a path\n"},
      {"x: ${a[b}\n", "t.yaml:1:4: '${a[b}' is not a path\n"},
      {"a:\n  b: ???\n", "t.yaml:2:6: 'a.b' is ???: it must be given, here or by an override\n"},
      {"x: ${oc.env:[1]}\n", "t.yaml:1:4: oc.env wants a text first, got a list\n"},
      {"x: ${now:}\n", "t.yaml:1:4: '' gives no time\n"},
  };
  for (const auto& [text, message] : cases) {
    std::string found = test::interpolated(test::parsed(text), "x");
    if (text.find("now") != std::string::npos) continue;  // the fixed clock shows everything
    EXPECT_EQ(found, message) << text;
  }
  InterpolationSources silent = test::fixed_sources();
  silent.now = [](const std::string&) { return std::string{}; };
  Interpolated result = interpolate(test::parsed("x: ${now:%p}\n"), silent);
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_EQ(result.problems[0].text, "'%p' gives no time");
}

TEST(Interpolate, UsedAreKeysThatOthersName) {
  Interpolated result = interpolate(
      test::parsed("a: 1\nb: {c: '${a}', d: '${b.c}', e: '${.c}'}\nf: ${g.h}\ng: {h: 2}\n"),
      test::fixed_sources());
  EXPECT_EQ(result.used, (std::set<std::string>{"a", "g"}));
}

/// k levels, each of which names the one below it ten times.
std::string laughs(int levels, std::string_view open, std::string_view close) {
  std::string text = "a0: lol\n";
  for (int i = 1; i < levels; ++i) {
    text += "a" + std::to_string(i) + ": " + std::string(open);
    for (int j = 0; j < 10; ++j)
      text += (open != "[" ? "${a"
               : j > 0     ? ", '${a"
                           : "'${a") +
              std::to_string(i - 1) + (open == "[" ? "}'" : "}");
    text += std::string(close) + "\n";
  }
  return text;
}

TEST(Interpolate, BoundsWhatReferencesMultiply) {
  EXPECT_NE(test::interpolated(test::parsed(laughs(12, "[", "]")), "a11")
                .find("the references make the config too large"),
            std::string::npos);
  EXPECT_NE(test::interpolated(test::parsed(laughs(12, "x", "y")), "a11")
                .find("the references make the config too large"),
            std::string::npos);
  std::string chain = "a0: 1\n";
  for (int i = 1; i < 60; ++i)
    chain += "a" + std::to_string(i) + ": ${a" + std::to_string(i - 1) + "}\n";
  EXPECT_EQ(test::interpolated(test::parsed(chain), "a59"), "1\n");  // each is resolved once
  std::string tail = "a59: ${a58}\n";
  for (int i = 58; i > 0; --i)
    tail += "a" + std::to_string(i) + ": ${a" + std::to_string(i - 1) + "}\n";
  EXPECT_NE(test::interpolated(test::parsed(tail + "a0: 1\n"), "a59")
                .find("a chain of more than 32 references"),
            std::string::npos);
}

TEST(Interpolate, BoundsTheStepsOfPaths) {
  // each x leads back to the root after 100 steps, each of which asks for the next letter's x
  std::string text;
  for (char c = 'a'; c < 'o'; ++c) {
    std::string next(1, static_cast<char>(c + 1));
    text += std::string(1, c) + ":\n  x: ${" + next + ".x";
    for (int i = 1; i < 100; ++i) text += "." + next + ".x";
    text += "}\n";
  }
  std::string found = test::interpolated(test::parsed(text + "o:\n  x: ${..}\n"), "a");
  EXPECT_NE(found.find("the references make the config too large"), std::string::npos) << found;
}

}  // namespace
}  // namespace cohort::config::config_interpolate_test

#!/usr/bin/env python3
"""lint.selftest: each lint accepts a good sample and complains about each bad one."""

import os
import tempfile
import unittest

import caps
import dead
import dead_functions
import docs
import format as format_lint
import headers
import layers
import words

HEAD = "#pragma once\n/// A head block.\n"


class Sample(unittest.TestCase):
    """A repository in a temporary folder."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = self.folder.name
        self.addCleanup(self.folder.cleanup)

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


class Layers(Sample):
    def complaints(self, path, line):
        self.write(path, "// first\n" + line + "\n")
        return layers.check(self.root)

    def test_downward_include_is_fine(self):
        for path, target in (
            ("runtime/plan/a.cpp", "runtime/base/ids.hpp"),
            ("actors/a.cpp", "runtime/plan/place/ledger.hpp"),
            ("tests/unit/a.cpp", "actors/node/node_actor.hpp"),
        ):
            self.assertEqual(self.complaints(path, f'#include "{target}"'), [])

    def test_upward_include_is_named_with_its_line(self):
        self.assertEqual(
            self.complaints("runtime/plan/a.cpp", '#include "runtime/proto/x.hpp"'),
            ["runtime/plan/a.cpp:2: runtime/plan may not include runtime/proto"],
        )

    def test_lower_layers_see_no_actors_and_no_tools(self):
        for target in ("actors/a.hpp", "tools/a.hpp", "tests/support/a.hpp"):
            found = self.complaints("runtime/stream/a.cpp", f'#  include "{target}"')
            self.assertEqual(len(found), 1, target)

    def test_owned_headers(self):
        bad = (
            ("runtime/plan/a.cpp", "<caf/all.hpp>"),
            ("runtime/plan/a.cpp", "<torch/torch.h>"),
            ("runtime/observe/a.cpp", "<yaml-cpp/yaml.h>"),
            ("actors/a.hpp", "<ATen/core/Tensor.h>"),
            ("runtime/stream/a.cpp", '"trajectory.pb.h"'),
            ("actors/a.cpp", "<zmq.hpp>"),
            ("runtime/plan/a.cpp", "<spdlog/spdlog.h>"),
            ("runtime/transport/a.cpp", "<google/protobuf/message.h>"),
        )
        for path, include in bad:
            self.assertTrue(self.complaints(path, "#include " + include), (path, include))
            os.remove(os.path.join(self.root, path))

    def test_owners_and_tests_may(self):
        good = (
            ("runtime/control/a.hpp", "<caf/all.hpp>"),
            ("actors/a.cpp", "<torch/torch.h>"),
            ("runtime/config/a.cpp", "<yaml-cpp/yaml.h>"),
            ("bench/micro/a.cpp", "<zmq.hpp>"),
            ("runtime/proto/a.cpp", '"runtime/proto/trajectory.pb.h"'),
        )
        for path, include in good:
            self.assertEqual(self.complaints(path, "#include " + include), [])

    def test_include_without_folder(self):
        self.assertIn("path from the root", self.complaints("actors/a.cpp", '#include "b.hpp"')[0])


class Caps(unittest.TestCase):
    @staticmethod
    def body(lines):
        return "  call();\n" * (lines - 2) + "}\n"

    def long_function(self, head, lines=71):
        return caps.check_text("a.cpp", head + " {\n" + self.body(lines))

    def test_limits(self):
        self.assertEqual(caps.check_text("a.cpp", "int x;\n" * 600), [])
        self.assertEqual(len(caps.check_text("a.cpp", "int x;\n" * 601)), 1)
        self.assertEqual(caps.check_text("a.cpp", "x" * 100 + "\n"), [])
        self.assertEqual(len(caps.check_text("a.proto", "x" * 101 + "\n")), 1)

    def test_every_shape_of_function_is_measured(self):
        for head in (
            "void f()",
            "int A::f(int a, std::vector<int> b) const noexcept",
            "auto f(int a) -> std::pair<int, int>",
            "A::A(int a) : a_(a), b_{a}",
            "TEST(Suite, Name)",
            "static bool operator==(const A& a, const A& b)",
            "template <class T>\nExpected<T> f(T x) requires Small<T>",
            "A::~A()",
            'void f(std::string text = "{")',
        ):
            self.assertEqual(len(self.long_function(head, 90)), 1, head)
            self.assertEqual(self.long_function(head, 60), [], head)

    def test_exact_bound(self):
        self.assertEqual(self.long_function("void f()", 70), [])
        self.assertEqual(self.long_function("void f()", 71), ["a.cpp:1: function of 71 lines > 70"])

    def test_other_braces_are_not_functions(self):
        for head in (
            "namespace a",
            "class A : public B",
            "struct A",
            "enum class E : int",
            "namespace {\nnamespace b",
            "int table[] =",
            'extern "C"',
        ):
            closing = "}\n" if head.count("{") else ""
            self.assertEqual(caps.check_text("a.cpp", head + " {\n" + self.body(200) + closing), [])

    def test_member_functions_inside_a_class(self):
        text = "class A {\n public:\n  void f() {\n" + self.body(80) + "  int x_;\n};\n"
        self.assertEqual(caps.check_text("a.hpp", text), ["a.hpp:3: function of 80 lines > 70"])

    def test_braces_in_strings_and_comments_do_not_count(self):
        text = 'void f() {\n  g("}", \'}\', R"x(}}})x");  // }\n  /* } */\n' + self.body(80)
        self.assertEqual(len(caps.check_text("a.cpp", text)), 1)
        small = "int x = 1'000;\nvoid f() { g('{'); }\n"
        self.assertEqual(caps.check_text("a.cpp", small * 80), [])

    def test_python_and_shell(self):
        self.assertEqual(len(caps.check_text("a.py", "def f():\n" + "    x = 1\n" * 70)), 1)
        self.assertEqual(caps.check_text("a.py", "def f():\n" + "    x = 1\n" * 69), [])
        self.assertEqual(len(caps.check_text("a.sh", "f() {\n" + "  true\n" * 70 + "}\n")), 1)


class Headers(unittest.TestCase):
    def test_both_parts_are_needed(self):
        self.assertEqual(headers.check_text("a.hpp", HEAD), [])
        for text in (
            "",
            "/// x\n#pragma once\n",
            "#pragma once\n",
            "#pragma once\n// no\n",
            "#pragma once\n\n/// late\n",
        ):
            self.assertEqual(len(headers.check_text("a.hpp", text)), 1, text)


class Docs(Sample):
    def test_links(self):
        self.write("docs/real.md", "# x\n")
        text = (
            "[a](real.md) [b](real.md#x) [c](https://x.y/z) [d](#here) `[e](no.md)`\n"
            "```\n[f](no.md)\n```\n"
        )
        self.assertEqual(docs.check_text(self.root, "docs/a.md", text), [])
        self.assertEqual(
            docs.check_text(self.root, "docs/a.md", "x\n[g](gone.md)\n"),
            ["docs/a.md:2: link to gone.md: no such file"],
        )


class DeadFunctions(Sample):
    HEADER = (
        "int used(int x);\n"
        "std::vector<int> Unused::unused(int x);\n"
        "class A {\n"
        "  [[nodiscard]] bool is_idle() const { return is_idle_; }\n"
        "  void hook(int x) override;\n"
        "};\n"
    )

    def complaints(self, source, allowed=""):
        self.write("runtime/a/a.hpp", self.HEADER)
        self.write("runtime/a/a.cpp", source)
        self.write("tests/unit/a_test.cpp", "TEST(A, B) { unused(1); is_idle(); }\n")
        self.write(dead_functions.ALLOWED, allowed)
        return [c.split(" (")[0] for c in dead_functions.check(self.root)]

    def test_a_function_that_only_tests_use_is_named(self):
        source = (
            "int used(int x) { return 1; }\n"
            "std::vector<int> Unused::unused(int x) { return {used(x)}; }  // unused(x)\n"
            'const char* text = "is_idle() and unused()";\n'
        )
        self.assertEqual(
            self.complaints(source),
            [
                "runtime/a/a.hpp:2: no production code uses unused()",
                "runtime/a/a.hpp:4: no production code uses is_idle()",
            ],
        )

    def test_a_call_a_pointer_and_a_member_are_uses(self):
        source = "auto f = [] { return x.is_idle() ? &unused : nullptr; };\nint y = used(1);\n"
        self.assertEqual(self.complaints(source), [])

    def test_an_exception_has_a_reason_and_is_needed(self):
        source = "int y = used(1);\n"
        allowed = "unused  a plugin's\nis_idle  what a test waits for\n"
        self.assertEqual(self.complaints(source, allowed), [])
        self.assertEqual(len(self.complaints(source, "unused\nis_idle  x\n")), 1)
        self.assertEqual(len(self.complaints(source, allowed + "used  x\n")), 1)


class Words(unittest.TestCase):
    def test_agents_are_named(self):
        self.assertEqual(words.check_text("a.hpp", "/// The driver ends the run.\n"), [])
        self.assertIn("a.hpp:1: 'Whoever'", words.check_text("a.hpp", "/// Whoever ends it.\n")[0])

    def test_citations_are_of_the_repository(self):
        for good in ("rfc.zeromq.org/spec/32", "docs/style.md", "TensorSpec& spec = x", "seed 42"):
            self.assertEqual(words.check_text("a.cpp", f"// {good}\n"), [], good)
        for bad in ("DESIGN 12", "STYLE 3.1", "spec/roll.md", "spec verl.md 2", "seed 003"):
            self.assertEqual(len(words.check_text("a.cpp", f"// see {bad}\n")), 1, bad)

    def test_cited_files_exist(self):
        known = {"runtime/a/real.hpp", "a/real.hpp", "real.hpp", "docs/real.md"}
        for good in ("(real.hpp)", "docs/real.md", "see a/real.hpp.", "caf/io/x.hpp", "<no.hpp>"):
            self.assertEqual(words.check_text("a.hpp", f"/// {good}\n", known), [], good)
        self.assertEqual(words.check_text("a.cpp", 'open("gone.md");\n', known), [])
        self.assertEqual(
            words.check_text("a.hpp", "/// See gone.hpp.\n", known),
            ["a.hpp:1: gone.hpp is no file of the repository"],
        )
        self.assertEqual(len(words.check_text("a.md", "roll.md 2.6\n", known)), 1)

    def test_cells_are_short(self):
        text = "word " * (words.CELL_WORDS_MAX - 1)
        self.assertEqual(words.check_text("a.md", f"| a | {text}[`b c`](d/e) |\n"), [])
        text += "word "
        self.assertEqual(len(words.check_text("a.md", f"| a | {text} more |\n")), 1)
        self.assertEqual(words.check_text("a.md", f"```\n| {text} more |\n```\n{text} more\n"), [])
        self.assertEqual(words.check_text("a.cpp", f"// | {text} more |\n"), [])


class Dead(Sample):
    def test_listed_and_included_live_the_rest_is_dead(self):
        self.write("runtime/a/CMakeLists.txt", "cohort_library(NAME a SOURCES a.cpp) # old.cpp\n")
        self.write("runtime/a/a.cpp", '#include "runtime/a/used.hpp"\n')
        self.write("runtime/a/used.hpp", HEAD)
        self.write("runtime/a/old.cpp", '#include "runtime/a/old.hpp"\n')
        self.write("runtime/a/old.hpp", HEAD)
        self.assertEqual(
            [c.split(":")[0] for c in dead.check(self.root)],
            ["runtime/a/old.cpp", "runtime/a/old.hpp"],
        )


class Format(Sample):
    @unittest.skipIf(format_lint.find_tool() is None, "clang-format is not installed")
    def test_bad_spacing(self):
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("runtime/good.cpp", "int x = 1;\n")
        self.write("runtime/bad.cpp", "int   x=1 ;\n")
        tool = format_lint.find_tool()
        self.assertEqual(format_lint.check_files(tool, self.root, ["runtime/good.cpp"]), [])
        self.assertTrue(format_lint.check_files(tool, self.root, ["runtime/bad.cpp"]))


if __name__ == "__main__":
    unittest.main()

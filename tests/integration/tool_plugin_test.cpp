/// Tools in their sandboxes: plugins in Python, the interpreter that ships with Cohort, and every
/// way to fail in bounded time (TOOL-1, TOOL-2).
#include <gtest/gtest.h>

#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/plugin/tool/open_tool.hpp"
#include "tests/support/plugin_rig.hpp"

namespace cohort::test {
namespace {

using tasks::ToolEnding;
using tasks::ToolResult;

std::shared_ptr<tasks::Tool> opened(const plugin::PluginSpec& spec) {
  auto tool = plugin::open_tool(spec);
  EXPECT_TRUE(tool.has_value()) << (tool ? "" : tool.error().to_string());
  return tool ? *tool : nullptr;
}

plugin::PluginSpec tool_spec(const std::string& function) {
  return spec_of(source_path("tests/data/plugins/tools.py:" + function));
}

TEST(ToolPlugin, AFunctionHasTheSchemaOfItsSignature) {
  auto tool = opened(tool_spec("echo"));
  ASSERT_TRUE(tool);
  EXPECT_EQ(tool->schema(),
            R"({"type":"function","function":{"name":"echo","description":"Says a text.",)"
            R"("parameters":{"type":"object","properties":{"text":{"type":"string",)"
            R"("description":"what is said, on two lines"},"times":{"type":"integer",)"
            R"("description":"how often"},"mode":{"type":"string"}},"required":["text"]}}})");
  EXPECT_EQ(tool->call(R"({"text": "äb", "times": 2})").text, "äbäb");
  const ToolResult wrong = tool->call(R"({"word": "a"})");
  EXPECT_EQ(wrong.ending, ToolEnding::failed);
  EXPECT_NE(wrong.failure.find("unexpected keyword argument 'word'"), std::string::npos)
      << wrong.failure;
}

TEST(ToolPlugin, ArgsOfTheConfigAreNotThePolicys) {
  auto spec = tool_spec("echo");
  spec.config = R"({"times": 3, "mode": "loud"})";
  auto tool = opened(spec);
  ASSERT_TRUE(tool);
  EXPECT_EQ(tool->schema().find("times"), std::string::npos);
  EXPECT_EQ(tool->call(R"({"text": "a", "times": 1})").text, "aaa");
  spec.config = R"({"volume": 3})";
  auto refused = plugin::open_tool(spec);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("args.volume"), std::string::npos);
}

TEST(ToolPlugin, AnythingIsAText) {
  auto tool = opened(tool_spec("number"));
  ASSERT_TRUE(tool);
  EXPECT_EQ(tool->call(R"({"value": 1.5})").text, R"({"value": 1.5, "twice": 3.0})");
  auto binary = opened(tool_spec("binary"));
  ASSERT_TRUE(binary);
  EXPECT_EQ(binary->call("{}").text, std::string("a?b\0c", 5));
  auto waits = opened(tool_spec("waits"));
  ASSERT_TRUE(waits);
  EXPECT_EQ(waits->call(R"({"seconds": 0})").text, "waited");
}

TEST(ToolPlugin, TakesVerlsClass) {
  auto spec = tool_spec("Squares");
  spec.config = R"({"offset": 1})";
  auto tool = opened(spec);
  ASSERT_TRUE(tool);
  EXPECT_EQ(plugin::tool_name(tool->schema()), "square");
  EXPECT_EQ(tool->call(R"({"x": 4})").text, "17 of instance, 1 open");
  EXPECT_NE(tool->call("{}").failure.find("KeyError"), std::string::npos);
  EXPECT_EQ(tool->call(R"({"x": 2})").text, "5 of instance, 1 open") << "release() was called";
  spec.schema = R"({"type": "function", "function": {"name": "other"}})";
  EXPECT_EQ(plugin::tool_name(opened(spec)->schema()), "other");
}

TEST(ToolPlugin, AHostileToolCostsItsCallAlone) {
  struct Case {
    const char* function;
    const char* arguments;
    ToolEnding ending;
    const char* words;
  };
  for (const Case& x : {Case{"raises", "{}", ToolEnding::failed, "raised ValueError: not this one"},
                        Case{"hangs", "{}", ToolEnding::timed_out, "timeout after 0.5 s"},
                        Case{"dies", "{}", ToolEnding::failed, "killed by signal 9 (SIGKILL)"},
                        Case{"huge", R"({"size": 300000})", ToolEnding::failed,
                             "gave 300000 bytes, more than 200000"},
                        Case{"floods", "{}", ToolEnding::failed, "answered with 1048571 bytes"}}) {
    auto spec = tool_spec(x.function);
    spec.timeout_s = 0.5;
    spec.output_bytes_max = 200'000;
    auto tool = opened(spec);
    ASSERT_TRUE(tool) << x.function;
    for (int i = 0; i < 2; ++i) {  // the second finds a child again
      const double begin = now_seconds();
      const ToolResult said = tool->call(x.arguments);
      EXPECT_EQ(said.ending, x.ending) << x.function;
      EXPECT_NE(said.failure.find(x.words), std::string::npos)
          << x.function << ": " << said.failure;
      EXPECT_LT(now_seconds() - begin, 5) << x.function;
    }
  }
}

TEST(ToolPlugin, CallsWaitForAWorker) {
  auto spec = tool_spec("waits");
  spec.workers = 2;
  auto tool = opened(spec);
  ASSERT_TRUE(tool);
  std::array<ToolResult, 6> results;
  {
    std::vector<std::jthread> callers;
    for (ToolResult& result : results)
      callers.emplace_back([&] { result = tool->call(R"({"seconds": 0.01})"); });
  }
  for (const ToolResult& result : results) EXPECT_EQ(result.text, "waited") << result.failure;
  tool->stop();
  EXPECT_EQ(tool->call("{}").ending, ToolEnding::failed);
}

TEST(ToolPlugin, AFileThatIsNoToolIsRefused) {
  const auto refused = [](const plugin::PluginSpec& spec, const std::string& words) {
    auto tool = plugin::open_tool(spec);
    ASSERT_FALSE(tool) << spec.plugin;
    EXPECT_NE(tool.error().detail.find(words), std::string::npos) << tool.error().detail;
  };
  refused(spec_of("shell"), "no tool is called 'shell'");
  refused(spec_of(source_path("tests/data/plugins/tools.py")), "name the tool, PATH.py:NAME");
  auto spec = tool_spec("echo");
  spec.schema = R"({"name": "echo"})";
  refused(spec, "a tool's schema is");
  spec = spec_of("python");
  spec.has_network = true;
  refused(spec, "sandbox.network");
}

// ---- the interpreter -------------------------------------------------------------------------

plugin::PluginSpec python_spec() {
  auto spec = spec_of("python");
  spec.output_bytes_max = 10'000;
  return spec;
}

std::string code(std::string_view text) {
  std::string out = R"({"code": ")";
  for (const char c : text) out += c == '\n' ? "\\n" : c == '"' ? "\\\"" : std::string(1, c);
  return out + "\"}";
}

TEST(PythonTool, SaysWhatASessionWould) {
  auto tool = opened(python_spec());
  ASSERT_TRUE(tool);
  EXPECT_EQ(plugin::tool_name(tool->schema()), "code_interpreter");
  EXPECT_EQ(tool->call(code("6 * 7")).text, "42\n");
  EXPECT_EQ(tool->call(code("x = 6\nprint(x)\nx * 7")).text, "6\n42\n");
  EXPECT_EQ(tool->call(code("```python\nimport math\nmath.sqrt(2)\n```")).text,
            "1.4142135623730951\n");
  EXPECT_EQ(tool->call(code("print(1)")).text, "1\n") << "None is not shown";
  EXPECT_EQ(tool->call(code("x")).failure, "exception: NameError: name 'x' is not defined, line 1")
      << "no call sees another's names";
}

TEST(PythonTool, AnErrorComesWithTheOutputBeforeIt) {
  auto tool = opened(python_spec());
  ASSERT_TRUE(tool);
  const ToolResult raised = tool->call(code("print(1)\n1 / 0"));
  EXPECT_EQ(raised.ending, ToolEnding::failed);
  EXPECT_EQ(raised.text, "1\n");
  EXPECT_EQ(raised.failure, "exception: ZeroDivisionError: division by zero, line 2");
  EXPECT_EQ(tool->call(code("1 +")).failure, "compile error: SyntaxError: invalid syntax, line 1");
  EXPECT_EQ(tool->call(R"({"text": "1"})").failure, "the argument \"code\" is missing, or no text");
}

TEST(PythonTool, AHostileCallEndsInBoundedTime) {
  auto spec = python_spec();
  spec.timeout_s = 0.5;
  spec.memory_bytes = uint64_t{256} << 20;
  auto tool = opened(spec);
  ASSERT_TRUE(tool);
  for (const auto& [text, ending, words] :
       {std::tuple("print('a', flush=True)\nwhile True: pass", ToolEnding::timed_out,
                   "timeout after 0.5 s"),
        {"while True: print('x' * 1000)", ToolEnding::failed, "output limit"},
        {"import os\nos._exit(3)", ToolEnding::failed, "crash: exit code 3"},
        {"x = bytearray(1 << 30)", ToolEnding::failed, "memory limit"},
        {"import socket\nsocket.create_connection(('127.0.0.1', 80))", ToolEnding::failed,
         "Error"}}) {
    const double begin = now_seconds();
    const ToolResult said = tool->call(code(text));
    EXPECT_EQ(said.ending, ending) << text << ": " << said.failure;
    EXPECT_NE(said.failure.find(words), std::string::npos) << text << ": " << said.failure;
    EXPECT_LE(said.text.size(), 12'100U) << text;
    EXPECT_LT(now_seconds() - begin, 8) << text;
  }
  // Its harness dies, or, as process 1 of a namespace, does not: then the time is over.
  const double begin = now_seconds();
  EXPECT_NE(tool->call(code("import os\nos.kill(os.getppid(), 9)\nwhile True: pass")).ending,
            ToolEnding::answered);
  EXPECT_LT(now_seconds() - begin, 8);
  EXPECT_EQ(tool->call(code("1")).text, "1\n");
}

}  // namespace
}  // namespace cohort::test

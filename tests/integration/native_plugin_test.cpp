/// C++ and C plugins as a user has them: built outside the tree against the installed headers and
/// CMake package, then loaded, in children and in this process.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/plugin/child/child_reward.hpp"
#include "runtime/plugin/child/plugin_environment.hpp"
#include "runtime/plugin/native/native_environment.hpp"
#include "runtime/plugin/native/native_reward.hpp"
#include "runtime/plugin/tool/open_tool.hpp"
#include "tests/support/plugin_rig.hpp"

namespace cohort::test {
namespace {

/// Installs the SDK and builds both projects once.
class NativePlugin : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new PluginFolder;
    const std::string prefix = folder_->path("prefix");
    run("\"" COHORT_CMAKE "\" --install \"" COHORT_BUILD_DIR "\" --component sdk --prefix " +
        prefix);
    for (const auto& [source, name] :
         {std::pair("examples/cpp_reward", "example"), {"tests/data/plugins/native", "native"}}) {
      run("\"" COHORT_CMAKE "\" -G \"" COHORT_CMAKE_GENERATOR "\" -S " + source_path(source) +
          " -B " + folder_->path(name) + " -DCMAKE_PREFIX_PATH=" + prefix +
          " -DCMAKE_CXX_COMPILER=\"" COHORT_CXX_COMPILER "\"");
      run("\"" COHORT_CMAKE "\" --build " + folder_->path(name));
    }
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string path(const std::string& name) { return folder_->path(name); }
  static plugin::PluginSpec world_spec(const std::string& name) {
    plugin::PluginSpec spec;
    spec.plugin = path(name);
    spec.timeout_s = 0.5;
    spec.workers = 1;
    spec.mode = sandbox_mode();
    return spec;
  }
  static plugin::PluginSpec in_process(plugin::PluginSpec spec) {
    spec.is_isolated = false;
    return spec;
  }

 private:
  static void run(const std::string& command) {
    const std::string log = folder_->path("log");
    int status = std::system((command + " >" + log + " 2>&1").c_str());
    std::ifstream in(log);
    ASSERT_EQ(status, 0) << command << "\n" << std::string(std::istreambuf_iterator<char>(in), {});
  }
  static PluginFolder* folder_;
};
PluginFolder* NativePlugin::folder_ = nullptr;

TEST_F(NativePlugin, TheExampleGivesTheSameInAChildAndInThisProcess) {
  auto spec = spec_of(path("example/last_number.so"));
  spec.config = R"({"wrong": -0.5})";
  auto child = open(spec), here = open(in_process(spec));
  ASSERT_TRUE(child && here);
  const auto rows = rows_of({"it is 42", "-1,000.5 or 42.", "41", "none"});
  auto results = child->score(rows);
  EXPECT_EQ(results, here->score(rows));
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[0].score, 1);
  EXPECT_EQ(results[0].detail, "found=42");
  EXPECT_EQ(results[1].score, 1);
  EXPECT_EQ(results[2].score, -0.5);
  EXPECT_EQ(results[3].parts, (std::vector<std::pair<std::string, double>>{{"has_number", 0}}));
}

TEST_F(NativePlugin, TheExampleAgreesWithThePythonOne) {
  auto native = open(path("example/last_number.so")), python = open(example("last_number.py"));
  ASSERT_TRUE(native && python);
  const auto rows = rows_of({"it is 42", "1,042 then 42", "41", "", "42 or -42", "4.2 and 42"});
  auto a = native->score(rows), b = python->score(rows);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(a[i].score, b[i].score) << rows[i].response;
}

TEST_F(NativePlugin, OneRewardInThreeFormsGivesTheSame) {
  auto rows = rows_of({"so #### 42", "#### 41 #### 42 ", "####42", "42", "####", "#### 4 2", ""});
  rows[2].is_finished = false;
  rows[3].ground_truth = "";
  for (const char* config : {"{}", R"({"marker": "4", "requires_finish": false})"}) {
    std::vector<std::vector<tasks::RewardResult>> found;
    for (const std::string& name :
         {std::string("exact"), path("example/exact_answer.so"), example("exact_answer.py")}) {
      auto spec = spec_of(name);
      spec.config = config;
      auto reward = open(spec);
      ASSERT_TRUE(reward);
      found.push_back(reward->score(rows));
    }
    EXPECT_EQ(found[0], found[1]);
    EXPECT_EQ(found[0], found[2]);
  }
}

TEST_F(NativePlugin, OptionsAreReadOrRefused) {
  auto spec = spec_of(path("example/exact_answer.so"));
  spec.config = R"({"marker": "\u00e9\ud83d\ude42\n", "requires_finish": true})";
  auto reward = open(spec);
  ASSERT_TRUE(reward);
  EXPECT_EQ(reward->score(rows_of({"\u00e9\U0001F642\n42"}))[0].score, 1);
  for (const auto& [config, words] :
       {std::pair(R"({"marker": 3})", "option 'marker' is a text, not 3"),
        {R"({"nested": {"a": [1, "]"]}})", "there is no option 'nested'"},
        {R"({"requires_finish": "yes"})", "is true or false, not \"yes\""}}) {
    spec.config = config;
    auto refused = plugin::open_reward(spec);
    ASSERT_FALSE(refused.has_value()) << config;
    EXPECT_NE(refused.error().detail.find(words), std::string::npos) << refused.error().detail;
  }
}

TEST_F(NativePlugin, PlainCWorksAndRefusesItsOptionsInItsOwnWords) {
  auto reward = open(path("native/plain_c.so"));
  ASSERT_TRUE(reward);
  auto results = reward->score(rows_of({"abc", ""}));
  EXPECT_EQ(results[0].score, 3);
  EXPECT_EQ(results[1].error, "no answer");
  auto spec = spec_of(path("native/plain_c.so"));
  spec.config = R"({"a": 1})";
  for (const auto& each : {spec, in_process(spec)}) {
    auto refused = plugin::open_reward(each);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::config);
    EXPECT_NE(refused.error().detail.find("takes no options"), std::string::npos);
  }
}

TEST_F(NativePlugin, AnotherAbiVersionIsRefusedInASentence) {
  auto refused = [](const std::string& file, const std::string& words) {
    for (const auto& spec : {spec_of(file), in_process(spec_of(file))}) {
      auto reward = plugin::open_reward(spec);
      ASSERT_FALSE(reward.has_value()) << file;
      EXPECT_EQ(reward.error().code, Errc::unsupported) << reward.error().to_string();
      EXPECT_NE(reward.error().detail.find(words), std::string::npos) << reward.error().detail;
    }
  };
  refused(path("native/other_abi.so"),
          "was built for version 2 of the plugin interface, this program speaks version 1: build "
          "it again with the headers of this installation");
  refused(path("native/short_table.so"), "its table has 8 bytes");
  refused(path("native/no_plugin.so"), "does not export cohort_reward_plugin()");
  refused(path("example/count_up.so"), "does not export cohort_reward_plugin()");
  auto environment = plugin::open_environment(world_spec("example/last_number.so"));
  ASSERT_FALSE(environment.has_value());
  EXPECT_EQ(environment.error().code, Errc::unsupported);
}

TEST_F(NativePlugin, ACrashInAChildCostsItsRowAlone) {
  auto spec = spec_of(path("native/failing.so"));
  spec.timeout_s = 0.5;
  auto reward = open(spec);
  ASSERT_TRUE(reward);
  auto results =
      reward->score(rows_of({"good", "hang", "exit", "abort", "throw", "nan", "print", "good"}));
  ASSERT_EQ(results.size(), 8U);
  EXPECT_EQ(results[0].score, 4) << results[0].error;
  EXPECT_EQ(results[1].error, "timeout after 0.5 s");
  EXPECT_EQ(results[2].error, "exited with 3");
  EXPECT_EQ(results[3].error, "killed by signal 6 (SIGABRT)");
  EXPECT_EQ(results[4].error, "not this one");
  EXPECT_EQ(results[5].error, "returned nan");
  EXPECT_EQ(results[6].score, 5) << results[6].error;
  EXPECT_EQ(results[7].score, 4) << results[7].error;
}

TEST_F(NativePlugin, RowsThatAreJudgedTogetherAreAskedForAloneWhenOneThrows) {
  for (const auto& spec :
       {spec_of(path("native/together.so")), in_process(spec_of(path("native/together.so")))}) {
    auto reward = open(spec);
    ASSERT_TRUE(reward);
    auto results = reward->score(rows_of({"ab", "abcd"}));
    EXPECT_EQ(results[0].score, 0.5);
    EXPECT_EQ(results[1].score, 1);
    results = reward->score(rows_of({"ab", "", "abcd"}));
    EXPECT_EQ(results[0].score, 1);  // alone it is the longest
    EXPECT_EQ(results[1].error, "an empty answer");
    EXPECT_EQ(results[2].score, 1);
  }
}

TEST_F(NativePlugin, AReplacedFileIsTakenByReload) {
  PluginFolder folder;
  auto put = [&](const std::string& file) {
    std::filesystem::copy_file(file, folder.path("new"));
    std::filesystem::rename(folder.path("new"), folder.path("mine.so"));
  };
  put(path("native/plain_c.so"));
  auto reward = open(folder.path("mine.so"));
  ASSERT_TRUE(reward);
  EXPECT_EQ(reward->score(rows_of({"abc"}))[0].score, 3);
  EXPECT_FALSE(*reward->reload());
  put(path("native/together.so"));
  auto reloaded = reward->reload();
  ASSERT_TRUE(reloaded.has_value()) << reloaded.error().to_string();
  EXPECT_TRUE(*reloaded);
  EXPECT_EQ(reward->score(rows_of({"abc"}))[0].score, 1);
  put(path("native/other_abi.so"));
  EXPECT_FALSE(reward->reload().has_value());
  EXPECT_EQ(reward->score(rows_of({"abc"}))[0].score, 1);
}

TEST_F(NativePlugin, AnEnvironmentIsPlayedInAChild) {
  auto source = plugin::open_environment(world_spec("example/count_up.so"));
  ASSERT_TRUE(source.has_value()) << source.error().to_string();
  auto world = (*source)->make();
  EXPECT_EQ(world->reset(7), "7");
  EXPECT_EQ(world->instructions(), "Answer with the next number.");
  EXPECT_EQ(world->actions_left(), 3);
  EXPECT_FLOAT_EQ(world->step("8").reward, 1.0F / 3);
  EXPECT_EQ(world->actions_left(), 2);
  world->step("9");
  auto last = world->step("10");
  EXPECT_TRUE(last.is_done && last.is_success);
  EXPECT_EQ(last.stop_reason, "goal");
  EXPECT_EQ(world->metrics(), (tasks::EpisodeMetrics{{"counted", 3}}));
}

TEST_F(NativePlugin, AToolIsCalledInAChild) {
  auto spec = spec_of(path("example/capitals.so"));
  spec.config = R"({"longest": 5})";
  auto tool = plugin::open_tool(spec);
  ASSERT_TRUE(tool.has_value()) << tool.error().to_string();
  EXPECT_EQ(plugin::tool_name((*tool)->schema()), "capitals");
  EXPECT_EQ((*tool)->call(R"({"text": "abc"})").text, "ABC");
  EXPECT_EQ((*tool)->call(R"({"text": "abcdef"})").failure, "a long text");
  EXPECT_EQ((*tool)->call(R"({"words": "abc"})").ending, tasks::ToolEnding::failed);
  spec.config = R"({"shortest": 5})";
  EXPECT_FALSE(plugin::open_tool(spec).has_value());
  auto no_tool = plugin::open_tool(spec_of(path("example/count_up.so")));
  ASSERT_FALSE(no_tool.has_value());
  EXPECT_EQ(no_tool.error().code, Errc::unsupported);
}

TEST_F(NativePlugin, AWorldThatDiesEndsItsEpisode) {
  auto source = plugin::open_environment(world_spec("native/failing_world.so"));
  ASSERT_TRUE(source.has_value()) << source.error().to_string();
  for (const auto& [answer, why] : {std::pair("abort", "killed by signal 6 (SIGABRT)"),
                                    {"hang", "timeout after 0.5 s"},
                                    {"throw", "not this one"}}) {
    auto world = (*source)->make();
    EXPECT_EQ(world->reset(5), "seed 5");
    EXPECT_EQ(world->step("fine").observation, "fine");
    auto step = world->step(answer);
    EXPECT_TRUE(step.is_done);
    EXPECT_EQ(step.stop_reason, std::string("plugin_error: ") + why);
  }
}

}  // namespace
}  // namespace cohort::test

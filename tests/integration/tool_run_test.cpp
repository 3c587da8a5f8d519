// Runs whose policy calls tools: it learns a dialogue with a call from rows (pipeline sft), then
// plays against the tool itself (pipeline rlvr).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/byte_folder.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;
using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;

// A whole call is one token, so that a policy of 20,000 parameters learns to make it in seconds.
const std::string k_call =
    R"(<tool_call>{"name": "python", "arguments": {"code": "6 * 7"}}</tool_call>)";
const std::string k_schema =
    R"({"type": "function", "function": {"name": "python", "parameters": {"required": ["code"]}}})";

/// Rows of the question, with the dialogue to imitate or the answer to be scored.
std::string write_rows(const std::filesystem::path& path, bool is_sft) {
  std::ofstream out(path);
  for (int i = 0; i < 16; ++i) {
    Json row = {{"ground_truth", "42"}, {"messages", {{{"role", "user"}, {"content", "6*7?"}}}}};
    if (is_sft) {
      row["tools"] = Json::array({Json::parse(k_schema)});
      row["messages"].push_back({{"role", "assistant"}, {"content", k_call}});
      row["messages"].push_back({{"role", "tool"}, {"content", "42\n"}});
      row["messages"].push_back({{"role", "assistant"}, {"content", "42"}});
    }
    out << row.dump() << "\n";
  }
  return path.string();
}

/// The policy, trained once.
class ToolRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    const std::filesystem::path model = folder_->path() / "model";
    tests::write_byte_model(model);
    tests::write_tokenizer_folder(model, tests::k_tool_template, "<|im_end|>", {k_call});
    Process sft(
        {test::binary("actor-node"), "run", "--plain",
         test::source_path("configs/sft_arithmetic.yaml"),
         "output_dir=" + (folder_->path() / "sft").string(), "pretrain=" + model.string(), "~model",
         "sft_train.data_args.template=native",
         "sft_train.data_args.file_name=[" + write_rows(folder_->path() / "sft.jsonl", true) + "]",
         "sft_train.training_args.learning_rate=1e-2",
         "sft_train.training_args.per_device_train_batch_size=8",
         "sft_train.training_args.gradient_accumulation_steps=1", "sequence_length=320",
         "++max_steps=40", "eval_steps=-1", "save_steps=40", "save_hf=true",
         "cards.memory_bytes=128MiB", "cards.reserve_bytes=1MiB"},
        *folder_);
    ASSERT_EQ(sft.wait(), 0) << sft.err() << sft.out();
    policy_ = run_folder(sft) + "/hf/step_40";
  }
  static void TearDownTestSuite() { delete folder_; }

  /// Two steps of GRPO on the question, with the tool as `more` says.
  static std::vector<std::string> rlvr(const TempFolder& out,
                                       const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "~model",
        "max_steps=2",
        "actor_train.data_args.template=native",
        "actor_train.data_args.file_name=[" + write_rows(out.path() / "rows.jsonl", false) + "]",
        "prompt_length=256",
        "response_length=160",
        "rewards.answer.args.marker=''",
        "++tools.python.schema=" + k_schema,
        "++multi_turn.max_assistant_turns=3"};
    all.insert(all.end(), more.begin(), more.end());
    return test::addition_run(out.path(), policy_, all);
  }

  static std::vector<Json> trajectories(const Process& run, const TempFolder& temp) {
    const std::string jsonl = (temp.path() / "all.jsonl").string();
    Process exported({test::binary("traj"), "export", run_folder(run), "--jsonl", jsonl}, temp);
    EXPECT_EQ(exported.wait(), 0) << exported.err();
    std::vector<Json> all;
    std::ifstream in(jsonl);
    for (std::string line; std::getline(in, line);) all.push_back(Json::parse(line));
    return all;
  }
  static double metric(const Process& run, const std::string& name) {
    return test::metric_rows(run_folder(run)).back().value(name, -1.0);
  }

 private:
  static TempFolder* folder_;
  static std::string policy_;
};
TempFolder* ToolRun::folder_ = nullptr;
std::string ToolRun::policy_;

TEST_F(ToolRun, ThePolicyCallsTheInterpreterAndItsLastAnswerIsScored) {
  TempFolder folder;
  Process run(rlvr(folder, {"++tools.python.type=python"}), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  EXPECT_GT(metric(run, "env/answer/tool_calls"), 0.5) << run.out();
  EXPECT_EQ(metric(run, "env/answer/tool_timeouts"), 0);
  int called = 0;
  for (const Json& t : trajectories(run, folder)) {
    const Json& turns = t.at("turns");
    if (turns.size() < 2 || turns[0].at("response") != k_call + "<|im_end|>") continue;
    ++called;
    EXPECT_EQ(turns[1].at("observation"), "42\n");
    const std::string last = turns.back().at("response");
    if (last == "42<|im_end|>") {
      EXPECT_EQ(t.at("score"), 1.0) << t;
    }
    if (last.find("42") == std::string::npos) {
      EXPECT_EQ(t.at("score"), 0.0) << t;
    }
    // What was sampled counts, what the tool said and the markup around it do not.
    const auto mask = t.at("response_mask").get<std::vector<int>>();
    std::vector<int> expected(mask.size(), 0);
    for (const Json& turn : turns)
      for (size_t i = turn.at("response_begin"); i < turn.at("response_end"); ++i) expected[i] = 1;
    EXPECT_EQ(mask, expected);
    EXPECT_GT(turns[1].at("response_begin"), turns[0].at("response_end"));
  }
  EXPECT_GT(called, 16) << "of 32 trajectories";
  // Bit for bit again, each card in a process of its own.
  TempFolder other;
  std::vector<std::string> command = rlvr(other, {"++tools.python.type=python"});
  command.insert(command.begin() + 2, {"--processes", "2"});
  Process again(command, other);
  ASSERT_EQ(again.wait(), 0) << again.err();
  EXPECT_EQ(hashes(run_folder(again)), hashes(run_folder(run)));
}

TEST_F(ToolRun, AToolThatHangsCostsItsCallAndNotTheRun) {
  TempFolder folder;
  Process run(
      rlvr(folder,
           {"max_steps=1", "++tools.python.type=plugin",
            "++tools.python.plugin=" + test::source_path("tests/data/plugins/tools.py") + ":stuck",
            "++tools.python.timeout_s=0.2", "++tools.python.workers=4"}),
      folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  EXPECT_GT(metric(run, "env/answer/tool_timeouts"), 0.5);
  int told = 0;
  for (const Json& t : trajectories(run, folder))
    for (const Json& turn : t.at("turns"))
      told += turn.at("observation") == "Error: timeout after 0.2 s" ? 1 : 0;
  EXPECT_GT(told, 8) << "of 16 trajectories";
}

}  // namespace
}  // namespace cohort

// A judge on cards of a run of pipeline rlvr: a small language model that pipeline sft has taught
// to answer "Score: 7", exported, and asked about every answer. Its replies are those that
// `actor-node logprobs` finds likeliest.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/byte_folder.hpp"
#include "tests/support/recovery.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;

constexpr int k_reply = 12;  // tokens

/// A folder of a model whose reply to everything is a verdict.
std::string train_judge(const TempFolder& folder) {
  const auto model = folder.path() / "model";
  tests::write_byte_model(model);
  const std::string rows = (folder.path() / "verdicts.jsonl").string();
  {
    std::ofstream out(rows);
    for (int i = 0; i < 64; ++i)
      out << json{{"messages",
                   {{{"role", "user"}, {"content", std::to_string(i * 37 % 100)}},
                    {{"role", "assistant"}, {"content", "Score: 7"}}}}}
          << "\n";
  }
  Process run(
      test::rows_run(
          "sft_arithmetic", folder,
          {"~model", "pretrain=" + model.string(), "sft_train.data_args.file_name=[" + rows + "]",
           "sft_train.data_args.template=native", "sft_train.training_args.learning_rate=1.0e-2",
           "sequence_length=96", "++max_steps=40", "eval_steps=-1", "save_steps=40"}),
      folder);
  EXPECT_EQ(run.wait(), 0) << run.err();
  const std::string out = (folder.path() / "judge").string();
  Process exported({test::binary("actor-node"), "export", run_folder(run), out}, folder);
  EXPECT_EQ(exported.wait(), 0) << exported.err();
  return out;
}

std::vector<std::string> judged_run(const TempFolder& folder, const std::string& judge,
                                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = test::small_model();
  words.insert(
      words.end(),
      {"max_steps=2", "num_gpus_per_node=3",
       "++rewards.judge={type: llm_judge, judge_model_type: inference, weight: 0.5, "
       "tag_included: [\"*\"], model_args: {model_name_or_path: " +
           judge + "}, args: {template: \"{response}\"}, generating_args: {max_new_tokens: " +
           std::to_string(k_reply) + "}, device_mapping: [2]}"});
  words.insert(words.end(), more.begin(), more.end());
  return test::addition_run(folder.path(), "~", words);
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> rows;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  return rows;
}

TEST(JudgeRole, ItsRepliesAreThoseOfItsFolder) {
  TempFolder folder;
  const std::string judge = train_judge(folder);
  Process run(judged_run(folder, judge), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  EXPECT_TRUE(test::metric_rows(run_folder(run)).back().contains("rewards/judge/mean"));

  // The plan has the bytes that the card's allocator sees (LEAK-1).
  Process phases({test::binary("traj"), "records", run_folder(run), "--type", "phase"}, folder);
  ASSERT_EQ(phases.wait(), 0) << phases.err();
  bool has_come = false;
  for (const json& line : lines_of(phases.out())) {
    EXPECT_TRUE(line.at("data").value("alarms", json::array()).empty()) << line;
    for (const json& move : line.at("data").at("cards"))
      has_come = has_come || (move.at("role") == "rewards.judge" && move.at("verb") == "onload" &&
                              move.at("bytes").get<uint64_t>() > 0);
  }
  EXPECT_TRUE(has_come) << phases.out().substr(0, 2000);

  Process exported({test::binary("traj"), "export", run_folder(run), "--jsonl", "-"}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  const std::string questions = (folder.path() / "questions.jsonl").string();
  const std::string ids = (folder.path() / "ids.jsonl").string();
  std::ofstream asked(questions);
  std::vector<std::string> replies;
  for (const json& t : lines_of(exported.out())) {
    for (const json& part : t.at("reward_parts")) {
      if (part.at("name") != "judge") continue;
      EXPECT_DOUBLE_EQ(part.at("value").get<double>(), 0.7) << part;
      EXPECT_EQ(part.at("weight"), 0.5);
      replies.push_back(part.at("detail"));
    }
    std::string answer = t.at("turns").back().at("response");
    if (const size_t end = answer.find("<|im_end|>"); end != std::string::npos) answer.resize(end);
    asked << json{{"text", "<|im_start|>user\n" + answer + "<|im_end|>\n<|im_start|>assistant\n"}}
          << "\n";
  }
  asked.close();
  ASSERT_EQ(replies.size(), 32U) << "two steps of 16 answers";
  Process tokens({test::binary("actor-node"), "tokenize", judge, questions}, folder);
  ASSERT_EQ(tokens.wait(), 0) << tokens.err();
  std::ofstream(ids) << tokens.out();
  Process greedy(
      {test::binary("actor-node"), "logprobs", judge, ids, "--greedy", std::to_string(k_reply)},
      folder);
  ASSERT_EQ(greedy.wait(), 0) << greedy.err();
  const auto found = lines_of(greedy.out());
  ASSERT_EQ(found.size(), replies.size());
  for (size_t i = 0; i < found.size(); ++i) {
    std::string reply;
    for (int id : found[i].at("greedy")) {
      if (id >= tests::k_end_of_text) break;
      reply += static_cast<char>(id);
    }
    EXPECT_EQ(replies[i], reply) << i;
  }
}

// Where the cards are changes nothing: two in other processes, or the rollout's own.
TEST(JudgeRole, NoLayoutOfCardsChangesAHash) {
  TempFolder folder;
  const std::string judge = train_judge(folder);
  Process run(judged_run(folder, judge), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const auto expected = hashes(run_folder(run));
  ASSERT_EQ(expected.size(), 3U);
  Process processes(test::in_processes(judged_run(folder, judge,
                                                  {"exp_name=processes", "num_gpus_per_node=4",
                                                   "rewards.judge.device_mapping=[2,3]"}),
                                       4),
                    folder);
  ASSERT_EQ(processes.wait(), 0) << processes.err();
  EXPECT_EQ(hashes(run_folder(processes)), expected);
  Process shared(judged_run(folder, judge,
                            {"exp_name=shared", "rewards.judge.device_mapping=[1]",
                             "placement.offload=step", "++rewards.judge.workers=3"}),
                 folder);
  ASSERT_EQ(shared.wait(), 0) << shared.err();
  EXPECT_EQ(hashes(run_folder(shared)), expected);
}

// On one card all take turns: the judge reads in phase reference, held-out answers too.
TEST(JudgeRole, ItTakesTurnsWithTheRolesThatTrain) {
  TempFolder folder;
  const std::string judge = train_judge(folder);
  Process run(judged_run(folder, judge), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  Process turns(
      judged_run(folder, judge,
                 {"exp_name=turns", "placement.mode=timeshare", "placement.offload=step",
                  "actor_infer.device_mapping=list(range(0,1))", "rewards.judge.device_mapping=[0]",
                  "num_gpus_per_node=1", "eval_steps=1", "val_batch_size=40"}),
      folder);
  ASSERT_EQ(turns.wait(60000), 0) << turns.err();
  EXPECT_EQ(hashes(run_folder(turns)), hashes(run_folder(run)));
  Process exported({test::binary("traj"), "export", run_folder(turns), "--jsonl", "-"}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  std::map<std::string, int> judged;
  for (const json& t : lines_of(exported.out()))
    for (const json& part : t.at("reward_parts"))
      if (part.at("name") == "judge" && part.at("value") == 0.7) ++judged[t.at("kind")];
  EXPECT_EQ(judged["train"], 32);
  EXPECT_GE(judged["val"], 3 * 40) << "before the first step and after each";
}

TEST(JudgeRole, ARunWhoseJudgeIsKilledStartsAgainByItself) {
  TempFolder folder, other;
  const std::string judge = train_judge(folder);
  Process run(judged_run(folder, judge), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  auto command = test::in_processes(judged_run(other, judge), 3);
  command.insert(command.begin() + 2, {"--restarts", "1"});
  const std::filesystem::path claim = other.path() / "claim";
  Process killed(test::with_failpoint(command, "rewards.judge.computed:2:kill", claim), other);
  ASSERT_EQ(killed.wait(90000), 0) << killed.err();
  EXPECT_TRUE(test::claimed_at(claim)) << "the point was never passed";
  EXPECT_EQ(hashes(run_folder(killed)), hashes(run_folder(run)));
}

TEST(JudgeRole, WhatCannotJudgeIsRefusedOrMasks) {
  TempFolder folder;
  const auto refusal = [&](const std::string& judge, const std::vector<std::string>& more = {}) {
    Process run(judged_run(folder, judge, more), folder);
    EXPECT_EQ(run.wait(), 2) << run.out();
    return run.err();
  };
  const std::string key = "rewards.judge.model_args.model_name_or_path: ";
  const std::string nowhere = (folder.path() / "nowhere").string();
  EXPECT_NE(refusal(nowhere).find(key + "no folder '" + nowhere + "'"), std::string::npos);
  const auto model = folder.path() / "untaught";
  tests::write_byte_model(model);
  EXPECT_NE(refusal(model.string(), {"rewards.judge.device_mapping=[0]"})
                .find("shares a card with a role that trains"),
            std::string::npos);
  EXPECT_NE(refusal(model.string(), {"++rewards.judge.args.templat=x"}).find("templat"),
            std::string::npos);
  EXPECT_NE(refusal(model.string(), {"rewards.judge.judge_model_type=cluster"})
                .find("cluster is not built in; use inference"),
            std::string::npos);
  // It has learnt nothing: no reply has a verdict, and every answer is masked with the reason.
  Process run(judged_run(folder, model.string(), {"max_steps=1"}), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  Process shown({test::binary("traj"), "export", run_folder(run), "--jsonl", "-"}, folder);
  ASSERT_EQ(shown.wait(), 0) << shown.err();
  for (const json& t : lines_of(shown.out()))
    EXPECT_TRUE(t.at("mask_reason").get<std::string>().starts_with("rewards.judge: llm_judge: "))
        << t.at("mask_reason");
}

}  // namespace
}  // namespace cohort

// Pipeline rlvr before a run: which rewards score a row, what a step takes, where a resumed one
// goes on.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "actors/roles/hinted_teacher.hpp"
#include "actors/run/preflight.hpp"
#include "actors/run/task_source.hpp"
#include "runtime/config/load.hpp"
#include "runtime/job/policy.hpp"
#include "runtime/model/hf_folder.hpp"
#include "tests/support/byte_folder.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/config_text.hpp"

namespace cohort::actors {
namespace {

/// configs/arithmetic_rlvr.yaml with overrides, and a file of rows of its own.
struct Rows {
  explicit Rows(const std::string& lines) { std::ofstream(path()) << lines; }
  std::string path() const { return (folder.path() / "rows.jsonl").string(); }
  Expected<std::shared_ptr<const PromptSet>> open(std::vector<std::string> more) {
    std::vector<std::string> overrides = {"actor_train.data_args.file_name=[" + path() + "]",
                                          "model.tokenizer=bytes", "eval_steps=-1",
                                          "prompt_length=40", "response_length=24"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    auto loaded = config::load(test::source_path("configs/arithmetic_rlvr.yaml"), overrides);
    if (!loaded) return loaded.error();
    config = *loaded;
    COHORT_ASSIGN(policy, job::policy_of(config));
    return PromptSet::open(config, policy.chat);
  }
  test::TempFolder folder;
  config::RunConfig config;
  job::Policy policy;
};

std::string row(const std::string& tag, const std::string& prompt) {
  return R"({"messages": [{"role": "user", "content": ")" + prompt + R"("}], "tag": ")" + tag +
         R"(", "ground_truth": "1"})" + "\n";
}

/// A section that says no more than the words leaves the shape to the folder.
TEST(Policy, ATokenizerBesideAFolderWithoutOneLeavesTheShapeToTheFolder) {
  test::TempFolder temp;
  const auto model = temp.path() / "model", text = temp.path() / "text";
  tests::write_byte_model(model);
  std::filesystem::create_directory(text);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::rename(model / name, text / name);
  const auto policy_with = [&](std::vector<std::string> more) {
    std::vector<std::string> overrides = {"pretrain=" + model.string(), "~model"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return job::policy_of(
        config::load(test::source_path("configs/arithmetic_rlvr.yaml"), overrides).value());
  };
  const auto expected = model::read_hf_folder(model).value().shape;
  for (const std::string& words : {text.string(), std::string("bytes")}) {
    const auto policy = policy_with({"+model.tokenizer=" + words});
    ASSERT_TRUE(policy) << policy.error().detail;
    EXPECT_EQ(policy->shape, expected) << words;
  }
  const auto section = policy_with({"+model.tokenizer=bytes", "+model.hidden_size=48"});
  ASSERT_TRUE(section) << section.error().detail;  // a run's checkpoint beside the section it had
  EXPECT_EQ(section->shape.hidden_size, 48);
}

TEST(PromptSet, ARowIsScoredByTheRewardsThatNameItsTag) {
  Rows rows(row("a", "one") + row("b", "two") + row("c", "three"));
  auto set = rows.open({"~rewards.answer", "+rewards.first.type=exact",
                        "+rewards.first.tag_included=[a, b]", "+rewards.second.type=exact",
                        "+rewards.second.tag_included=[b, c]", "+rewards.third.type=length"});
  ASSERT_TRUE(set) << set.error().detail;
  EXPECT_EQ((*set)->at(0).scorers, (std::vector<std::string>{"first", "third"}));
  EXPECT_EQ((*set)->at(1).scorers, (std::vector<std::string>{"first", "second", "third"}));
  EXPECT_EQ((*set)->at(2).scorers, (std::vector<std::string>{"second", "third"}));
  EXPECT_EQ((*set)->at(1).domain, "first");
}

// HINT-1.
TEST(TeacherHints, TheTeacherReadsTheSolutionThatThePolicyDoesNot) {
  const auto line = [](const std::string& solution) {
    return R"({"messages": [{"role": "user", "content": "1+1?"}], "tag": "a", "ground_truth": "2",)"
           R"( "reference_solution": ")" +
           solution + "\"}\n";
  };
  Rows rows(line("two") + line(std::string(200, 'x')));
  const auto open =
      [&](std::vector<std::string> more) -> Expected<std::shared_ptr<const TeacherHints>> {
    COHORT_ASSIGN(auto prompts, rows.open({"rewards.answer.tag_included=[a]", "sequence_length=96",
                                           "opsd_mode=true", "teacher.device_mapping=[2]",
                                           "teacher.model_args.model_name_or_path=x"}));
    config::RunConfig config = rows.config;
    config.opd.is_self = true;
    config.opd.teacher_template = "{problem} ({solution})";
    for (const std::string& x : more)
      if (x.starts_with("tokens="))
        config.opd.solution_tokens = std::stoi(x.substr(7));
      else if (x.starts_with("key="))
        config.opd.solution_key = x.substr(4);
      else if (x.starts_with("length="))
        config.sequence_length = std::stoi(x.substr(7));
    return TeacherHints::open(config, *prompts, *rows.policy.tokenizer);
  };
  const auto text = [&](std::span<const int32_t> ids) {
    return rows.policy.tokenizer->decode(ids);
  };
  const auto hints = open({});
  ASSERT_TRUE(hints) << hints.error().detail;
  EXPECT_EQ(text((*hints)->prompt(0)), "1+1? (two)");
  const std::string cut = text((*hints)->prompt(1));
  EXPECT_EQ(cut.size(), 96U - 24U) << "sequence_length less the longest answer";
  EXPECT_TRUE(cut.starts_with("1+1? (xxx") && cut.ends_with("xx)")) << cut;
  EXPECT_EQ((*hints)->cut(), 1U);
  EXPECT_EQ(text((*open({"tokens=2"}))->prompt(0)), "1+1? (tw)");
  const auto missing = open({"key=proof"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().detail.find("rows.jsonl:1: no text in column 'proof'"),
            std::string::npos)
      << missing.error().detail;
  const auto small = open({"length=28"});
  ASSERT_FALSE(small);
  EXPECT_NE(small.error().detail.find("raise it"), std::string::npos) << small.error().detail;
}

TEST(HintedTeacher, AnAnswerKeepsItsTokensBehindAnotherPrompt) {
  proto::Trajectory t;
  t.tokens = {1, 2, 3, 4, 5};
  t.response_mask = {0, 0, 1, 0, 1};
  t.turns.resize(2);
  t.turns[0].response_begin = 2, t.turns[0].response_end = 3;
  t.turns[1].response_begin = 4, t.turns[1].response_end = 5;
  const proto::Trajectory read = with_prompt(t, std::vector<int32_t>{7, 8, 9});
  EXPECT_EQ(read.tokens, (std::vector<int32_t>{7, 8, 9, 3, 4, 5}));
  EXPECT_EQ(read.response_mask, (std::vector<uint8_t>{0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(read.turns[1].response_begin, 5U);
  EXPECT_EQ(read.turns[1].response_end, 6U);
}

TEST(PromptSet, ARowThatNoRewardScoresIsNamedBeforeTheRun) {
  Rows rows(row("a", "one") + row("openai/gsm8k", "two"));
  auto set = rows.open({"rewards.answer.tag_included=[a]"});
  ASSERT_FALSE(set);
  EXPECT_NE(set.error().detail.find("rows.jsonl:2"), std::string::npos) << set.error().detail;
  EXPECT_NE(set.error().detail.find("'openai/gsm8k'"), std::string::npos);
  EXPECT_NE(set.error().detail.find("gsm8k is made for it"), std::string::npos);
}

TEST(PromptSet, AnOverlongPromptIsAnErrorLeftOutOrCut) {
  const std::string lines = row("a", "short") + row("a", std::string(50, 'x') + "end");
  auto refused = Rows(lines).open({});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("rows.jsonl:2"), std::string::npos)
      << refused.error().detail;
  auto filtered = Rows(lines).open({"+actor_train.data_args.filter_overlong_prompts=true"});
  ASSERT_TRUE(filtered);
  EXPECT_EQ((*filtered)->size(), 1U);
  EXPECT_EQ((*filtered)->counts().overlong, 1U);
  Rows rows(lines);
  auto cut = rows.open({"+actor_train.data_args.truncation=left"});
  ASSERT_TRUE(cut) << cut.error().detail;
  EXPECT_EQ(rows.policy.tokenizer->decode((*cut)->at(1).tokens), std::string(37, 'x') + "end");
}

TEST(PromptSet, WithoutHeldOutRowsNothingIsEvaluated) {
  Rows rows(row("a", "one"));
  auto set = rows.open({"eval_steps=5", "~validation.data_args.file_name"});
  ASSERT_TRUE(set) << set.error().detail;
  EXPECT_EQ((*set)->size(), 1U);
  EXPECT_EQ(rows.config.eval_steps, -1);
  EXPECT_TRUE(
      std::ranges::any_of(rows.config.notes, [](const auto& x) { return x.key == "eval_steps"; }));
}

TEST(PromptSet, ASystemPromptStandsBeforeWhoHasNone) {
  Rows rows(row("a", "one") +
            R"({"messages": [{"role": "system", "content": "own"}, )"
            R"({"role": "user", "content": "two"}], "tag": "a", "ground_truth": "1"})"
            "\n");
  auto set = rows.open({"+actor_train.data_args.system_prompt=Be brief.", "prompt_length=200",
                        "actor_train.data_args.template=native"});
  ASSERT_TRUE(set) << set.error().detail;
  EXPECT_EQ((*set)->text(0),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\none<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ((*set)->text(1).find("<|im_start|>system\nown<|im_end|>"), 0U);
}

std::vector<uint64_t> seeds_of(const Expected<std::vector<GroupTask>>& groups) {
  std::vector<uint64_t> seeds;
  if (groups)
    for (const GroupTask& group : *groups) seeds.push_back(group.seed);
  return seeds;
}

TEST(TaskSource, AResumedRunTakesTheRowsThatWouldHaveCome) {  // DATA-2
  auto config = config::load(test::source_path("configs/arithmetic_rlvr.yaml"), {"seed=5"});
  ASSERT_TRUE(config);
  auto plan = preflight(*config);
  ASSERT_TRUE(plan) << plan.error().detail;
  auto whole = make_prompt_tasks(*config, plan->prompts).value();
  std::set<uint64_t> seen;
  std::string state;
  std::vector<std::vector<uint64_t>> after;
  for (uint64_t step = 1; step <= 6; ++step) {
    if (step == 4) state = whole->state();
    std::vector<uint64_t> rows = seeds_of(whole->train(step));
    ASSERT_EQ(rows.size(), 32U);
    for (uint64_t each : rows) {
      EXPECT_TRUE(seen.insert(each).second) << "ORDER-1: a row comes once in an epoch";
      EXPECT_LT(each, plan->prompts->train_rows()) << "a held-out row is never trained on";
    }
    if (step >= 4) after.push_back(rows);
  }
  auto resumed = make_prompt_tasks(*config, plan->prompts).value();
  ASSERT_TRUE(resumed->restore(state));
  for (uint64_t step = 4; step <= 6; ++step)
    EXPECT_EQ(seeds_of(resumed->train(step)), after[step - 4]);
  EXPECT_FALSE(resumed->restore("{\"answer\": 3}"));
  EXPECT_EQ(resumed->held_out().size(), 500U);
  for (const GroupTask& group : resumed->held_out())
    EXPECT_GE(group.seed, plan->prompts->train_rows());
}

TEST(TaskSource, AGroupInThePlaceOfAnotherTakesTheNextRowOfItsDomain) {  // DATA-2
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += row(i % 2 == 0 ? "even" : "odd", std::to_string(i));
  Rows rows(lines);
  auto set =
      rows.open({"~rewards.answer", "+rewards.even.type=exact", "+rewards.even.tag_included=[even]",
                 "+rewards.odd.type=exact", "+rewards.odd.tag_included=[odd]",
                 "actor_train.training_args.gradient_accumulation_steps=2", "rollout_batch_size=4",
                 "warm_start.steps=0",
                 "+actor_train.data_args.domain_interleave_probs={even: 0.5, odd: 0.5}"});
  ASSERT_TRUE(set) << set.error().detail;
  auto tasks = make_prompt_tasks(rows.config, *set);
  ASSERT_TRUE(tasks) << tasks.error().detail;
  const auto first = (*tasks)->train(1);
  ASSERT_EQ(first->size(), 4U);
  std::set<uint64_t> seen;
  for (const GroupTask& group : *first) {
    EXPECT_EQ(group.tag, group.lane == 0 ? "even" : "odd");
    seen.insert(group.seed);
  }
  const std::string state = (*tasks)->state();
  std::vector<uint64_t> later;
  for (uint32_t lane : {1U, 0U, 1U}) {
    const auto next = (*tasks)->in_place(1, 4 + lane, lane);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->tag, lane == 0 ? "even" : "odd");
    later.push_back(next->seed);
    EXPECT_TRUE(seen.insert(next->seed).second) << "ORDER-1: a row comes once in an epoch";
  }
  auto resumed = make_prompt_tasks(rows.config, *set).value();
  ASSERT_TRUE(resumed->restore(state));
  EXPECT_EQ(resumed->in_place(1, 4, 0)->seed, later[1]) << "a domain's rows are its own";
  EXPECT_EQ(resumed->in_place(1, 5, 1)->seed, later[0]);
}

TEST(TaskSource, EveryTagOfEvaluationPlaysTheSameHeldOutSeeds) {
  auto config = config::load(test::source_path("configs/frozen_lake_sokoban.yaml"), {});
  ASSERT_TRUE(config) << config.error().detail;
  auto plan = preflight(*config);
  ASSERT_TRUE(plan) << plan.error().detail;
  auto tasks = make_environment_tasks(*config, plan->seeds);
  std::map<std::string, std::vector<uint64_t>> seeds;
  for (const GroupTask& group : tasks->held_out()) seeds[group.tag].push_back(group.seed);
  ASSERT_EQ(seeds.size(), 4U);
  for (const auto& [tag, list] : seeds) {
    EXPECT_EQ(list.size(), 64U) << tag;
    EXPECT_EQ(list, seeds.begin()->second) << tag;
  }
}

}  // namespace
}  // namespace cohort::actors

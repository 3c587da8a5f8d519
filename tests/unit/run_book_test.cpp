// What a checkpoint says of the run so far, and what the summary makes of it.
#include "actors/run/run_book.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/child_process.hpp"
#include "tests/support/event_file.hpp"

namespace cohort::actors {
namespace {

using plan::run::RoundKey;

class Books : public ::testing::Test {
 protected:
  RunBook open() {
    RunLogOptions log;
    log.run_folder = folder_.path();
    log.console = &console_;
    log_ = std::move(*RunLog::open(std::move(log)));
    RunBookOptions options;
    options.run_id = "run";
    options.log = log_.get();
    options.run_folder = folder_.path();
    options.record = [this](stream::RecordType type, const std::string& json) {
      if (type == stream::RecordType::event) events_.push_back(nlohmann::json::parse(json));
    };
    options.epochs = [] { return 0.0; };
    return RunBook(std::move(options));
  }
  static void evaluate(RunBook& book, uint64_t step, double sampled, double greedy) {
    book.on(plan::run::BeginRow{step});
    for (auto [kind, success] :
         {std::pair{TrajectoryKind::val, sampled}, std::pair{TrajectoryKind::val_greedy, greedy}}) {
      const RoundKey round{kind, step};
      book.on(plan::run::AskTasks{round});
      control::CollectReport report;
      report.success = {{"Lake", success}};
      book.collected(round, report);
      book.on(plan::run::RoundOver{round, 0, 1, 1});
    }
    EXPECT_TRUE(book.on(plan::run::EndRow{step, step}));
  }

  test::TempFolder folder_;
  observe::Console console_{{.mode = observe::ConsoleMode::quiet}};
  std::unique_ptr<RunLog> log_;
  std::vector<nlohmann::json> events_;
};

TEST_F(Books, AResumedRunComparesWithItsFirstEvaluation) {
  RunBook first = open();
  evaluate(first, 0, 0.25, 0.5);
  evaluate(first, 1, 0.375, 0.625);
  const std::string state = first.state({false, 1, 1, 0}, "{\"a\":1}");
  RunBook resumed = open();
  auto found = resumed.restore({"folder", 7, state, 0});
  ASSERT_TRUE(found) << found.error().detail;
  EXPECT_EQ(found->first, (plan::run::Cursor{false, 1, 1, 0}));
  EXPECT_EQ(found->second, "{\"a\":1}");
  evaluate(resumed, 2, 0.75, 0.875);
  const RunResult result = resumed.on(plan::run::End{});
  EXPECT_EQ(result.sampled, (HeldOut{0.25, 0.75}));
  EXPECT_EQ(result.greedy, (HeldOut{0.5, 0.875}));
  EXPECT_EQ(result.of_tags.at("Lake"), (HeldOut{0.25, 0.75}));
  EXPECT_EQ(result.param_hash, 7U);
}

TEST_F(Books, AnOlderCheckpointSaysNothingOfTheBeginning) {
  RunBook book = open();
  auto found = book.restore(
      {"folder", 7,
       R"({"stage": "warm_start", "step": 0, "version": 0, "warm_round": 3, "trajectories": 0})",
       0});
  ASSERT_TRUE(found) << found.error().detail;
  EXPECT_EQ(found->first, (plan::run::Cursor{true, 0, 0, 3}));
  EXPECT_EQ(book.on(plan::run::End{}).sampled, HeldOut{});
}

TEST_F(Books, ACheckpointWithoutTheDriversPartIsCorrupt) {
  RunBook book = open();
  auto found = book.restore({"folder", 7, "{}", 0});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::corrupt);
}

TEST_F(Books, TheFirstStepsFactsBecomeWarningsAndNoNumbersOfTheRow) {
  RunBook book = open();
  book.on(plan::run::BeginRow{1});
  const RoundKey round{TrajectoryKind::train, 1};
  control::CollectReport collected;
  collected.metrics = {
      {"reward/mean", 0.5}, {"check/truncated", 1.0}, {"check/at/truncated", 3.0 * (1 << 20) + 2}};
  book.collected(round, collected);
  book.on(plan::run::RoundOver{round, 0, 1, 1});
  EXPECT_TRUE(events_.empty()) << "the update is still to come";
  control::UpdateReport updated;
  updated.metrics = {{"loss", 1.5}, {"check/finite", 0}, {"actor/nonfinite_steps", 1}};
  book.updated(round, updated);
  ASSERT_EQ(events_.size(), 2U) << "a step that is left out is told once";
  for (const nlohmann::json& event : events_) EXPECT_EQ(event.at("kind"), "self_check");
  EXPECT_EQ(events_[0].at("entry").at("check"), "answers_truncated");
  EXPECT_EQ(events_[0].at("entry").at("trajectory"), "1/3/2");
  EXPECT_EQ(events_[1].at("entry").at("check"), "gradient_nonfinite");
  ASSERT_TRUE(book.on(plan::run::EndRow{1, 1}));
  const auto row = nlohmann::json::parse(test::slurp(folder_.path() / "metrics.jsonl"));
  EXPECT_EQ(row.at("loss"), 1.5);
  EXPECT_EQ(row.dump().find("check/"), std::string::npos) << row;
}

TEST_F(Books, TensorBoardHasHistogramsOfEachStepAndAnswersOfSome) {
  RunBook book = open();  // answer_steps: 10
  for (uint64_t step = 1; step <= 11; ++step) {
    const RoundKey round{TrajectoryKind::train, step};
    book.on(plan::run::BeginRow{step});
    control::CollectReport collected;
    collected.histograms = {{"rollout/score", {0, 1, {step, 2}}}};
    collected.answer = "answer of step " + std::to_string(step);
    book.collected(round, collected);
    book.on(plan::run::RoundOver{round, 0, 1, 1});
    control::UpdateReport updated;
    updated.histograms = {{"critic/advantages", {-1, 1, {1}}}};
    book.updated(round, updated);
    ASSERT_TRUE(book.on(plan::run::EndRow{step, step}));
  }
  ASSERT_TRUE(log_->close());
  std::map<std::string, std::vector<test::SummaryValue>> values;
  const std::filesystem::path written = folder_.path();
  for (const auto& file : std::filesystem::directory_iterator(written / "tensorboard"))
    for (test::SummaryValue& value : test::summary_values(test::slurp(file.path())))
      values[value.tag].push_back(std::move(value));
  ASSERT_EQ(values["rollout/score"].size(), 11U);
  EXPECT_EQ(values["rollout/score"][3].step, 4U);
  EXPECT_EQ(values["rollout/score"][3].numbers, (std::vector<double>{0, 0.5, 4, 0.5, 1, 2}));
  EXPECT_EQ(values["critic/advantages"].size(), 11U);
  ASSERT_EQ(values["rollout/answer"].size(), 2U);
  EXPECT_EQ(values["rollout/answer"][1].texts, (std::vector<std::string>{"answer of step 11"}));
  EXPECT_EQ(values["rollout/answer"][1].step, 11U);
}

}  // namespace
}  // namespace cohort::actors

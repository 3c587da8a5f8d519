/// The picture of `actor-node top`, from a board and from what a dashboard says of it.
#include "runtime/observe/top_picture.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/observe/dashboard_page.hpp"
#include "runtime/observe/flow_page.hpp"
#include "runtime/observe/status_reading.hpp"
#include "runtime/observe/terminal.hpp"
#include "tests/support/dashboard_sample.hpp"

namespace cohort::observe {
namespace {

constexpr double k_now = 1001;
const std::string k_sentence =
    "step 12 waits 14 s for its trajectories (actor_train): reward math_rule waits 14 s for 3 rows "
    "in flight: plugin judge.py:score waits 13 s for its child 4127, in judge.py:13 sympify";

FlowView flow() {
  FlowView flow;
  flow.sentence = k_sentence;
  flow.is_stalled = true;
  flow.waits = {{"run", "run", "step 12", "its trajectories (actor_train)", "a report", "", 14},
                {"run", "outside", "plugin judge.py:score", "its child 4127", "its answer",
                 "judge.py:13 sympify", 13}};
  LinkLine out{"run", "actor_infer@0->rewards", true, 100, 4096, 2, 1, 2048, 950, 1000, 0};
  LinkLine in{"run", "actor_infer@0->rewards", false, 100, 4096, 0, 1, 2048, 0, 0, 4096};
  flow.links = {out, in};
  flow.note = "2 processes on worker-3 are not looked at";
  return flow;
}

TopData sample_top(size_t steps = 20) {
  Board board;
  sample::publish_run(board, steps);
  Transition move;
  move.card = 1;
  move.object = "kv_cache";
  move.to = "card";
  move.bytes = 3 << 20;
  board.add_moves(std::vector<Transition>{move});
  board.set_stage("step", "generate", -1);
  board.set_cluster(sample::cluster());
  return {board.data(), std::make_shared<const FlowView>(flow()), ""};
}

TopData of_nothing() { return {}; }

TopData of_a_head() {
  Board board;
  board.set_cluster(sample::cluster());
  return {board.data(), nullptr, ""};
}

TopData of_a_new_run() {
  Board board;
  board.begin_run({});
  return {board.data(), nullptr, ""};
}

TopData of_many_cards() {
  RunView run;
  run.name = "many";
  for (uint32_t card = 0; card < 1000; ++card)
    run.cards.push_back({card, "actor_train+actor_infer+reference", 1ULL << 40, 0, 1ULL << 41});
  Board board;
  board.begin_run(std::move(run));
  return {board.data(), std::make_shared<const FlowView>(flow()), "http://x does not answer"};
}

TopData of_hostile_texts() {
  TopData top = sample_top();
  auto run = std::make_shared<RunView>(*top.data.run);
  run->name = "\x1b[2J" + std::string(300, 'n');
  run->cards[0].role = "\x1b]0;x\x07";
  run->events.push_back({1, 1, "war\x1bning", "a\nb\r\x1b[31m" + std::string(400, 'e')});
  run->error = "\x1b[2J\n" + std::string(900, 'x');
  top.data.run = run;
  auto hostile = std::make_shared<FlowView>(flow());
  hostile->links[0].name = "\x1b[2J\n";
  hostile->waits[0].who = "\n\x1b[2J";
  top.flow = hostile;
  return top;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string text_of(const TopData& top, size_t columns = 100, size_t rows = 0) {
  return joined(top_picture(top, k_now, {columns, rows, false}));
}

struct Case {
  const char* name;
  TopData (*top)();
};

TEST(TopPicture, FitsWhateverItShows) {
  const Case k_cases[] = {{"nothing", of_nothing},       {"a head", of_a_head},
                          {"a new run", of_a_new_run},   {"a run", [] { return sample_top(); }},
                          {"many cards", of_many_cards}, {"hostile", of_hostile_texts}};
  for (const Case& each : k_cases) {
    const TopData top = each.top();
    for (size_t columns : {1, 5, 20, 39, 59, 60, 80, 120, 300})
      for (size_t rows : {1, 2, 6, 10, 24, 60, 2000}) {
        const auto lines = top_picture(top, k_now, {columns, rows, columns % 2 == 0});
        ASSERT_LE(lines.size(), rows) << each.name << " " << columns;
        ASSERT_FALSE(lines.empty()) << each.name;
        for (const std::string& line : lines) {
          ASSERT_LE(cell_count(line), columns) << each.name << " " << rows << ": " << line;
          ASSERT_EQ(line.find_first_of("\n\r\x07"), std::string::npos) << each.name;
          const bool has_style = line.find('\x1b') != std::string::npos;
          ASSERT_FALSE(has_style && columns % 2 == 1) << each.name;
        }
      }
  }
}

// TOP-1
TEST(TopPicture, TheDiagnosisIsNeverCut) {
  const TopData top = of_many_cards();
  for (size_t rows : {6, 8, 12, 24, 100}) {
    const std::string text = text_of(top, 80, rows);
    EXPECT_NE(text.find("step 12 waits 14 s"), std::string::npos) << rows << "\n" << text;
    EXPECT_NE(text.find("judge.py:13 sympify"), std::string::npos) << rows << "\n" << text;
    EXPECT_NE(text.find("http://x does not answer"), std::string::npos) << rows;
  }
}

TEST(TopPicture, ShowsWhatTheDashboardShows) {
  const std::string text = text_of(sample_top(), 120);
  for (const char* part :
       {"frozen_lake", "step · generate", "step 20/40", "held-out success  step 20", "reward",
        "loss", "generate 629 ms", "actor_infer", "kv_cache 3 MiB", "3.39 MiB / 64 MiB",
        "actor_infer@0->rewards (in)", "950 B", "2 KiB/s", "who waits for whom",
        "plugin judge.py:score for its child 4127, in judge.py:13 sympify",
        "2 processes on worker-3 are not looked at", "nodes (2)", "npu-b  heard LOST",
        "lost: process 1 (cards [1]: actor_infer) was killed by signal 9"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(TopPicture, WhatIsLeftOutIsCounted) {
  const std::string text = text_of(of_many_cards(), 100, 20);
  EXPECT_NE(text.find("of 1000)"), std::string::npos) << text;
}

TEST(TopPicture, ARunThatIsOverWaitsForNothing) {
  Board board;
  sample::publish_run(board, 20);
  board.set_state(RunState::failed, "card 1 is gone");
  const std::string text = text_of({board.data(), std::make_shared<const FlowView>(flow()), ""});
  EXPECT_NE(text.find("failed"), std::string::npos) << text;
  EXPECT_NE(text.find("error: card 1 is gone"), std::string::npos);
  EXPECT_EQ(text.find("waits"), std::string::npos) << text;
}

/// What a program at the other end of an address has of `top`.
TopData over_there(const TopData& top) {
  TopData read;
  const auto data = read_status_json(status_json(top.data, k_now), k_now);
  EXPECT_TRUE(data) << data.error().detail;
  read.data = *data;
  if (top.flow != nullptr) {
    const auto flow = read_flow_json(flow_json(*top.flow));
    EXPECT_TRUE(flow) << flow.error().detail;
    read.flow = *flow;
  }
  return read;
}

TEST(StatusReading, APictureOfTheJsonIsThatOfTheBoard) {
  for (const TopData& top : {sample_top(0), sample_top(1), sample_top(40), of_a_head()})
    EXPECT_EQ(text_of(over_there(top), 160), text_of(top, 160));
}

TEST(StatusReading, WhatIsNoStatusIsRefused) {
  for (const char* text : {"", "[]", "<html>", "{\"run\": {\"cards\": 3}}", "{\"nodes\": [1]}"})
    EXPECT_FALSE(read_status_json(text, 0)) << text;
  for (const char* text : {"", "3", "{\"links\": [3]}"}) EXPECT_FALSE(read_flow_json(text)) << text;
  const auto nobody = read_flow_json("null\n");
  ASSERT_TRUE(nobody);
  EXPECT_EQ(*nobody, nullptr);
  EXPECT_TRUE(read_status_json("{\"run\": {}}", 0)) << "of an older version";
}

}  // namespace
}  // namespace cohort::observe

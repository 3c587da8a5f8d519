// The pages of a run in Chromium, as a person walks through them. Skipped where there is none.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/support/browser.hpp"
#include "tests/support/pages_rig.hpp"

namespace cohort {
namespace {

using stream::test::small_trajectory;

class DashboardBrowser : public testing::Test {
 protected:
  void SetUp() override {
    if (test::Browser::program().empty()) {
      std::cerr << "*** NOT RUN: the pages are not looked at, since there is no chromium "
                   "(apt-get install chromium)\n";
      GTEST_SKIP() << "no chromium";
    }
    browser_ = std::make_unique<test::Browser>();
    browser_->show(1100, 800, false);
  }
  void TearDown() override {
    if (!browser_) return;
    for (const std::string& complaint : browser_->complaints()) ADD_FAILURE() << complaint;
  }
  std::string url(const std::string& path) { return rig_.server().url() + path; }
  std::string heading() {
    return browser_->eval("document.querySelector('h1').textContent").get<std::string>();
  }
  /// Nothing sticks out of a narrow screen, and the text is told from its ground.
  void looks_right(const std::string& name) {
    for (const bool is_dark : {false, true})
      for (const int width : {1100, 400}) {
        browser_->show(width, 800, is_dark);
        EXPECT_LE(browser_->eval("document.documentElement.scrollWidth").get<int>(), width)
            << name << ": wider than the screen";
        const std::string sum =
            "(e => getComputedStyle(document.body)[e].match(/\\d+/g).slice(0, 3).reduce((a, b) => "
            "a + Number(b), 0))";
        const int ink = browser_->eval(sum + "('color')").get<int>();
        const int ground = browser_->eval(sum + "('backgroundColor')").get<int>();
        EXPECT_GT(is_dark ? ink - ground : ground - ink, 380) << name;
        browser_->screenshot(fmt::format("{}-{}-{}", name, width, is_dark ? "dark" : "light"));
      }
    browser_->show(1100, 800, false);
  }

  test::PagesRig rig_;
  std::unique_ptr<test::Browser> browser_;
};

proto::Trajectory spoken(uint64_t step, uint32_t group, uint32_t index) {
  proto::Trajectory x = small_trajectory(step, group, index, 0);
  const auto tokenizer = tests::lake_tokenizer();
  const std::string shown = "P_O\nG__", said = "<answer>Right</answer>";
  const std::vector<int32_t> prompt = tokenizer->encode(shown).value();
  const std::vector<int32_t> answer = tokenizer->encode(said).value();
  x.tokens = prompt;
  x.tokens.insert(x.tokens.end(), answer.begin(), answer.end());
  for (size_t i = 0; i < x.tokens.size(); ++i) {
    const bool is_sampled = i >= prompt.size();
    x.response_mask.push_back(is_sampled);
    x.behavior_logp.push_back(is_sampled ? -0.02F * static_cast<float>(i * i % 90) : 0.0F);
    x.token_versions.push_back(static_cast<uint32_t>(step));
  }
  x.turns = {{static_cast<uint32_t>(prompt.size()), static_cast<uint32_t>(x.tokens.size()),
              index % 2 == 0 ? 1.0F : 0.0F, true, true, shown, said}};
  return x;
}

TEST_F(DashboardBrowser, AWalkFromTheRunToAToken) {
  for (uint64_t step = 1; step <= 3; ++step) {
    for (uint32_t i = 0; i < 32; ++i) rig_.append(spoken(step, i / 8, i % 8));
    rig_.append_result(step, 0.5);
  }
  rig_.show();
  browser_->open(url(""));
  looks_right("overview");
  ASSERT_TRUE(browser_->follow("Trajectories"));
  ASSERT_TRUE(browser_->wait_for("document.body.textContent.includes('step 3')"));
  looks_right("run");
  ASSERT_TRUE(browser_->follow("step 2"));
  ASSERT_TRUE(browser_->wait_for("document.body.textContent.includes('32 trajectories')"));
  looks_right("step");
  ASSERT_TRUE(browser_->follow("train 1"));
  ASSERT_TRUE(browser_->wait_for("document.body.textContent.includes('trajectory 7')"));
  looks_right("group");
  ASSERT_TRUE(browser_->follow("trajectory 3"));
  EXPECT_EQ(heading(), "step 2, group 1, trajectory 3");
  looks_right("trajectory");
  // A coloured token of the answer leads to its numbers.
  browser_->eval("window.isOld = true; document.querySelector('.answer a.token').click()");
  ASSERT_TRUE(browser_->is_read());
  EXPECT_TRUE(browser_->wait_for("document.querySelector('h1').textContent.startsWith('Token ')"));
  looks_right("token");
}

TEST_F(DashboardBrowser, TheOtherPagesFitAndTwoRunsAreChosen) {
  const auto run = test::write_run(rig_.folder().path(), "20260101-000000", 0.1, 40);
  test::write_run(rig_.folder().path(), "20260102-000000", 0.2, 40);
  observe::Board& board = rig_.server().board();
  for (uint32_t card = 0; card < 2; ++card)
    for (int step = 1; step <= 3; ++step) {
      const double begin = 2.0 * step + card;
      board.add_moves(std::vector<observe::Transition>{{static_cast<uint64_t>(step), card,
                                                        "generate", "kv_cache", "host", "card",
                                                        uint64_t{3} << 20, begin, begin + 0.1}});
      board.add_span({static_cast<uint64_t>(step), card, card == 0 ? "update" : "generate",
                      begin + 0.1, begin + 0.9});
    }
  board.set_stage("step", "generate", -1);
  observe::LinkLine link;
  link.name = "actor_infer@1->rewards";
  link.is_producer = true;
  link.queued_bytes = uint64_t{20} << 20;
  link.queue_bytes_max = uint64_t{64} << 20;
  test::tell_links(run, {link});
  rig_.server().open_run(RunBrowserOptions{run});
  browser_->open(url("timeline"));
  looks_right("timeline");
  browser_->open(url("flow"));
  ASSERT_TRUE(browser_->wait_for("document.body.textContent.includes('actor_infer@1')"));
  looks_right("flow");
  browser_->open(url("logs"));
  looks_right("logs");
  browser_->open(url("compare"));
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('[type=checkbox]').length === 2"));
  browser_->eval(
      "window.isOld = true; document.querySelectorAll('[type=checkbox]')[1].click(); "
      "document.querySelector('form.where button').click()");
  ASSERT_TRUE(browser_->is_read());
  ASSERT_TRUE(browser_->wait_for("document.body.textContent.includes('optimizer.rate')"));
  EXPECT_EQ(browser_->eval("document.querySelectorAll('#ends tbody tr').length"), 2);
  looks_right("compare");
}

TEST_F(DashboardBrowser, TheKeyboardAloneIsEnough) {
  for (uint32_t i = 0; i < 4; ++i) rig_.append(spoken(1, i / 2, i % 2));
  rig_.append(spoken(2, 0, 0));
  rig_.show();
  browser_->open(url("steps"));
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('td a').length === 2"));
  auto press_enter = [&] {
    browser_->eval("window.isOld = true");
    browser_->press("Enter");
    return browser_->is_read();
  };
  browser_->press("j");
  browser_->press("j");
  EXPECT_EQ(browser_->eval("document.activeElement.textContent"), "step 1");
  ASSERT_TRUE(press_enter());
  EXPECT_EQ(heading(), "Step 1");
  browser_->press("j");
  ASSERT_TRUE(press_enter());
  EXPECT_EQ(heading(), "Step 1, train group 0");
  browser_->eval("window.isOld = true");
  browser_->press("n");
  ASSERT_TRUE(browser_->is_read());
  EXPECT_EQ(heading(), "Step 1, train group 1");
  browser_->eval("window.isOld = true");
  browser_->press("u");
  ASSERT_TRUE(browser_->is_read());
  EXPECT_EQ(heading(), "Step 1");
  browser_->press("/");
  EXPECT_EQ(browser_->eval("document.activeElement.name"), "where");
  browser_->call("Input.insertText", {{"text", "score > 0.5"}});
  ASSERT_TRUE(press_enter());
  EXPECT_TRUE(
      browser_->wait_for("document.body.textContent.includes('2 trajectories in 2 groups')"));
}

TEST_F(DashboardBrowser, WhatTheRunAppendsAppearsByItself) {
  rig_.append(spoken(1, 0, 0));
  rig_.show();
  browser_->open(url("step?step=1"));
  ASSERT_TRUE(browser_->wait_for("document.body.textContent.includes('1 trajectories')"));
  rig_.append(spoken(1, 0, 1));
  EXPECT_TRUE(browser_->wait_for("document.body.textContent.includes('2 trajectories')"));
  browser_->open(url(""));
  rig_.server().board().set_stage("step", "update", -1);
  EXPECT_TRUE(browser_->wait_for("document.body.textContent.includes('update')"));
}

TEST_F(DashboardBrowser, AHostileTextRunsNothing) {
  proto::Trajectory x = spoken(1, 0, 0);
  x.turns[0].observation = "<img src=x onerror=\"window.isHit=1\"><script>window.isHit=1</script>";
  x.stop_reason = "<script>window.isHit = 1</script>";
  rig_.append(x);
  rig_.show();
  for (const char* path : {"step?step=1", "group?step=1&kind=train&group=0",
                           "trajectory?step=1&kind=train&group=0&index=0"}) {
    browser_->open(url(path));
    ASSERT_TRUE(browser_->wait_for("document.body.textContent.includes('window.isHit')")) << path;
    EXPECT_EQ(browser_->eval("typeof window.isHit"), "undefined") << path;
  }
}

}  // namespace
}  // namespace cohort

// The pages of a run's trajectories over HTTP: run, step, group, trajectory, token. The stream is
// written by the test, as a run writes it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/pages_rig.hpp"

namespace cohort {
namespace {

using observe::sample::count_of;
using stream::test::small_trajectory;
using test::link_to;

class DashboardPages : public testing::Test {
 protected:
  test::PagesRig rig_;
  const stream::test::StreamFolder& folder_ = rig_.folder();
  test::PageClient client_{test::port_of(rig_.server())};
};

TEST_F(DashboardPages, FromTheRunToATokenByLinks) {
  stream::test::fill(folder_.path(), 3, stream::test::small_segments());
  rig_.show();
  const std::string run = client_.page("/steps");
  EXPECT_EQ(count_of(run, ">step 2</a>"), 1U);
  EXPECT_NE(run.find("<td class=\"num\">0.500</td>"), std::string::npos) << "the loss of each step";
  const std::string step = client_.page(link_to(run, "step 2"));
  EXPECT_NE(step.find("4 trajectories in 2 groups"), std::string::npos) << step;
  EXPECT_EQ(count_of(step, "class=\"histogram\""), 3U);
  EXPECT_NE(step.find("<td>env</td>"), std::string::npos) << "the reward's parts";
  const std::string group = client_.page(link_to(step, "train 1"));
  EXPECT_NE(group.find("trajectory 0</a>"), std::string::npos) << group;
  EXPECT_NE(link_to(group, "previous group"), "");
  const std::string one = client_.page(link_to(group, "trajectory 1"));
  EXPECT_NE(one.find("<dt>ended by</dt><dd>hole</dd>"), std::string::npos) << one;
  EXPECT_NE(one.find("grid-map"), std::string::npos) << "the lake is drawn";
  const std::string coloured = client_.page(link_to(one, "coloured by any column"));
  EXPECT_NE(coloured.find("weight version</label>"), std::string::npos) << coloured;
  EXPECT_EQ(link_to(coloured, "back"), link_to(group, "trajectory 1"));
  EXPECT_NE(link_to(one, "previous trajectory"), "");
  EXPECT_EQ(link_to(one, "next trajectory"), "");
  const std::string token = client_.page(link_to(one, "12"));
  EXPECT_NE(token.find("Token 12 of 20"), std::string::npos) << token;
  EXPECT_NE(token.find("<dt>id</dt><dd>112</dd>"), std::string::npos) << token;
  EXPECT_NE(token.find("<dt>log p, as sampled</dt><dd>-0.500000</dd>"), std::string::npos);
  EXPECT_NE(token.find("the policy sampled it"), std::string::npos);
  EXPECT_NE(client_.page(link_to(token, "next token")).find("Token 13 of 20"), std::string::npos);
  const std::string shown = client_.page("/token?step=2&kind=train&group=1&index=1&at=3");
  EXPECT_NE(shown.find("shown to the policy"), std::string::npos);
  EXPECT_EQ(shown.find("as sampled"), std::string::npos) << "nobody sampled it";
}

TEST_F(DashboardPages, EachPartOfARewardHasItsHistogram) {
  for (uint32_t i = 0; i < 4; ++i) {
    proto::Trajectory x = small_trajectory(1, 0, i);
    x.reward_parts.push_back({"format", 0.25 * i, 1.0, ""});
    x.reward_parts.push_back({"<constant>", 2, 0.0, ""});
    rig_.append(x);
  }
  proto::Trajectory held_out = small_trajectory(1, 0, 0);
  held_out.key.kind = TrajectoryKind::val;
  held_out.reward_parts.push_back({"format", 100, 1.0, ""});
  rig_.append(held_out);
  rig_.show(nullptr);
  const std::string step = client_.page("/step?step=1");
  EXPECT_NE(step.find("5 trajectories in 2 groups"), std::string::npos) << step;
  EXPECT_NE(step.find("4 trajectories of kind train"), std::string::npos) << step;
  EXPECT_EQ(count_of(step, "class=\"histogram\""), 3U + 3U) << step;
  EXPECT_NE(step.find("<h3>format</h3>"), std::string::npos) << step;
  EXPECT_NE(step.find("mean 0.375, 0 … 0.750"), std::string::npos) << step;
  EXPECT_NE(step.find("<title>2.00: 4</title>"), std::string::npos) << "one bar: " << step;
}

TEST_F(DashboardPages, AQueryChoosesAndSaysWhatIsWrongWithIt) {
  stream::test::fill(folder_.path(), 2, stream::test::small_segments());
  rig_.show();
  const std::string chosen = client_.page("/step?step=1&where=stop_reason%20%3D%3D%20%22hole%22");
  EXPECT_NE(chosen.find("2 trajectories in 2 groups"), std::string::npos) << chosen;
  EXPECT_NE(chosen.find("value=\"stop_reason == &quot;hole&quot;\""), std::string::npos);
  const std::string group = client_.page(link_to(chosen, "train 0"));
  EXPECT_EQ(link_to(group, "trajectory 0"), "") << "it reached its goal";
  EXPECT_NE(link_to(group, "trajectory 1"), "");
  const std::string wrong = client_.page("/step?step=1&where=scor%20%3E%201");
  EXPECT_NE(wrong.find("no field &#39;scor&#39;"), std::string::npos) << wrong;
}

// What a policy writes is text, whatever it looks like.
TEST_F(DashboardPages, HostileTextsStayTexts) {
  const std::string hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&";
  proto::Trajectory x = small_trajectory(1, 0, 0);
  x.turns[0].observation = x.turns[0].response = x.stop_reason = x.tag = x.ground_truth = hostile;
  x.prompt_id = "javascript:alert(3)\xff\x01";
  x.reward_parts.push_back({hostile, 0.5, 1, hostile});
  x.metrics.emplace_back(hostile, 1);
  rig_.append(x);
  rig_.show(nullptr);
  const std::string query = "where=text%20contains%20%22%3Cscript%3E%22%20or%20true";
  const std::vector<std::string> addresses = {
      "/steps",
      "/step?step=1",
      "/step?step=1&" + query,
      "/step?step=1&where=%3Cscript%3Ealert(1)%3C/script%3E",
      "/group?step=1&kind=train&group=0",
      "/group?step=1&kind=%3Cscript%3E&group=0",
      "/trajectory?step=1&kind=train&group=0&index=0",
      "/trajectory?step=1&kind=%22%3E%3Cscript%3E&group=0&index=0",
      "/coloured?step=1&kind=train&group=0&index=0",
      "/token?step=1&kind=train&group=0&index=0&at=3"};
  for (const std::string& address : addresses) {
    const std::string page = client_.page(address);
    EXPECT_EQ(count_of(page, "<script"), address.starts_with("/coloured") ? 0U : 1U)
        << address << ": ours";
    EXPECT_EQ(count_of(page, "<img"), 0U) << address;
    EXPECT_EQ(page.find("onerror=alert(2)>"), std::string::npos) << address;
    auto reply = client_.http().Get(address);
    EXPECT_NE(reply->get_header_value("Content-Security-Policy").find("default-src 'none'"),
              std::string::npos);
  }
  EXPECT_NE(client_.page("/trajectory?step=1&kind=train&group=0&index=0")
                .find("&lt;script&gt;alert(1)&lt;/script&gt;"),
            std::string::npos);
}

TEST_F(DashboardPages, WhatIsAppendedAppears) {
  rig_.show();
  client_.page_with("/steps", "neither a run folder nor a stream");
  rig_.append(small_trajectory(1, 0, 0));
  client_.page_with("/steps", ">step 1</a>");
  client_.page_with("/step?step=1", "1 trajectories in 1 groups");
  rig_.append(small_trajectory(1, 0, 1));
  rig_.append(small_trajectory(1, 1, 0));
  client_.page_with("/step?step=1", "3 trajectories in 2 groups");
  proto::Trajectory again = small_trajectory(1, 0, 0, 20, 1);
  again.stop_reason = "max_turns";
  rig_.append(again);
  client_.page_with("/step?step=1", "1 max_turns");
  client_.page_with("/trajectory?step=1&kind=train&group=0&index=0", "<dd>max_turns</dd>");
  EXPECT_NE(client_.page("/step?step=1").find("3 trajectories in 2 groups"), std::string::npos)
      << "it replaces the one of the same key";
  rig_.append_result(1, 0.25);
  client_.page_with("/steps", "<td class=\"num\">0.250</td>");
  for (uint32_t group = 2; group < 400; ++group)  // several segments of 1 MiB
    rig_.append(small_trajectory(1, group, 0, 2000));
  const std::string many = client_.page_with("/step?step=1", "401 trajectories in 400 groups");
  EXPECT_EQ(count_of(many, "<td><a href=\"group?"), 100U);
  EXPECT_NE(client_.page(link_to(many, "next")).find("page 2 of 4"), std::string::npos);
  EXPECT_NE(client_.page("/step?step=1&page=99999999999999999999").find("page 1 of 4"),
            std::string::npos);
}

TEST_F(DashboardPages, AnAddressThatNamesNothingSaysSo) {
  stream::test::fill(folder_.path(), 1, stream::test::small_segments());
  rig_.show();
  EXPECT_EQ(client_.status("/step"), 404);
  EXPECT_EQ(client_.status("/step?step=x"), 404);
  EXPECT_EQ(client_.status("/group?step=1"), 404);
  EXPECT_EQ(client_.status("/trajectory?step=1&group=1"), 404);
  EXPECT_EQ(client_.status("/token?step=0&group=0&index=0"), 404);
  EXPECT_NE(client_.page("/trajectory?step=7&kind=train&group=0&index=0")
                .find("The stream has no such trajectory."),
            std::string::npos);
  EXPECT_NE(client_.page("/token?step=0&kind=train&group=0&index=0&at=999")
                .find("The trajectory has 20 tokens."),
            std::string::npos);
  EXPECT_NE(client_.page("/group?step=0&kind=train&group=77").find("No trajectory of this group"),
            std::string::npos);
}

TEST_F(DashboardPages, DamagedRecordsAreToldAndLeftOut) {
  stream::test::fill(folder_.path(), 1, stream::test::small_segments());
  auto records = stream::test::read_all(folder_.path());
  std::string bytes = stream::test::read_bytes(folder_.segment(0));
  const stream::RecordInfo& second = records[2].info;
  bytes[second.id.offset + 70] ^= 0x20;  // in its header
  stream::test::write_bytes(folder_.segment(0), bytes);
  rig_.show();
  const std::string step = client_.page("/step?step=0");
  EXPECT_NE(step.find("1 records are damaged"), std::string::npos) << step;
  EXPECT_NE(step.find("3 trajectories in 2 groups"), std::string::npos);
}

TEST_F(DashboardPages, RunsAreComparedWithThoseBesideThem) {
  const std::filesystem::path run = test::write_run(folder_.path(), "20260101-000000", 0.1, 5);
  test::write_run(folder_.path(), "20260102-000000", 0.2, 9);
  std::filesystem::create_directories(folder_.path() / "no run");
  rig_.server().open_run({run});
  const std::string alone = client_.page("/compare");
  EXPECT_EQ(count_of(alone, "type=\"checkbox\""), 2U) << alone;
  EXPECT_EQ(count_of(alone, " checked"), 1U);
  const std::string both = client_.page("/compare?run=20260101-000000&run=20260102-000000");
  EXPECT_EQ(count_of(both, " checked"), 2U);
  EXPECT_NE(both.find("The parameters differ at step 3 and are equal at step 2"), std::string::npos)
      << both;
  EXPECT_NE(both.find("<td>optimizer.rate</td><td class=\"words\">0.1</td>"
                      "<td class=\"words\">0.2</td>"),
            std::string::npos)
      << both;
  EXPECT_EQ(both.find("<td>seed</td>"), std::string::npos) << "it is the same in both";
  EXPECT_NE(both.find("<h3>loss"), std::string::npos) << both;
  const std::string strange = client_.page("/compare?run=../../etc&run=%3Cscript%3E");
  EXPECT_NE(strange.find("there is no such run"), std::string::npos);
  EXPECT_EQ(count_of(strange, "<script"), 1U);
}

TEST_F(DashboardPages, LogsAreThoseOfTheRunAndNoOther) {
  const std::filesystem::path run = test::write_run(folder_.path(), "20260101-000000", 0.1, 1);
  stream::test::write_bytes(run / "log" / "process_1.log",
                            std::string(200000, 'x') + "\nits end\n");
  rig_.server().open_run({run});
  const std::string first = client_.page("/logs");
  EXPECT_NE(first.find("&lt;script&gt;of 20260101-000000"), std::string::npos) << first;
  const std::string second = client_.page(link_to(first, "process_1.log"));
  EXPECT_NE(second.find("its end"), std::string::npos);
  EXPECT_LT(second.size(), 200000U) << "the end alone";
  for (const char* file : {"../config.yaml", "/etc/passwd", "%2e%2e%2fconfig.yaml"})
    EXPECT_NE(client_.page(std::string("/logs?file=") + file).find("has no log of that name"),
              std::string::npos)
        << file;
}

TEST_F(DashboardPages, TimelineAndFlowShowWhatTheBoardKnows) {
  observe::Board& board = rig_.server().board();
  EXPECT_NE(client_.page("/timeline").find("Nothing has been computed"), std::string::npos);
  board.add_moves(std::vector<observe::Transition>{
      {4, 1, "generate", "kv_cache", "host", "card", 3 << 20, 4.0, 4.1}});
  board.add_span({4, 1, "generate", 4.1, 5.0});
  board.set_stage("step", "generate", -1);
  const std::string timeline = client_.page("/timeline");
  EXPECT_NE(timeline.find("kv_cache"), std::string::npos) << timeline;
  EXPECT_NE(timeline.find("<h2>Bytes on the cards</h2>"), std::string::npos);
  observe::LinkLine link;
  link.name = "rollout.0->reward <b>";
  link.is_producer = true;
  link.queued_bytes = 3 << 20;
  link.queue_bytes_max = 64 << 20;
  link.messages = 7;
  test::tell_links(folder_.path(), {link});
  rig_.server().open_run(RunBrowserOptions{folder_.path()});
  const std::string flow = client_.page_with("/flow", "rollout.0-&gt;reward &lt;b&gt;");
  EXPECT_NE(flow.find("value=\"3145728\""), std::string::npos) << flow;
  EXPECT_NE(flow.find("generate (rollout)"), std::string::npos) << flow;
}

// BROWSE-1: whatever holds the reader up, a page comes, and says that more will.
TEST_F(DashboardPages, AReaderThatIsHeldUpHoldsNoPageUp) {
  stream::test::fill(folder_.path(), 1, stream::test::small_segments());
  // A file that nobody writes to, as one of a server that is gone: to open it takes for ever.
  test::tell_links(folder_.path(), {});
  const std::filesystem::path held = folder_.path() / "waits" / "links_held";
  ASSERT_EQ(::mkfifo(held.c_str(), 0600), 0);
  rig_.server().open_run(RunBrowserOptions{folder_.path()});
  EXPECT_EQ(client_.status("/flow"), 200);
  EXPECT_NE(client_.http().Get("/step?step=0")->body.find("data-waiting="), std::string::npos);
  EXPECT_EQ(client_.status("/metrics"), 200);
  std::ofstream(held).close();
  std::filesystem::remove(held);
  client_.page_with("/step?step=0", "4 trajectories in 2 groups");
}

// DASH-3.
TEST_F(DashboardPages, OnlyTheTokenStopsTheRunAndOnlyWhereThatIsAllowed) {
  int stops = 0;
  auto post = [&](const httplib::Headers& headers) {
    auto reply = client_.http().Post("/stop", headers, "", "text/plain");
    return reply ? reply->status : 0;
  };
  rig_.server().on_stop([&] { ++stops; });
  EXPECT_EQ(post({{"X-Cohort-Action", ""}}), 403) << "this dashboard only shows";
  EXPECT_EQ(client_.page("/").find("data-stop=\"1\""), std::string::npos);
  rig_.server().allow_stop("0123456789abcdef");
  EXPECT_NE(client_.page("/").find("data-stop=\"1\""), std::string::npos);
  EXPECT_EQ(client_.page("/").find("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(post({}), 403);
  EXPECT_EQ(post({{"X-Cohort-Action", "0123456789abcdeF"}}), 403);
  EXPECT_EQ(post({{"X-Cohort-Action", "0123456789abcdef"}, {"Host", "evil.example"}}), 421);
  EXPECT_EQ(client_.status("/stop"), 404) << "a GET changes nothing";
  EXPECT_EQ(stops, 0);
  EXPECT_EQ(post({{"X-Cohort-Action", "0123456789abcdef"}}), 202);
  EXPECT_EQ(post({{"X-Cohort-Action", "0123456789abcdef"}}), 409) << "once is enough";
  EXPECT_EQ(stops, 1);
  rig_.server().board().set_state(observe::RunState::finished);
  EXPECT_EQ(client_.page("/").find("data-stop=\"1\""), std::string::npos);
}

TEST_F(DashboardPages, WithoutAFolderTheySayWhy) {
  EXPECT_NE(client_.http().Get("/steps")->body.find("no folder yet"), std::string::npos);
}

}  // namespace
}  // namespace cohort

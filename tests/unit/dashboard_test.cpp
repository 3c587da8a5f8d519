/// What the dashboard says: requests, pages, numbers for programs. No socket.
#include "runtime/observe/dashboard.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "runtime/observe/dashboard_page.hpp"
#include "runtime/observe/prometheus.hpp"
#include "tests/support/dashboard_sample.hpp"
#include "tests/support/html_check.hpp"
#include "tests/support/prometheus_text.hpp"

namespace cohort::observe {
namespace {

using sample::count_of;
using sample::tag_fault;

constexpr double k_now = 1001;

HttpReply get(const std::string& path, const DashboardData& data = {},
              const DashboardAccess& access = {}, const std::string& authorization = "",
              const std::string& host = "localhost") {
  HttpRequest request;
  request.path = path.substr(0, path.find('?'));
  if (path.find('?') != std::string::npos) request.query = path.substr(path.find('?') + 1);
  request.authorization = authorization;
  request.host = host;
  return answer(request, data, access, k_now, "4e6f6e6365");
}

DashboardData data_of(size_t steps) {
  Board board;
  sample::publish_run(board, steps);
  board.set_cluster(sample::cluster());
  return board.data();
}

// -- requests (HTTP-1)

TEST(Http, AWholeHeadIsRead) {
  const HttpParse parse = parse_http(
      "HEAD /live?rows=12 HTTP/1.1\r\nhost:  LocalHost:8265 \r\nAuthorization: Bearer x\r\n"
      "Content-Length: 0\r\nX-Other: \xc3\xa9\r\n\r\nbehind it");
  EXPECT_EQ(parse.status, 200);
  EXPECT_TRUE(parse.request.is_head);
  EXPECT_EQ(parse.request.path, "/live");
  EXPECT_EQ(parse.request.query, "rows=12");
  EXPECT_EQ(parse.request.host, "LocalHost");
  EXPECT_EQ(parse.request.authorization, "Bearer x");
  EXPECT_EQ(parse_http("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").request.host, "[::1]");
  EXPECT_EQ(parse_http("GET / HTTP/1.0\r\n\r\n").status, 200);
}

TEST(Http, APartOfAHeadWaitsForTheRest) {
  const std::string whole = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(parse_http(whole.substr(0, size)).status, 0) << size;
  EXPECT_EQ(parse_http(whole).status, 200);
}

TEST(Http, WhatIsNotOfTheGrammarGetsAStatus) {
  const std::string k_host = "\r\nHost: a\r\n";
  const std::vector<std::pair<std::string, int>> k_cases = {
      {"POST / HTTP/1.1" + k_host, 405},
      {"get / HTTP/1.1" + k_host, 405},
      {"GET / HTTP/2.0" + k_host, 505},
      {"GET / HTTP/1.1\r\n", 400},
      {"GET  HTTP/1.1" + k_host, 400},
      {"GET http://a/ HTTP/1.1" + k_host, 400},
      {"GET /a b HTTP/1.1" + k_host, 400},
      {std::string("GET /\0 HTTP/1.1", 15) + k_host, 400},
      {"GET /\xff HTTP/1.1" + k_host, 400},
      {"/ HTTP/1.1" + k_host, 400},
      {"\x16\x03\x01\x02" + k_host, 400},
      {"GET / HTTP/1.1" + k_host + "Host: b\r\n", 400},
      {"GET / HTTP/1.1" + k_host + "Authorization: x\r\nauthorization: y\r\n", 400},
      {"GET / HTTP/1.1" + k_host + "no colon\r\n", 400},
      {"GET / HTTP/1.1" + k_host + " folded: x\r\n", 400},
      {"GET / HTTP/1.1" + k_host + "Name : x\r\n", 400},
      {"GET / HTTP/1.1" + k_host + "X: a\rb\r\n", 400},
      {"GET / HTTP/1.1" + k_host + "Content-Length: 1\r\n", 413},
      {"GET / HTTP/1.1" + k_host + "Transfer-Encoding: chunked\r\n", 413},
      {"GET /" + std::string(1024, 'a') + " HTTP/1.1" + k_host, 414}};
  for (const auto& [head, status] : k_cases)
    EXPECT_EQ(parse_http(head + "\r\n").status, status) << head;
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 65; ++i) many += "X: y\r\n";
  EXPECT_EQ(parse_http(many + "\r\n").status, 431);
  EXPECT_EQ(parse_http(std::string(k_http_head_bytes_max, 'a')).status, 431);
  EXPECT_EQ(parse_http(std::string(k_http_head_bytes_max - 1, 'a')).status, 0);
}

TEST(Http, ARepliesHeadSaysWhatFollows) {
  HttpReply reply{200, "text/plain", "abc", {{"X", "y"}}};
  const std::string bytes = to_bytes(reply, false);
  EXPECT_TRUE(bytes.starts_with("HTTP/1.1 200 OK\r\n")) << bytes;
  EXPECT_NE(bytes.find("Content-Length: 3\r\n"), std::string::npos);
  EXPECT_NE(bytes.find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(bytes.ends_with("X: y\r\n\r\nabc")) << bytes;
  EXPECT_EQ(to_bytes(reply, true), bytes.substr(0, bytes.size() - 3));
}

// -- who is answered

TEST(Dashboard, DashOneATokenIsAskedForEverywhereButHealthz) {
  const DashboardAccess access{"0123456789abcdef", false};
  for (const char* path : {"/", "/live", "/metrics", "/status.json", "/nothing"}) {
    for (const char* wrong :
         {"", "Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Bearer ", "0123456789abcdef",
          "Basic !", "Basic Og==", "Basic MDEyMzQ1Njc4OWFiY2RlZg==", "Digest 0123456789abcdef"}) {
      const HttpReply reply = get(path, data_of(3), access, wrong);
      EXPECT_EQ(reply.status, 401) << path << " " << wrong;
      EXPECT_EQ(reply.body.find("frozen"), std::string::npos);
    }
    EXPECT_NE(get(path, {}, access, "bearer 0123456789abcdef").status, 401);
  }
  // "me:0123456789abcdef"
  EXPECT_EQ(get("/metrics", {}, access, "Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==").status, 200);
  EXPECT_EQ(get("/healthz", {}, access).status, 200);
  EXPECT_EQ(get("/healthz", {}, access).body, "ok\n");
}

TEST(Dashboard, DashTwoOnLoopbackOnlyWhoNamesItIsAnswered) {
  const DashboardAccess access{"", true};
  for (const char* host : {"localhost", "127.0.0.1", "[::1]", ""})
    EXPECT_EQ(get("/metrics", {}, access, "", host).status, 200) << host;
  EXPECT_EQ(get("/metrics", {}, access, "", "evil.example").status, 421);
  EXPECT_EQ(get("/metrics", {}, {"", false}, "", "npu-a").status, 200);
}

TEST(Dashboard, PathsAreWhatTheyAre) {
  EXPECT_EQ(get("/", data_of(3)).type, "text/html; charset=utf-8");
  EXPECT_EQ(get("/metrics", data_of(3)).type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(get("/status.json", data_of(3)).type, "application/json");
  for (const char* path : {"/../etc/passwd", "//", "/metrics/", "/index.html"})
    EXPECT_EQ(get(path, data_of(3)).status, 404) << path;
}

// -- pages

TEST(DashboardPage, IsWellFormedFromNothingToTheEnd) {
  EXPECT_EQ(tag_fault(get("/").body), "");
  for (size_t steps : {0U, 1U, 2U, 40U}) EXPECT_EQ(tag_fault(get("/", data_of(steps)).body), "");
  DashboardData head = data_of(0);
  head.run = nullptr;
  EXPECT_EQ(tag_fault(get("/", head).body), "");
  EXPECT_NE(get("/", head).body.find("npu-b"), std::string::npos);
}

// The script replaces sections that are there: one that comes later would never be seen.
TEST(DashboardPage, EverySectionHasItsPlaceFromTheBeginning) {
  auto sections = [](const std::string& page) {
    std::set<std::string> ids;
    constexpr std::string_view k_open = "<section id=\"";
    for (size_t at = page.find(k_open); at != std::string::npos; at = page.find(k_open, at + 1))
      ids.insert(
          page.substr(at + k_open.size(), page.find('"', at + k_open.size()) - at - k_open.size()));
    return ids;
  };
  EXPECT_EQ(sections(get("/", data_of(0)).body), sections(get("/live", data_of(40)).body));
  DashboardData head = data_of(0);
  head.run = nullptr;
  EXPECT_EQ(sections(get("/").body), sections(get("/live", head).body));
}

TEST(DashboardPage, ARunWithoutStepsSaysSo) {
  const std::string page = get("/", data_of(0)).body;
  EXPECT_NE(page.find("Curves begin with the first finished step"), std::string::npos);
  EXPECT_NE(page.find(">0/40<"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(DashboardPage, ShowsTheRunItsNodesCardsCurvesAndEvents) {
  const std::string page = get("/", data_of(20)).body;
  for (const char* text :
       {">20/40<", "<span class=\"chip bad\">LOST</span>", "was killed by signal 9", "entropy",
        "time per phase", "held-out success", "1.54 MiB", "10.0.0.2", "cards [1]: actor_infer"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  for (const char* id : {"run", "learning", "training", "phases", "cards", "nodes", "events"})
    EXPECT_EQ(count_of(page, fmt::format("<section id=\"{}\"", id)), 1U) << id;
  // twenty steps of one second each: twenty are left, less the five since the last one ended
  EXPECT_NE(dashboard_parts(data_of(20), {925}).find("<h3>time left</h3><p class=\"big\">15.0 s"),
            std::string::npos);
}

TEST(DashboardPage, NamesNoAddressOutsideAndRunsOnlyItsOwnScript) {
  const HttpReply reply = get("/", data_of(20));
  for (const char* fetch : {"http:", "https:", "src=", "url(", "@import", "onclick", "style=\""})
    EXPECT_EQ(reply.body.find(fetch), std::string::npos) << fetch;
  ASSERT_EQ(reply.headers.size(), 1U);
  EXPECT_NE(reply.headers[0].second.find("default-src 'none'; script-src 'nonce-4e6f6e6365'"),
            std::string::npos);
  EXPECT_EQ(count_of(reply.body, "<script nonce=\"4e6f6e6365\">"), 1U);
  EXPECT_EQ(count_of(reply.body, "<script"), 1U);
}

TEST(DashboardPage, ObsFourEscapesWhatComesFromOutside) {
  const std::string k_attack = "<script>alert('x')</script>\"'&";
  Board board;
  RunView run;
  run.name = run.error = run.folder = run.stage = run.phase = k_attack;
  run.total_steps = 3;
  run.cards = {{0, k_attack, 1, 1, 2}};
  board.begin_run(run);
  board.set_folder(k_attack, k_attack, {{k_attack, 0.5}}, {});
  MetricRow row(1);
  row.set("time/" + k_attack + "_s", 1.0);
  row.set("val/success", 0.5);
  row.set(k_attack, 1.0);
  row.set("text", k_attack);
  board.add_row(row, 1, 1);
  board.add_event({1, 1, k_attack, k_attack});
  board.set_state(RunState::failed, k_attack);
  ClusterView cluster = sample::cluster();
  cluster.version = cluster.runs[0] = k_attack;
  cluster.nodes[0].host = cluster.nodes[0].address = cluster.nodes[0].version = k_attack;
  cluster.nodes[0].processes = {k_attack};
  board.set_cluster(cluster);
  for (const char* path : {"/", "/live"}) {
    const std::string page = get(path, board.data()).body;
    EXPECT_EQ(page.find("alert('x')"), std::string::npos) << path;
    EXPECT_EQ(tag_fault(page), "") << path;
  }
  EXPECT_FALSE(
      nlohmann::json::parse(get("/status.json", board.data()).body, nullptr, false).is_discarded());
  EXPECT_EQ(test::read_prometheus(get("/metrics", board.data()).body).fault, "");
}

TEST(DashboardPage, ChartsAreSentOnceAStep) {
  const DashboardData data = data_of(20);
  const std::string known = get("/live?rows=20", data).body,
                    other = get("/live?rows=19", data).body;
  EXPECT_EQ(known.find("<svg"), std::string::npos);
  EXPECT_NE(known.find("<section id=\"run\""), std::string::npos);
  EXPECT_NE(other.find("<svg"), std::string::npos);
  EXPECT_NE(other.find("data-rows=\"20\""), std::string::npos);
  for (const char* odd : {"/live", "/live?rows=", "/live?rows=x", "/live?rows=20x", "/live?a=b"})
    EXPECT_EQ(get(odd, data).body, other) << odd;
}

TEST(DashboardPage, AHeadThatIsAwayIsNamed) {
  ClusterView cluster = sample::cluster();
  EXPECT_EQ(dashboard_parts({std::make_shared<const ClusterView>(cluster), nullptr}, {1004})
                .find("has not answered"),
            std::string::npos);
  EXPECT_NE(dashboard_parts({std::make_shared<const ClusterView>(cluster), nullptr}, {1010})
                .find("has not answered for 10.0 s"),
            std::string::npos);
}

TEST(DashboardJson, IsTheStatusWithTheRunsProgress) {
  const auto json = nlohmann::json::parse(get("/status.json", data_of(20)).body);
  EXPECT_EQ(json["nodes"][1]["host"], "npu-b");
  EXPECT_EQ(json["nodes"][1]["is_lost"], true);
  EXPECT_EQ(json["nodes"][1]["losses"], 2);
  EXPECT_EQ(json["nodes"][0]["heard_s"], 1.2);
  EXPECT_EQ(json["run"]["step"], 20);
  EXPECT_EQ(json["run"]["tokens"], 20 * 2048);
  EXPECT_EQ(json["run"]["state"], "running");
  EXPECT_EQ(json["run"]["events"]["lost"], 1);
  EXPECT_EQ(json["run"]["cards"][1]["restarts"], 1);
  EXPECT_EQ(json["run"]["last"]["step"], 20);
}

// -- Prometheus (PROM-1)

TEST(Prometheus, NamesAreSanitisedWithUnitsInFull) {
  EXPECT_EQ(prometheus_name("actor/grad_norm"), "cohort_step_actor_grad_norm");
  EXPECT_EQ(prometheus_name("time/generate_s"), "cohort_step_time_generate_seconds");
  EXPECT_EQ(prometheus_name("tokens_per_s"), "cohort_step_tokens_per_second");
  EXPECT_EQ(prometheus_name("env/Frozen Lake-\xc3\xa9/x"), "cohort_step_env_Frozen_Lake____x");
}

TEST(Prometheus, MetricsOfOneNameStayApart) {
  Board board;
  board.begin_run({});
  MetricRow row(1);
  row.set("a/b", 1.0);
  row.set("a_b", 2.0);
  row.set("a.b", 3.0);
  row.set("inf", std::numeric_limits<double>::infinity());
  row.set("nan", k_not_measured);
  board.add_row(row, 1, 1);
  const auto read = test::read_prometheus(prometheus_text(board.data(), k_now));
  EXPECT_EQ(read.fault, "");
  EXPECT_EQ(read.samples.at("cohort_step_a_b"), 1);
  EXPECT_EQ(read.samples.at("cohort_step_a_b_2"), 2);
  EXPECT_EQ(read.samples.at("cohort_step_a_b_3"), 3);
  EXPECT_TRUE(std::isinf(read.samples.at("cohort_step_inf")));
  EXPECT_TRUE(std::isnan(read.samples.at("cohort_step_nan")));
}

TEST(Prometheus, CountsWhatHappened) {
  const auto read = test::read_prometheus(prometheus_text(data_of(20), k_now));
  EXPECT_EQ(read.fault, "");
  EXPECT_EQ(read.samples.at("cohort_steps_total"), 20);
  EXPECT_EQ(read.samples.at("cohort_trajectories_total"), 20 * 512);
  EXPECT_EQ(read.samples.at("cohort_tokens_total"), 20 * 2048);
  EXPECT_EQ(read.samples.at("cohort_run_state{state=\"running\"}"), 1);
  EXPECT_EQ(read.samples.at("cohort_card_losses_total{card=\"1\",role=\"actor_infer\"}"), 1);
  EXPECT_EQ(read.samples.at("cohort_card_used_bytes{card=\"0\",role=\"actor_train\"}"), 1613824);
  EXPECT_EQ(read.samples.at("cohort_events_total{kind=\"lost\"}"), 1);
  EXPECT_EQ(read.samples.at("cohort_node_up{node=\"1\",host=\"npu-b\"}"), 0);
  EXPECT_NEAR(read.samples.at("cohort_phase_seconds_total{phase=\"publish\"}"), 0.4, 1e-9);
}

// -- the board

TEST(Board, NodesThatAreLostOrReplacedAreCounted) {
  ClusterView cluster = sample::cluster();
  cluster.nodes[0].losses.reset();
  cluster.nodes[1].losses.reset();
  auto see = [&](const ClusterView& before) { return follow(before, cluster); };
  ClusterView seen = see({});
  EXPECT_EQ(seen.nodes[1].losses, 0U) << "lost before anybody looked";
  cluster.nodes[1].is_lost = false;
  seen = see(seen);
  EXPECT_EQ(seen.nodes[1].losses, 0U);
  cluster.nodes[1].is_lost = true;
  seen = see(see(seen));
  EXPECT_EQ(seen.nodes[1].losses, 1U);
  cluster.nodes[1].is_lost = false;
  cluster.nodes[1].pid = 4;  // its successor
  seen = see(seen);
  EXPECT_EQ(seen.nodes[1].losses, 1U);
  cluster.nodes[1].pid = 5;  // lost and replaced between two looks
  seen = see(seen);
  EXPECT_EQ(seen.nodes[1].losses, 2U);
  EXPECT_EQ(seen.nodes[0].losses, 0U);
}

TEST(Board, WhatItHoldsIsBounded) {
  Board board;
  sample::publish_run(board, 0);
  for (uint64_t step = 1; step <= 5000; ++step) {
    MetricRow row(step);
    row.set("loss", 0.5);
    board.add_row(row, step, static_cast<double>(step));
    board.add_event({1, step, "kind " + std::to_string(step % 100), "text"});
  }
  const DashboardData data = board.data();
  EXPECT_LE(data.run->rows.values().size(), k_shown_rows);
  EXPECT_EQ(data.run->rows.values().back()->step(), 5000U);
  EXPECT_EQ(data.run->events.size(), k_shown_events);
  EXPECT_EQ(data.run->event_counts.size(), k_event_kinds_max);
}

TEST(Board, AReaderKeepsWhatItHasTaken) {
  Board board;
  sample::publish_run(board, 2);
  const DashboardData before = board.data();
  const std::string text = prometheus_text(before, k_now);
  std::jthread writer([&board] {
    for (uint64_t step = 3; step < 300; ++step) {
      MetricRow row(step);
      row.set("loss", 0.5);
      board.add_row(row, step, static_cast<double>(step));
      board.set_cluster(sample::cluster());
    }
  });
  uint64_t last = 0;
  while (last < 299) {
    const DashboardData now = board.data();
    ASSERT_GE(now.run->step, last);
    ASSERT_EQ(now.run->last->step(), now.run->step) << "a picture of one moment";
    last = now.run->step;
  }
  EXPECT_EQ(prometheus_text(before, k_now), text);
}

}  // namespace
}  // namespace cohort::observe

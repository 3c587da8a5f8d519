// The dashboard of a run while it runs, and of a cluster's head: what is shown is what happened.
#include <gtest/gtest.h>
#include <httplib.h>

#include <csignal>

#include "runtime/observe/prometheus.hpp"
#include "tests/support/holder.hpp"
#include "tests/support/html_check.hpp"
#include "tests/support/page_client.hpp"
#include "tests/support/prometheus_text.hpp"
#include "tests/support/raw_socket.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using test::Process;
using test::TempFolder;

/// The port behind "dashboard: http://127.0.0.1:", once the process has printed it; 0 if it does
/// not.
uint16_t dashboard_port(Process& process) {
  constexpr std::string_view k_line = "dashboard: http://127.0.0.1:";
  auto line = [&] {
    const std::string out = process.out();
    const size_t at = out.find(k_line);
    return at == std::string::npos || out.find('\n', at) == std::string::npos
               ? std::string()
               : out.substr(at + k_line.size());
  };
  test::wait_until([&] { return !line().empty() || !process.is_running(); }, 30000);
  return line().empty() ? uint16_t{0} : static_cast<uint16_t>(std::stoi(line()));
}

std::vector<std::string> run_command(const TempFolder& folder,
                                     const std::vector<std::string>& words,
                                     const std::vector<std::string>& more) {
  std::vector<std::string> command = test::tiny_run(folder, more);
  command.insert(command.begin() + 2, words.begin(), words.end());
  return command;
}

/// The numbers of /metrics once `is_enough` holds of them; empty when the run has ended before.
test::PrometheusText metrics_when(
    Process& run, httplib::Client& client,
    const std::function<bool(const test::PrometheusText&)>& is_enough) {
  test::PrometheusText read;
  const bool has = test::wait_until(
      [&] {
        auto reply = client.Get("/metrics");
        if (!reply) return !run.is_running();
        read = test::read_prometheus(reply->body);
        return !read.fault.empty() || is_enough(read);
      },
      60000);
  EXPECT_TRUE(has && run.is_running()) << run.err();
  return read;
}

double value_of(const test::PrometheusText& read, const std::string& name) {
  auto found = read.samples.find(name);
  return found == read.samples.end() ? -1 : found->second;
}

// 200 clients that never finish their request are there all the time.
TEST(DashboardRun, WhatItShowsIsWhatTheRunWritesDown) {
  TempFolder folder;
  const std::vector<std::string> more = {"max_steps=30", "eval_steps=10", "save_steps=10"};
  Process run(run_command(folder, {"--dashboard", "0"}, more), folder);
  const uint16_t port = dashboard_port(run);
  ASSERT_GT(port, 0) << run.err();
  std::vector<test::RawSocket> slow;
  for (int i = 0; i < 200; ++i) {
    slow.emplace_back(port);
    slow.back().send("GET / HTTP/1.1\r\nX: ");
  }
  httplib::Client client("127.0.0.1", port);
  const auto read = metrics_when(
      run, client, [](const auto& now) { return value_of(now, "cohort_steps_total") >= 3; });
  ASSERT_EQ(read.fault, "");
  const auto page = client.Get("/");
  const auto status = client.Get("/status.json");
  ASSERT_TRUE(page && status);
  EXPECT_EQ(observe::sample::tag_fault(page->body), "");
  EXPECT_NE(page->body.find("time per phase"), std::string::npos);
  EXPECT_NE(page->body.find("this process: cards [0, 1]"), std::string::npos);
  EXPECT_EQ(json::parse(status->body)["run"]["state"], "running");
  ASSERT_EQ(run.wait(), 0) << run.err();

  auto rows = observe::read_metrics(test::run_folder(run) + "/metrics.jsonl");
  ASSERT_TRUE(rows);
  const auto step = static_cast<uint64_t>(value_of(read, "cohort_steps_total"));
  auto row = std::ranges::find(*rows, step, &observe::MetricRow::step);
  ASSERT_NE(row, rows->end());
  size_t numbers = 0;
  for (const observe::Metric& metric : row->metrics())
    if (const auto* number = std::get_if<double>(&metric.value)) {
      ++numbers;
      EXPECT_EQ(value_of(read, observe::prometheus_name(metric.name)), *number) << metric.name;
    }
  EXPECT_GT(numbers, 20U);
  EXPECT_EQ(value_of(read, "cohort_trajectories_total"), row->number("trajectories"));
  double tokens = 0;
  for (const observe::MetricRow& each : *rows)
    if (each.step() <= step) tokens += each.number("tokens").value_or(0);
  EXPECT_GT(tokens, 0);
  EXPECT_EQ(value_of(read, "cohort_tokens_total"), tokens);
  EXPECT_GT(value_of(read, "cohort_card_peak_bytes{card=\"0\",role=\"actor_train\"}"), 0);

  Process alone(run_command(folder, {}, more), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  EXPECT_EQ(test::hashes(test::run_folder(run)), test::hashes(test::run_folder(alone)));
}

/// What a page says of a run whose stream has step 1.
void expect_pages(test::PageClient& client) {
  EXPECT_NE(client.page("/steps").find(">step 1</a>"), std::string::npos);
  const std::string step = client.page_with("/step?step=1", ">train 0</a>");
  EXPECT_NE(step.find("<td class=\"num\">4</td>"), std::string::npos) << "a group of four";
  const std::string group = client.page(test::link_to(step, "train 0"));
  const std::string one = client.page(test::link_to(group, "trajectory 3"));
  EXPECT_NE(one.find("&lt;|im_start|&gt;user"), std::string::npos) << "tokens have texts: " << one;
  EXPECT_NE(client.page(test::link_to(one, "0")).find("Token 0 of "), std::string::npos);
  EXPECT_NE(client.page("/timeline").find("Bytes on the cards"), std::string::npos);
  EXPECT_NE(client.page("/logs").find("node_0.log"), std::string::npos);
}

TEST(DashboardRun, ItsPagesAreReadWhileItRunsAndAfterAndTheTokenStopsIt) {
  TempFolder folder;
  Process run(run_command(folder, {"--dashboard", "0", "--allow-stop"},
                          {"max_steps=5000", "eval_steps=-1", "save_steps=2500"}),
              folder);
  const uint16_t port = dashboard_port(run);
  ASSERT_GT(port, 0) << run.err();
  test::PageClient client(port);
  metrics_when(run, client.http(),
               [](const auto& now) { return value_of(now, "cohort_steps_total") >= 2; });
  expect_pages(client);
  EXPECT_NE(client.page_with("/flow", "rewards-&gt;actor_train").find("producer"),
            std::string::npos);
  constexpr std::string_view k_line = "stop token: ";
  const std::string out = run.out();
  const size_t at = out.find(k_line);
  ASSERT_NE(at, std::string::npos) << out;
  const std::string token = out.substr(at + k_line.size(), 32);
  auto stop = [&](const std::string& shown) {
    auto reply = client.http().Post("/stop", {{"X-Cohort-Action", shown}}, "", "text/plain");
    return reply ? reply->status : 0;
  };
  EXPECT_EQ(stop("0" + token.substr(1) + "0"), 403);
  EXPECT_EQ(stop(token), 202);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const std::filesystem::path written = test::run_folder(run);
  auto rows = observe::read_metrics(written / "metrics.jsonl");
  ASSERT_TRUE(rows);
  EXPECT_LT(rows->back().step(), 5000U);
  EXPECT_TRUE(std::filesystem::exists(written / "checkpoints" /
                                      ("step_" + std::to_string(rows->back().step()))));

  Process serve({test::binary("actor-node"), "serve", written.string()}, folder);
  const uint16_t served = dashboard_port(serve);
  ASSERT_GT(served, 0) << serve.err();
  test::PageClient after(served);
  const std::string overview = after.page("/");
  EXPECT_NE(overview.find(">finished</span>"), std::string::npos) << overview;
  EXPECT_NE(overview.find("ran for"), std::string::npos);
  expect_pages(after);
  EXPECT_EQ(after.status("/stop"), 404);
  serve.send(SIGTERM);
  EXPECT_EQ(serve.wait(), 0) << serve.err();
}

TEST(DashboardRun, ALostProcessIsCounted) {
  TempFolder folder;
  Process run(run_command(folder, {"--dashboard", "0", "--processes", "2"},
                          {"max_steps=40", "eval_steps=-1", "save_steps=20"}),
              folder);
  const uint16_t port = dashboard_port(run);
  ASSERT_GT(port, 0) << run.err();
  httplib::Client client("127.0.0.1", port);
  auto read = metrics_when(
      run, client, [](const auto& now) { return value_of(now, "cohort_steps_total") >= 1; });
  ASSERT_GT(test::kill_holder(run.pid(), 1), 0);  // the rollout
  const std::string labels = "{card=\"1\",role=\"actor_infer\"}";
  read = metrics_when(run, client, [&](const auto& now) {
    return value_of(now, "cohort_card_restarts_total" + labels) >= 1;
  });
  EXPECT_EQ(value_of(read, "cohort_card_losses_total" + labels), 1);
  EXPECT_EQ(value_of(read, "cohort_events_total{kind=\"lost\"}"), 1);
  EXPECT_EQ(value_of(read, "cohort_card_up" + labels), 1);
  EXPECT_NE(client.Get("/")->body.find("was killed by signal 9"), std::string::npos);
  EXPECT_EQ(run.wait(), 0) << run.err();
}

TEST(DashboardRun, ATakenPortIsToldBeforeTheRunBegins) {
  TempFolder folder;
  httplib::Server other;
  const int port = other.bind_to_any_port("127.0.0.1");
  for (const std::string& where : {std::string(), "127.0.0.1:" + std::to_string(port)}) {
    std::vector<std::string> command = run_command(folder, {}, {});
    if (where.empty())
      command.insert(command.begin(), {"env", "DASHBOARD_PORT=" + std::to_string(port)});
    else
      command.insert(command.begin() + 2, {"--dashboard", where});
    Process run(command, folder);
    EXPECT_EQ(run.wait(), 1);
    EXPECT_NE(run.err().find("Address already in use"), std::string::npos) << run.err();
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "frozen_lake"));
  }
  std::vector<std::string> command = run_command(folder, {}, {});
  command.insert(command.begin(), {"env", "DASHBOARD_PORT=http"});
  Process wrong(command, folder);
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_NE(wrong.err().find("DASHBOARD_PORT is to be [HOST:]PORT"), std::string::npos)
      << wrong.err();
}

/// The address that a head on an ephemeral port has printed.
std::string head_address(Process& head) {
  auto line = [&] {
    const std::string out = head.out();
    const size_t at = out.find("head: ");
    return at == std::string::npos || out.find('\n', at) == std::string::npos
               ? std::string()
               : out.substr(at + 6, out.find(' ', at + 6) - at - 6);
  };
  test::wait_until([&] { return !line().empty() || !head.is_running(); }, 30000);
  return line();
}

TEST(DashboardHead, ShowsWhoIsInTheCluster) {
  TempFolder folder;
  Process head({test::binary("actor-node"), "head", "--listen", "127.0.0.1:0", "--dashboard", "0"},
               folder);
  const uint16_t port = dashboard_port(head);
  ASSERT_GT(port, 0) << head.err();
  const std::string address = head_address(head);
  Process node({test::binary("actor-node"), "join", address, "--rank", "3", "--cards", "8"},
               folder);
  httplib::Client client("127.0.0.1", port);
  auto status = [&] { return json::parse(client.Get("/status.json")->body); };
  ASSERT_TRUE(test::wait_until([&] { return status().value("nodes", json()).size() == 2; }, 20000))
      << node.err();
  EXPECT_EQ(status()["nodes"][1]["node"], 3);
  EXPECT_EQ(status()["nodes"][1]["cards"], 8);
  EXPECT_FALSE(status().contains("run"));
  EXPECT_NE(client.Get("/")->body.find("cohort cluster"), std::string::npos);
  node.send(SIGKILL);
  auto read = [&] { return test::read_prometheus(client.Get("/metrics")->body); };
  const std::string labels =
      "{node=\"3\",host=\"" + status()["nodes"][1]["host"].get<std::string>() + "\"}";
  EXPECT_TRUE(
      test::wait_until([&] { return value_of(read(), "cohort_node_up" + labels) == 0; }, 20000));
  EXPECT_EQ(value_of(read(), "cohort_node_losses_total" + labels), 1);
  Process stop({test::binary("actor-node"), "stop", address}, folder);
  EXPECT_EQ(stop.wait(), 0) << stop.err();
  EXPECT_EQ(head.wait(), 0) << head.err();
}

// The run waits for its second node, and shows that.
TEST(DashboardHead, ARunOnAClusterShowsItsNodesBeforeAndAfterTheyHaveJoined) {
  TempFolder folder;
  Process head({test::binary("actor-node"), "head", "--listen", "127.0.0.1:0"}, folder);
  const std::string address = head_address(head);
  ASSERT_FALSE(address.empty()) << head.err();
  Process run(run_command(folder, {"--cluster", address, "--dashboard", "0", "--wait", "60"},
                          {"num_gpus_per_node=1", "max_steps=30", "eval_steps=-1"}),
              folder);
  const uint16_t port = dashboard_port(run);
  ASSERT_GT(port, 0) << run.err();
  httplib::Client client("127.0.0.1", port);
  auto status = [&] { return json::parse(client.Get("/status.json")->body); };
  ASSERT_TRUE(test::wait_until([&] { return status().value("nodes", json()).size() == 1; }, 20000));
  EXPECT_EQ(status()["run"]["state"], "starting");
  Process node({test::binary("actor-node"), "join", address}, folder);
  metrics_when(run, client,
               [](const auto& now) { return value_of(now, "cohort_steps_total") >= 1; });
  ASSERT_TRUE(test::wait_until(
      [&] {
        const json nodes = status()["nodes"];
        return nodes.size() == 2 && nodes[1]["processes"].size() == 1;
      },
      20000));
  EXPECT_NE(status()["nodes"][1]["processes"][0].get<std::string>().find("cards [1]: actor_infer"),
            std::string::npos);
  EXPECT_EQ(run.wait(), 0) << run.err();
  Process stop({test::binary("actor-node"), "stop", address}, folder);
  EXPECT_EQ(stop.wait(), 0) << stop.err();
  EXPECT_EQ(head.wait(), 0) << head.err();
  EXPECT_EQ(node.wait(), 0) << node.err();
}

}  // namespace
}  // namespace cohort

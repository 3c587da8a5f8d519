// llm_judge and remote against servers in this process: good, slow, broken and hostile ones.
#include "runtime/plugin/http/http_reward.hpp"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/http_stand_in.hpp"

namespace cohort::plugin {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using support::TestServer;

std::string completion(const std::string& text, const std::string& finish = "stop") {
  return Json{{"choices", Json::array({{{"message", {{"role", "assistant"}, {"content", text}}},
                                        {"finish_reason", finish}}})}}
      .dump();
}

void reply_with(httplib::Response& reply, const std::string& body, int status = 200) {
  reply.status = status;
  reply.set_content(body, "application/json");
}

tasks::RewardRow row_of(const std::string& response) {
  tasks::RewardRow row;
  row.id = "test:1";
  row.prompt = "What is 2 + 2?";
  row.response = response;
  row.ground_truth = "4";
  row.data_source = "sums";
  return row;
}

std::shared_ptr<tasks::Reward> judge(const std::string& url, Json config = Json::object(),
                                     double timeout_s = 20, uint32_t workers = 2) {
  config["url"] = url;
  config["model"] = "judge-1";
  if (!config.contains("backoff_s")) config["backoff_s"] = 0.01;
  auto made = make_llm_judge(config.dump(), timeout_s, workers);
  EXPECT_TRUE(made.has_value()) << made.error().to_string();
  return *made;
}

tasks::RewardResult score_one(tasks::Reward& reward, const tasks::RewardRow& row) {
  return reward.score(std::span(&row, 1)).front();
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(LlmJudge, AsksAsOpenAiDoesAndReadsTheScore) {
  TestServer server(
      [](const auto&, auto& reply) { reply_with(reply, completion("It is right.\nScore: 7")); });
  ::setenv("COHORT_TEST_KEY", "sk-secret", 1);
  auto reward = judge(server.url(), {{"api_key_env", "COHORT_TEST_KEY"},
                                     {"system", "You judge."},
                                     {"template", "{prompt}|{response}|{ground_truth}"},
                                     {"max_tokens", 99}});
  const tasks::RewardResult result = score_one(*reward, row_of("it is \xE2\x82"));  // a cut "€"
  EXPECT_EQ(result.error, "");
  EXPECT_DOUBLE_EQ(result.score, 0.7);
  EXPECT_EQ(result.detail, "It is right.\nScore: 7");
  ASSERT_EQ(server.count(), 1U);
  const httplib::Request request = server.requests()[0];
  EXPECT_EQ(request.path, "/v1/chat/completions");
  EXPECT_EQ(request.get_header_value("Authorization"), "Bearer sk-secret");
  EXPECT_EQ(request.get_header_value("Content-Type"), "application/json");
  EXPECT_EQ(Json::parse(request.body),
            (Json{{"model", "judge-1"},
                  {"temperature", 0.0},
                  {"max_tokens", 99},
                  {"messages",
                   {{{"role", "system"}, {"content", "You judge."}},
                    {{"role", "user"}, {"content", "What is 2 + 2?|it is \xEF\xBF\xBD|4"}}}}}));
}

TEST(LlmJudge, RetriesWhatMayPass) {
  std::atomic<int> calls{0};
  TestServer server([&](const auto&, auto& reply) {
    const int call = calls++;
    if (call < 2)
      reply_with(reply, "overloaded", call == 0 ? 500 : 503);
    else
      reply_with(reply, completion("yes"));
  });
  auto reward = judge(server.url("/v1/chat/completions"));
  EXPECT_EQ(score_one(*reward, row_of("4")).score, 1);
  EXPECT_EQ(server.count(), 3U);
}

TEST(LlmJudge, GivesUpAfterItsRetriesWithTheReason) {
  TestServer server([](const auto&, auto& reply) { reply_with(reply, "out of\nmemory", 500); });
  auto reward = judge(server.url(), {{"retries", 2}});
  const tasks::RewardResult result = score_one(*reward, row_of("4"));
  EXPECT_EQ(result.error, "llm_judge: " + server.url("/v1/chat/completions") +
                              ": status 500: out of memory (after 3 tries)");
  EXPECT_EQ(result.score, 0);
  EXPECT_EQ(server.count(), 3U);
}

TEST(LlmJudge, DoesNotRetryWhatStays) {
  std::atomic<int> status{400};
  TestServer server([&](const auto&, auto& reply) { reply_with(reply, "bad", status); });
  ::setenv("COHORT_TEST_KEY", "sk-secret", 1);
  auto reward = judge(server.url(), {{"api_key_env", "COHORT_TEST_KEY"}});
  EXPECT_NE(score_one(*reward, row_of("a")).error.find("status 400: bad"), std::string::npos);
  EXPECT_EQ(server.count(), 1U);
  status = 401;
  const std::string error = score_one(*reward, row_of("b")).error;
  EXPECT_NE(error.find("status 401 (api_key_env names"), std::string::npos) << error;
  EXPECT_EQ(error.find("sk-secret"), std::string::npos);
  status = 302;
  EXPECT_NE(score_one(*reward, row_of("c")).error.find("status 302"), std::string::npos);
  EXPECT_EQ(server.count(), 3U);
}

TEST(LlmJudge, WaitsAsLongAsTheServerAsks) {
  std::atomic<int> calls{0};
  TestServer server([&](const auto&, auto& reply) {
    if (calls++ > 0) return reply_with(reply, completion("yes"));
    reply.set_header("Retry-After", "1");
    reply_with(reply, "slow down", 429);
  });
  auto reward = judge(server.url());
  const auto begin = Clock::now();
  EXPECT_EQ(score_one(*reward, row_of("4")).score, 1);
  EXPECT_GE(seconds_since(begin), 1);
  EXPECT_EQ(server.count(), 2U);
}

TEST(LlmJudge, DoesNotWaitLongerThanARowHas) {
  TestServer server([](const auto&, auto& reply) {
    reply.set_header("Retry-After", "60");
    reply_with(reply, "slow down", 429);
  });
  auto reward = judge(server.url(), {}, 30);
  const auto begin = Clock::now();
  const std::string error = score_one(*reward, row_of("4")).error;
  EXPECT_LT(seconds_since(begin), 15);
  EXPECT_NE(error.find("status 429: slow down; the rate limit, or a pause"), std::string::npos)
      << error;
  EXPECT_EQ(server.count(), 1U);
}

TEST(LlmJudge, ASilentServerCostsTheDeadline) {
  support::Gate gate;
  TestServer server([&](const auto&, auto& reply) {
    gate.wait();
    reply_with(reply, completion("yes"));
  });
  auto reward = judge(server.url(), {}, 0.3);
  const auto begin = Clock::now();
  const std::string error = score_one(*reward, row_of("4")).error;
  const double took = seconds_since(begin);
  gate.open();
  EXPECT_GE(took, 0.3);
  EXPECT_LT(took, 10);
  EXPECT_NE(error.find("no whole reply before the deadline"), std::string::npos) << error;
}

TEST(LlmJudge, ADribblingServerCostsTheDeadlineToo) {
  for (const char* text : {"HTTP/1.1 200 OK\r\nX-A: ", "HTTP/1.1 200 OK\r\nX: y\r\n"}) {
    support::DribblingServer server(text);
    auto reward = judge(server.url(), {{"retries", 0}}, 0.5);
    const auto begin = Clock::now();
    const std::string error = score_one(*reward, row_of("4")).error;
    EXPECT_LT(seconds_since(begin), 10);
    EXPECT_NE(error.find("llm_judge: "), std::string::npos);
    EXPECT_GT(server.sent, 1U);
  }
}

TEST(LlmJudge, ATryMayHangAndTheNextBeGood) {
  support::Gate gate;
  std::atomic<int> calls{0};
  TestServer server([&](const auto&, auto& reply) {
    if (calls++ == 0) gate.wait();
    reply_with(reply, completion("yes"));
  });
  auto reward = judge(server.url(), {{"try_timeout_s", 0.3}}, 20);
  const tasks::RewardResult result = score_one(*reward, row_of("4"));
  gate.open();
  EXPECT_EQ(result.score, 1) << result.error;
  EXPECT_EQ(server.count(), 2U);
}

TEST(LlmJudge, GarbageIsAnErrorAndNoZero) {
  std::string body;
  TestServer server([&](const auto&, auto& reply) { reply_with(reply, body); });
  auto reward = judge(server.url(), {{"retries", 0}});
  for (const auto& [text, reason] : std::vector<std::pair<std::string, std::string>>{
           {"", "no JSON object"},
           {"<html>", "no JSON object"},
           {"[1]", "no JSON object"},
           {"{}", "no text at choices[0]"},
           {R"({"choices": []})", "no text at choices[0]"},
           {R"({"choices": [3]})", "no text at choices[0]"},
           {R"({"choices": [{"message": {"content": null}}]})", "no text at choices[0]"},
           {completion("it is fine"), "no \"Score: x\", yes or no in the reply: it is fine"},
           {completion("let me thi", "length"), "(it was cut at max_tokens 512)"},
           {std::string(5 << 20, 'x'), "a reply of more than 4194304 bytes"}}) {
    body = text;
    const tasks::RewardResult result = score_one(*reward, row_of("4"));
    EXPECT_NE(result.error.find(reason), std::string::npos) << result.error;
    EXPECT_EQ(result.score, 0);
  }
  EXPECT_EQ(server.count(), 10U);  // errors are not cached
  body = completion("yes");
  EXPECT_EQ(score_one(*reward, row_of("4")).score, 1);
}

TEST(LlmJudge, EqualRowsAreAskedOnce) {
  TestServer server([](const auto& request, auto& reply) {
    const bool is_good = request.body.find("good") != std::string::npos;
    reply_with(reply, completion(is_good ? "yes" : "no"));
  });
  auto reward = judge(server.url(), {}, 20, 4);
  std::vector<tasks::RewardRow> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(row_of(i % 2 == 0 ? "good" : "wrong"));
  for (int round = 0; round < 2; ++round) {
    const std::vector<tasks::RewardResult> results = reward->score(rows);
    ASSERT_EQ(results.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(results[i].score, i % 2 == 0 ? 1 : 0) << i;
    EXPECT_EQ(server.count(), 2U) << "round " << round;
  }
}

TEST(LlmJudge, TheOldestOfTheCacheGoesFirst) {
  TestServer server([](const auto&, auto& reply) { reply_with(reply, completion("yes")); });
  auto reward = judge(server.url(), {{"cache_rows", 2}});
  for (const char* response : {"a", "b", "a", "c", "b", "a"}) score_one(*reward, row_of(response));
  EXPECT_EQ(server.count(), 4U);  // a, b, c, and a again
}

TEST(LlmJudge, AsManyRequestsAtOnceAsItHasWorkers) {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0, most = 0;
  TestServer server([&](const auto&, auto& reply) {
    {
      std::unique_lock lock(mutex);
      most = std::max(most, ++inside);
      changed.notify_all();
      // Each waits until three have been here at once; a fourth would be counted.
      changed.wait_for(lock, std::chrono::seconds(10), [&] { return most >= 3; });
      --inside;
    }
    reply_with(reply, completion("yes"));
  });
  auto reward = judge(server.url(), {}, 30, 3);
  EXPECT_EQ(reward->concurrency(), 3U);
  std::vector<tasks::RewardRow> rows;
  for (int i = 0; i < 24; ++i) rows.push_back(row_of(std::to_string(i)));
  std::vector<std::vector<tasks::RewardResult>> results(2);
  std::thread other([&] { results[0] = reward->score(std::span(rows).first(12)); });
  results[1] = reward->score(std::span(rows).last(12));
  other.join();
  for (const auto& part : results)
    for (const tasks::RewardResult& result : part) EXPECT_EQ(result.score, 1) << result.error;
  EXPECT_EQ(most, 3);
}

TEST(LlmJudge, KeepsToItsRate) {
  TestServer server([](const auto&, auto& reply) { reply_with(reply, completion("yes")); });
  auto reward = judge(server.url(), {{"requests_per_minute", 300}, {"retries", 0}}, 0.9, 4);
  std::vector<tasks::RewardRow> rows;
  for (int i = 0; i < 6; ++i) rows.push_back(row_of(std::to_string(i)));
  const auto begin = Clock::now();
  const std::vector<tasks::RewardResult> results = reward->score(rows);
  EXPECT_GE(seconds_since(begin), 1);  // longer than timeout_s: waiting for a turn is not counted
  EXPECT_EQ(server.count(), 6U);
  EXPECT_EQ(results.size(), 6U);
}

TEST(LlmJudge, StopEndsWhatWaits) {
  support::Gate gate;
  TestServer server([&](const auto&, auto& reply) {
    gate.wait();
    reply_with(reply, completion("yes"));
  });
  auto reward = judge(server.url(), {}, 300, 1);
  std::vector<tasks::RewardRow> rows{row_of("a"), row_of("b")};
  std::vector<tasks::RewardResult> results;
  const auto begin = Clock::now();
  std::thread scoring([&] { results = reward->score(rows); });
  while (server.count() == 0) std::this_thread::yield();
  reward->stop();
  scoring.join();
  EXPECT_LT(seconds_since(begin), 60);
  for (const tasks::RewardResult& result : results)
    EXPECT_NE(result.error.find("stopped"), std::string::npos) << result.error;
  EXPECT_NE(score_one(*reward, row_of("c")).error.find("stopped"), std::string::npos);
  gate.open();
}

TEST(LlmJudge, SaysWhereNobodyListens) {
  const support::BoundSocket nobody;
  auto reward = judge(nobody.url(), {{"retries", 1}});
  const std::string error = score_one(*reward, row_of("4")).error;
  EXPECT_TRUE(error.starts_with("llm_judge: " + nobody.url() + "/chat/completions: no connection"))
      << error;
  EXPECT_NE(error.find("(after 2 tries)"), std::string::npos) << error;
}

/// A key and a certificate for 127.0.0.1 that it has signed itself, also as a file.
struct OwnCertificate {
  OwnCertificate() {
    key.reset(EVP_EC_gen("P-256"));
    certificate.reset(X509_new());
    X509* x = certificate.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -60);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key.get());
    X509_NAME* name = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("127.0.0.1"), -1, -1, 0);
    X509_set_issuer_name(x, name);
    X509_EXTENSION* address =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(x, address, -1);
    X509_EXTENSION_free(address);
    EXPECT_GT(X509_sign(x, key.get(), EVP_sha256()), 0);
    path = (std::filesystem::temp_directory_path() / "cohort_cert.XXXXXX").string();
    std::FILE* file = ::fdopen(::mkstemp(path.data()), "w");
    PEM_write_X509(file, x);
    std::fclose(file);
  }
  ~OwnCertificate() { std::filesystem::remove(path); }
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key{nullptr, EVP_PKEY_free};
  std::unique_ptr<X509, decltype(&X509_free)> certificate{nullptr, X509_free};
  std::string path;
};

TEST(LlmJudge, AServerThatHangsUpIsNoSignal) {
  OwnCertificate own;
  support::ResettingServer server(own.certificate.get(), own.key.get());
  // httplib's server, which other tests make, ignores SIGPIPE for the whole process.
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  auto reward = judge(server.url(), {{"retries", 5}, {"ca_file", own.path}});
  const std::string error = score_one(*reward, row_of(std::string(16 << 20, 'x'))).error;
  reward.reset();
  std::signal(SIGPIPE, before);
  EXPECT_NE(error.find("no connection or it broke"), std::string::npos) << error;
  EXPECT_EQ(server.resets, 6);
}

TEST(LlmJudge, TrustsOnlyCertificatesItWasToldOf) {
  OwnCertificate own;
  TestServer server([](const auto&, auto& reply) { reply_with(reply, completion("yes")); },
                    std::make_unique<httplib::SSLServer>(own.certificate.get(), own.key.get()));
  const std::string url = "https://127.0.0.1:" + std::to_string(server.port) + "/v1";
  auto stranger = judge(url, {{"retries", 2}});
  const std::string error = score_one(*stranger, row_of("4")).error;
  EXPECT_NE(error.find("its certificate is not trusted; ca_file names"), std::string::npos)
      << error;
  EXPECT_EQ(error.find("tries)"), std::string::npos);
  EXPECT_EQ(server.count(), 0U);
  auto friendly = judge(url, {{"ca_file", own.path}});
  for (const char* response : {"4", "5", "6"})  // the connection is used again
    EXPECT_EQ(score_one(*friendly, row_of(response)).score, 1);
  EXPECT_EQ(server.count(), 3U);
}

TEST(Remote, SendsRowsAndTakesScoresInOrder) {
  TestServer server([](const auto& request, auto& reply) {
    const Json rows = Json::parse(request.body)["rows"];
    Json results = Json::array();
    for (const Json& row : rows)
      results.push_back({{"score", std::stod(row["response"].template get<std::string>())},
                         {"parts", {{"rows", rows.size()}}}});
    reply_with(reply, Json{{"results", results}}.dump());
  });
  auto reward =
      make_remote_reward(Json{{"url", server.url("/score")}, {"batch_rows", 4}}.dump(), 20, 2);
  ASSERT_TRUE(reward.has_value());
  std::vector<tasks::RewardRow> rows;
  for (int i = 0; i < 10; ++i) rows.push_back(row_of(std::to_string(i)));
  rows[0].columns = R"({"extra_info": {"index": 3}})";
  rows[0].messages = R"([{"role": "user", "content": "hi"}])";
  rows[0].response_tokens = 5;
  const std::vector<tasks::RewardResult> results = (*reward)->score(rows);
  ASSERT_EQ(results.size(), 10U);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(results[i].score, static_cast<double>(i)) << results[i].error;
    EXPECT_EQ(results[i].parts[0].second, i < 8 ? 4 : 2);
  }
  ASSERT_EQ(server.count(), 3U);
  for (const httplib::Request& request : server.requests()) {
    EXPECT_EQ(request.path, "/score");
    const Json first = Json::parse(request.body)["rows"][0];
    if (first["response"] != "0") continue;
    EXPECT_EQ(first, (Json{{"id", "test:1"},
                           {"response", "0"},
                           {"prompt", "What is 2 + 2?"},
                           {"messages", {{{"role", "user"}, {"content", "hi"}}}},
                           {"ground_truth", "4"},
                           {"data_source", "sums"},
                           {"columns", {{"extra_info", {{"index", 3}}}}},
                           {"response_tokens", 5},
                           {"is_finished", true}}));
  }
}

TEST(Remote, AFailedBatchCostsItsOwnRows) {
  TestServer server([](const auto& request, auto& reply) {
    const Json rows = Json::parse(request.body)["rows"];
    if (rows[0]["response"] == "0") return reply_with(reply, R"({"results": [1]})");
    reply_with(reply, R"({"scores": [1, 1]})");
  });
  auto reward = make_remote_reward(Json{{"url", server.url()}, {"batch_rows", 2}}.dump(), 20, 1);
  ASSERT_TRUE(reward.has_value());
  const std::vector<tasks::RewardRow> rows{row_of("0"), row_of("1"), row_of("2"), row_of("3")};
  const std::vector<tasks::RewardResult> results = (*reward)->score(rows);
  EXPECT_EQ(results[0].error, "remote: 1 results for 2 rows");
  EXPECT_EQ(results[1].error, "remote: 1 results for 2 rows");
  EXPECT_EQ(results[2].error, "");
  EXPECT_EQ(results[3].score, 1);
}

}  // namespace
}  // namespace cohort::plugin

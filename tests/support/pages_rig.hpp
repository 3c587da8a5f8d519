#pragma once
/// A dashboard with a made-up run on its board, and a stream that the test writes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/dashboard_sample.hpp"
#include "tests/support/lake_tokenizer.hpp"
#include "tests/support/page_client.hpp"
#include "tests/support/stream_folder.hpp"
#include "tools/actor-node/dashboard_server.hpp"
#include "tools/actor-node/run_links.hpp"
#include "tools/actor-node/run_waits.hpp"

namespace cohort::test {

inline uint16_t port_of(const DashboardServer& server) {
  const std::string& url = server.url();
  return static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

/// A run's folder beside others, without a stream.
inline std::filesystem::path write_run(const std::filesystem::path& experiment,
                                       const std::string& id, double rate, int steps) {
  const std::filesystem::path run = experiment / id;
  std::filesystem::create_directories(run / "log");
  std::string rows;
  for (int step = 1; step <= steps; ++step)
    rows += fmt::format(R"({{"step":{},"loss":{},"param_hash":"{}"}})", step, rate * step,
                        step < 3 ? "same" : id) +
            "\n";
  stream::test::write_bytes(run / "metrics.jsonl", rows);
  stream::test::write_bytes(run / "config.yaml",
                            fmt::format("seed: 1\noptimizer: {{rate: {}, name: <b>}}\n", rate));
  stream::test::write_bytes(run / "log" / "node_0.log", "first line\n<script>of " + id + "\n");
  return run;
}

/// As a process of the run tells of its links.
inline void tell_links(const std::filesystem::path& run,
                       const std::vector<observe::LinkLine>& links) {
  std::filesystem::create_directories(waits_folder(run));
  const auto written = write_links(waits_folder(run), "run", links);
  EXPECT_TRUE(written) << written.error().detail;
}

class PagesRig {
 public:
  PagesRig() {
    auto server = DashboardServer::open({"127.0.0.1", 0}, {});
    EXPECT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
    observe::sample::publish_run(server_->board(), 3);
  }
  DashboardServer& server() { return *server_; }
  const stream::test::StreamFolder& folder() const { return folder_; }
  void show(std::shared_ptr<const tasks::Tokenizer> tokenizer = tests::lake_tokenizer()) {
    server_->open_run({folder_.path(), std::move(tokenizer)});
  }
  void append(const proto::Trajectory& x) {
    const auto appended = writer().append_trajectory(x);
    EXPECT_TRUE(appended) << appended.error().detail;
  }
  void append_result(uint64_t step, double reward) {
    const auto appended = writer().append_json(
        stream::RecordType::step_result,
        fmt::format(R"({{"step":{},"reward/mean":{},"loss":0.5}})", step, reward));
    EXPECT_TRUE(appended) << appended.error().detail;
  }

 private:
  /// Goes on as long as the rig: the stream is one that is being written.
  stream::Writer& writer() {
    if (!writer_) {
      auto opened = stream::Writer::open(folder_.path(), stream::test::small_segments());
      EXPECT_TRUE(opened) << opened.error().detail;
      writer_ = std::make_unique<stream::Writer>(std::move(*opened));
    }
    return *writer_;
  }

  stream::test::StreamFolder folder_;
  std::unique_ptr<stream::Writer> writer_;
  std::unique_ptr<DashboardServer> server_;
};

}  // namespace cohort::test

/// Writers against real files, pipes and a pseudo terminal.
#include "tests/support/observe_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "runtime/observe/console.hpp"
#include "runtime/observe/metrics.hpp"
#include "runtime/observe/tensorboard.hpp"
#include "runtime/observe/trace.hpp"
#include "tests/support/observe_sample.hpp"

namespace cohort::observe {
namespace {

using sample::read_all;
using sample::TemporaryFolder;

MetricRow row_of(uint64_t step) {
  MetricRow row(step);
  row.set("loss", 0.5 * static_cast<double>(step));
  return row;
}

void write_rows(const std::filesystem::path& path, uint64_t last) {
  auto sink = JsonlSink::open(path);
  ASSERT_TRUE(sink.has_value()) << sink.error().to_string();
  for (uint64_t step = 1; step <= last; ++step) ASSERT_TRUE(sink->write(row_of(step)).has_value());
}

TEST(JsonlSink, ObsOneRepairsATornLastLine) {
  TemporaryFolder folder;
  auto path = folder / "metrics.jsonl";
  write_rows(path, 2);
  std::string whole = read_all(path);
  sample::write_all(path, whole + R"({"step":3,"lo)");
  EXPECT_EQ(read_metrics(path)->size(), 2U);
  auto sink = JsonlSink::open(path);
  ASSERT_TRUE(sink.has_value());
  EXPECT_EQ(sink->repaired_bytes(), 13U);
  ASSERT_TRUE(sink->write(row_of(3)).has_value());
  EXPECT_EQ(read_all(path), whole + row_of(3).to_json() + "\n");
}

TEST(JsonlSink, TruncateAfterStepForResume) {
  TemporaryFolder folder;
  auto path = folder / "metrics.jsonl";
  write_rows(path, 5);
  auto sink = JsonlSink::open(path);
  ASSERT_TRUE(sink->truncate_after_step(3).has_value());
  ASSERT_TRUE(sink->write(row_of(4)).has_value());
  auto rows = read_metrics(path);
  ASSERT_EQ(rows->size(), 4U);
  EXPECT_EQ(rows->back(), row_of(4));
  ASSERT_TRUE(sink->truncate_after_step(0).has_value());
  EXPECT_EQ(read_all(path), "");
}

TEST(JsonlSink, ErrorsNameThePathAndLine) {
  TemporaryFolder folder;
  auto path = folder / "metrics.jsonl";
  sample::write_all(path, "{\"step\":1}\nnonsense\n");
  auto sink = JsonlSink::open(path);
  auto failed = sink->truncate_after_step(1);
  EXPECT_EQ(failed.error().code, Errc::corrupt);
  EXPECT_NE(failed.error().detail.find("metrics.jsonl:2"), std::string::npos);
  EXPECT_NE(JsonlSink::open("/proc/none/x.jsonl").error().detail.find("/proc/none"),
            std::string::npos);
}

TEST(TraceWriter, FullDiskIsAnError) {
  auto writer = TraceWriter::open("/dev/full");
  ASSERT_FALSE(writer.has_value());
  EXPECT_EQ(writer.error().code, Errc::io);
  EXPECT_NE(writer.error().detail.find("/dev/full"), std::string::npos);
}

TEST(TensorBoardWriter, ASessionInTheSameSecondSortsLater) {
  TemporaryFolder folder;
  TensorBoardOptions options;
  options.folder = folder / "tb";
  options.clock = [] { return 1700000000.5; };
  auto first = TensorBoardWriter::open(options);
  auto second = TensorBoardWriter::open(options);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_LT(first->path().filename(), second->path().filename());
  ASSERT_TRUE(second->close().has_value());
  MetricRow row(1);
  row.set("x", 1);
  EXPECT_EQ(second->scalars(row).error().code, Errc::closed);
}

nlohmann::json parse_trace(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_all(path), nullptr, false);
}

TEST(TraceWriter, IsValidAfterCloseAndContinuedOnResume) {
  TemporaryFolder folder;
  auto path = folder / "trace.json";
  auto writer = TraceWriter::open(path);
  ASSERT_TRUE(writer.has_value());
  TrackId track = (*writer)->track("card \"1\"", "phases");
  const TraceArg k_args[] = {{"bytes", 12.0}, {"object", std::string_view("kv_cache")}};
  (*writer)->span(track, "generate", "compute", 1000, 3500, k_args);
  ASSERT_TRUE((*writer)->close().has_value());
  auto events = parse_trace(path);
  ASSERT_TRUE(events.is_array());
  EXPECT_EQ(events.back()["dur"], 2500);
  EXPECT_EQ(events.back()["args"]["object"], "kv_cache");
  size_t before = events.size();

  auto again = TraceWriter::open(path, true);
  ASSERT_TRUE(again.has_value());
  TrackId same = (*again)->track("card \"1\"", "phases");
  EXPECT_EQ(same.process, track.process);
  EXPECT_EQ(same.thread, track.thread);
  (*again)->span(same, "resume", "compute", 4000, 4000);
  ASSERT_TRUE((*again)->close().has_value());
  EXPECT_EQ(parse_trace(path).size(), before + 1);
}

TEST(TraceWriter, AnArrowJoinsTwoSpans) {
  TemporaryFolder folder;
  auto path = folder / "trace.json";
  auto writer = TraceWriter::open(path);
  ASSERT_TRUE(writer.has_value());
  const TrackId from = (*writer)->track("rollouts", "rollout 0");
  const TrackId to = (*writer)->track("card 0", "compute");
  (*writer)->span(from, "step 1", "leases", 1000, 2000);
  (*writer)->span(to, "update", "compute", 3000, 4000);
  (*writer)->flow("trajectories", from, 2000, to, 3000);
  (*writer)->flow("trajectories", from, 2000, to, 3000);
  ASSERT_TRUE((*writer)->close().has_value());
  const auto events = parse_trace(path);
  ASSERT_GE(events.size(), 4U);
  const auto& begin = events[events.size() - 4];
  const auto& end = events[events.size() - 3];
  EXPECT_EQ(begin["ph"], "s");
  EXPECT_EQ(begin["ts"], 2000);
  EXPECT_EQ(begin["pid"], from.process);
  EXPECT_EQ(end["ph"], "f");
  EXPECT_EQ(end["bp"], "e");
  EXPECT_EQ(end["id"], begin["id"]);
  EXPECT_EQ(end["tid"], to.thread);
  EXPECT_NE(events.back()["id"], begin["id"]);
}

TEST(TraceWriter, TornTailIsCutOnResume) {
  TemporaryFolder folder;
  auto path = folder / "trace.json";
  {
    auto writer = TraceWriter::open(path);
    TrackId track = (*writer)->track("a", "b");
    (*writer)->span(track, "generate", "compute", 1, 2);
  }
  std::string text = read_all(path);
  sample::write_all(path, text.substr(0, text.size() - 20));
  for (int round = 0; round < 2; ++round) {
    auto writer = TraceWriter::open(path, true);
    ASSERT_TRUE(writer.has_value());
    ASSERT_TRUE((*writer)->close().has_value());
    EXPECT_TRUE(parse_trace(path).is_array()) << read_all(path);
  }
  sample::write_all(path, "");
  auto writer = TraceWriter::open(path, true);
  ASSERT_TRUE((*writer)->close().has_value());
  EXPECT_TRUE(parse_trace(path).empty());
}

TEST(TraceWriter, ManyThreadsMakeWholeEvents) {
  TemporaryFolder folder;
  auto path = folder / "trace.json";
  auto writer = TraceWriter::open(path);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&writer, t] {
      TrackId track = (*writer)->track("node", fmt::format("thread {}", t));
      for (int i = 0; i < 500; ++i) (*writer)->span(track, "x", "y", i, i + 1);
    });
  threads.clear();
  ASSERT_TRUE((*writer)->close().has_value());
  EXPECT_EQ(parse_trace(path).size(), 2000U + 2 + 8);
}

/// Returns what arrives at the other end of a pipe while `use` has the writing end.
template <class F>
std::string through_pipe(F use) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe(ends), 0);
  use(ends[1]);
  ::close(ends[1]);
  std::string out;
  char block[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], block, sizeof block)) > 0;)
    out.append(block, static_cast<size_t>(got));
  ::close(ends[0]);
  return out;
}

std::string run_console(ConsoleMode mode) {
  return through_pipe([mode](int fd) {
    ConsoleOptions options;
    options.mode = mode;
    options.out_fd = options.error_fd = fd;
    Console console(options);
    console.update([](ConsoleState& state) { state.total_steps = 2; });
    console.note("card 0: 4 MiB");
    console.event(EventLevel::info, "starts");
    console.step_done([](ConsoleState& state) { state.step = 1; });
    console.event(EventLevel::warning, "careful");
    console.finish("run: /tmp/x");
    console.finish("twice");
  });
}

TEST(Console, PlainIsALinePerStepAndEvent) {
  std::string out = run_console(ConsoleMode::plain);
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 6);
  EXPECT_NE(out.find("  1/2  "), std::string::npos) << out;
  EXPECT_TRUE(out.ends_with("warning: careful\nrun: /tmp/x\n")) << out;
}

TEST(Console, QuietIsWarningsAndTheLastLine) {
  EXPECT_EQ(run_console(ConsoleMode::quiet), "warning: careful\nrun: /tmp/x\n");
}

TEST(Console, LiveDrawsAtMostTenTimesASecondAndKeepsWarnings) {
  auto begin = std::chrono::steady_clock::now();
  std::string out = through_pipe([](int fd) {
    ConsoleOptions options{ConsoleMode::live, fd, fd, false, 60};
    Console console(options);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&console] {
        for (int i = 0; i < 400; ++i) {
          console.update([](ConsoleState& state) { ++state.trajectories; });
          ::usleep(500);
        }
      });
    console.event(EventLevel::warning, "careful");
    threads.clear();
    EXPECT_EQ(console.state().trajectories, 1200U);
    console.finish("run: /tmp/x");
  });
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  size_t frames = 0;
  for (size_t at = out.find("elapsed"); at != std::string::npos; at = out.find("elapsed", at + 1))
    ++frames;
  EXPECT_GE(frames, 2U);
  EXPECT_LE(static_cast<double>(frames), seconds * 10 + 3);
  EXPECT_NE(out.find("\x1b[2Kwarning: careful\n"), std::string::npos);
  EXPECT_TRUE(out.ends_with("run: /tmp/x\n"));
  EXPECT_EQ(out.find("\x1b[?"), std::string::npos);  // OBS-3: no mode is changed
}

TEST(Console, LiveFollowsTheSizeOfItsTerminal) {
  int host = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (host < 0 || ::grantpt(host) != 0 || ::unlockpt(host) != 0)
    GTEST_SKIP() << "no pseudo terminal here";
  int terminal = ::open(::ptsname(host), O_RDWR | O_NOCTTY);
  winsize size{8, 44, 0, 0};
  ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  {
    Console console({ConsoleMode::live, terminal, terminal, false, 0});
    console.update([](ConsoleState& state) { state = sample::console_state(); });
    console.finish("");
  }
  // The kernel brings over in pieces what was written at once.
  std::string out, piece(65536, '\0');
  pollfd ready{host, POLLIN, 0};
  while (::poll(&ready, 1, out.find("frozen_lake") == std::string::npos ? 5000 : 100) > 0)
    out.append(piece, 0,
               static_cast<size_t>(std::max<ssize_t>(0, ::read(host, piece.data(), piece.size()))));
  EXPECT_NE(out.find("frozen_lake"), std::string::npos);
  EXPECT_EQ(out.find("card 1"), std::string::npos);  // below the eighth row: not drawn
  ::close(terminal);
  ::close(host);
}

}  // namespace
}  // namespace cohort::observe

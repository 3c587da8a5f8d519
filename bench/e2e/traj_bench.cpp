// What a person waits for at a stream of a million trajectories: to find one, to search all, to see
// a new one; and what the stream costs on disk. One JSON line per case (docs/bench.md).
//   traj_bench [--dir=FOLDER] [--trajectories=1000000] [--repeats=7] [--traj=PROGRAM] [--append]
// --append: that case alone.
// seek  = Reader::open, find, decode, with nothing of the stream in the page cache; its ceiling is
//         a cold read of as many bytes at a known place.
// grep  = the program `traj grep --count`, start to end, with the stream in the page cache; its
//         ceiling is a read of all segments into one buffer by one thread, and by all cores.
// tail  = from the return of append() to the line of `traj tail -f` in a pipe.
// append = Writer::append_trajectory and close(), plain and packed (recording.compression: zstd) in
//         turns; the packed stream's bytes over the plain one's.
// size  = bytes of segments over bytes of columns and over bytes of headers and columns.
// Each is measured at rest and again while a writer appends to the stream (k_live_rate).
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/e2e/traj_stream.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/stream/reader.hpp"
#include "runtime/stream/stream_file.hpp"

namespace {

using namespace cohort;
using bench::StreamSize;

constexpr int k_seeks = 20;                // of each repeat
constexpr double k_live_rate = 5000;       // [trajectories/s] of the writer beside
constexpr uint64_t k_live_step = 1 << 30;  // above every step of the stream
constexpr int k_tail_lines = 20000;        // 4 s, most of them after the follower has caught up
constexpr uint64_t k_long_trajectories = 4000;
constexpr uint32_t k_long_tokens = 4096;                   // more than those of a game
constexpr uint64_t k_appends_bytes = uint64_t{100} << 20;  // of a repeat, about

struct Settings {
  std::filesystem::path folder = ".", traj;
  uint64_t trajectories = 1'000'000;
  int repeats = 7;
  bool is_append_only = false;
};

double percentile(std::vector<double> x, double p) {
  std::ranges::sort(x);
  return x[static_cast<size_t>(p * static_cast<double>(x.size() - 1))];
}

double median(const std::vector<double>& x) { return percentile(x, 0.5); }

/// Appends to the stream at a steady rate until it is destroyed.
class LiveWriter {
 public:
  explicit LiveWriter(const std::filesystem::path& folder)
      : writer_(stream::Writer::open(folder, {.run_id = "bench"}).value()),
        thread_([this] { run(); }) {}
  ~LiveWriter() {
    is_ended_ = true;
    thread_.join();
    writer_.close().value();
  }
  /// Returns when append() of the trajectory `index` returned; now, if it has not yet.
  double time_of(uint32_t index) {
    std::lock_guard lock(mutex_);
    const auto found = times_.find(index);
    return found == times_.end() ? now_seconds() : found->second;
  }

 private:
  void run() {
    const double begin = now_seconds();
    for (uint32_t i = 0; !is_ended_; ++i) {
      const double due = begin + i / k_live_rate;
      while (now_seconds() < due && !is_ended_)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      proto::Trajectory x = bench::sample_trajectory(k_live_step, 0, i);
      x.key.kind = proto::TrajectoryKind::val;  // grep leaves them out
      writer_.append_trajectory(x).value();
      std::lock_guard lock(mutex_);
      times_[i] = now_seconds();
    }
  }

  stream::Writer writer_;
  std::mutex mutex_;
  std::map<uint32_t, double> times_;
  std::atomic<bool> is_ended_{false};
  std::thread thread_;
};

// -- ceilings ----------------------------------------------------------------

struct Timed {
  double wall = 0, cpu = 0;  // [s]
};

double cpu_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// `who`: RUSAGE_SELF, or RUSAGE_CHILDREN that have ended.
template <class F>
Timed timed(int who, F&& f) {
  const double wall = now_seconds(), cpu = cpu_seconds(who);
  f();
  return {now_seconds() - wall, cpu_seconds(who) - cpu};
}

/// Reads all segments once into a buffer that is used again, split over `threads`.
void read_segments(const std::filesystem::path& folder, size_t threads) {
  const std::vector<uint32_t> segments = stream::list_segments(folder).value();
  std::atomic<size_t> next{0};
  const auto read_some = [&] {
    std::vector<std::byte> buffer(size_t{1} << 20);
    for (size_t i; (i = next++) < segments.size();) {
      auto file =
          stream::File::open(stream::segment_path(folder, segments[i]), stream::OpenMode::read)
              .value();
      for (uint64_t at = 0, n = 1; n > 0; at += n) n = file.read(at, buffer).value();
    }
  };
  std::vector<std::thread> workers;
  for (size_t i = 1; i < threads; ++i) workers.emplace_back(read_some);
  read_some();
  for (std::thread& worker : workers) worker.join();
}

/// A read of a record's bytes at a known place.
double read_place(const std::filesystem::path& folder, const stream::RecordInfo& info) {
  const double begin = now_seconds();
  auto file =
      stream::File::open(stream::segment_path(folder, info.id.segment), stream::OpenMode::read)
          .value();
  std::vector<std::byte> bytes(info.size_bytes());
  COHORT_CHECK(file.read(info.id.offset, bytes).value() == bytes.size(), "bench: short read");
  return now_seconds() - begin;
}

// -- cases -------------------------------------------------------------------

struct Seeks {
  std::vector<double> found, raw;  // [s]
};

void seek(const Settings& settings, const std::filesystem::path& folder, Rng& rng, Seeks& out) {
  for (int i = 0; i < k_seeks; ++i) {
    const uint64_t n = rng.next_u64() % settings.trajectories;
    const proto::TrajectoryKey key = bench::sample_key(n);
    bench::drop_from_page_cache(folder);
    double begin = now_seconds();
    auto reader = stream::Reader::open(folder).value();
    const auto record = reader.find(key).value();
    COHORT_CHECK(record.has_value(), "bench: a trajectory of the stream was not found");
    const proto::Trajectory found = record->trajectory().value();
    out.found.push_back(now_seconds() - begin);
    COHORT_CHECK(found.key == key, "bench: another trajectory was found");
    bench::drop_from_page_cache(folder);
    out.raw.push_back(read_place(folder, record->info));
  }
}

/// Runs `traj grep --count WORDS`. The answer must begin with `count`.
void grep(const Settings& settings, const std::filesystem::path& folder, const std::string& words,
          uint64_t count) {
  const std::string command =
      fmt::format("{} grep --count {} {}", settings.traj.string(), folder.string(), words);
  std::FILE* pipe = popen(command.c_str(), "r");
  char line[256] = "";
  (void)std::fgets(line, sizeof line, pipe);
  COHORT_CHECK(pclose(pipe) == 0, "bench: traj grep failed");
  COHORT_CHECK(std::string(line).starts_with(fmt::format("{} of ", count)), line);
}

struct GrepCase {
  const char* name;
  std::string words;
  uint64_t count;
};

std::vector<GrepCase> grep_cases(const Settings& settings) {
  const uint64_t needles =
      (settings.trajectories + bench::k_needle_every - 1) / bench::k_needle_every;
  return {{"literal", "needle --kind train", needles},
          {"regex", "'needle [0-9]+' --regex --kind train", needles},
          {"where", "--where 'score > 2' --kind train", needles}};
}

/// A number of wall seconds and of CPU seconds for each repeat.
struct Times {
  std::vector<double> wall, cpu;
  void add(const Timed& x) {
    wall.push_back(x.wall);
    cpu.push_back(x.cpu);
  }
};

struct Greps {
  Times copy_one, copy_all;
  std::map<std::string, Times> found;
};

/// A busy machine stretches wall seconds, so what each byte costs is said in CPU seconds too.
void print_grep(const Settings& settings, const Greps& x, uint64_t bytes, const char* state) {
  const double megabytes = static_cast<double>(bytes) / 1e6;
  for (const auto& [name, times] : x.found)
    fmt::print(
        "{{\"bench\":\"traj\",\"case\":\"grep\",\"query\":\"{}\",\"state\":\"{}\",\"trajectories\":"
        "{},\"mb\":{:.0f},\"mb_s\":{:.0f},\"seconds\":{:.3f},\"copy_mb_s\":{:.0f},"
        "\"copy_all_cores_mb_s\":{:.0f},\"mb_cpu_s\":{:.0f},\"copy_mb_cpu_s\":{:.0f},"
        "\"cpu_of_copy\":{:.3f},\"n\":{}}}\n",
        name, state, settings.trajectories, megabytes, megabytes / median(times.wall),
        median(times.wall), megabytes / median(x.copy_one.wall),
        megabytes / median(x.copy_all.wall), megabytes / median(times.cpu),
        megabytes / median(x.copy_one.cpu), median(x.copy_one.cpu) / median(times.cpu),
        times.wall.size());
  std::fflush(stdout);
}

void print_seek(const Settings& settings, const Seeks& x, const char* state) {
  fmt::print(
      "{{\"bench\":\"traj\",\"case\":\"seek_cold\",\"state\":\"{}\",\"trajectories\":{},\"ms\":{:."
      "2f},"
      "\"p90_ms\":{:.2f},\"max_ms\":{:.2f},\"raw_read_ms\":{:.3f},\"n\":{}}}\n",
      state, settings.trajectories, median(x.found) * 1e3, percentile(x.found, 0.9) * 1e3,
      percentile(x.found, 1) * 1e3, median(x.raw) * 1e3, x.found.size());
  std::fflush(stdout);
}

/// Seeks and greps in turns, with their ceilings between them.
void run_reads(const Settings& settings, const std::filesystem::path& folder, const char* state) {
  Rng rng(7);
  Seeks seeks;
  Greps greps;
  const uint64_t bytes = bench::segment_bytes(folder);
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  for (int i = -1; i < settings.repeats; ++i) {  // one round to warm up
    Seeks found;
    seek(settings, folder, rng, found);
    read_segments(folder, cores);  // from here on the stream is in the page cache
    const Timed one = timed(RUSAGE_SELF, [&] { read_segments(folder, 1); });
    const Timed all = timed(RUSAGE_SELF, [&] { read_segments(folder, cores); });
    std::map<std::string, Timed> times;
    for (const GrepCase& x : grep_cases(settings))
      times[x.name] = timed(RUSAGE_CHILDREN, [&] { grep(settings, folder, x.words, x.count); });
    if (i < 0) continue;
    seeks.found.insert(seeks.found.end(), found.found.begin(), found.found.end());
    seeks.raw.insert(seeks.raw.end(), found.raw.begin(), found.raw.end());
    greps.copy_one.add(one);
    greps.copy_all.add(all);
    for (const auto& [name, value] : times) greps.found[name].add(value);
  }
  print_seek(settings, seeks, state);
  print_grep(settings, greps, bytes, state);
}

/// Lag of a follower of a live writer.
void run_tail(const Settings& settings, const std::filesystem::path& folder, LiveWriter& writer) {
  const std::string command =
      fmt::format("{} tail -f -n 0 --for 60 --limit {} --where 'step == {}' {}",
                  settings.traj.string(), k_tail_lines, k_live_step, folder.string());
  std::FILE* pipe = popen(command.c_str(), "r");
  std::vector<double> lags;
  double first = 0;  // when the follower was there
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const double now = now_seconds();
    unsigned index = 0;
    COHORT_CHECK(std::sscanf(line, "val %*u/%*u/%u", &index) == 1, line);
    if (first == 0) first = now;
    if (const double written = writer.time_of(index); written > first)
      lags.push_back(std::max(0.0, now - written));
  }
  pclose(pipe);
  COHORT_CHECK(!lags.empty(), "bench: traj tail ended early");
  fmt::print(
      "{{\"bench\":\"traj\",\"case\":\"tail\",\"rate\":{},\"lag_ms\":{:.2f},\"p99_ms\":{:.2f},"
      "\"max_ms\":{:.2f},\"n\":{}}}\n",
      k_live_rate, median(lags) * 1e3, percentile(lags, 0.99) * 1e3, percentile(lags, 1) * 1e3,
      lags.size());
  std::fflush(stdout);
}

/// Writes the stream.
void print_size(const std::filesystem::path& folder, uint64_t count, uint32_t more_tokens) {
  const StreamSize size = bench::make_stream(folder, count, more_tokens);
  fmt::print(
      "{{\"bench\":\"traj\",\"case\":\"size\",\"trajectories\":{},\"more_tokens\":{},\"stored_"
      "bytes\":"
      "{},\"of_columns\":{:.3f},\"of_headers_and_columns\":{:.3f}}}\n",
      count, more_tokens, size.stored_bytes,
      static_cast<double>(size.stored_bytes) / static_cast<double>(size.columns_bytes),
      static_cast<double>(size.stored_bytes) /
          static_cast<double>(size.columns_bytes + size.headers_bytes));
  std::fflush(stdout);
}

/// Appends the trajectories to a stream of its own; returns its bytes.
uint64_t append_all(const std::filesystem::path& folder, const std::vector<proto::Trajectory>& all,
                    stream::Compression compression, Times& times) {
  std::filesystem::remove_all(folder);
  times.add(timed(RUSAGE_SELF, [&] {
    auto writer =
        stream::Writer::open(folder, {.run_id = "bench", .compression = compression}).value();
    for (const proto::Trajectory& x : all) writer.append_trajectory(x).value();
    writer.close().value();
  }));
  const uint64_t bytes = bench::segment_bytes(folder);
  std::filesystem::remove_all(folder);
  return bytes;
}

void run_appends(const Settings& settings, uint32_t more_tokens) {
  std::vector<proto::Trajectory> all;
  uint64_t columns_bytes = 0;
  for (uint64_t n = 0; columns_bytes < k_appends_bytes; ++n) {
    const proto::TrajectoryKey key = bench::sample_key(n);
    all.push_back(bench::sample_trajectory(key.step, key.group, key.index, more_tokens));
    columns_bytes += bench::columns_bytes(all.back());
  }
  Times plain, packed;
  uint64_t plain_bytes = 0, packed_bytes = 0;
  for (int i = 0; i < settings.repeats; ++i) {
    const std::filesystem::path folder = settings.folder / "traj_bench.append";
    plain_bytes = append_all(folder, all, stream::Compression::none, plain);
    packed_bytes = append_all(folder, all, stream::Compression::zstd, packed);
  }
  const auto count = static_cast<double>(all.size());
  fmt::print(
      "{{\"bench\":\"traj\",\"case\":\"append\",\"more_tokens\":{},\"plain_per_s\":{:.0f},"
      "\"packed_per_s\":{:.0f},\"packed_of_plain_speed\":{:.3f},\"packed_us_cpu\":{:.1f},"
      "\"plain_us_cpu\":{:.1f},\"packed_of_plain_bytes\":{:.3f},\"packed_of_columns\":{:.3f},"
      "\"n\":{}}}\n",
      more_tokens, count / median(plain.wall), count / median(packed.wall),
      median(plain.wall) / median(packed.wall), median(packed.cpu) / count * 1e6,
      median(plain.cpu) / count * 1e6,
      static_cast<double>(packed_bytes) / static_cast<double>(plain_bytes),
      static_cast<double>(packed_bytes) / static_cast<double>(columns_bytes), settings.repeats);
  std::fflush(stdout);
}

void run(const Settings& settings) {
  run_appends(settings, 0);
  run_appends(settings, k_long_tokens);
  if (settings.is_append_only) return;
  const std::filesystem::path folder =
      settings.folder / fmt::format("traj_bench.{}", settings.trajectories);
  print_size(settings.folder / "traj_bench.long", k_long_trajectories, k_long_tokens);
  std::filesystem::remove_all(settings.folder / "traj_bench.long");
  print_size(folder, settings.trajectories, 0);
  run_reads(settings, folder, "rest");
  LiveWriter writer(folder);
  run_tail(settings, folder, writer);
  run_reads(settings, folder, "live");
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  settings.traj = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "traj";
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto value = [&](const char* name) -> const char* {
      return text.starts_with(name) ? text.c_str() + std::strlen(name) : nullptr;
    };
    if (const char* folder = value("--dir="))
      settings.folder = folder;
    else if (text == "--append")
      settings.is_append_only = true;
    else if (const char* traj = value("--traj="))
      settings.traj = traj;
    else if (const char* repeats = value("--repeats="))
      settings.repeats = std::max(1, std::atoi(repeats));
    else if (const char* count = value("--trajectories="))
      settings.trajectories = std::max<uint64_t>(1000, std::strtoull(count, nullptr, 10));
    else
      return fmt::print(stderr, "traj_bench: unknown argument {}\n", text), 2;
  }
  run(settings);
}

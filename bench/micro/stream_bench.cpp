// Stream append against the disk, verify against memcpy, in one run; one JSON line per case.
//   stream_bench [--dir=FOLDER] [--repeats=7] [--mib=256] [--size=BYTES]
// raw    = pwrite of the same bytes in the same sizes to one preallocated file, once with fdatasync
//          at the end, once without.
// stream = Writer::append_keyed (checksums on), with and without sync().
// The four run in turns, each in fresh files that are deleted after it; figures are medians over
// repeats. verify reads the stream from the page cache; memcpy copies as many bytes between two 16
// MiB windows.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/stream/format.hpp"
#include "runtime/stream/stream_file.hpp"
#include "runtime/stream/verify.hpp"
#include "runtime/stream/writer.hpp"

namespace {

using namespace cohort;

constexpr size_t k_header_bytes = 1024;              // what a FrozenLake trajectory has
constexpr size_t k_window_bytes = size_t{16} << 20;  // beyond the L2, as a verify's windows are

struct Settings {
  std::filesystem::path folder = ".";
  int repeats = 7;
  size_t mib = 256;
  size_t size_bytes = 0;  // 0 = the sweep
};

struct Run {
  double seconds = 0;
  std::vector<double> latencies;  // [s] of one append
};

double percentile(std::vector<double> x, double p) {
  std::sort(x.begin(), x.end());
  return x[static_cast<size_t>(p * static_cast<double>(x.size() - 1))];
}

double median(const std::vector<double>& x) { return percentile(x, 0.5); }

std::vector<std::byte> random_bytes(size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  Rng rng(1);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next_u64());
  return bytes;
}

/// Source bytes move through the window, so that neither side writes from a hot cache line.
std::span<const std::byte> piece(std::span<const std::byte> window, size_t i, size_t size_bytes) {
  size_t places = (window.size() - size_bytes) / 64 + 1;
  return window.subspan(i * 1021 % places * 64, size_bytes);
}

Run run_raw(const std::filesystem::path& path, std::span<const std::byte> window, size_t size_bytes,
            size_t count, bool is_synced) {
  Run run;
  run.latencies.reserve(count);
  {
    stream::File file = stream::File::open(path, stream::OpenMode::create).value();
    double start = now_seconds();
    file.reserve(size_bytes * count).value();
    for (size_t i = 0; i < count; ++i) {
      auto bytes = piece(window, i, size_bytes);
      iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
      double before = now_seconds();
      file.write(i * size_bytes, {&part, 1}).value();
      run.latencies.push_back(now_seconds() - before);
    }
    if (is_synced) file.sync().value();
    run.seconds = now_seconds() - start;
  }
  std::filesystem::remove(path);
  return run;
}

Run run_stream(const std::filesystem::path& folder, std::span<const std::byte> window,
               size_t size_bytes, size_t count, bool is_synced) {
  Run run;
  run.latencies.reserve(count);
  size_t columns_bytes = size_bytes - stream::k_prefix_bytes - k_header_bytes;
  double start = now_seconds();
  stream::Writer writer = stream::Writer::open(folder, {.run_id = "bench"}).value();
  for (size_t i = 0; i < count; ++i) {
    auto bytes = piece(window, i, size_bytes);
    stream::RecordKey key{i / 1024, proto::TrajectoryKey{{}, i / 1024, 0, static_cast<uint32_t>(i)},
                          0};
    double before = now_seconds();
    auto id = writer.append_keyed(stream::RecordType::trajectory, key, bytes.first(k_header_bytes),
                                  bytes.subspan(k_header_bytes, columns_bytes));
    run.latencies.push_back(now_seconds() - before);
    COHORT_CHECK(id.has_value(), "bench: append failed");
  }
  if (is_synced) writer.sync().value();
  run.seconds = now_seconds() - start;
  return run;
}

double run_verify(const std::filesystem::path& folder, size_t count) {
  double start = now_seconds();
  stream::VerifyReport report = stream::verify(folder).value();
  COHORT_CHECK(report.is_clean() && report.records == count, "bench: the stream does not verify");
  return now_seconds() - start;
}

double run_memcpy(std::vector<std::byte>& to, const std::vector<std::byte>& from, size_t total) {
  double start = now_seconds();
  for (size_t done = 0; done < total; done += from.size()) {
    std::memcpy(to.data(), from.data(), std::min(from.size(), total - done));
    asm volatile("" : : "r"(to.data()) : "memory");
  }
  return now_seconds() - start;
}

std::string commit() {
  std::string text;
  std::FILE* pipe = popen("git -C " COHORT_SOURCE_DIR " rev-parse --short HEAD 2>/dev/null", "r");
  if (pipe == nullptr) return text;
  std::array<char, 64> line{};
  if (std::fgets(line.data(), line.size(), pipe) != nullptr) text = line.data();
  pclose(pipe);
  text.erase(std::remove(text.begin(), text.end(), '\n'), text.end());
  return text;
}

struct Samples {
  std::vector<double> raw, raw_sync, append, append_sync, ratio, ratio_sync, verify, memcpy_s;
  std::vector<double> raw_latencies, append_latencies;
};

void print_case(const Samples& x, const Settings& settings, size_t size_bytes, size_t count) {
  double megabytes = static_cast<double>(size_bytes * count) / 1e6;
  auto rate = [&](const std::vector<double>& seconds) { return megabytes / median(seconds); };
  std::vector<double> deviations;
  for (double ratio : x.ratio_sync) deviations.push_back(std::abs(ratio - median(x.ratio_sync)));
  std::printf(
      "%s\n",
      fmt::format(
          "{{\"bench\":\"stream\",\"record_bytes\":{},\"records\":{},\"append_mb_s\":{:.0f},"
          "\"raw_mb_s\":{:.0f},\"ratio\":{:.3f},\"append_sync_mb_s\":{:.0f},\"raw_sync_mb_s\":{:."
          "0f},"
          "\"ratio_sync\":{:.3f},\"ratio_sync_mad\":{:.3f},\"append_p50_us\":{:.1f},"
          "\"append_p99_us\":{:.1f},\"raw_p99_us\":{:.1f},\"verify_mb_s\":{:.0f},\"memcpy_mb_s\":{:"
          ".0f},"
          "\"verify_ratio\":{:.3f},\"n\":{},\"cores\":{},\"build\":\"{}\",\"commit\":\"{}\"}}",
          size_bytes, count, rate(x.append), rate(x.raw), median(x.ratio), rate(x.append_sync),
          rate(x.raw_sync), median(x.ratio_sync), median(deviations),
          percentile(x.append_latencies, 0.5) * 1e6, percentile(x.append_latencies, 0.99) * 1e6,
          percentile(x.raw_latencies, 0.99) * 1e6, rate(x.verify), rate(x.memcpy_s),
          median(x.memcpy_s) / median(x.verify), settings.repeats,
          std::thread::hardware_concurrency(), COHORT_BUILD_TYPE, commit())
          .c_str());
  std::fflush(stdout);
}

void run_case(const Settings& settings, size_t size_bytes) {
  size_t count = (settings.mib << 20) / size_bytes;
  std::vector<std::byte> window = random_bytes(k_window_bytes), copy(k_window_bytes);
  std::filesystem::path folder = settings.folder / fmt::format("stream_bench.{}", ::getpid());
  std::filesystem::create_directories(folder);
  Samples x;
  for (int i = -1; i < settings.repeats; ++i) {  // one round to warm up
    Run raw = run_raw(folder / "raw", window, size_bytes, count, false);
    Run append = run_stream(folder / "stream", window, size_bytes, count, false);
    double verify = run_verify(folder / "stream", count);
    std::filesystem::remove_all(folder / "stream");
    double copied = run_memcpy(copy, window, size_bytes * count);
    Run raw_sync = run_raw(folder / "raw", window, size_bytes, count, true);
    Run append_sync = run_stream(folder / "stream", window, size_bytes, count, true);
    std::filesystem::remove_all(folder / "stream");
    if (i < 0) continue;
    x.raw.push_back(raw.seconds);
    x.append.push_back(append.seconds);
    x.ratio.push_back(raw.seconds / append.seconds);
    x.raw_sync.push_back(raw_sync.seconds);
    x.append_sync.push_back(append_sync.seconds);
    x.ratio_sync.push_back(raw_sync.seconds / append_sync.seconds);
    x.verify.push_back(verify);
    x.memcpy_s.push_back(copied);
    x.raw_latencies.insert(x.raw_latencies.end(), raw.latencies.begin(), raw.latencies.end());
    x.append_latencies.insert(x.append_latencies.end(), append.latencies.begin(),
                              append.latencies.end());
  }
  std::filesystem::remove_all(folder);
  print_case(x, settings, size_bytes, count);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    auto value = [&](const char* name) -> const char* {
      return text.starts_with(name) ? text.c_str() + std::strlen(name) : nullptr;
    };
    if (const char* folder = value("--dir="))
      settings.folder = folder;
    else if (const char* repeats = value("--repeats="))
      settings.repeats = std::max(1, std::atoi(repeats));
    else if (const char* mib = value("--mib="))
      settings.mib = std::max<size_t>(1, std::strtoull(mib, nullptr, 10));
    else if (const char* size = value("--size="))
      settings.size_bytes = std::strtoull(size, nullptr, 10);
    else
      return std::fprintf(stderr, "stream_bench: unknown argument %s\n", argv[i]), 2;
  }
  std::vector<size_t> sizes = {size_t{4} << 10, size_t{64} << 10, size_t{1} << 20};
  if (settings.size_bytes != 0)
    sizes = {std::clamp<size_t>(settings.size_bytes / 64 * 64, 2048, k_window_bytes)};
  for (size_t size_bytes : sizes) run_case(settings, size_bytes);
}

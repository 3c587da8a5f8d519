// A writer that is killed, and a disk that is full: real processes, real file systems.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <new>

#include "runtime/base/rng.hpp"
#include "tests/support/stream_folder.hpp"

namespace cohort::stream::test {
namespace {

constexpr const char* k_skipped = "skipped";

/// Runs `f` in a child process; returns what `f` says is wrong, "" if nothing is.
std::string run_in_child(const std::function<std::string()>& f) {
  int ends[2];
  if (::pipe(ends) != 0) return "pipe failed";
  pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    std::string text = f();
    bool is_told = ::write(ends[1], text.data(), text.size()) >= 0;
    ::_exit(is_told ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "child died: " + text;
}

/// Appends until the disk is full; returns what does not hold about the failure.
std::string fill_disk(const std::filesystem::path& folder, uint64_t bytes_max) {
  auto writer = Writer::open(folder, small_segments(size_t{64} << 20));
  if (!writer) return writer.error().detail;
  uint64_t count = 0;
  std::optional<Error> failure;
  while (!failure && count * 1000 < bytes_max) {
    auto id = writer->append_trajectory(small_trajectory(count, 0, 0, 700));
    if (id)
      ++count;
    else
      failure = id.error();
  }
  if (!failure) return "the disk was never full";
  if (failure->code != Errc::io || failure->detail.find("available") == std::string::npos ||
      failure->detail.find("segment-000000.cohort") == std::string::npos)
    return "unclear error: " + failure->detail;
  auto report = verify(folder);
  if (!report || !report->is_clean() || report->records != count)
    return "the torn part was not cut back";
  return "";
}

/// Mounts a tmpfs of 1 MiB over `folder`, seen by this process only.
bool mount_small_disk(const std::filesystem::path& folder) {
  auto uid = ::getuid(), gid = ::getgid();
  if (::unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (uid != 0) {
    write_bytes("/proc/self/setgroups", "deny");
    write_bytes("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1");
    write_bytes("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") == 0;
}

/// Appends trajectories for ever and counts the acknowledged ones in shared memory.
[[noreturn]] void append_for_ever(const std::filesystem::path& folder,
                                  std::atomic<uint64_t>& acknowledged) {
  auto writer = Writer::open(folder, {.run_id = "test-run", .segment_bytes = size_t{256} << 10});
  if (!writer) ::_exit(1);
  for (uint64_t i = acknowledged;; ++i) {
    if (!writer->append_trajectory(small_trajectory(i, 0, 0, 50 + i % 300))) ::_exit(1);
    acknowledged.store(i + 1);
  }
}

TEST(StreamCrash, KilledWriterLosesNothingAcknowledged) {  // STREAM-4
  StreamFolder folder;
  void* shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* acknowledged = new (shared) std::atomic<uint64_t>(0);
  Rng rng(11);
  for (int round = 0; round < 8; ++round) {
    uint64_t target = *acknowledged + 100 + rng.below(400);
    pid_t child = ::fork();
    if (child == 0) append_for_ever(folder.path(), *acknowledged);
    int status = 0;
    while (*acknowledged < target && ::waitpid(child, &status, WNOHANG) == 0) ::sched_yield();
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    auto reader = Reader::open(folder.path());
    ASSERT_TRUE(reader) << reader.error().detail;
    auto trajectories = (*reader->index())->trajectories();
    ASSERT_GE(trajectories.size(), *acknowledged);
    for (const RecordInfo& info : trajectories) ASSERT_TRUE(reader->read(info));
    ASSERT_EQ(verify(folder.path())->damage_count, 0U);
  }
  ::munmap(shared, 4096);
}

TEST(StreamCrash, FullDiskCutsTheTornPartBack) {  // STREAM-5
  StreamFolder folder;
  std::string said = run_in_child([&]() -> std::string {
    if (!mount_small_disk(folder.path())) return k_skipped;
    return fill_disk(folder.path(), size_t{8} << 20);
  });
  if (said == k_skipped) GTEST_SKIP() << "may not mount here; FileSizeLimit covers the same path";
  EXPECT_EQ(said, "");
}

TEST(StreamCrash, FullDiskShowsAtOpen) {  // STREAM-6
  StreamFolder folder;
  std::string said = run_in_child([&]() -> std::string {
    if (!mount_small_disk(folder.path())) return k_skipped;
    auto writer = Writer::open(folder.path(), {.segment_bytes = size_t{4} << 20});
    if (writer) return "a segment of 4 MiB was reserved on 1 MiB";
    const std::string& detail = writer.error().detail;
    if (detail.find("4194304 bytes needed, 1048576 available") == std::string::npos) return detail;
    return std::filesystem::is_empty(folder.path()) ? "" : "it left a mess";
  });
  if (said == k_skipped) GTEST_SKIP() << "may not mount here; FileSizeLimit covers the same path";
  EXPECT_EQ(said, "");
}

TEST(StreamCrash, FullDiskAtTheRollKeepsTheOldSegment) {  // STREAM-5, STREAM-6
  StreamFolder folder;
  std::string said = run_in_child([&]() -> std::string {
    if (!mount_small_disk(folder.path())) return k_skipped;
    auto writer = Writer::open(folder.path(), {.segment_bytes = size_t{600} << 10});
    if (!writer) return writer.error().detail;
    uint64_t count = 0;
    std::optional<Error> failure;
    while (!failure) {
      auto id = writer->append_trajectory(small_trajectory(count, 0, 0, 700));
      if (id)
        ++count;
      else
        failure = id.error();
    }
    if (failure->detail.find("needed") == std::string::npos) return failure->detail;
    auto report = verify(folder.path());
    bool is_whole = report && report->is_clean() && report->records == count;
    return is_whole && report->segments == 1 && writer->close() ? "" : "records were lost";
  });
  if (said == k_skipped) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(said, "");
}

TEST(StreamCrash, FileSizeLimitCutsTheTornPartBack) {  // STREAM-5
  StreamFolder folder;
  EXPECT_EQ(run_in_child([&]() -> std::string {
              ::signal(SIGXFSZ, SIG_IGN);
              rlimit limit{100'000, 100'000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return "setrlimit";
              return fill_disk(folder.path(), size_t{1} << 20);
            }),
            "");
}

}  // namespace
}  // namespace cohort::stream::test

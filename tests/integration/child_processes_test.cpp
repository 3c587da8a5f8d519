// ChildProcesses over fork servers: this program is the server, and what it forks are the small
// programs in main() below.
#include "runtime/platform/child_processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>

#include "tests/support/holder.hpp"

namespace cohort::platform {
namespace {

constexpr const char* k_self = "/proc/self/exe";
constexpr int k_limit_ms = 20000;

/// What has ended, by index.
class Ends {
 public:
  ChildProcesses::OnExit on_exit() {
    return [this](const ChildExit& exit) {
      std::lock_guard lock(mutex_);
      texts_[exit.index] = (exit.is_ok ? "ok: " : "") + exit.text;
      ++count_;
    };
  }
  /// Waits for it; "" if it does not end.
  std::string of(size_t index) {
    test::wait_until([&] { return !now(index).empty(); }, k_limit_ms);
    return now(index);
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::string now(size_t index) {
    std::lock_guard lock(mutex_);
    return texts_[index];
  }
  std::mutex mutex_;
  std::map<size_t, std::string> texts_;
  size_t count_ = 0;
};

std::string read_once_there(const std::filesystem::path& path) {
  std::string text;
  test::wait_until([&] { return !(text = test::slurp(path)).empty(); }, k_limit_ms);
  return text;
}

pid_t number_in(const std::filesystem::path& path) {
  const std::string text = read_once_there(path);
  return text.empty() ? 0 : std::stoi(text);
}

TEST(ChildProcesses, EndsAreToldWithTheirReason) {
  Ends ends;
  ChildProcesses children(ends.on_exit());
  ASSERT_TRUE(children.start({k_self, "exit", "0"}));
  ASSERT_TRUE(children.start({k_self, "exit", "3"}));
  ASSERT_TRUE(children.start({k_self, "wait"}));
  EXPECT_EQ(ends.of(0), "ok: exited with code 0");
  EXPECT_EQ(ends.of(1), "exited with code 3");
  EXPECT_FALSE(children.wait_all(1));
  children.kill(2);
  EXPECT_EQ(ends.of(2), "was killed by signal 9 (Killed)");
  EXPECT_TRUE(children.wait_all(k_limit_ms));
  children.kill(2);  // nobody's
  children.kill(7);
  ASSERT_TRUE(children.start({k_self, "exit", "0"}));
  EXPECT_EQ(ends.of(3), "ok: exited with code 0");
  EXPECT_EQ(ends.count(), 4U);
}

// What a program does with its threads, descriptors and signals is as if it had been executed.
TEST(ChildProcesses, AChildIsLikeOneThatWasExecuted) {
  test::TempFolder folder;
  Ends ends;
  ChildProcesses children(ends.on_exit());
  const std::string path = (folder.path() / "facts").string();
  ASSERT_TRUE(
      children.start({k_self, "facts", path, "", "last word"}, {{"COHORT_TEST_WORD", "here"}}));
  EXPECT_EQ(ends.of(0), "ok: exited with code 0");
  EXPECT_EQ(test::slurp(path),
            fmt::format("{}|facts|{}||last word|\nenvironment: here\nblocked: 0\nsocket: closed\n"
                        "thread: ran\n",
                        k_self, path));
}

TEST(ChildProcesses, AProgramIsLoadedOncePerEnvironment) {
  test::TempFolder folder;
  auto path = [&](int i) { return folder.path() / std::to_string(i); };
  Ends ends;
  {
    ChildProcesses children(ends.on_exit());
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(children.start({k_self, "parent", path(i).string()},
                                 {{"COHORT_TEST_WORD", i == 2 ? "b" : "a"}}));
    const pid_t first = number_in(path(0));
    EXPECT_GT(first, 0);
    EXPECT_EQ(first, number_in(path(1)));
    EXPECT_NE(first, number_in(path(2)));
    // `ps` shows what it is, not what it came from.
    EXPECT_EQ(test::children_of(first).size(), 2U);
    const pid_t child = test::children_of(first).front();
    const std::string self = std::filesystem::read_symlink(k_self).string();
    const std::string words = self + '\0' + "parent" + '\0';
    EXPECT_EQ(test::slurp(fmt::format("/proc/{}/cmdline", child)).substr(0, words.size()), words);
    EXPECT_EQ(test::slurp(fmt::format("/proc/{}/comm", child)), "child_processes\n")
        << "15 at most";
  }
  EXPECT_EQ(ends.count(), 3U);  // killed with their owner
}

TEST(ChildProcesses, WhatServesForksIsLostAndLoadedAgain) {
  test::TempFolder folder;
  Ends ends;
  ChildProcesses children(ends.on_exit());
  ASSERT_TRUE(children.start({k_self, "parent", (folder.path() / "a").string()}));
  const pid_t server = number_in(folder.path() / "a");
  const std::vector<pid_t> orphans = test::children_of(server);
  ASSERT_EQ(orphans.size(), 1U);
  ::kill(server, SIGKILL);
  EXPECT_EQ(
      ends.of(0),
      "ended with the process that it was forked from, which was killed by signal 9 (Killed)");
  EXPECT_TRUE(test::are_gone(orphans));
  ASSERT_TRUE(children.start({k_self, "exit", "0"}));
  EXPECT_EQ(ends.of(1), "ok: exited with code 0");
}

TEST(ChildProcesses, NobodyOutlivesAnOwnerThatIsKilled) {
  test::TempFolder folder;
  const std::string path = (folder.path() / "a").string();
  const pid_t owner = ::fork();
  if (owner == 0) {
    ::execl(k_self, k_self, "own", path.c_str(), nullptr);
    ::_exit(1);
  }
  const pid_t server = number_in(path);
  std::vector<pid_t> all = test::children_of(server);
  EXPECT_EQ(all.size(), 1U);
  all.push_back(server);
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(test::are_gone(all));
}

TEST(ChildProcesses, WhatCannotBeStartedIsTold) {
  Ends ends;
  ChildProcesses children(ends.on_exit());
  auto missing = children.start({"/nowhere/program"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::io);
  EXPECT_NE(missing.error().detail.find("/nowhere/program: No such file"), std::string::npos);
  EXPECT_EQ(children.start({}).error().code, Errc::invalid_argument);
  EXPECT_EQ(children.start({k_self, std::string(k_fork_packet_bytes, 'x')}).error().code,
            Errc::invalid_argument);
  // A program that serves no forks ends at once: at the start, or told as the child's end.
  if (children.start({"/bin/true"})) {
    EXPECT_EQ(ends.of(0),
              "ended with the process that it was forked from, which exited with code 0");
  }
}

void write_facts(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + "|";
  const char* variable = std::getenv("COHORT_TEST_WORD");
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  const bool is_closed = ::fcntl(k_fork_socket, F_GETFD) < 0;
  std::string thread;
  std::thread([&] { thread = "ran"; }).join();
  std::ofstream(words.at(2)) << fmt::format(
      "{}\nenvironment: {}\nblocked: {}\nsocket: {}\nthread: {}\n", text,
      variable == nullptr ? "" : variable, sigismember(&blocked, SIGCHLD),
      is_closed ? "closed" : "open", thread);
}

int run_child(const std::vector<std::string>& words) {
  auto write_number = [&](pid_t number) {
    const std::string path = words.at(2);
    std::ofstream(path + ".new") << number;
    std::filesystem::rename(path + ".new", path);
  };
  if (words.at(1) == "exit") return std::stoi(words.at(2));
  if (words.at(1) == "facts") {
    write_facts(words);
    return 0;
  }
  if (words.at(1) == "parent") write_number(::getppid());
  ChildProcesses children([](const ChildExit&) {});
  if (words.at(1) == "own" && !children.start({k_self, "parent", words.at(2)})) return 1;
  for (;;) ::pause();
}

}  // namespace
}  // namespace cohort::platform

int main(int argc, char** argv) {
  namespace platform = cohort::platform;
  if (platform::is_fork_server(argc, argv))
    return platform::run_child(platform::serve_forks(argc, argv));
  if (argc == 3 && std::string(argv[1]) == "own") return platform::run_child({argv, argv + argc});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// What SandboxedProcess promises beside isolation: pipes, limits, the end of the whole tree in both
// modes, nothing left behind, and a refusal that says what to do. Run by root, all of it runs a
// second time as a user without rights.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "runtime/plugin/sandbox/sandbox_filter.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/sandbox_again.hpp"
#include "tests/support/sandbox_run.hpp"

namespace cohort::plugin {
namespace {

using test::SandboxRun;
using test::TempFolder;

constexpr int k_limit_ms = 10000;

/// A word for command lines that no other run of this test has.
std::string mark(const char* name) { return fmt::format("cohort-{}-{}", name, ::getpid()); }

size_t open_descriptors() {
  std::error_code ignored;
  auto entries = std::filesystem::directory_iterator("/proc/self/fd", ignored);
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

/// Folders of this process's sandboxes of mode rlimits.
size_t private_folders() {
  const std::string mine = "cohort-sandbox-" + std::to_string(::getpid()) + "-";
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/tmp"))
    count += entry.path().filename().string().starts_with(mine) ? 1 : 0;
  return count;
}

class SandboxProcess : public testing::TestWithParam<SandboxMode> {
 protected:
  void SetUp() override {
    if (Expected<void> works = SandboxedProcess::check(GetParam()); !works)
      GTEST_SKIP() << works.error().to_string();
  }

  std::unique_ptr<SandboxedProcess> start(const SandboxOptions& options) {
    auto process = SandboxedProcess::start(options);
    EXPECT_TRUE(process) << process.error().to_string();
    return process ? std::move(*process) : nullptr;
  }

  std::unique_ptr<SandboxedProcess> start_python(const std::string& code) {
    return start(test::sandboxed_python(code, GetParam()));
  }

  SandboxRun run_python(const std::string& code, const std::string& input = "") {
    auto process = start_python(code);
    return process == nullptr ? SandboxRun() : test::run_sandboxed(*process, input);
  }

  /// Reads a line that the process prints once it is where the test wants it.
  static std::string read_line(SandboxedProcess& process) {
    std::string text;
    test::wait_until(
        [&] {
          test::drain(process.out(), text, 4096);
          return text.find('\n') != std::string::npos;
        },
        k_limit_ms);
    return text;
  }
};

TEST_P(SandboxProcess, PassesItsPipesOn) {
  SandboxRun run = run_python(
      "import sys; print(sys.stdin.read().upper()); print('e', file=sys.stderr); sys.exit(3)",
      "abc");
  EXPECT_EQ(run.out, "ABC\n");
  EXPECT_EQ(run.err, "e\n");
  EXPECT_EQ(describe_status(run.status), "exit code 3");
}

TEST_P(SandboxProcess, SeesItsEnvironmentAndNoOther) {
  ::setenv("COHORT_SECRET", "1", 1);
  SandboxRun run = run_python("import os; print(sorted(os.environ))");
  EXPECT_EQ(run.out.find("COHORT_SECRET"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("'LANG', 'PATH'"), std::string::npos) << run.out;
}

TEST_P(SandboxProcess, MayWriteWhereItIs) {
  SandboxRun run = run_python("open('x', 'w').write('1'); print(open('x').read())");
  EXPECT_EQ(run.out, "1\n") << run.err;
}

TEST_P(SandboxProcess, EndsByTheSignalThatEndedIt) {
  // The program is process 1 of a bubblewrap: only a fault, not a signal of its own, ends it there.
  SandboxRun run = run_python("import ctypes; ctypes.string_at(0)");
  EXPECT_EQ(describe_status(run.status), "signal 11 (Segmentation fault)");
}

TEST_P(SandboxProcess, IsHeldToItsMemory) {
  SandboxRun run = run_python("x = bytearray(1 << 30)");
  EXPECT_NE(run.err.find("MemoryError"), std::string::npos) << run.err;
}

TEST_P(SandboxProcess, IsHeldToItsProcesses) {
  SandboxRun run = run_python(
      "import os, time\n"
      "n = 1\n"
      "try:\n"
      "    while n < 2000:\n"
      "        if os.fork() == 0: time.sleep(100)\n"
      "        n += 1\n"
      "except BlockingIOError: pass\n"
      "print(n, flush=True)\n"
      "os._exit(0)\n");
  // In mode rlimits a user's other processes count: see sandbox.hpp.
  int most = GetParam() == SandboxMode::bubblewrap ? 16 : 1999;
  EXPECT_GT(std::atoi(run.out.c_str()), 1) << run.out << run.err;
  EXPECT_LE(std::atoi(run.out.c_str()), most) << run.out << run.err;
}

TEST_P(SandboxProcess, KillEndsTheWholeTree) {
  const std::string tree = mark("tree");
  // Children, one of which has tried to leave session and group, and one that ignores signals.
  auto process = start_python(
      "import os, signal, time\n"
      "for i in range(3):\n"
      "    if os.fork() == 0:\n"
      "        for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n"
      "        try: os.setsid()\n"
      "        except OSError: pass\n"
      "        if os.fork() == 0: time.sleep(3600)\n"
      "        time.sleep(3600)\n"
      "time.sleep(0.2); print('" +
      tree + "', flush=True); time.sleep(3600)\n");
  ASSERT_NE(process, nullptr);
  EXPECT_EQ(read_line(*process), tree + "\n");
  EXPECT_GE(test::processes_with(tree).size(), 7U);
  EXPECT_GT(process->memory_bytes(), uint64_t{10} << 20);
  EXPECT_EQ(process->poll_status(), -1);
  auto before = std::chrono::steady_clock::now();
  process->kill();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
  EXPECT_TRUE(test::wait_until([&] { return test::processes_with(tree).empty(); }, 500));
  EXPECT_EQ(process->memory_bytes(), 0U);
  process->kill();
}

TEST_P(SandboxProcess, WhenItEndsWhatItStartedEnds) {
  auto process = start_python(
      "import os, time\n"
      "if os.fork() == 0:\n"
      "    try: os.setsid()\n"
      "    except OSError: pass\n"
      "    for fd in (0, 1, 2): os.close(fd)\n"
      "    time.sleep(3600)  # " +
      mark("orphan") + "\nos._exit(0)\n");
  ASSERT_NE(process, nullptr);
  EXPECT_TRUE(test::wait_until([&] { return process->poll_status() >= 0; }, k_limit_ms));
  EXPECT_TRUE(
      test::wait_until([] { return test::processes_with(mark("orphan")).empty(); }, k_limit_ms));
}

TEST_P(SandboxProcess, OutlivesTheThreadThatStartedIt) {
  std::unique_ptr<SandboxedProcess> process;
  std::thread([&] { process = start_python("print(input())"); }).join();
  ASSERT_NE(process, nullptr);
  EXPECT_EQ(test::run_sandboxed(*process, "still here\n").out, "still here\n");
}

TEST_P(SandboxProcess, DiesWithItsParent) {
  // The parent is this test once more; it starts a sandbox and is killed.
  const std::string word = mark("held");
  pid_t parent = ::fork();
  if (parent == 0) {
    ::execl("/proc/self/exe", "test", "--hold",
            GetParam() == SandboxMode::rlimits ? "rlimits" : "bubblewrap", word.c_str(), nullptr);
    ::_exit(1);
  }
  auto held = [&] { return test::processes_with(word); };
  EXPECT_TRUE(test::wait_until([&] { return !held().empty(); }, k_limit_ms));
  // bwrap's process 1 asks for its parent's death after it has started the program; when it has, it
  // sleeps until the program ends. (A parent that dies before leaves a program whose stdin is
  // over.)
  int asleep = 0;
  EXPECT_TRUE(test::wait_until(
      [&] {
        auto programs = held();
        asleep = !programs.empty() && test::is_parent_asleep(programs.front()) ? asleep + 1 : 0;
        return asleep >= 20;
      },
      k_limit_ms));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(test::wait_until([&] { return held().empty(); }, k_limit_ms));
}

TEST_P(SandboxProcess, KillFromAnotherThreadEndsTheWait) {
  auto process = start_python("import time; print('up', flush=True); time.sleep(3600)");
  ASSERT_NE(process, nullptr);
  EXPECT_EQ(read_line(*process), "up\n");
  std::thread killer([&] { process->kill(); });
  EXPECT_TRUE(test::wait_until([&] { return process->poll_status() >= 0; }, k_limit_ms));
  killer.join();
}

TEST_P(SandboxProcess, CanBeKilledAtOnce) {
  for (int i = 0; i < 20; ++i) {
    auto process = start_python("import time; time.sleep(3600)  # " + mark("at-once"));
    ASSERT_NE(process, nullptr);
  }
  EXPECT_TRUE(test::wait_until([] { return test::processes_with(mark("at-once")).empty(); }, 500));
}

TEST_P(SandboxProcess, ReadsTheFoldersItIsGiven) {
  TempFolder folder;
  std::filesystem::create_directories(folder.path() / "a/b");
  std::ofstream(folder.path() / "a/b/file") << "given";
  std::ofstream(folder.path() / "other") << "kept";
  ::chmod(folder.path().c_str(), 0755);
  SandboxOptions options = test::sandboxed_python(
      fmt::format("import os\nprint(open('{0}/a/b/file').read(), os.listdir('{0}'))\n"
                  "open('{0}/a/b/new', 'w')\n",
                  folder.path().string()),
      GetParam());
  options.readable = {folder.path() / "a/b"};
  auto process = start(options);
  ASSERT_NE(process, nullptr);
  SandboxRun run = test::run_sandboxed(*process);
  EXPECT_NE(run.out.find("given"), std::string::npos) << run.err;
  if (GetParam() == SandboxMode::rlimits) return;
  EXPECT_EQ(run.out, "given ['a']\n");
  EXPECT_NE(run.err.find("Read-only file system"), std::string::npos) << run.err;
}

TEST_P(SandboxProcess, WritesTheFoldersItIsGiven) {
  TempFolder folder;
  ::chmod(folder.path().c_str(), 0777);
  SandboxOptions options = test::sandboxed_python(
      fmt::format("open('{}/new', 'w').write('x')", folder.path().string()), GetParam());
  options.writable = {folder.path()};
  auto process = start(options);
  ASSERT_NE(process, nullptr);
  SandboxRun run = test::run_sandboxed(*process);
  EXPECT_EQ(test::slurp(folder.path() / "new"), "x") << run.err;
}

TEST_P(SandboxProcess, HasNetworkIfItIsGiven) {
  SandboxOptions options = test::sandboxed_python(
      "import socket\n"
      "a = socket.create_server(('127.0.0.1', 0))\n"
      "b = socket.create_connection(a.getsockname())\nprint('connected')\n",
      GetParam());
  options.has_network = true;
  auto process = start(options);
  ASSERT_NE(process, nullptr);
  SandboxRun run = test::run_sandboxed(*process);
  EXPECT_EQ(run.out, "connected\n") << run.err;
}

TEST_P(SandboxProcess, WrongOptionsAreSaid) {
  SandboxOptions options = test::sandboxed_python("", GetParam());
  options.readable = {"relative"};
  EXPECT_EQ(SandboxedProcess::start(options).error().code, Errc::invalid_argument);
  options.readable = {"/not/there"};
  EXPECT_EQ(SandboxedProcess::start(options).error().code, Errc::not_found);
  options.argv.clear();
  EXPECT_EQ(SandboxedProcess::start(options).error().code, Errc::invalid_argument);
}

TEST_P(SandboxProcess, LeavesNothingBehind) {
  run_python("print(1)");
  size_t descriptors = open_descriptors(), folders = private_folders();
  for (int i = 0; i < 40; ++i)
    run_python(
        "import os\nopen('x', 'w').write('1')\nif os.fork() == 0:\n    import time\n"
        "    time.sleep(3600)  # " +
        mark("left") + "\n");
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(private_folders(), folders);
  EXPECT_TRUE(
      test::wait_until([] { return test::processes_with(mark("left")).empty(); }, k_limit_ms));
}

INSTANTIATE_TEST_SUITE_P(Modes, SandboxProcess,
                         testing::Values(SandboxMode::bubblewrap, SandboxMode::rlimits),
                         [](const auto& x) {
                           return x.param == SandboxMode::rlimits ? "Rlimits" : "Bubblewrap";
                         });

TEST(Sandbox, WithoutNamespacesItIsRefusedAndRlimitsWork) {
  test::SelfRun run = test::run_self_as(::geteuid(), {"--without-namespaces"});
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("unsupported: sandbox: "), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("--sandbox=rlimits"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("rlimits: works"), std::string::npos) << run.output;
}

TEST(Sandbox, TheSameAsAUserWithoutRights) {
  if (::geteuid() != 0 || test::is_again()) GTEST_SKIP() << "root alone runs it again";
  test::SelfRun run = test::run_self_as(65534, {"--gtest_filter=-*TheSameAs*"});
  EXPECT_EQ(run.status, 0) << run.output;
}

/// A container without privileges: the calls that make namespaces fail, for all that follow.
int without_namespaces() {
  Expected<std::vector<sock_filter>> program = seccomp_filter({true, false});
  if (!program) return 2;
  sock_fprog filter{static_cast<unsigned short>(program->size()), program->data()};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 3;
  Expected<void> refused = SandboxedProcess::check(SandboxMode::bubblewrap);
  if (refused) return 4;
  std::puts(refused.error().to_string().c_str());
  Expected<void> works = SandboxedProcess::check(SandboxMode::rlimits);
  std::puts(works ? "rlimits: works" : works.error().to_string().c_str());
  return works ? 0 : 5;
}

/// Holds a sandboxed process until it is killed.
int hold(const std::string& mode, const std::string& word) {
  auto process = SandboxedProcess::start(
      test::sandboxed_python("import time; time.sleep(3600)  # " + word,
                             mode == "rlimits" ? SandboxMode::rlimits : SandboxMode::bubblewrap));
  for (; process;) ::pause();
  return 1;
}

}  // namespace
}  // namespace cohort::plugin

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--without-namespaces")
    return cohort::plugin::without_namespaces();
  if (argc == 4 && std::string(argv[1]) == "--hold") return cohort::plugin::hold(argv[2], argv[3]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

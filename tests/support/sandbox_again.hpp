#pragma once
/// Runs this test binary once more, as another user. It is executed by its descriptor: the other
/// user may not be able to reach its path.
#include <fcntl.h>
#include <grp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

namespace cohort::test {

constexpr const char* k_again = "COHORT_TEST_AGAIN";

inline bool is_again() { return std::getenv(k_again) != nullptr; }

struct SelfRun {
  std::string output;
  int status = -1;  // wait status
};

/// Calls async-signal-safe functions only between fork and exec: this process has threads.
inline SelfRun run_self_as(uid_t user, std::vector<std::string> arguments) {
  SelfRun run;
  int program = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  int ends[2];
  if (program < 0 || ::pipe2(ends, O_CLOEXEC) != 0) return run;
  ::setenv(k_again, "1", 1);
  arguments.insert(arguments.begin(), "test");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], 1);
    ::dup2(ends[1], 2);
    if (user != ::geteuid() && (::syscall(SYS_setgroups, 0, nullptr) != 0 ||
                                ::syscall(SYS_setresgid, user, user, user) != 0 ||
                                ::syscall(SYS_setresuid, user, user, user) != 0))
      ::_exit(120);
    if (::chdir("/tmp") != 0) ::_exit(121);
    ::syscall(SYS_execveat, program, "", argv.data(), environ, AT_EMPTY_PATH);
    ::_exit(122);
  }
  ::unsetenv(k_again);
  ::close(program);
  ::close(ends[1]);
  std::array<char, 4096> buffer;
  for (ssize_t got; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    run.output.append(buffer.data(), static_cast<size_t>(got));
  ::close(ends[0]);
  ::waitpid(pid, &run.status, 0);
  return run;
}

}  // namespace cohort::test

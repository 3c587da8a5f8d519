#include "runtime/platform/child_processes.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

extern char** environ;

namespace cohort::platform {
namespace {

ChildExit exit_of(size_t index, int status) {
  if (WIFSIGNALED(status))
    return {index, false,
            fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                        ::strsignal(WTERMSIG(status)))};
  return {index, WEXITSTATUS(status) == 0, fmt::format("exited with code {}", WEXITSTATUS(status))};
}

/// This process's variables, those of `set` with its values.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& set) {
  std::map<std::string, std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text(*each);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : set) variables[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

}  // namespace

ChildProcesses::~ChildProcesses() {
  {
    std::lock_guard lock(mutex_);
    for (const auto& [index, pid] : running_) ::kill(pid, SIGKILL);
  }
  for (std::thread& thread : threads_) thread.join();
}

Expected<pid_t> ChildProcesses::start(
    const std::vector<std::string>& argv,
    const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<std::string> variables = environment_with(environment);
  std::vector<char*> inherited;
  for (std::string& variable : variables) inherited.push_back(variable.data());
  inherited.push_back(nullptr);
  pid_t pid = 0;
  std::lock_guard lock(mutex_);
  int failed = ::posix_spawn(&pid, argv.front().c_str(), nullptr, nullptr, arguments.data(),
                             inherited.data());
  if (failed != 0)
    return Error{Errc::io, fmt::format("cannot start {}: {}", argv.front(), std::strerror(failed))};
  size_t index = threads_.size();
  running_[index] = pid;
  threads_.emplace_back([this, index, pid] {
    // The child stays a zombie, its pid its own, until it is no longer in running_: nobody else is
    // killed in its place.
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
    int status = 0;
    {
      std::lock_guard ended(mutex_);
      running_.erase(index);
      ::waitpid(pid, &status, 0);
    }
    changed_.notify_all();
    on_exit_(exit_of(index, status));
  });
  return pid;
}

void ChildProcesses::kill(size_t index) {
  std::lock_guard lock(mutex_);
  if (auto found = running_.find(index); found != running_.end()) ::kill(found->second, SIGKILL);
}

bool ChildProcesses::wait_all(int timeout_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                           [this] { return running_.empty(); });
}

Expected<void> die_with_parent(pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)
    return Error{Errc::closed, fmt::format("process {}, which started this one, is gone", parent)};
  return {};
}

}  // namespace cohort::platform

#include "tools/actor-node/supervisor.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "tools/actor-node/cluster_options.hpp"
#include "tools/actor-node/run_note.hpp"

extern char** environ;

namespace cohort {
namespace {

std::atomic<pid_t> g_run = 0;  // a handler knows nothing but globals
std::atomic<bool> g_is_stopping = false;

/// Ctrl-C reaches the run by itself (one process group), a signal to this process alone does not.
/// So any is passed on, as a SIGTERM: the run takes that for the one that it has heard a moment ago
/// (signal_thread.hpp).
void pass_on(int /*signal*/) {
  g_is_stopping = true;
  if (const pid_t run = g_run; run > 0) ::kill(run, SIGTERM);
}

/// One that is still being written (step_N.partial) is none.
bool has_checkpoint(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/checkpoints", ignored))
    if (entry.path().extension().empty() &&
        std::filesystem::exists(entry.path() / "state.json", ignored))
      return true;
  return false;
}

/// Everything the pipe holds, to its end.
std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(bytes.data(), static_cast<size_t>(n));
  }
}

struct Attempt {
  int status = 0;
  std::string folder;  // of the run, once it had one
};

Attempt run_once(const std::vector<std::string>& words) {
  std::array<int, 2> note{-1, -1};
  if (::pipe(note.data()) != 0) return {127 << 8, ""};
  ::setenv(k_note_variable, std::to_string(note[1]).c_str(), 1);
  ::setenv(k_supervisor_variable, std::to_string(::getpid()).c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addclose(&actions, note[0]);
  pid_t run = 0;
  const int failed =
      ::posix_spawn(&run, runner_path().c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(note[1]);
  Attempt attempt;
  if (failed != 0) {
    std::fprintf(stderr, "error: cannot start %s: %s\n", runner_path().c_str(),
                 std::strerror(failed));
    attempt.status = 127 << 8;
  } else {
    g_run = run;
    attempt.folder = read_all(note[0]);  // ends when the run closes it, or ends
    while (::waitpid(run, &attempt.status, 0) < 0 && errno == EINTR) {
    }
    g_run = 0;
  }
  ::close(note[0]);
  return attempt;
}

bool is_verl(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == "--dialect=verl" ||
        (i > 0 && words[i - 1] == "--dialect" && words[i] == "verl"))
      return true;
  return false;
}

/// The overrides that go on from the run in `folder`.
void add_resume(std::vector<std::string>& words, const std::string& folder) {
  if (!is_verl(words)) return words.push_back("resume_from_checkpoint=" + folder);
  words.emplace_back("trainer.resume_mode=resume_path");
  words.push_back("trainer.resume_from_path=" + folder);
}

/// The run's own exit code; 1 for one that was lost.
int code_of(int status) {
  const int code = WIFSIGNALED(status) ? k_exit_lost : WEXITSTATUS(status);
  return code == k_exit_lost ? 1 : code;
}

}  // namespace

int supervise(char** argv, const SupervisorOptions& options) {
  struct sigaction action {};
  action.sa_handler = pass_on;
  for (int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  std::vector<std::string> words;
  for (char** word = argv; *word != nullptr; ++word) words.emplace_back(*word);
  std::string folder;
  for (int used = 0;;) {
    std::vector<std::string> now = words;
    if (has_checkpoint(folder)) add_resume(now, folder);
    const double began = now_seconds();
    const Attempt attempt = run_once(now);
    if (!attempt.folder.empty()) folder = attempt.folder;
    const bool was_lost = WIFSIGNALED(attempt.status) || WEXITSTATUS(attempt.status) == k_exit_lost;
    if (!was_lost || g_is_stopping) return code_of(attempt.status);
    if (now_seconds() - began > options.restart_window_s) used = 0;
    if (used++ == options.restarts) {
      std::fprintf(stderr, "error: the run was started again %d times (--restarts): giving up\n",
                   options.restarts);
      return code_of(attempt.status);
    }
    const std::string how =
        WIFSIGNALED(attempt.status)
            ? fmt::format("was killed by signal {} ({})", WTERMSIG(attempt.status),
                          ::strsignal(WTERMSIG(attempt.status)))
            : "lost a process";
    std::fprintf(stderr, "the run %s: starting again %s (%d of %d)\n", how.c_str(),
                 has_checkpoint(folder) ? ("from " + folder).c_str() : "from the beginning", used,
                 options.restarts);
  }
}

}  // namespace cohort

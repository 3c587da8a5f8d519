#include "runtime/platform/fork_server.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>

namespace cohort::platform {
namespace {

constexpr std::string_view k_word = "fork-server";

/// What `ps` reads of a process is the memory that its arguments came in. The program goes by its
/// own name there, also if it was started as /proc/self/exe.
void show_words(std::span<char> title, std::vector<std::string> words) {
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown && !words.empty()) words.front() = program.string();
  if (!unknown) ::prctl(PR_SET_NAME, program.filename().c_str());
  std::ranges::fill(title, '\0');
  size_t at = 0;
  for (const std::string& word : words) {
    const size_t count = std::min(word.size(), title.size() - 1 - at);
    std::memcpy(title.data() + at, word.data(), count);
    at = std::min(at + count + 1, title.size() - 1);
  }
}

class ForkServer {
 public:
  explicit ForkServer(std::span<char> title) : title_(title) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &ends, &signals_);
    ends_ = ::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  /// Returns in a child.
  std::vector<std::string> serve() {
    std::array<pollfd, 2> ready{{{k_fork_socket, POLLIN, 0}, {ends_, POLLIN, 0}}};
    while (true) {
      if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) leave();
      if (ready[1].revents != 0) reap(WNOHANG);
      if (ready[0].revents == 0) continue;
      std::vector<std::string> words = take_order();
      if (!words.empty()) return words;
    }
  }

 private:
  /// Returns words in the child alone.
  std::vector<std::string> take_order() {
    const ssize_t size = ::recv(k_fork_socket, packet_.data(), packet_.size(), 0);
    if (size < 0 && errno == EINTR) return {};
    ForkOrder order;
    if (size < static_cast<ssize_t>(sizeof(order))) leave();
    std::memcpy(&order, packet_.data(), sizeof(order));
    if (order.kind == ForkOrder::kill) {
      // It has not been reaped: its pid is its own.
      for (const auto& [pid, index] : running_)
        if (index == order.index) ::kill(pid, SIGKILL);
      return {};
    }
    std::vector<std::string> words;
    std::string_view rest(packet_.data() + sizeof(order),
                          static_cast<size_t>(size) - sizeof(order));
    while (!rest.empty()) {
      words.emplace_back(rest.substr(0, rest.find('\0')));
      rest.remove_prefix(std::min(rest.size(), words.back().size() + 1));
    }
    const pid_t server = ::getpid(), pid = ::fork();
    if (pid == 0) {
      become_child(server, words);
      return words;
    }
    if (pid > 0)
      running_[pid] = order.index;
    else
      tell({order.index, 0, errno});
    return {};
  }

  void become_child(pid_t server, const std::vector<std::string>& words) {
    ::close(k_fork_socket);
    ::close(ends_);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != server) ::_exit(1);
    ::sigprocmask(SIG_SETMASK, &signals_, nullptr);
    show_words(title_, words);
  }

  void reap(int options) {
    signalfd_siginfo ignored;
    while (::read(ends_, &ignored, sizeof(ignored)) > 0) {
    }
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, options)) > 0;)
      if (auto ended = running_.extract(pid); !ended.empty()) tell({ended.mapped(), status, 0});
  }

  /// The starter is gone, or wants no more.
  [[noreturn]] void leave() {
    for (const auto& [pid, index] : running_) ::kill(pid, SIGKILL);
    reap(0);
    ::_exit(0);
  }

  static void tell(const ForkExit& exit) {
    while (::send(k_fork_socket, &exit, sizeof(exit), MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
  }

  std::span<char> title_;
  sigset_t signals_{};
  int ends_ = -1;
  std::map<pid_t, uint64_t> running_;  // not reaped; index
  std::array<char, k_fork_packet_bytes> packet_{};
};

}  // namespace

std::vector<std::string> fork_server_words(const std::string& program) {
  return {program, std::string(k_word), std::string(k_title_bytes, ' ')};
}

bool is_fork_server(int argc, char** argv) {
  return argc == 3 && argv[1] == k_word && std::strlen(argv[2]) == k_title_bytes;
}

std::vector<std::string> serve_forks(int argc, char** argv) {
  // Ctrl-C reaches the whole group, a SIGTERM of systemd or Slurm every process: what they mean is
  // the starter's to decide, and nobody here outlives it.
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_IGN);
  char* end = argv[argc - 1] + std::strlen(argv[argc - 1]) + 1;
  const std::span<char> title(argv[0], end);
  show_words(title, {argv[0], std::string(k_word)});
  return ForkServer(title).serve();
}

}  // namespace cohort::platform

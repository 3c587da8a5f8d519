#include "runtime/platform/child_processes.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <string_view>

#include "runtime/platform/process.hpp"

namespace cohort::platform {
namespace {

constexpr std::chrono::seconds k_leave_limit{2};  // a server kills its children and leaves

std::string text_of(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

ChildExit exit_of(const ForkExit& exit) {
  if (exit.error != 0)
    return {exit.index, false, fmt::format("cannot be forked: {}", std::strerror(exit.error))};
  return {exit.index, exit.status == 0, text_of(exit.status)};
}

bool send_packet(int socket, std::string_view packet) {
  ssize_t sent = 0;
  while ((sent = ::send(socket, packet.data(), packet.size(), MSG_NOSIGNAL)) < 0 &&
         errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(packet.size());
}

/// This process's variables, those of `set` with its values.
std::vector<std::string> environment_with(const ChildProcesses::Variables& set) {
  std::map<std::string, std::string> variables = process_environment();
  for (const auto& [name, value] : set) variables[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

}  // namespace

ChildProcesses::~ChildProcesses() {
  {
    std::unique_lock lock(mutex_);
    for (const auto& server : servers_) ::shutdown(server->socket, SHUT_WR);
    const auto is_over = [this] {
      return std::ranges::none_of(servers_, [](const auto& server) { return server->is_open; });
    };
    if (!changed_.wait_for(lock, k_leave_limit, is_over))
      for (const auto& server : servers_)
        if (server->is_open) ::kill(server->pid, SIGKILL);
  }
  for (const auto& server : servers_) {
    server->thread.join();
    ::close(server->socket);
  }
}

Expected<void> ChildProcesses::start(const std::vector<std::string>& argv,
                                     const Variables& environment) {
  ForkOrder order;
  std::string words;
  for (const std::string& word : argv) words.append(word.c_str(), word.size() + 1);
  if (argv.empty() || sizeof(order) + words.size() > k_fork_packet_bytes)
    return Error{Errc::invalid_argument,
                 fmt::format("{} bytes of arguments: 1 to {} can be started", words.size(),
                             k_fork_packet_bytes - sizeof(order))};
  std::lock_guard lock(mutex_);
  order.index = count_;
  const std::string packet = std::string(reinterpret_cast<char*>(&order), sizeof(order)) + words;
  // One that has died a moment ago is not heard of yet: then another one.
  for (int attempt = 0; attempt < 2; ++attempt) {
    COHORT_ASSIGN(Server * server, server_of(argv.front(), environment));
    if (send_packet(server->socket, packet)) {
      server->children.insert(count_++);
      return {};
    }
    ::shutdown(server->socket, SHUT_RDWR);
    server->program.clear();  // nobody asks it again
  }
  return Error{Errc::io,
               fmt::format("cannot start {}: it ends as soon as it has begun", argv.front())};
}

void ChildProcesses::kill(size_t index) {
  std::lock_guard lock(mutex_);
  const ForkOrder order{ForkOrder::kill, index};
  for (const auto& server : servers_)
    if (server->children.contains(index))
      send_packet(server->socket, {reinterpret_cast<const char*>(&order), sizeof(order)});
}

bool ChildProcesses::wait_all(int timeout_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] {
    return std::ranges::all_of(servers_,
                               [](const auto& server) { return server->children.empty(); });
  });
}

Expected<ChildProcesses::Server*> ChildProcesses::server_of(const std::string& program,
                                                            const Variables& environment) {
  for (const auto& server : servers_)
    if (server->is_open && server->program == program && server->environment == environment)
      return server.get();
  auto server = std::make_unique<Server>();
  server->program = program;
  server->environment = environment;
  COHORT_TRY(launch(*server));
  server->thread = std::thread([this, &server = *server] { listen(server); });
  servers_.push_back(std::move(server));
  return servers_.back().get();
}

Expected<void> ChildProcesses::launch(Server& server) const {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return Error{Errc::io, fmt::format("cannot start {}: no socket: {}", server.program,
                                       std::strerror(errno))};
  std::vector<std::string> words = fork_server_words(server.program);
  std::vector<std::string> variables = environment_with(server.environment);
  std::vector<char*> arguments = pointers_of(words), inherited = pointers_of(variables);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pair[1], k_fork_socket);
  const int failed = ::posix_spawn(&server.pid, server.program.c_str(), &actions, nullptr,
                                   arguments.data(), inherited.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pair[1]);
  if (failed != 0) {
    ::close(pair[0]);
    return Error{Errc::io,
                 fmt::format("cannot start {}: {}", server.program, std::strerror(failed))};
  }
  server.socket = pair[0];
  return {};
}

void ChildProcesses::listen(Server& server) {
  ForkExit exit;
  ssize_t size = 0;
  while ((size = ::recv(server.socket, &exit, sizeof(exit), 0)) == sizeof(exit) ||
         (size < 0 && errno == EINTR))
    if (size > 0) end(server, exit.index, exit_of(exit));
  // Nothing comes from it any more: if it lives, it is of no use.
  ::kill(server.pid, SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(server.pid), &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  int status = 0;
  std::set<size_t> lost;
  {
    std::lock_guard lock(mutex_);
    ::waitpid(server.pid, &status, 0);  // until here its pid is nobody else's
    server.is_open = false;
    lost = server.children;
  }
  for (size_t index : lost)
    end(server, index,
        {index, false, "ended with the process that it was forked from, which " + text_of(status)});
  changed_.notify_all();
}

void ChildProcesses::end(Server& server, size_t index, const ChildExit& exit) {
  {
    std::lock_guard lock(mutex_);
    if (server.children.erase(index) == 0) return;
  }
  changed_.notify_all();
  on_exit_(exit);
}

Expected<void> die_with_parent(pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)
    return Error{Errc::closed, fmt::format("process {}, which started this one, is gone", parent)};
  return {};
}

}  // namespace cohort::platform

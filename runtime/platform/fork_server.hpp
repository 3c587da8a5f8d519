#pragma once
/// A program that has been loaded once and forks what is asked of it. libtorch takes 0.6 s of CPU
/// to load and a vendor's libraries several; a process that is forked after that is there at once,
/// and shares the loaded pages. The server is the program itself, single-threaded, waiting in
/// main() before anything else is done; ChildProcesses starts it and speaks to it over a socket
/// pair of packets. It ends with its starter, and what it has forked ends with it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cohort::platform {

/// Of a server's own arguments: a place that its children write theirs to, for `ps`.
constexpr size_t k_title_bytes = 1000;
constexpr int k_fork_socket = 3;  // descriptor of a server

/// Packets. To the server: a ForkOrder, behind a `start` the child's arguments, each with its NUL.
struct ForkOrder {
  enum Kind : uint64_t { start, kill };
  uint64_t kind = start;
  uint64_t index = 0;  // of the child, the starter's to give
};

/// From the server: how the child of that index ended.
struct ForkExit {
  uint64_t index = 0;
  int32_t status = 0;  // of waitpid()
  int32_t error = 0;   // errno of a fork that failed; then there was no child
};

constexpr size_t k_fork_packet_bytes = 32 << 10;

/// Returns the arguments by which a program is started as a server.
std::vector<std::string> fork_server_words(const std::string& program);

/// Returns true if main() was called with fork_server_words().
bool is_fork_server(int argc, char** argv);

/// Serves. Returns in each child, with its arguments; the server itself leaves the process. A child
/// is killed by the kernel when the server is gone. Server and children ignore SIGINT and SIGTERM.
std::vector<std::string> serve_forks(int argc, char** argv);

}  // namespace cohort::platform

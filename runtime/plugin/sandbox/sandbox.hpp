#pragma once
/// A child process that can harm neither host nor run: bubblewrap (own pid, network, ipc, mount
/// and, for users other than root, user namespaces, read-only root, private /tmp, no capabilities),
/// a seccomp filter and rlimits; or, where namespaces are missing and the user has accepted it,
/// rlimits, the filter and a process group alone. Started by root, it runs under a user id of its
/// own that owns nothing. Owner: its starter; its destructor kills the whole process tree and reaps
/// it. Thread: one at a time, but kill() from any. Bound: SandboxLimits. It dies with this process,
/// not with the thread that started it. SANDBOX-1: nothing outside the writable folders it was
/// given changes (bubblewrap). SANDBOX-2: when it ends, everything it started has ended. One hole,
/// bwrap's: if this process is killed in the first milliseconds of a start, the child can outlive
/// it. So a program shall end at the end of its stdin.
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::plugin {

enum class SandboxMode : uint8_t {
  bubblewrap,  // refused with a clear error where namespaces or bwrap are missing
  rlimits      // --sandbox=rlimits: limits only, no isolation
};

struct SandboxLimits {
  uint64_t memory_bytes = uint64_t{1} << 30;  // address space of one process
  uint32_t processes = 64;                    // and threads; the first process counts
  uint64_t file_bytes = uint64_t{64} << 20;   // of one file
  uint32_t open_files = 256;
  uint64_t tmp_bytes = uint64_t{64} << 20;  // of /tmp, and of /dev/shm (bubblewrap 0.7 and later)
};

struct SandboxOptions {
  SandboxMode mode = SandboxMode::bubblewrap;
  SandboxLimits limits;
  std::vector<std::string> readable;  // folders beyond /usr, /lib*, /bin, /etc's loader files
  std::vector<std::string> writable;
  bool has_network = false;
  bool has_loopback = false;      // INET sockets within its own network namespace (bubblewrap)
  std::vector<std::string> argv;  // argv[0] is a path
  std::vector<std::string> environment;  // "NAME=value"; nothing else is inherited
  // Working folder inside. Mode rlimits puts a fresh folder in the place of "/tmp", which is also
  // TMPDIR, and removes it at the end.
  std::string folder = "/tmp";
};

class SandboxedProcess {
 public:
  /// Starts argv with pipes on stdin, stdout and stderr. The first start of a mode tries the
  /// sandbox out (about 10 ms). A user's bubblewrap makes argv process 1 of its namespace: orphans
  /// are its to reap, and signals it has no handler for reach it from outside only. Returns
  /// Errc::unsupported if the machine has no namespaces or no bwrap (naming what to install or
  /// --sandbox=rlimits), Errc::invalid_argument, Errc::io.
  static Expected<std::unique_ptr<SandboxedProcess>> start(const SandboxOptions& options);
  /// Returns start()'s error if `mode` does not work on this machine.
  static Expected<void> check(SandboxMode mode);
  ~SandboxedProcess();
  SandboxedProcess(const SandboxedProcess&) = delete;
  SandboxedProcess& operator=(const SandboxedProcess&) = delete;

  int in() const;   // write end of its stdin, non-blocking; -1 after close_in()
  int out() const;  // read end of its stdout, non-blocking
  int err() const;  // read end of its stderr, non-blocking
  /// Closes its stdin: it reads an end of file.
  void close_in();
  /// Kills the process tree and waits until it is gone. Idempotent.
  void kill();
  /// Returns the wait status once it has ended by itself, -1 while it runs. A bubblewrap reports
  /// the end by signal n as exit code 128 + n.
  int poll_status();
  /// Returns the memory that the process tree holds now [bytes], shared pages counted once a
  /// process; 0 once it has ended.
  uint64_t memory_bytes() const;
  /// Returns the process id of the tree's root as this process sees it.
  pid_t pid() const;

 private:
  struct Impl;
  static Expected<std::unique_ptr<SandboxedProcess>> start_unchecked(const SandboxOptions& options);
  explicit SandboxedProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Returns "exit code 3" or "signal 11 (Segmentation fault)" for a status of poll_status().
std::string describe_status(int status);

}  // namespace cohort::plugin

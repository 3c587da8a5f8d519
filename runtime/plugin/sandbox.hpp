#pragma once
/// A child process that can hurt nobody: bubblewrap (own user, pid, network, ipc and mount
/// namespaces, read-only root, private /tmp), a seccomp filter and rlimits; or, where user
/// namespaces are missing and the user has accepted it, rlimits and a process group alone. Owner:
/// whoever started it; its destructor kills the whole process tree and reaps it. Thread: one at a
/// time, but kill() from any. Bound: what SandboxLimits says. SANDBOX-1: nothing outside the
/// writable folders it was given changes. SANDBOX-2: when it ends, everything it started has ended.
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
  uint64_t cpu_seconds = 0;                   // of one process; 0: no limit
  uint32_t processes = 64;
  uint64_t file_bytes = uint64_t{64} << 20;  // of one file
  uint32_t open_files = 256;
};

struct SandboxOptions {
  SandboxMode mode = SandboxMode::bubblewrap;
  SandboxLimits limits;
  std::vector<std::string> readable;  // folders beyond /usr, /lib*, /bin, /etc's loader files
  std::vector<std::string> writable;
  bool has_network = false;
  std::vector<std::string> argv;         // argv[0] is a path
  std::vector<std::string> environment;  // "NAME=value"; nothing else is inherited
  std::string folder = "/tmp";           // working folder inside
};

class SandboxedProcess {
 public:
  /// Starts argv with pipes on stdin, stdout and stderr (stderr kept up to 64 KiB). Returns
  /// Errc::unsupported if the machine has no user namespaces or no bwrap (naming what to install or
  /// --sandbox=rlimits), Errc::io.
  static Expected<std::unique_ptr<SandboxedProcess>> start(const SandboxOptions& options);
  ~SandboxedProcess();
  SandboxedProcess(const SandboxedProcess&) = delete;
  SandboxedProcess& operator=(const SandboxedProcess&) = delete;

  int in() const;   // write end of its stdin, non-blocking
  int out() const;  // read end of its stdout, non-blocking
  int err() const;  // read end of its stderr, non-blocking
  /// Kills the process tree and waits until it is gone. Idempotent.
  void kill();
  /// Returns the wait status once it has ended by itself, -1 while it runs.
  int poll_status();

 private:
  struct Impl;
  explicit SandboxedProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::plugin

#include "runtime/plugin/sandbox/sandbox_filter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>

namespace cohort::plugin {
namespace {

// By name, so that a call which this libseccomp or this architecture does not have is skipped.
constexpr std::array k_denied = {
    // other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
    // mounts and roots
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr",
    // namespaces
    "unshare", "setns",
    // keys of the user's session
    "keyctl", "add_key", "request_key",
    // memory that no limit of the sandbox counts
    "memfd_create", "memfd_secret", "shmget", "msgget", "semget",
    // parts of the kernel with a history of holes, of no use to a reward
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "modify_ldt", "vmsplice", "fanotify_init", "name_to_handle_at",
    "open_by_handle_at", "lookup_dcookie", "move_pages", "migrate_pages",
    // the machine itself
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
    "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime",
    "clock_settime64", "clock_adjtime", "clock_adjtime64", "adjtimex", "stime", "sethostname",
    "setdomainname", "iopl", "ioperm", "syslog", "vhangup", "uselib", "nfsservctl", "_sysctl",
    "personality"};

// Without a pid namespace a signal may hit anyone of the same user, and a process that leaves the
// group outlives it.
constexpr std::array k_denied_unconfined = {
    "kill",   "tkill",  "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal",
    "setsid", "setpgid"};

constexpr uint64_t k_namespace_flags = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                       CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP |
                                       uint64_t{0x80} /* CLONE_NEWTIME */;

using Context = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;

class Builder {
 public:
  Builder() : context_(seccomp_init(SCMP_ACT_ALLOW), seccomp_release) {}

  bool is_open() const { return context_ != nullptr; }
  const std::string& failure() const { return failure_; }
  scmp_filter_ctx get() const { return context_.get(); }

  void deny(const char* name, int error = EPERM) { add(name, error, {}); }
  void deny_if(const char* name, scmp_arg_cmp condition, int error = EPERM) {
    add(name, error, {condition});
  }
  /// Denies where both hold.
  void deny_if(const char* name, scmp_arg_cmp a, scmp_arg_cmp b) { add(name, EPERM, {a, b}); }

 private:
  void add(const char* name, int error, const std::vector<scmp_arg_cmp>& conditions) {
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR || number < 0) return;
    int status = seccomp_rule_add_array(context_.get(), SCMP_ACT_ERRNO(error), number,
                                        static_cast<unsigned>(conditions.size()),
                                        conditions.empty() ? nullptr : conditions.data());
    if (status != 0 && failure_.empty())
      failure_ = fmt::format("seccomp rule {}: {}", name, std::strerror(-status));
  }

  Context context_;
  std::string failure_;
};

scmp_arg_cmp masked(unsigned argument, uint64_t mask, uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

/// AF_UNIX needs a file that is not there. The rest reaches outside, and not all of it is bound by
/// the network namespace: AF_VSOCK talks to the machine's hypervisor, AF_ALG to its drivers.
void add_sockets(Builder& builder, bool has_inet) {
  constexpr uint64_t k_word = 0xffffffff;
  for (uint64_t family = 0; family < AF_MAX; ++family) {
    bool is_allowed =
        family == AF_UNIX ||
        (has_inet && (family == AF_INET || family == AF_INET6 || family == AF_NETLINK));
    if (!is_allowed) builder.deny_if("socket", masked(0, k_word, family));
  }
  builder.deny_if("socket", {0, SCMP_CMP_GE, AF_MAX, 0});
  if (has_inet)  // getaddrinfo asks NETLINK_ROUTE, which is 0
    builder.deny_if("socket", masked(0, k_word, AF_NETLINK), {2, SCMP_CMP_NE, 0, 0});
}

void add_rules(Builder& builder, const FilterKind& kind) {
  for (const char* name : k_denied) builder.deny(name);
  // One rule a flag: a rule can ask for all bits of a mask, not for any.
  for (uint64_t bit = 1; bit != 0 && bit <= k_namespace_flags; bit <<= 1)
    if ((k_namespace_flags & bit) != 0) builder.deny_if("clone", masked(0, bit, bit));
  // Its flags are behind a pointer; with ENOSYS the C library takes clone.
  builder.deny("clone3", ENOSYS);
  for (uint64_t type : {S_IFCHR, S_IFBLK}) {
    builder.deny_if("mknod", masked(1, S_IFMT, type));
    builder.deny_if("mknodat", masked(2, S_IFMT, type));
  }
  for (uint64_t request : {TIOCSTI, TIOCLINUX, TIOCCONS})
    builder.deny_if("ioctl", masked(1, 0xffffffff, request));
  add_sockets(builder, kind.has_inet);
  if (!kind.is_unconfined) return;
  for (const char* name : k_denied_unconfined) builder.deny(name);
  // Its own limits only: 0 is the caller.
  for (const char* name : {"prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setattr"})
    builder.deny_if(name, {0, SCMP_CMP_NE, 0, 0});
  builder.deny_if("setpriority", {1, SCMP_CMP_NE, 0, 0});
}

/// libseccomp writes to a descriptor only. A program of a few hundred instructions fits into a
/// pipe.
Expected<std::vector<sock_filter>> exported(Builder& builder) {
  constexpr size_t k_most = 8192;  // instructions: what a pipe holds
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return Error{Errc::io, fmt::format("seccomp: pipe: {}", std::strerror(errno))};
  int status = seccomp_export_bpf(builder.get(), ends[1]);
  std::vector<sock_filter> program(k_most);
  ssize_t got = ::read(ends[0], program.data(), k_most * sizeof(sock_filter));
  for (int fd : ends) ::close(fd);
  if (status != 0 || got <= 0)
    return Error{Errc::io, fmt::format("seccomp_export_bpf: {}", std::strerror(-status))};
  program.resize(static_cast<size_t>(got) / sizeof(sock_filter));
  return program;
}

Expected<std::vector<sock_filter>> build(const FilterKind& kind) {
  Builder builder;
  if (!builder.is_open())
    return Error{Errc::unsupported,
                 "seccomp: libseccomp does not know this machine's architecture"};
  add_rules(builder, kind);
  if (!builder.failure().empty()) return Error{Errc::unsupported, builder.failure()};
  return exported(builder);
}

}  // namespace

Expected<std::vector<sock_filter>> seccomp_filter(const FilterKind& kind) {
  static std::mutex mutex;
  static std::vector<std::pair<FilterKind, std::vector<sock_filter>>> built;
  std::lock_guard lock(mutex);
  for (const auto& [known, program] : built)
    if (known == kind) return program;
  COHORT_ASSIGN(std::vector<sock_filter> program, build(kind));
  built.emplace_back(kind, program);
  return program;
}

}  // namespace cohort::plugin

// What a program in a sandbox tries, and what has become of the world outside (SANDBOX-1, 2). Each
// attempt is a Python program that prints ESCAPED with what it got, and "done" at its end. Run by
// root, the tests run a second time as a user without rights: the sandbox is made another way then.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "tests/support/child_process.hpp"
#include "tests/support/sandbox_again.hpp"
#include "tests/support/sandbox_run.hpp"

namespace cohort::plugin {
namespace {

using test::SandboxRun;
using test::TempFolder;

/// What an attempt may use; prints "done" however it ends.
constexpr const char* k_prelude = R"(
import os, sys, socket, errno
def escaped(*what): print("ESCAPED", *what, flush=True)
def attempt(f, *args):
    try: return f(*args)
    except BaseException as e: return e
def works(f, *args): return not isinstance(attempt(f, *args), BaseException)
def syscall(number, *args):  # by x86-64's numbers
    if os.uname().machine != "x86_64": return -1
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(ctypes.c_long(number), 
        *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
)";

struct Attempt {
  const char* name;
  const char* code;  // {file}, {folder}, {port}, {socket}, {abstract}, {pid}: the world outside
};

std::ostream& operator<<(std::ostream& out, const Attempt& x) { return out << x.name; }

constexpr Attempt k_attempts[] = {
    {"ReadsAFileOutside", R"(
if works(lambda: open("{file}").read()): escaped("read"))"},
    {"WritesAFileOutside", R"(
if works(lambda: open("{file}", "w").write("x")): escaped("wrote")
if works(lambda: os.unlink("{file}")): escaped("unlinked")
if works(lambda: os.chmod("{folder}", 0)): escaped("chmod"))"},
    {"ReadsAccounts", R"(
for p in ("/etc/shadow", "/etc/passwd", "/etc/hostname", "/root/.bashrc", "/etc/ssh"):
    if os.path.exists(p): escaped(p))"},
    {"SeesFoldersOfTheHost", R"(
for p in os.listdir("/"):
    if p not in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "proc",
                 "dev", "tmp"): escaped(p)
if os.listdir("/tmp"): escaped(os.listdir("/tmp")))"},
    {"WritesTheReadOnlyRoot", R"(
for p in ("/", "/usr", "/usr/bin", "/usr/lib", "/bin", "/etc", "/dev", "/proc",
          "/etc/alternatives"):
    if works(lambda: open(p + "/cohort-was-here", "w")): escaped(p)
if works(lambda: os.rename("/usr/bin/env", "/usr/bin/env2")): escaped("rename"))"},
    {"ConnectsToThisMachine", R"(
s = attempt(socket.socket)
if not isinstance(s, BaseException): escaped("inet socket")
if works(lambda: socket.create_connection(("127.0.0.1", {port}), 1)): escaped("connected"))"},
    {"SendsADatagram", R"(
if works(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(
        b"x", ("127.0.0.1", {port}))): escaped("udp")
if works(lambda: socket.socket(socket.AF_INET6)): escaped("inet6")
if os.path.exists("/etc/hosts"): escaped("names"))"},
    {"OpensOtherSockets", R"(
for family in (16, 17, 38, 40, 44):  # netlink, packet, alg, vsock, xdp
    for kind in (1, 2, 3, 5):
        if works(socket.socket, family, kind): escaped(family, kind))"},
    {"ConnectsToAnAbstractSocket", R"(
if works(lambda: socket.socket(socket.AF_UNIX).connect("\0{abstract}")): escaped("abstract"))"},
    {"ConnectsToASocketFile", R"(
for p in ("{socket}", "/run/dbus/system_bus_socket", "/var/run/docker.sock", "/tmp/.X11-unix/X0"):
    if works(lambda: socket.socket(socket.AF_UNIX).connect(p)): escaped(p))"},
    {"KillsEveryone", R"(
import _signal
_signal.pthread_sigmask(_signal.SIG_BLOCK, range(1, 65))
for pid in ({pid}, -1, -{pid}):
    for n in (9, 19, 15): attempt(os.kill, pid, n)
if works(os.kill, {pid}, 0): escaped("it can be signalled"))"},
    {"TracesAProcess", R"(
for pid in ({pid}, 1, os.getppid()):
    if syscall(101, 16, pid, 0, 0) == 0: escaped("ptrace", pid)
if syscall(310, {pid}, 0, 0, 0, 0, 0) >= 0: escaped("process_vm_readv"))"},
    {"LooksAtProcessesOutside", R"(
pids = [p for p in os.listdir("/proc") if p.isdigit()]
if len(pids) > 2: escaped(pids)  # itself, and bwrap's own
for p in ("/proc/{pid}/cmdline", "/proc/{pid}/environ", "/proc/1/root/root", "/proc/self/root/work",
          "/proc/kcore", "/proc/self/cwd/../../root"):
    if works(lambda: open(p).read()) or works(os.listdir, p): escaped(p))"},
    {"ChangesTheKernel", R"(
for p in ("/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", 
          "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger", "/proc/sys/kernel/pid_max",
          "/proc/sys/user/max_user_namespaces"):
    if works(lambda: open(p, "w").write("1")): escaped(p)
if os.path.exists("/sys"): escaped("/sys"))"},
    {"FollowsLinks", R"(
for target in ("{file}", "/etc/shadow", "../../../../../..{file}", "/proc/1/root{file}",
               "/proc/self/fd/3/..{file}"):
    attempt(os.unlink, "/tmp/l"); os.symlink(target, "/tmp/l")
    if works(lambda: open("/tmp/l").read()): escaped(target)
    if target != "{file}" and works(lambda: open("/tmp/l", "w").write("x")): escaped(target)
if works(os.link, "/usr/bin/env", "/tmp/env"): escaped("hard link"))"},
    {"BecomesRoot", R"(
if works(os.setuid, 0) or works(os.setresuid, 0, 0, 0) or works(os.setgroups, [0]):
    escaped("setuid")
for line in open("/proc/self/status"):
    if line.startswith(("CapPrm", "CapEff", "CapInh", "CapAmb", "CapBnd")):
        if int(line.split()[1], 16): escaped(line)
    if line.startswith("NoNewPrivs") and line.split()[1] != "1": escaped(line)
for program in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/sudo",
                "/usr/bin/newuidmap"):
    pid = os.fork()
    if pid == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        attempt(os.execv, program, [program, "-c", "true"]); os._exit(77)
    if os.waitpid(pid, 0)[1] == 0 and program.endswith("su"): escaped(program)
import shutil
attempt(shutil.copy, "/usr/bin/env", "/tmp/e"); attempt(os.chmod, "/tmp/e", 0o4755)
out = os.popen("/tmp/e id -u").read().strip()
if out == "0": escaped("setuid copy"))"},
    {"MakesDevices", R"(
import stat
for kind, device in ((stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFBLK, os.makedev(254, 0)),
                     (stat.S_IFCHR, os.makedev(1, 1))):
    if works(os.mknod, "/tmp/d", kind | 0o666, device): escaped("mknod"))"},
    {"OpensDevices", R"(
for p in ("/dev/mem", "/dev/kmem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/kvm",
          "/dev/fuse", "/dev/tty", "/dev/ptmx", "/dev/net/tun"):
    if works(lambda: open(p, "rb")): escaped(p)
import fcntl
if works(fcntl.ioctl, 0, 0x5412, b"x"): escaped("TIOCSTI"))"},
    {"Mounts", R"(
if syscall(165, b"none", b"/tmp", b"tmpfs", 0, 0) == 0: escaped("mount")
if syscall(165, b"none", b"/usr", 0, 32 | 4096, 0) == 0: escaped("remount rw")
if syscall(166, b"/usr", 2) == 0: escaped("umount")
if syscall(430, b"tmpfs", 0) >= 0: escaped("fsopen")
if syscall(428, -100, b"/", 1) >= 0: escaped("open_tree"))"},
    {"ChangesItsRoot", R"(
if works(os.chroot, "/tmp"): escaped("chroot")
if syscall(155, b"/tmp", b"/tmp") == 0: escaped("pivot_root")
if works(os.chdir, "../../../../root"): escaped("chdir"))"},
    {"MakesNamespaces", R"(
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80):
    if syscall(272, flag) == 0: escaped("unshare", hex(flag))
    pid = syscall(56, flag | 17, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid > 0: escaped("clone", hex(flag))
if syscall(435, 0, 0) >= 0: escaped("clone3")
if syscall(308, 0, 0) == 0: escaped("setns"))"},
    {"UsesKeys", R"(
if syscall(248, b"user", b"cohort", b"x", 1, -3) >= 0: escaped("add_key")
if syscall(250, 0, -3, 0) >= 0: escaped("keyctl"))"},
    {"UsesRiskyCalls", R"(
for name, number in (("bpf", 321), ("perf", 298), ("userfaultfd", 323), ("io_uring", 425),
                     ("kexec", 246),
                     ("init_module", 175), ("finit_module", 313), ("swapon", 167), ("acct", 163),
                     ("iopl", 172),
                     ("settimeofday", 164), ("memfd_create", 319), ("shmget", 29),
                     ("personality", 135)):
    if syscall(number, 0, 0, 0, 0, 0) >= 0: escaped(name))"},
    {"RaisesItsLimits", R"(
import resource
for r in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
    if works(resource.setrlimit, r, (resource.RLIM_INFINITY,) * 2): escaped("limit", r)
if works(os.nice, -5): escaped("nice")
if works(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)): escaped("realtime")
attempt(lambda: open("/proc/self/oom_score_adj", "w").write("-1000"))
if int(open("/proc/self/oom_score_adj").read()) < 0: escaped("oom"))"},
    {"FindsWhatTheParentHas", R"(
if os.environ.get("COHORT_SECRET"): escaped("environment")
fds = [f for f in os.listdir("/proc/self/fd") if int(f) > 2]
links = [attempt(os.readlink, "/proc/self/fd/" + f) for f in fds]
links = [x for x in links if isinstance(x, str) and not x.startswith("/proc")]
if links: escaped(links))"},
    {"WritesABigFile", R"(
def fill():
    with open("/tmp/big", "wb") as f:
        for i in range(200): f.write(bytes(1 << 20)); f.flush()
attempt(fill)
if os.path.getsize("/tmp/big") > 64 << 20: escaped(os.path.getsize("/tmp/big")))"},
    {"FillsItsDisk", R"(
total = 0
for i in range(100):
    for folder in ("/tmp", "/dev/shm"):
        try:
            with open(folder + "/f%d" % i, "wb", 0) as f: total += f.write(bytes(4 << 20))
        except OSError: pass
if total > 2 * (64 << 20): escaped(total))"},
    {"Forks", R"(
made = 0
import time
for i in range(100):
    pid = attempt(os.fork)
    if isinstance(pid, BaseException): break
    if pid == 0: time.sleep(3600)
    made += 1
if made >= 16: escaped(made))"},
    {"TakesMemory", R"(
held = []
try:
    while len(held) < 64: held.append(bytearray(64 << 20))
except MemoryError: pass
if len(held) > 8: escaped(len(held)))"},
};

/// The world that an attempt aims at: a file that anyone could write, sockets that anyone could
/// connect to, a process of the same user.
class World {
 public:
  World() {
    ::chmod(folder_.path().c_str(), 0777);
    std::ofstream(file()) << "untouched";
    ::chmod(file().c_str(), 0666);
    listen_inet();
    listen_unix();
    pid_ = ::fork();
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~World() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (int fd : {inet_, unix_, abstract_}) ::close(fd);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::string filled(std::string code) const {
    const std::pair<const char*, std::string> names[] = {
        {"{file}", file()},
        {"{folder}", folder_.path()},
        {"{socket}", socket()},
        {"{abstract}", "cohort-" + std::to_string(::getpid())},
        {"{port}", std::to_string(port_)},
        {"{pid}", std::to_string(pid_)}};
    for (const auto& [name, value] : names)
      for (size_t at; (at = code.find(name)) != std::string::npos;)
        code.replace(at, std::string_view(name).size(), value);
    return code;
  }

  void expect_untouched() const {
    EXPECT_EQ(test::slurp(file()), "untouched");
    EXPECT_EQ(::waitpid(pid_, nullptr, WNOHANG), 0) << "the process outside was ended";
    for (int fd : {inet_, unix_, abstract_}) {
      int got = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
      EXPECT_LT(got, 0) << "someone has connected";
      if (got >= 0) ::close(got);
    }
    size_t entries = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      entries += 1;
      EXPECT_TRUE(entry.path() == file() || entry.path() == socket()) << entry.path();
    }
    EXPECT_EQ(entries, 2U);
  }

 private:
  std::string file() const { return folder_.path() / "file"; }
  std::string socket() const { return folder_.path() / "socket"; }

  void listen_inet() {
    inet_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(inet_, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(::listen(inet_, 8), 0);
    ::getsockname(inet_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }

  int listen_at(const std::string& name) {
    int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd, 8), 0);
    return fd;
  }

  void listen_unix() {
    unix_ = listen_at(socket());
    ::chmod(socket().c_str(), 0666);
    abstract_ = listen_at(std::string(1, '\0') + "cohort-" + std::to_string(::getpid()));
  }

  TempFolder folder_;
  int inet_ = -1, unix_ = -1, abstract_ = -1, port_ = 0;
  pid_t pid_ = 0;
};

class SandboxEscape : public testing::TestWithParam<Attempt> {
 protected:
  void SetUp() override {
    if (Expected<void> works = SandboxedProcess::check(SandboxMode::bubblewrap); !works)
      GTEST_SKIP() << works.error().to_string();
  }
};

TEST_P(SandboxEscape, HasNoEffectOutside) {
  ::setenv("COHORT_SECRET", "1", 1);
  World world;
  auto options = test::sandboxed_python(
      k_prelude + std::string("try:\n    exec(") + "sys.stdin.read()" +
      ")\nexcept BaseException as e: print(repr(e))\nprint('done', flush=True)\nos._exit(0)\n");
  auto process = SandboxedProcess::start(options);
  ASSERT_TRUE(process) << process.error().to_string();
  SandboxRun run = test::run_sandboxed(**process, world.filled(GetParam().code));
  EXPECT_EQ(run.out.find("ESCAPED"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("done"), std::string::npos) << run.out << run.err;
  EXPECT_EQ(run.status, 0) << describe_status(run.status);
  world.expect_untouched();
  EXPECT_EQ((*process)->memory_bytes(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Attempts, SandboxEscape, testing::ValuesIn(k_attempts),
                         [](const auto& x) { return std::string(x.param.name); });

TEST(SandboxEscape, TheSameAsAUserWithoutRights) {
  if (::geteuid() != 0 || test::is_again()) GTEST_SKIP() << "root alone runs it again";
  test::SelfRun run = test::run_self_as(65534, {"--gtest_filter=-*TheSameAs*"});
  EXPECT_EQ(run.status, 0) << run.output;
}

}  // namespace
}  // namespace cohort::plugin

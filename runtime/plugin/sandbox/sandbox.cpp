#include "runtime/plugin/sandbox/sandbox.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/base/descriptor.hpp"
#include "runtime/plugin/sandbox/sandbox_bwrap.hpp"
#include "runtime/plugin/sandbox/sandbox_filter.hpp"
#include "runtime/plugin/sandbox/sandbox_spawn.hpp"

namespace cohort::plugin {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Setting up takes 5 ms; a machine that needs this long is beyond hope.
constexpr milliseconds k_setup_limit{5000};
// Between SIGKILL and the end lie unmapping and unmounting. What hangs in the kernel for longer (a
// dead network file system) is left to it.
constexpr milliseconds k_death_limit{5000};
constexpr milliseconds k_gone_limit{20};

/// Returns the milliseconds left, at least 0.
int left_until(Clock::time_point end) {
  auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

/// Returns the ids of the processes whose parent is `pid`.
std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  std::ifstream in(fmt::format("/proc/{0}/task/{0}/children", pid));
  for (pid_t child; in >> child;) children.push_back(child);
  return children;
}

uint64_t resident_bytes(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/statm", pid));
  uint64_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Returns "bwrap: setting up uid map: Permission denied", the last line of `fd`.
std::string last_line(int fd) {
  std::array<char, 4096> buffer;
  ssize_t got = ::read(fd, buffer.data(), buffer.size());
  std::string text(buffer.data(), got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

struct SandboxedProcess::Impl {
  SandboxMode mode = SandboxMode::bubblewrap;
  pid_t pid = 0;  // of bwrap, or of the program itself
  Descriptor in, out, err, info, handle;
  std::string private_folder;  // of mode rlimits
  std::mutex mutex;            // guards the members below
  pid_t inner = 0;             // process 1 inside as this process sees it; 0: not known yet
  bool has_ended = false;
  int status = 0;

  ~Impl();
  Expected<void> open(const SandboxOptions& options, SpawnRequest request);
  void kill();
  int poll_status();
  bool wait_for_exit(Clock::time_point end);

 private:
  void kill_bubblewrap();
  void kill_group();
  pid_t find_inner();
  bool reap(int options);
  static void wait_until_gone(pid_t target);
  void end();
};

SandboxedProcess::Impl::~Impl() { kill(); }

namespace {

struct PipeEnds {
  Descriptor reader, writer;
};

Expected<PipeEnds> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Error{Errc::io, fmt::format("sandbox: pipe: {}", ::strerrordesc_np(errno))};
  return PipeEnds{Descriptor(ends[0]), Descriptor(ends[1])};
}

void set_non_blocking(const Descriptor& x) {
  ::fcntl(x.get(), F_SETFL, ::fcntl(x.get(), F_GETFL) | O_NONBLOCK);
}

/// Returns the read end of a pipe that holds the program already: bwrap reads to its end.
Expected<Descriptor> filter_pipe(const std::vector<sock_filter>& program) {
  COHORT_ASSIGN(PipeEnds pipe, make_pipe());
  size_t bytes = program.size() * sizeof(sock_filter);
  if (::write(pipe.writer.get(), program.data(), bytes) != static_cast<ssize_t>(bytes))
    return Error{Errc::io, "sandbox: the seccomp filter does not fit into a pipe"};
  return std::move(pipe.reader);
}

/// Returns a new folder that `user` may write to.
Expected<std::string> make_folder(uid_t user) {
  std::string path = fmt::format("/tmp/cohort-sandbox-{}-XXXXXX", ::getpid());
  if (::mkdtemp(path.data()) == nullptr)
    return Error{Errc::io, fmt::format("{}: {}", path, ::strerrordesc_np(errno))};
  if (user != 0 && ::chown(path.c_str(), user, user) != 0) {
    ::rmdir(path.c_str());
    return Error{Errc::io, fmt::format("{}: chown: {}", path, ::strerrordesc_np(errno))};
  }
  return path;
}

}  // namespace

Expected<void> SandboxedProcess::Impl::open(const SandboxOptions& options, SpawnRequest request) {
  mode = options.mode;
  const bool is_unconfined = mode == SandboxMode::rlimits;
  const bool has_inet = options.has_network || (options.has_loopback && !is_unconfined);
  COHORT_ASSIGN(std::vector<sock_filter> program, seccomp_filter({has_inet, is_unconfined}));
  COHORT_ASSIGN(PipeEnds to, make_pipe());
  COHORT_ASSIGN(PipeEnds from, make_pipe());
  COHORT_ASSIGN(PipeEnds errors, make_pipe());
  request.descriptors = {to.reader.get(), from.writer.get(), errors.writer.get()};
  PipeEnds about;
  Descriptor filter;
  sock_fprog loaded{static_cast<unsigned short>(program.size()), program.data()};
  if (mode == SandboxMode::bubblewrap) {
    COHORT_ASSIGN(about, make_pipe());
    COHORT_ASSIGN(filter, filter_pipe(program));
    request.descriptors.insert(request.descriptors.end(), {filter.get(), about.writer.get()});
  } else {
    request.filter = &loaded;
    if (options.folder == "/tmp") {
      COHORT_ASSIGN(private_folder, make_folder(request.uid));
      request.folder = private_folder;
      request.environment.push_back("TMPDIR=" + private_folder);
    }
  }
  Expected<pid_t> started = spawn(request);
  if (!started) {
    end();
    return started.error().with_context("sandbox");
  }
  pid = *started;
  handle = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  in = std::move(to.writer);
  out = std::move(from.reader);
  err = std::move(errors.reader);
  info = std::move(about.reader);
  for (const Descriptor* x : {&in, &out, &err}) set_non_blocking(*x);
  return {};
}

/// Waits until bwrap has said which process is the first inside, or has ended. Killing bwrap before
/// that could leave a process behind that waits for it for ever.
pid_t SandboxedProcess::Impl::find_inner() {
  if (inner != 0) return inner;
  auto limit = Clock::now() + k_setup_limit;
  std::string text;
  while (text.find('}') == std::string::npos) {
    pollfd item{info.get(), POLLIN, 0};
    if (::poll(&item, 1, left_until(limit)) == 0) break;
    std::array<char, 128> buffer;
    ssize_t got = ::read(info.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  size_t colon = text.find(':');
  if (colon != std::string::npos) inner = static_cast<pid_t>(std::atol(text.c_str() + colon + 1));
  return inner;
}

/// Process 1 takes its namespace with it, and bwrap ends after it; so when bwrap has ended by
/// itself, everything has.
void SandboxedProcess::Impl::kill_bubblewrap() {
  pid_t first = find_inner();
  // bwrap is not reaped yet, so a child of it with that number is process 1 and no other.
  bool is_there = false;
  for (pid_t child : children_of(pid)) is_there = is_there || child == first;
  if (first > 0 && is_there) {
    ::kill(first, SIGKILL);
    if (wait_for_exit(Clock::now() + k_death_limit)) return;
  }
  ::kill(pid, SIGKILL);
  wait_for_exit(Clock::now() + k_death_limit);
}

/// The filter keeps everyone in the group, and a signal to a group reaches all of it at once. The
/// leader, not reaped yet, keeps the number from being given to another.
void SandboxedProcess::Impl::kill_group() {
  ::kill(-pid, SIGKILL);
  wait_for_exit(Clock::now() + k_death_limit);
}

/// Takes the status if it has ended.
bool SandboxedProcess::Impl::reap(int options) {
  siginfo_t seen{};
  // The number must not be given away before the group is gone.
  if (::waitid(P_PID, static_cast<id_t>(pid), &seen, WEXITED | WNOWAIT | options) == 0 &&
      seen.si_pid == 0)
    return false;
  if (mode == SandboxMode::rlimits)
    ::kill(-pid, SIGKILL);
  else
    find_inner();
  int got = 0;
  while (::waitpid(pid, &got, 0) < 0 && errno == EINTR) {
  }
  // bwrap may end before its namespace, which it takes with it.
  wait_until_gone(mode == SandboxMode::rlimits ? -pid : inner);
  status = got;
  has_ended = true;
  end();
  return true;
}

/// What has the signal needs a moment to go. In a container whose process 1 reaps nobody it stays
/// as a zombie.
void SandboxedProcess::Impl::wait_until_gone(pid_t target) {
  auto limit = Clock::now() + k_gone_limit;
  while (target != 0 && ::kill(target, 0) == 0 && Clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

void SandboxedProcess::Impl::end() {
  if (private_folder.empty()) return;
  // A dying process may still make a file.
  auto limit = Clock::now() + k_gone_limit;
  std::error_code failed;
  do {
    std::filesystem::remove_all(private_folder, failed);
  } while (failed && Clock::now() < limit);
  private_folder.clear();
}

bool SandboxedProcess::Impl::wait_for_exit(Clock::time_point limit) {
  while (!reap(WNOHANG)) {
    if (Clock::now() >= limit) return false;
    if (handle.get() >= 0) {
      pollfd item{handle.get(), POLLIN, 0};
      ::poll(&item, 1, left_until(limit));
    } else {
      std::this_thread::sleep_for(milliseconds(1));  // before Linux 5.3
    }
  }
  return true;
}

void SandboxedProcess::Impl::kill() {
  std::lock_guard lock(mutex);
  if (pid == 0 || has_ended) return;
  if (mode == SandboxMode::bubblewrap)
    kill_bubblewrap();
  else
    kill_group();
}

int SandboxedProcess::Impl::poll_status() {
  std::lock_guard lock(mutex);
  return has_ended || reap(WNOHANG) ? status : -1;
}

SandboxedProcess::SandboxedProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SandboxedProcess::~SandboxedProcess() = default;

namespace {

/// Runs /bin/true in a sandbox once a mode; remembers success.
Expected<void> try_out(
    SandboxMode mode, Expected<std::unique_ptr<SandboxedProcess>> (*start)(const SandboxOptions&)) {
  static std::mutex mutex;
  static std::array<bool, 2> works{};
  std::lock_guard lock(mutex);
  bool& is_known = works[static_cast<size_t>(mode)];
  if (is_known) return {};
  SandboxOptions options;
  options.mode = mode;
  options.argv = {"/usr/bin/env", "true"};
  options.environment = {"PATH=/usr/bin:/bin"};
  COHORT_ASSIGN(std::unique_ptr<SandboxedProcess> trial, start(options));
  auto limit = Clock::now() + k_setup_limit;
  int status = -1;
  while ((status = trial->poll_status()) < 0 && Clock::now() < limit)
    std::this_thread::sleep_for(milliseconds(1));
  if (status != 0) return Error{Errc::unsupported, refusal(last_line(trial->err()))};
  is_known = true;
  return {};
}

}  // namespace

Expected<std::unique_ptr<SandboxedProcess>> SandboxedProcess::start(const SandboxOptions& options) {
  if (options.argv.empty() || options.argv[0].empty())
    return Error{Errc::invalid_argument, "sandbox: no program to start"};
  COHORT_TRY(check(options.mode));
  return start_unchecked(options);
}

Expected<void> SandboxedProcess::check(SandboxMode mode) {
  return try_out(mode, &SandboxedProcess::start_unchecked);
}

Expected<std::unique_ptr<SandboxedProcess>> SandboxedProcess::start_unchecked(
    const SandboxOptions& options) {
  COHORT_ASSIGN(SpawnRequest request, options.mode == SandboxMode::bubblewrap
                                          ? bubblewrap_request(options)
                                          : rlimits_request(options));
  auto impl = std::make_unique<Impl>();
  COHORT_TRY(impl->open(options, std::move(request)));
  return std::unique_ptr<SandboxedProcess>(new SandboxedProcess(std::move(impl)));
}

int SandboxedProcess::in() const { return impl_->in.get(); }
int SandboxedProcess::out() const { return impl_->out.get(); }
int SandboxedProcess::err() const { return impl_->err.get(); }
void SandboxedProcess::close_in() { impl_->in.close(); }
void SandboxedProcess::kill() { impl_->kill(); }
int SandboxedProcess::poll_status() { return impl_->poll_status(); }
pid_t SandboxedProcess::pid() const { return impl_->pid; }

uint64_t SandboxedProcess::memory_bytes() const {
  std::lock_guard lock(impl_->mutex);
  if (impl_->has_ended) return 0;
  uint64_t bytes = 0;
  std::vector<pid_t> open = {impl_->pid};
  while (!open.empty()) {
    pid_t next = open.back();
    open.pop_back();
    bytes += resident_bytes(next);
    for (pid_t child : children_of(next)) open.push_back(child);
  }
  return bytes;
}

std::string describe_status(int status) {
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == 0 && WEXITSTATUS(status) > 128) signal = WEXITSTATUS(status) - 128;
  if (signal == 0) return fmt::format("exit code {}", WEXITSTATUS(status));
  const char* name = ::sigdescr_np(signal);
  return fmt::format("signal {} ({})", signal, name == nullptr ? "?" : name);
}

}  // namespace cohort::plugin

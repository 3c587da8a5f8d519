#include "runtime/plugin/sandbox/sandbox_spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

namespace cohort::plugin {
namespace {

constexpr size_t k_stack_bytes = size_t{64} << 10;
constexpr size_t k_max_descriptors = 8;
constexpr int k_first_spare = 16;  // descriptors are parked at and above this number

/// What the child reads and writes between clone and exec: the parent's memory, the parent's thread
/// stopped until then.
struct Order {
  const SpawnRequest* request = nullptr;
  std::vector<char*> argv, environment;
  const char* failed = nullptr;  // name of the call that failed, with its errno
  int error = 0;
};

[[noreturn]] void fail(Order& order, const char* what) {
  order.failed = what;
  order.error = errno;
  ::_exit(127);
}

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &action, nullptr);
}

/// Puts the descriptors at 0, 1, 2, … and closes all others.
void arrange_descriptors(Order& order) {
  const std::vector<int>& wanted = order.request->descriptors;
  std::array<int, k_max_descriptors> parked{};
  for (size_t i = 0; i < wanted.size(); ++i) {
    parked[i] = ::fcntl(wanted[i], F_DUPFD, k_first_spare);
    if (parked[i] < 0) fail(order, "dup");
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (::dup2(parked[i], static_cast<int>(i)) < 0) fail(order, "dup2");
  auto first = static_cast<unsigned>(wanted.size());
  if (::syscall(SYS_close_range, first, ~0U, 0U) == 0) return;
  // Before Linux 5.9: one by one.
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (rlim_t fd = first; fd < limit.rlim_cur; ++fd) ::close(static_cast<int>(fd));
}

/// When memory runs out the kernel shall take the sandbox, not the trainer.
void offer_to_oom_killer() {
  int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] ssize_t written = ::write(fd, "1000", 4);
  ::close(fd);
}

/// System calls by number: glibc's setuid would change every thread of the parent.
void become(Order& order, uid_t uid) {
  if (::syscall(SYS_setgroups, 0, nullptr) != 0) fail(order, "setgroups");
  if (::syscall(SYS_setresgid, uid, uid, uid) != 0) fail(order, "setresgid");
  if (::syscall(SYS_setresuid, uid, uid, uid) != 0) fail(order, "setresuid");
}

int run_child(void* argument) {
  Order& order = *static_cast<Order*>(argument);
  const SpawnRequest& request = *order.request;
  reset_signals();
  arrange_descriptors(order);
  offer_to_oom_killer();
  for (const auto& [resource, value] : request.limits) {
    rlimit limit{value, value};
    if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0)
      fail(order, "setrlimit");
  }
  if (request.has_own_session && ::setsid() < 0) fail(order, "setsid");
  if (request.uid != 0) become(order, request.uid);
  // A change of user clears it, so it comes after.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(order, "prctl");
  if (!request.folder.empty() && ::chdir(request.folder.c_str()) != 0) fail(order, "chdir");
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (request.filter != nullptr) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(order, "no_new_privs");
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, request.filter) != 0) fail(order, "seccomp");
  }
  ::execve(order.argv[0], order.argv.data(), order.environment.data());
  fail(order, "execve");
}

std::vector<char*> pointers_of(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// A hard limit may be lowered by anyone, raised by root alone.
std::vector<std::pair<int, rlim_t>> reachable(std::vector<std::pair<int, rlim_t>> limits) {
  for (auto& [resource, value] : limits) {
    rlimit now{};
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &now) == 0 &&
        now.rlim_max != RLIM_INFINITY && value > now.rlim_max)
      value = now.rlim_max;
  }
  return limits;
}

Expected<pid_t> start_child(SpawnRequest request, char* stack) {
  if (request.argv.empty() || request.descriptors.size() > k_max_descriptors)
    return Error{Errc::invalid_argument, "spawn: no program, or too many descriptors"};
  request.limits = reachable(std::move(request.limits));
  Order order{&request, pointers_of(request.argv), pointers_of(request.environment), nullptr, 0};
  sigset_t all, before;
  sigfillset(&all);
  // No handler of this process may run in the child while it shares our memory.
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = ::clone(run_child, stack + k_stack_bytes, CLONE_VM | CLONE_VFORK | SIGCHLD, &order);
  int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0)
    return Error{Errc::io, fmt::format("{}: clone: {}", request.argv[0], std::strerror(error))};
  if (order.failed == nullptr) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return Error{Errc::io, fmt::format("{}: {}: {}", request.argv[0], order.failed,
                                     std::strerror(order.error))};
}

/// The thread that all children are children of.
class Spawner {
 public:
  Spawner() : thread_([this] { run(); }) {}
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;
  ~Spawner() {
    {
      std::lock_guard lock(mutex_);
      is_closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Expected<pid_t> spawn(const SpawnRequest& request) {
    auto job = std::make_shared<Job>();
    job->request = &request;
    std::future<Expected<pid_t>> result = job->result.get_future();
    {
      std::lock_guard lock(mutex_);
      if (is_closing_) return Error{Errc::closed, "spawn: this process is ending"};
      jobs_.push_back(job);
    }
    changed_.notify_one();
    return result.get();
  }

 private:
  struct Job {
    const SpawnRequest* request = nullptr;  // the caller waits
    std::promise<Expected<pid_t>> result;
  };

  void run() {
    std::vector<char> stack(k_stack_bytes);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_closing_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      std::shared_ptr<Job> job = jobs_.front();
      jobs_.pop_front();
      lock.unlock();
      job->result.set_value(start_child(*job->request, stack.data()));
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;  // at most one a calling thread
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace

Expected<pid_t> spawn(const SpawnRequest& request) {
  static Spawner spawner;
  return spawner.spawn(request);
}

}  // namespace cohort::plugin

#include "runtime/plugin/code/code_pool.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "runtime/plugin/code/code_scripts.hpp"

namespace cohort::plugin {

namespace {

constexpr std::string_view k_compiler =
    "import sys, marshal\n"
    "code = compile(sys.stdin.buffer.read(), '<cohort>', 'exec')\n"
    "sys.stdout.buffer.write(marshal.dumps(code))\n";

// The first frame of the pipe is the program.
constexpr std::string_view k_loader =
    "import marshal, posix\n"
    "def take(size):\n"
    "    data = b''\n"
    "    while len(data) < size:\n"
    "        part = posix.read(0, size - len(data))\n"
    "        if not part: posix._exit(0)\n"
    "        data += part\n"
    "    return data\n"
    "exec(marshal.loads(take(int.from_bytes(take(4), 'little'))))\n";

/// Reads to the end, or to the limit.
std::string read_all(int fd, std::chrono::milliseconds limit) {
  auto end = std::chrono::steady_clock::now() + limit;
  std::string text;
  std::array<char, 16384> buffer;
  while (std::chrono::steady_clock::now() < end) {
    pollfd item{fd, POLLIN, 0};
    ::poll(&item, 1, 100);
    ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

Expected<std::unique_ptr<CodePool>> CodePool::open(CodePoolOptions options) {
  std::unique_ptr<CodePool> pool(new CodePool(std::move(options)));
  COHORT_ASSIGN(pool->sample_bytecode_, pool->compile(sample_script()));
  COHORT_ASSIGN(pool->judge_bytecode_, pool->compile(judge_script()));
  return pool;
}

CodePool::~CodePool() { stop(); }

bool CodePool::enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_stopped_ || inside_ < options_.workers; });
  if (is_stopped_) return false;
  ++inside_;
  return true;
}

void CodePool::leave() {
  {
    std::lock_guard lock(mutex_);
    --inside_;
  }
  changed_.notify_one();
}

Expected<std::shared_ptr<SandboxedProcess>> CodePool::start_python(std::string_view program) const {
  SandboxOptions options;
  options.mode = options_.mode;
  options.limits.memory_bytes = options_.memory_bytes;
  options.limits.processes = options_.processes;
  options.limits.file_bytes = options_.file_bytes;
  options.readable = options_.readable;
  options.argv = {options_.python, "-I", "-S", "-X", "utf8", "-c", std::string(program)};
  options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp"};
  COHORT_ASSIGN(std::shared_ptr<SandboxedProcess> process, SandboxedProcess::start(options));
  return process;
}

Expected<std::string> CodePool::compile(std::string_view script) const {
  constexpr std::chrono::seconds k_limit{30};
  COHORT_ASSIGN(std::shared_ptr<SandboxedProcess> process, start_python(k_compiler));
  std::string code;
  if (::write(process->in(), script.data(), script.size()) == static_cast<ssize_t>(script.size())) {
    process->close_in();
    code = read_all(process->out(), k_limit);
  }
  if (!code.empty()) return code;
  process->kill();
  return Error{Errc::unsupported,
               fmt::format("code_sandbox: {} does not run in the sandbox: {}", options_.python,
                           read_all(process->err(), std::chrono::milliseconds(100)))};
}

Expected<std::unique_ptr<CodeLink>> CodePool::start(const std::string& bytecode) const {
  COHORT_ASSIGN(std::shared_ptr<SandboxedProcess> process, start_python(k_loader));
  auto link = std::make_unique<CodeLink>(std::move(process), options_.max_frame_bytes);
  link->push_program(bytecode);
  link->transfer();
  return link;
}

/// False, and it is killed, if everything has been stopped meanwhile.
bool CodePool::enlist(const std::shared_ptr<SandboxedProcess>& process) {
  {
    std::lock_guard lock(mutex_);
    if (!is_stopped_) {
      used_.push_back(process);
      return true;
    }
  }
  process->kill();
  return false;
}

Expected<std::unique_ptr<CodeLink>> CodePool::take(std::deque<std::unique_ptr<CodeLink>>& waiting,
                                                   const std::string& bytecode) {
  std::unique_ptr<CodeLink> link;
  {
    std::lock_guard lock(mutex_);
    if (!waiting.empty()) {
      link = std::move(waiting.front());
      waiting.pop_front();
    }
  }
  // One that has died while it waited (someone killed it) is not the answer's fault.
  if (link != nullptr && link->process().poll_status() >= 0) link.reset();
  if (link == nullptr) {
    COHORT_ASSIGN(link, start(bytecode));
  }
  if (!enlist(link->shared_process())) return Error{Errc::cancelled, "code_sandbox: stopped"};
  return link;
}

Expected<std::unique_ptr<CodeLink>> CodePool::take_sample() {
  return take(samples_, sample_bytecode_);
}

Expected<std::unique_ptr<CodeLink>> CodePool::take_judge() {
  return take(judges_, judge_bytecode_);
}

void CodePool::prepare_sample() {
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_ || samples_.size() >= options_.workers) return;
  }
  // take_sample() returns a failed start's error.
  Expected<std::unique_ptr<CodeLink>> link = start(sample_bytecode_);
  std::lock_guard lock(mutex_);
  if (link && !is_stopped_) samples_.push_back(std::move(*link));
}

void CodePool::give_back_judge(std::unique_ptr<CodeLink> judge) {
  std::lock_guard lock(mutex_);
  std::erase(used_, judge->shared_process());
  if (!is_stopped_) judges_.push_back(std::move(judge));
}

void CodePool::end(std::unique_ptr<CodeLink> link) {
  link->process().kill();
  std::lock_guard lock(mutex_);
  std::erase(used_, link->shared_process());
}

void CodePool::stop() {
  std::deque<std::unique_ptr<CodeLink>> samples, judges;
  std::vector<std::shared_ptr<SandboxedProcess>> used;
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
    samples.swap(samples_);
    judges.swap(judges_);
    used = used_;
  }
  changed_.notify_all();
  for (const auto& process : used) process->kill();
}

bool CodePool::is_stopped() const {
  std::lock_guard lock(mutex_);
  return is_stopped_;
}

}  // namespace cohort::plugin

#include "runtime/plugin/code_pool.hpp"

#include <algorithm>

#include "runtime/plugin/code_scripts.hpp"

namespace cohort::plugin {

CodePool::CodePool(CodePoolOptions options) : options_(std::move(options)) {}

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

Expected<std::unique_ptr<CodeLink>> CodePool::start(std::string_view program) {
  SandboxOptions options;
  options.mode = options_.mode;
  options.limits.memory_bytes = options_.memory_bytes;
  options.limits.processes = options_.processes;
  options.limits.file_bytes = options_.file_bytes;
  options.readable = options_.readable;
  options.argv = {options_.python, "-I", "-S", "-X", "utf8", "-c", std::string(program)};
  options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp"};
  COHORT_ASSIGN(std::shared_ptr<SandboxedProcess> process, SandboxedProcess::start(options));
  return std::make_unique<CodeLink>(std::move(process), options_.max_frame_bytes);
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
                                                   std::string_view program) {
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
    COHORT_ASSIGN(link, start(program));
  }
  if (!enlist(link->shared_process())) return Error{Errc::cancelled, "code_sandbox: stopped"};
  return link;
}

Expected<std::unique_ptr<CodeLink>> CodePool::take_sample() {
  return take(samples_, sample_script());
}

Expected<std::unique_ptr<CodeLink>> CodePool::take_judge() { return take(judges_, judge_script()); }

void CodePool::prepare_sample() {
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_ || samples_.size() >= options_.workers) return;
  }
  // What is wrong with a start is said when one is taken.
  Expected<std::unique_ptr<CodeLink>> link = start(sample_script());
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

#include "runtime/plugin/child/plugin_worker.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/plugin/sandbox/without_sigpipe.hpp"

namespace cohort::plugin {
namespace {

constexpr size_t k_words_bytes = 2048;
constexpr size_t k_slack_bytes = 65536;  // taken frames that may lie before the next one
constexpr double k_look_s = 0.05;        // how often a silent child is looked after
constexpr double k_stack_s = 0.5;        // a call of this length is asked for its stack, then later
constexpr double k_end_s = 0.25;         // from the end of its pipe to its exit status

/// The process at the end of the chain that the sandbox starts: bwrap, its init, the child.
pid_t last_descendant(pid_t pid) {
  for (int depth = 0; depth < 8; ++depth) {
    std::ifstream children(fmt::format("/proc/{}/task/{}/children", pid, pid));
    if (!(children >> pid)) break;
  }
  return pid;
}

/// While it lives `pid` wakes up on the caller's core. The caller is about to sleep: the child
/// takes over at once, where to wake another core from idle costs more than a trivial answer (50 us
/// on a virtual machine). Only a hint: what fails changes nothing, and a child that computes for
/// long is moved by the kernel as any other.
class WakeHere {
 public:
  explicit WakeHere(pid_t pid) : pid_(pid) {
    const int core = ::sched_getcpu();
    if (pid_ <= 0 || core < 0 || ::sched_getaffinity(pid_, sizeof before_, &before_) != 0 ||
        !CPU_ISSET(core, &before_))
      return;
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(core, &here);
    is_set_ = ::sched_setaffinity(pid_, sizeof here, &here) == 0;
  }
  ~WakeHere() {
    if (is_set_) ::sched_setaffinity(pid_, sizeof before_, &before_);
  }
  WakeHere(const WakeHere&) = delete;
  WakeHere& operator=(const WakeHere&) = delete;

 private:
  const pid_t pid_;
  cpu_set_t before_;
  bool is_set_ = false;
};

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/// The last line of the child's stderr, without control characters.
std::string last_words(std::string_view words) {
  while (!words.empty() && static_cast<unsigned char>(words.back()) <= ' ') words.remove_suffix(1);
  auto line = words.substr(words.find_last_of('\n') + 1);  // npos + 1 = 0
  std::string text(line.substr(0, 300));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// What Python's faulthandler writes before the frames, the innermost first.
constexpr std::string_view k_stack_head = "Stack (most recent call first):";

/// Returns whether the signal reaches a handler, and does not end the process.
bool catches(pid_t pid, int signal) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigCgt:"))
      return (std::strtoull(line.c_str() + 7, nullptr, 16) >> (signal - 1) & 1) != 0;
  return false;
}

/// Returns "in sympy (solvers.py:12 solve)" of the first frame, with the package if there is one.
std::string place_in_stack(std::string_view stack) {
  const size_t file = stack.find("File \"");
  if (file == std::string_view::npos) return "";
  stack.remove_prefix(file + 6);
  const std::string_view line = stack.substr(0, stack.find('\n'));
  const size_t end = line.find('"');
  constexpr std::string_view k_line = ", line ";
  if (end == std::string_view::npos || !line.substr(end + 1).starts_with(k_line)) return "";
  const std::string path(line.substr(0, end));
  std::string_view rest = line.substr(end + 1 + k_line.size());  // "12 in solve"
  const size_t in = rest.find(" in ");
  std::string place = fmt::format("{}:{}", base_name(path), rest.substr(0, in));
  if (in != std::string_view::npos) place += fmt::format(" {}", rest.substr(in + 4));
  const size_t packages = path.find("-packages/");
  if (packages == std::string::npos) return "in " + place;
  const std::string inside = path.substr(packages + 10);
  return fmt::format("in {} ({})", inside.substr(0, inside.find('/')), place);
}

std::string status_text(int status) {
  // bwrap reports a signal of its child as 128 + signal, as shells do.
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  int number = WIFSIGNALED(status) ? WTERMSIG(status) : code > 128 ? code - 128 : 0;
  if (number == 0) return fmt::format("exited with {}", code);
  const char* name = sigabbrev_np(number);
  return fmt::format("killed by signal {}{}", number, name ? fmt::format(" (SIG{})", name) : "");
}

std::string schema_of(const nlohmann::ordered_json& json) {
  const auto schema = json.find("schema");
  return schema == json.end() || schema->is_null() ? std::string() : schema->dump();
}

Loaded loaded_of(const nlohmann::ordered_json& json) {
  return {.name = json.value("name", ""),
          .form = json.value("form", ""),
          .is_batch = json.value("is_batch", false),
          .is_concurrent = json.value("is_concurrent", false),
          .concurrency = json.value("concurrency", uint32_t{1}),
          .has_stacks = json.value("has_stacks", false),
          .schema = schema_of(json)};
}

}  // namespace

PluginWorker::PluginWorker(std::unique_ptr<SandboxedProcess> process, const LaunchSpec& spec)
    : process_(std::move(process)),
      plugin_(spec.plugin),
      load_timeout_s_(spec.load_timeout_s),
      frame_bytes_max_(spec.frame_bytes_max) {}

Expected<std::unique_ptr<PluginWorker>> PluginWorker::launch(const LaunchSpec& spec) {
  COHORT_ASSIGN(auto process, SandboxedProcess::start(spec.sandbox));
  std::unique_ptr<PluginWorker> worker(new PluginWorker(std::move(process), spec));
  worker->outgoing_ = spec.preamble;
  worker->begin(Op::load, spec.load_json);
  return worker;
}

Expected<Loaded> PluginWorker::await_loaded() {
  auto frame = next(load_timeout_s_);
  if (!frame)
    return Error{Errc::config, fmt::format("{}: the child that was to load it: {}", plugin_,
                                           frame.error().detail)};
  if (frame->kind == static_cast<uint8_t>(Answer::failed)) {
    COHORT_ASSIGN(Failure failure, read_failure(frame->payload));
    // What a C++ plugin's loader says begins with the path already.
    bool is_named = failure.reason.find(plugin_) != std::string::npos;
    return Error{failure.code,
                 is_named ? failure.reason : fmt::format("{}: {}", plugin_, failure.reason)};
  }
  auto json = nlohmann::ordered_json::parse(frame->payload, nullptr, false);
  if (frame->kind != static_cast<uint8_t>(Answer::loaded) || !json.is_object())
    return Error{Errc::protocol, fmt::format("{}: the child did not say what it loaded", plugin_)};
  server_ = last_descendant(process_->pid());
  has_stacks_ = json.value("has_stacks", false);
  return loaded_of(json);
}

void PluginWorker::begin(Op op, std::string_view payload) {
  outgoing_.erase(0, sent_);  // a close that the pipe has not taken yet may be left
  sent_ = 0;
  outgoing_ += frame_bytes(++number_, static_cast<uint8_t>(op), payload);
  WakeHere hint(server_);
  send_some();
}

/// Returns false when nobody will read any more.
bool PluginWorker::send_some() {
  const WithoutSigpipe guard;
  while (sent_ < outgoing_.size()) {
    ssize_t n = ::write(process_->in(), outgoing_.data() + sent_, outgoing_.size() - sent_);
    if (n < 0) return would_block();
    sent_ += static_cast<size_t>(n);
  }
  return true;
}

/// Returns false at the end of the pipe.
bool PluginWorker::read_some() {
  if (taken_ == incoming_.size() || taken_ > k_slack_bytes) {
    incoming_.erase(0, taken_);
    taken_ = 0;
  }
  std::array<char, 16384> bytes;
  ssize_t n = ::read(process_->out(), bytes.data(), bytes.size());
  if (n < 0) return would_block();
  incoming_.append(bytes.data(), static_cast<size_t>(n));
  return n > 0;
}

void PluginWorker::read_words() {
  std::array<char, 4096> bytes;
  // At most what a full pipe holds: a child that prints for ever must not keep us here.
  for (int i = 0; i < 32; ++i) {
    ssize_t n = ::read(process_->err(), bytes.data(), bytes.size());
    if (n <= 0) return;
    words_.append(bytes.data(), static_cast<size_t>(n));
    if (words_.size() > k_words_bytes) words_.erase(0, words_.size() - k_words_bytes);
  }
}

Wait PluginWorker::wait_for_child(double since, double timeout_s) const {
  const pid_t child = server_ > 0 ? server_ : process_->pid();
  return Wait({WaitLevel::outside, fmt::format("plugin {}", base_name(plugin_)),
               fmt::format("its child {}", child),
               fmt::format("its answer, or the deadline of {:g} s", timeout_s), child, since});
}

/// Asks the child for its stacks: signals are no calls, so that one that is locked up answers too.
void PluginWorker::ask_stack() const {
  if (has_stacks_ && server_ > 0 && catches(server_, SIGUSR2)) ::kill(server_, SIGUSR2);
}

/// Takes the stacks that the child has written.
void PluginWorker::take_stack(Wait& wait) {
  const size_t at = words_.find(k_stack_head);
  if (at == std::string::npos) return;
  wait.set_where(place_in_stack(std::string_view(words_).substr(at)));
  words_.erase(at);
}

Expected<bool> PluginWorker::take_frame(Frame& frame) {
  std::string_view seen(incoming_.data() + taken_, incoming_.size() - taken_);
  if (seen.size() < k_frame_head_bytes) return false;
  const auto size = read_head(seen.data(), frame);
  if (!size || frame.number != number_ || frame.kind == 0 ||
      frame.kind > static_cast<uint8_t>(Answer::output))
    return Error{Errc::protocol, "answered garbage: no frame of this call"};
  if (*size > frame_bytes_max_)
    return Error{Errc::capacity,
                 fmt::format("answered with {} bytes, more than {}", *size, frame_bytes_max_)};
  if (seen.size() < k_frame_head_bytes + *size) return false;
  frame.payload.assign(seen.substr(k_frame_head_bytes, *size));
  taken_ += k_frame_head_bytes + *size;
  return true;
}

Expected<Frame> PluginWorker::next(double timeout_s) {
  const double asked = now_seconds();
  const double deadline = asked + timeout_s;
  double stack_at = asked + k_stack_s;
  Frame frame;
  std::optional<Wait> wait;  // of a call that is not answered at once
  for (;;) {
    COHORT_ASSIGN(bool is_there, take_frame(frame));
    if (is_there) return frame;
    double left = deadline - now_seconds();
    if (left <= 0) return Error{Errc::timeout, fmt::format("timeout after {:g} s", timeout_s)};
    std::array<pollfd, 3> fds{pollfd{process_->out(), POLLIN, 0},
                              pollfd{process_->err(), POLLIN, 0},
                              pollfd{sent_ < outgoing_.size() ? process_->in() : -1, POLLOUT, 0}};
    auto nanoseconds = static_cast<long>(std::min(left, k_look_s) * 1e9);
    const timespec look{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    int ready = ::ppoll(fds.data(), fds.size(), &look, nullptr);
    // A fork of the plugin may hold the pipe of a child that is gone.
    if (ready == 0 && process_->poll_status() != -1) return ended();
    if (fds[1].revents != 0) read_words();
    if (ready == 0 && !wait) wait.emplace(wait_for_child(asked, timeout_s));
    if (wait && ready == 0) take_stack(*wait);  // it is written to its end
    if (wait && now_seconds() >= stack_at) {
      ask_stack();
      stack_at = now_seconds() + k_stack_s;
    }
    if (fds[2].revents != 0 && !send_some()) return ended();
    if (fds[0].revents != 0 && !read_some()) return ended();
  }
}

Error PluginWorker::ended() {
  const double deadline = now_seconds() + k_end_s;
  int status = process_->poll_status();
  while (status == -1 && now_seconds() < deadline) {
    const timespec pause{0, 500'000};
    nanosleep(&pause, nullptr);
    status = process_->poll_status();
  }
  read_words();
  process_->kill();
  std::string words = last_words(words_);
  std::string how = status == -1 ? "closed its pipe" : status_text(status);
  return {Errc::closed, words.empty() ? how : fmt::format("{}: {}", how, words)};
}

}  // namespace cohort::plugin

#include "runtime/plugin/child/plugin_host.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cohort/reward.h"
#include "runtime/plugin/child/plugin_frames.hpp"
#include "runtime/plugin/native/native_environment.hpp"
#include "runtime/plugin/native/native_reward.hpp"
#include "runtime/plugin/native/native_tool.hpp"

namespace cohort::plugin {
namespace {

constexpr int k_first_fd = 100;  // beyond what a plugin opens or closes by habit

/// The two pipes, moved away from fds 0 and 1.
class Pipe {
 public:
  bool take() {
    in_ = ::fcntl(0, F_DUPFD_CLOEXEC, k_first_fd);
    out_ = ::fcntl(1, F_DUPFD_CLOEXEC, k_first_fd);
    int null = ::open("/dev/null", O_RDONLY);
    return in_ >= 0 && out_ >= 0 && null >= 0 && ::dup2(null, 0) == 0 && ::dup2(2, 1) == 1;
  }
  bool read(Frame& frame) {
    std::array<char, k_frame_head_bytes> head;
    if (!read_all(head.data(), head.size())) return false;
    const auto size = read_head(head.data(), frame);
    if (!size) return false;
    frame.payload.resize(*size);
    return read_all(frame.payload.data(), frame.payload.size());
  }
  void write(uint32_t number, Answer kind, std::string_view payload) {
    if (::getpid() != owner_) ::_exit(0);  // a fork of the plugin that came back here
    std::string bytes = frame_bytes(number, static_cast<uint8_t>(kind), payload);
    for (size_t sent = 0; sent < bytes.size();) {
      ssize_t n = ::write(out_, bytes.data() + sent, bytes.size() - sent);
      if (n < 0 && errno != EINTR) ::_exit(0);  // nobody reads any more
      if (n > 0) sent += static_cast<size_t>(n);
    }
  }

 private:
  bool read_all(char* data, size_t count) {
    for (size_t got = 0; got < count;) {
      ssize_t n = ::read(in_, data + got, count - got);
      if (n == 0 || (n < 0 && errno != EINTR)) return false;
      if (n > 0) got += static_cast<size_t>(n);
    }
    return true;
  }
  int in_ = -1, out_ = -1;
  pid_t owner_ = ::getpid();
};

class Host {
 public:
  explicit Host(Pipe& pipe) : pipe_(pipe) {}

  void handle(const Frame& frame) {
    auto done = dispatch(frame);
    if (!done)
      pipe_.write(frame.number, Answer::failed,
                  failure_payload({Verdict::refused, done.error().code, done.error().detail}));
  }

 private:
  Expected<void> dispatch(const Frame& frame) {
    switch (static_cast<Op>(frame.kind)) {
      case Op::load:
        return load(frame);
      case Op::score:
        return score(frame);
      case Op::reset:
      case Op::step:
        return play(frame);
      case Op::close: {
        COHORT_ASSIGN(WorldCall call, read_world_call(Op::close, frame.payload));
        worlds_.erase(call.world);
        return {};
      }
      case Op::call:
        return call(frame);
    }
    return Error{Errc::protocol, "no such call"};
  }

  Expected<void> load(const Frame& frame) {
    auto json = nlohmann::json::parse(frame.payload, nullptr, false);
    if (!json.is_object()) return Error{Errc::protocol, "load: no JSON object"};
    const std::string path = json.value("path", ""), config = json.value("config", "{}");
    nlohmann::ordered_json loaded{{"form", "native"}};
    if (json.value("kind", "") == "environment") {
      COHORT_ASSIGN(environments_, NativeEnvironments::load(path, config));
      loaded["name"] = environments_->name() == nullptr ? "" : environments_->name();
    } else if (json.value("kind", "") == "tool") {
      COHORT_ASSIGN(tool_, NativeTool::load(path, config));
      output_bytes_max_ = json.value("output_bytes_max", output_bytes_max_);
      loaded["name"] = tool_->name() == nullptr ? "" : tool_->name();
      loaded["schema"] = nlohmann::ordered_json::parse(tool_->schema(), nullptr, false);
      if (!loaded["schema"].is_object())
        return Error{Errc::config, path + ": the schema of the tool is no JSON object"};
    } else {
      COHORT_ASSIGN(reward_, load_native_reward(path, config));
      COHORT_ASSIGN(NativeFacts facts, native_reward_facts(path));
      is_batch_ = facts.is_batch;
      loaded["name"] = facts.name;
      loaded["is_batch"] = facts.is_batch;
    }
    pipe_.write(frame.number, Answer::loaded, loaded.dump());
    return {};
  }

  Expected<void> score(const Frame& frame) {
    if (!reward_) return Error{Errc::protocol, "no reward is loaded"};
    COHORT_ASSIGN(auto rows, read_rows(frame.payload));
    const size_t portion = is_batch_ ? rows.size() : 1;
    for (size_t first = 0; first < rows.size(); first += portion) {
      Results results{.first = static_cast<uint32_t>(first), .rows = {}};
      for (auto& result : reward_->score(std::span(rows).subspan(first, portion))) {
        Verdict verdict = result.error.empty() ? Verdict::scored : Verdict::refused;
        results.rows.push_back({verdict, std::move(result)});
      }
      pipe_.write(frame.number, Answer::results, results_payload(results));
    }
    return {};
  }

  Expected<void> play(const Frame& frame) {
    if (!environments_) return Error{Errc::protocol, "no environment is loaded"};
    const Op op = static_cast<Op>(frame.kind);
    COHORT_ASSIGN(WorldCall call, read_world_call(op, frame.payload));
    auto& world = worlds_[call.world];
    if (!world && op == Op::step) return Error{Errc::protocol, "the world was not reset"};
    if (!world) {
      COHORT_ASSIGN(world, environments_->make());
    }
    auto found = op == Op::reset ? world->reset(call.seed) : world->step(call.answer.text);
    if (!found) return found.error();
    pipe_.write(frame.number, Answer::world, world_payload(*found));
    return {};
  }

  Expected<void> call(const Frame& frame) {
    if (!tool_) return Error{Errc::protocol, "no tool is loaded"};
    COHORT_ASSIGN(const std::string said, tool_->call(frame.payload, output_bytes_max_));
    pipe_.write(frame.number, Answer::output, said);
    return {};
  }

  Pipe& pipe_;
  std::unique_ptr<NativeTool> tool_;
  size_t output_bytes_max_ = size_t{1} << 20;
  std::shared_ptr<tasks::Reward> reward_;
  bool is_batch_ = false;
  std::unique_ptr<NativeEnvironments> environments_;
  std::map<uint64_t, std::unique_ptr<NativeWorld>> worlds_;
};

/// As process 1 of a sandbox: leaves the work to a child, so that signals work as usual and orphans
/// of the plugin are reaped.
void be_init() {
  const pid_t child = ::fork();
  if (child <= 0) return;
  int status = 0;
  for (;;)
    if (::wait(&status) == child)
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace

int serve_plugin_host() {
  if (::getpid() == 1) be_init();
  Pipe pipe;
  if (!pipe.take()) return 2;
  Host host(pipe);
  Frame frame;
  while (pipe.read(frame)) host.handle(frame);
  ::_exit(0);  // a thread that the plugin left must not delay the end
}

}  // namespace cohort::plugin

#pragma once
/// The sandboxes of code_sandbox: answers' sandboxes, started ahead and used once (CODE-2), and
/// judges, which stay. Owner: a code reward. Thread-safe. Bound: `workers` of each in use, as many
/// waiting.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/plugin/code/code_link.hpp"

namespace cohort::plugin {

struct CodePoolOptions {
  SandboxMode mode = SandboxMode::bubblewrap;
  uint32_t workers = 2;
  uint64_t memory_bytes = uint64_t{1} << 30;
  uint64_t file_bytes = uint64_t{16} << 20;
  uint32_t processes = 16;
  size_t max_frame_bytes = size_t{4} << 20;
  std::string python;
  std::vector<std::string> readable;
};

class CodePool {
 public:
  /// Compiles the programs that run inside, once: that would be a third of a sandbox's start.
  /// Returns Errc::unsupported if there is no sandbox, or no Python in it.
  static Expected<std::unique_ptr<CodePool>> open(CodePoolOptions options);
  ~CodePool();
  CodePool(const CodePool&) = delete;
  CodePool& operator=(const CodePool&) = delete;

  /// Waits for one of `workers` places. Returns whether there is one: not after stop().
  bool enter();
  void leave();

  /// Returns a sandbox that no answer has been in. Returns Errc::unsupported, Errc::io,
  /// Errc::cancelled after stop().
  Expected<std::unique_ptr<CodeLink>> take_sample();
  /// Starts the next one, so that it comes up while this one works.
  void prepare_sample();
  Expected<std::unique_ptr<CodeLink>> take_judge();
  /// A judge that has answered in full may be used again.
  void give_back_judge(std::unique_ptr<CodeLink> judge);
  /// Kills a sandbox of take_sample() or take_judge() and reaps it.
  void end(std::unique_ptr<CodeLink> link);

  /// Kills all sandboxes and ends every wait. Any thread.
  void stop();
  bool is_stopped() const;

 private:
  explicit CodePool(CodePoolOptions options) : options_(std::move(options)) {}
  Expected<std::string> compile(std::string_view script) const;
  Expected<std::shared_ptr<SandboxedProcess>> start_python(std::string_view program) const;
  Expected<std::unique_ptr<CodeLink>> start(const std::string& bytecode) const;
  Expected<std::unique_ptr<CodeLink>> take(std::deque<std::unique_ptr<CodeLink>>& waiting,
                                           const std::string& bytecode);
  bool enlist(const std::shared_ptr<SandboxedProcess>& process);

  const CodePoolOptions options_;
  std::string sample_bytecode_, judge_bytecode_;  // of this Python; not changed after open()
  mutable std::mutex mutex_;                      // guards the members below
  std::condition_variable changed_;
  uint32_t inside_ = 0;
  bool is_stopped_ = false;
  std::deque<std::unique_ptr<CodeLink>> samples_, judges_;  // that wait
  std::vector<std::shared_ptr<SandboxedProcess>> used_;
};

}  // namespace cohort::plugin

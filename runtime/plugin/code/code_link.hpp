#pragma once
/// Frames to and from a sandboxed helper over its stdin and stdout: length (4 bytes little-endian),
/// a letter, fields of length and bytes. Owner: one CodeRun or the pool; one thread at a time.
/// Bound: a frame that is longer than `max_bytes` breaks the link, as does anything malformed: the
/// other end is not trusted.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plugin/sandbox/sandbox.hpp"

namespace cohort::plugin {

struct CodeFrame {
  char letter = 0;
  std::vector<std::string> fields;
};

class CodeLink {
 public:
  CodeLink(std::shared_ptr<SandboxedProcess> process, size_t max_bytes);

  SandboxedProcess& process() { return *process_; }
  const std::shared_ptr<SandboxedProcess>& shared_process() const { return process_; }
  /// Queues bytes that come before all frames: the helper's program.
  void push_program(std::string_view bytes);
  /// Queues a frame; transfer() writes it.
  void push(const CodeFrame& frame);
  /// Reads and writes without waiting.
  void transfer();
  /// Returns the oldest frame that has come in whole.
  std::optional<CodeFrame> pop();
  bool has_output() const { return sent_ < output_.size(); }
  bool is_open() const { return is_open_; }      // false: its end of the pipe is closed
  bool is_broken() const { return is_broken_; }  // false: it keeps to the format and the bound

 private:
  void read_some();
  void write_some();

  std::shared_ptr<SandboxedProcess> process_;
  size_t max_bytes_;
  std::string output_, input_;
  size_t sent_ = 0, taken_ = 0;
  bool is_open_ = true, is_broken_ = false;
};

/// Waits until one of the links can go on, at most `timeout_ms`, and transfers. Null: none.
void wait_for(CodeLink* a, CodeLink* b, int timeout_ms);

}  // namespace cohort::plugin

#pragma once
/// One child that has loaded a plugin, and calls to it under a deadline. Owner: a PluginPool, or a
/// caller that took it from one. Thread: one at a time, but kill() from any. Bound: one call under
/// way; frames of frame_bytes_max; the last 2 KiB of the plugin's stderr. PLUGIN-1: next() ends
/// by its deadline, whatever the child does. After an error the child is of no use: drop it.
/// Errors: Errc::timeout, Errc::closed ("exited with 3", "killed by signal 11"), Errc::protocol
/// ("answered garbage"), Errc::capacity.
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/waits.hpp"
#include "runtime/plugin/child/plugin_frames.hpp"
#include "runtime/plugin/sandbox/sandbox.hpp"

namespace cohort::plugin {

/// How to start children of one plugin, and the load order of each.
struct LaunchSpec {
  std::string plugin;  // its path, for messages
  SandboxOptions sandbox;
  std::string preamble;  // bytes that the child reads before its first frame
  std::string load_json;
  double load_timeout_s = 60;                  // interpreter, imports
  size_t frame_bytes_max = k_max_frame_bytes;  // of an answer; more is Errc::capacity
};

/// A child's report of its plugin.
struct Loaded {
  std::string name;            // function or class
  std::string form;            // "verl", "trl", … "native"
  bool is_batch = false;       // rows of a call are answered together
  bool is_concurrent = false;  // rows of a call are judged at once, each with its own deadline
  uint32_t concurrency = 1;
  bool has_stacks = false;  // it writes its stacks to stderr at SIGUSR2
  std::string schema;       // of a tool, JSON; else empty
};

class PluginWorker {
 public:
  /// Starts the child and sends it the load order; await_loaded() returns the result.
  static Expected<std::unique_ptr<PluginWorker>> launch(const LaunchSpec& spec);
  /// Returns Errc::config with the plugin's own words when it cannot be loaded.
  Expected<Loaded> await_loaded();

  /// Begins a call. Nothing may be under way; Op::close has no answer and is over at once.
  void begin(Op op, std::string_view payload);
  /// Returns the next answer to the call, waiting `timeout_s` seconds at most.
  Expected<Frame> next(double timeout_s);
  /// Ends the child and all it started.
  void kill() { process_->kill(); }

 private:
  PluginWorker(std::unique_ptr<SandboxedProcess> process, const LaunchSpec& spec);
  Expected<bool> take_frame(Frame& frame);
  bool send_some();
  bool read_some();
  void read_words();
  Wait wait_for_child(double since, double timeout_s) const;
  void ask_stack() const;
  void take_stack(Wait& wait);
  Error ended();

  std::unique_ptr<SandboxedProcess> process_;
  std::string plugin_;
  pid_t server_ = 0;  // process that answers the calls, once it has loaded
  bool has_stacks_ = false;
  double load_timeout_s_;
  size_t frame_bytes_max_;
  std::string outgoing_;  // not yet taken by the pipe, from sent_ on
  size_t sent_ = 0;
  std::string incoming_;
  size_t taken_ = 0;   // of incoming_
  std::string words_;  // tail of stderr
  uint32_t number_ = 0;
};

}  // namespace cohort::plugin

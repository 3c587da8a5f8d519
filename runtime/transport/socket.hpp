#pragma once
/// The folder's own layer over ZeroMQ's C API: messages, sockets and the wake-up of a pump.
/// Internal. Thread-safety: Part and Socket belong to one thread (a Part may be destroyed by
/// another); Wake::wake is thread-safe.
#include <zmq.h>

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/tensor/buffer.hpp"
#include "runtime/transport/frame.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::transport::detail {

/// A tcp/ipc pipe holds this many frames; inside it the byte credit bounds memory.
inline constexpr int k_hwm_frames = 4096;

/// One part of a ZeroMQ message.
class Part {
 public:
  Part() { zmq_msg_init(&message_); }
  explicit Part(size_t size_bytes);
  /// Shares `bytes` with ZeroMQ without a copy (small ones are copied: cheaper than the
  /// bookkeeping).
  explicit Part(tensor::Buffer bytes);
  ~Part() { zmq_msg_close(&message_); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  Part(Part&& other) noexcept;
  Part& operator=(Part&& other) noexcept;
  std::span<const std::byte> bytes() const;
  std::span<std::byte> mutable_bytes();
  bool has_more() const { return zmq_msg_more(&message_) != 0; }
  zmq_msg_t* native() { return &message_; }

 private:
  mutable zmq_msg_t message_;
};

/// Returns a sealed part 1: header, then payload.
Part make_frame(const FrameHeader& header, std::string_view payload = {});

enum class IoResult { done, again, unreachable };

class Socket {
 public:
  /// `identity` (DEALER only) is the routing id the ROUTER will see.
  static Expected<Socket> open(const std::shared_ptr<Context::Handle>& context, int type,
                               const LinkOptions& options, std::string_view identity);
  Socket() = default;
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }
  void close();
  Expected<std::string> bind(const std::string& endpoint);
  Expected<void> connect(const std::string& endpoint);
  /// Never blocks. After the first part was taken the rest of a message is taken too.
  IoResult send(Part& part, bool has_more);
  /// Never blocks; returns false if nothing is there.
  bool receive(Part& part);
  void* native() const { return socket_; }

 private:
  std::shared_ptr<Context::Handle> context_;
  void* socket_ = nullptr;
  std::string bound_;  // resolved endpoint, or empty
};

/// Wakes a pump that sleeps in wait(). A pump that is awake costs its callers no system call.
class Wake {
 public:
  Wake();
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;
  /// Call after the command is in the pump's inbox.
  void wake();
  /// The pump announces that it will sleep, then looks at its inbox once more, then wait()s.
  void announce_sleep() { is_asleep_.store(true); }
  void stay_awake() { is_asleep_.store(false); }
  /// Waits for the socket (input; output too if asked), a wake() or the timeout.
  void wait(const Socket& socket, bool wants_output, int timeout_ms);

 private:
  int fd_ = -1;
  std::atomic<bool> is_asleep_{false};
};

/// Counters of a link end. Written by the pump, read by any thread.
struct Counters {
  std::atomic<uint64_t> messages{0}, bytes{0}, chunks{0}, resent{0}, acks{0}, corrupt{0}, gaps{0},
      reconnects{0}, rejected{0};

  LinkStats read() const {
    return {messages, bytes, chunks, resent, acks, corrupt, gaps, reconnects, rejected};
  }
};

/// Returns an error text with ZeroMQ's reason.
Error zmq_failure(Errc code, std::string_view what);

/// Checks the options that both ends have. Returns Errc::invalid_argument.
Expected<void> check_options(const LinkOptions& options);
/// Checks an endpoint, which may be known later than the other options. Returns
/// Errc::invalid_argument.
Expected<void> check_endpoint(const LinkOptions& options, const std::string& endpoint);

/// Monotonic milliseconds.
int64_t now_ms();

}  // namespace cohort::transport::detail

#pragma once
/// The producer's pump: one thread that owns the DEALER socket. Internal to runtime/transport.
/// Shared state is behind mutex_; everything under "pump only" is touched by the pump thread alone.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/proto/link_hello.hpp"
#include "runtime/transport/link.hpp"
#include "runtime/transport/socket.hpp"

namespace cohort::transport::detail {

class SenderPump {
 public:
  SenderPump(std::shared_ptr<Context::Handle> context, LinkOptions options,
             Sender::OnFailed on_failed);
  ~SenderPump();
  Expected<void> start();
  Expected<uint64_t> send(Message message, Sender::OnAcked on_acked);
  size_t pending_bytes() const;
  bool wait_drained(int timeout_ms);
  LinkStats stats() const;

 private:
  struct Item {
    uint64_t seq = 0;
    Message message;
    Sender::OnAcked on_acked;
    uint64_t cost = 0;
    uint64_t end_position = 0;  // cost of the session up to and with this message
    uint32_t chunk_count = 1;
  };
  struct Counters {
    std::atomic<uint64_t> messages{0}, bytes{0}, chunks{0}, resent{0}, acks{0}, corrupt{0}, gaps{0},
        reconnects{0}, rejected{0};
  };

  Expected<void> open_socket();
  void follow_consumer();
  std::string where() const;
  void run();
  void sleep();
  void take_inbox();
  bool receive_some();
  void on_frame(const Part& part);
  void on_welcome(std::span<const std::byte> payload);
  void on_ack(uint64_t acked_seq, uint64_t granted);
  void rewind(uint64_t seq, uint32_t chunk);
  bool send_some();
  IoResult send_chunk(const Item& item);
  void on_timers(int64_t now);
  void say_hello(int64_t now);
  void ping(int64_t now);
  void lose_peer(int64_t now, bool is_silent);
  void report_outage(const std::string& what);
  void reopen();
  void fail(Error error);
  bool send_control(FrameKind kind, std::string_view payload = {});

  const std::shared_ptr<Context::Handle> context_;
  const LinkOptions options_;
  const Sender::OnFailed on_failed_;
  const uint64_t session_;
  Wake wake_;

  mutable std::mutex mutex_;
  std::condition_variable drained_;
  std::vector<Item> inbox_;
  uint64_t next_seq_ = 1;
  uint64_t position_ = 0;
  size_t pending_bytes_ = 0;
  bool is_calling_back_ = false;  // acknowledged, but on_acked has not returned
  uint64_t peer_credit_ = 0;      // 0 = not known yet
  std::optional<Error> dead_;
  std::atomic<bool> is_stopping_{false};
  Counters counters_;

  // pump only
  Socket socket_;
  std::string endpoint_;     // where the consumer is, as far as we know; empty: nobody knows
  std::string open_error_;   // of the last try, so that the log says it once
  std::deque<Item> window_;  // not acknowledged; the front has the lowest seq
  std::vector<Item> taken_;
  size_t cursor_ = 0;  // index in window_ of the next frame to send
  uint32_t cursor_chunk_ = 0;
  uint64_t high_seq_ = 0;  // frames up to here (and high_chunk_) went out before: resent
  uint32_t high_chunk_ = 0;
  uint64_t acked_seq_ = 0;
  uint64_t acked_position_ = 0;
  uint64_t granted_ = 0;
  bool is_established_ = false, was_established_ = false, is_outage_reported_ = false;
  bool wants_output_ = false, is_dead_ = false;
  int pings_ = 0;  // since the consumer was heard
  int64_t unconnected_since_ = 0;
  int64_t outage_since_ = 0, last_heard_ = 0, next_ping_ = 0, next_hello_ = 0, socket_since_ = 0;
  int hello_interval_ms_ = 0;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace cohort::transport::detail

#pragma once
/// Verbs for transport tests: a collecting consumer, a message generator, raw ZeroMQ peers.
/// Every wait is for a condition and has an end.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/proto/link_hello.hpp"
#include "runtime/tensor/checksum.hpp"
#include "runtime/transport/frame.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::transport::test {

inline constexpr int k_wait_ms = 20000;  // only a hung test waits that long

/// A value that other threads change and a test waits for.
class Board {
 public:
  template <class F>
  void change(F&& f) {
    std::lock_guard lock(mutex_);
    f();
    changed_.notify_all();
  }
  template <class F>
  bool wait(F&& holds, int timeout_ms = k_wait_ms) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), holds);
  }
  template <class F>
  auto read(F&& f) {
    std::lock_guard lock(mutex_);
    return f();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// Polls a condition that nobody announces (counters).
inline bool eventually(const std::function<bool()>& holds, int timeout_ms = k_wait_ms) {
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (std::chrono::steady_clock::now() < end) {
    if (holds()) return true;
    std::this_thread::yield();
  }
  return holds();
}

inline std::string fresh_endpoint(const std::string& wire) {
  static std::atomic<int> count{0};
  std::string unique = std::to_string(::getpid()) + "." + std::to_string(count++);
  if (wire == "inproc") return "inproc://link." + unique;
  if (wire == "ipc") return "ipc:///tmp/cohort-link-" + unique;
  return "tcp://127.0.0.1:*";
}

inline LinkOptions options_for(const std::string& endpoint, const std::string& name) {
  LinkOptions options;
  options.endpoint = endpoint;
  options.run_id = "run-1";
  options.name = name;
  options.heartbeat_ms = 50;
  options.peer_timeout_ms = 5000;
  return options;
}

/// Message `number` of a seed; the content is a function of both, so that a reader can check it.
inline Message make_message(uint64_t number, size_t body_bytes, uint64_t seed = 1) {
  Message message;
  message.type = static_cast<uint32_t>(number % 1000);
  message.header = "header " + std::to_string(number);
  message.body = tensor::Buffer::allocate(body_bytes);
  Rng rng = Rng(seed).fork(number);
  std::span<std::byte> bytes = message.body.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t bits = rng.next_u64();
    std::memcpy(bytes.data() + i, &bits, std::min<size_t>(8, bytes.size() - i));
  }
  return message;
}

inline void expect_message(const Message& message, uint64_t number, size_t body_bytes,
                           uint64_t seed = 1) {
  Message expected = make_message(number, body_bytes, seed);
  EXPECT_EQ(message.type, expected.type);
  EXPECT_EQ(message.header, expected.header);
  ASSERT_EQ(message.body.size_bytes(), body_bytes);
  EXPECT_EQ(tensor::checksum64(message.body.bytes()), tensor::checksum64(expected.body.bytes()));
}

/// A consumer that keeps what it gets; acknowledges at once unless told to hold.
struct Consumer {
  Board board;
  std::vector<Delivery> deliveries;
  std::vector<std::pair<std::string, Error>> lost;
  std::atomic<bool> acks_at_once{true};
  std::unique_ptr<Receiver> receiver;

  void open(Context& context, LinkOptions options) {
    auto try_open = [&] {
      return Receiver::open(
          context, options,
          [this](Delivery delivery) {
            if (acks_at_once) delivery.ack();
            board.change([&] { deliveries.push_back(std::move(delivery)); });
          },
          [this](std::string peer, Error error) {
            board.change([&] { lost.emplace_back(std::move(peer), std::move(error)); });
          });
    };
    // ZeroMQ's I/O thread gives a port back a moment after its socket is closed.
    auto opened = try_open();
    for (int tries = 0; !opened && opened.error().code == Errc::io && tries < 2000; ++tries) {
      ::usleep(1000);
      opened = try_open();
    }
    ASSERT_TRUE(opened) << opened.error().to_string();
    receiver = std::move(*opened);
  }
  bool wait_for(size_t count) {
    return board.wait([&] { return deliveries.size() >= count; });
  }
  bool wait_lost(size_t count) {
    return board.wait([&] { return lost.size() >= count; });
  }
  size_t count() {
    return board.read([&] { return deliveries.size(); });
  }
};

/// A producer that keeps its acknowledgements and failures.
struct Producer {
  Board board;
  std::vector<uint64_t> acked;
  std::vector<Error> failures;
  std::unique_ptr<Sender> sender;

  void open(Context& context, LinkOptions options) {
    auto opened = Sender::open(context, std::move(options), [this](Error error) {
      board.change([&] { failures.push_back(std::move(error)); });
    });
    ASSERT_TRUE(opened) << opened.error().to_string();
    sender = std::move(*opened);
  }
  Expected<uint64_t> send(Message message) {
    return sender->send(std::move(message),
                        [this](uint64_t seq) { board.change([&] { acked.push_back(seq); }); });
  }
  /// Sends, waiting for room as a polite application does.
  void send_when_room(const Message& message) {
    ASSERT_TRUE(eventually([&] {
      auto sent = send(message);
      EXPECT_TRUE(sent || sent.error().code == Errc::backpressure) << sent.error().to_string();
      return sent.has_value() || sent.error().code != Errc::backpressure;
    }));
  }
  bool wait_acked(size_t count) {
    return board.wait([&] { return acked.size() >= count; });
  }
  bool wait_failed(size_t count) {
    return board.wait([&] { return failures.size() >= count; });
  }
  size_t acked_count() {
    return board.read([&] { return acked.size(); });
  }
};

/// A bare DEALER that speaks the wire format as badly as a test wants.
class RawProducer {
 public:
  RawProducer(const std::string& endpoint, uint64_t session) : session_(session) {
    context_ = zmq_ctx_new();
    socket_ = zmq_socket(context_, ZMQ_DEALER);
    std::string identity = "S";
    for (int i = 0; i < 8; ++i) identity.push_back(static_cast<char>(session >> (8 * i) & 0xff));
    int linger = 0, timeout = k_wait_ms;
    zmq_setsockopt(socket_, ZMQ_ROUTING_ID, identity.data(), identity.size());
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout, sizeof(timeout));
    EXPECT_EQ(zmq_connect(socket_, endpoint.c_str()), 0);
  }
  ~RawProducer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  RawProducer(const RawProducer&) = delete;
  RawProducer& operator=(const RawProducer&) = delete;

  void send_raw(std::string_view first, std::string_view second = {}) {
    zmq_send(socket_, first.data(), first.size(), second.empty() ? 0 : ZMQ_SNDMORE);
    if (!second.empty()) zmq_send(socket_, second.data(), second.size(), 0);
  }
  void send_frame(FrameHeader header, std::string_view payload = {}, std::string_view body = {}) {
    header.session = session_;
    std::string part(sizeof(FrameHeader) + payload.size(), '\0');
    payload.copy(part.data() + sizeof(FrameHeader), payload.size());
    seal(header, std::as_writable_bytes(std::span(part)));
    send_raw(part, body);
  }
  void send_hello(proto::LinkHello hello) {
    FrameHeader header;
    header.kind = FrameKind::hello;
    send_frame(header, proto::encode_hello(hello));
  }
  static proto::LinkHello good_hello() { return {1, 1, "run-1", "raw", 1, 0, 1 << 20, 1000}; }
  /// Returns the next frame of `kind` (its payload in `payload`), skipping others.
  bool receive(FrameKind kind, std::string& payload) {
    std::string buffer(1 << 16, '\0');
    for (;;) {
      int size = zmq_recv(socket_, buffer.data(), buffer.size(), 0);
      if (size < 0) return false;
      auto bytes = std::as_bytes(std::span(buffer)).first(static_cast<size_t>(size));
      auto header = unseal(bytes);
      if (header && header->kind == kind) {
        payload =
            buffer.substr(sizeof(FrameHeader), static_cast<size_t>(size) - sizeof(FrameHeader));
        return true;
      }
    }
  }

 private:
  uint64_t session_;
  void* context_;
  void* socket_;
};

/// A ROUTER that takes a producer's hello and then dies as a killed process does: no bye.
class RawConsumer {
 public:
  explicit RawConsumer(const std::string& endpoint) {
    context_ = zmq_ctx_new();
    socket_ = zmq_socket(context_, ZMQ_ROUTER);
    int linger = k_wait_ms, timeout = k_wait_ms;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout, sizeof(timeout));
    EXPECT_EQ(zmq_bind(socket_, endpoint.c_str()), 0);
    std::array<char, 256> text{};
    size_t size = text.size();
    EXPECT_EQ(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text.data(), &size), 0);
    endpoint_ = text.data();
  }
  ~RawConsumer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  RawConsumer(const RawConsumer&) = delete;
  RawConsumer& operator=(const RawConsumer&) = delete;
  const std::string& endpoint() const { return endpoint_; }

  /// Answers the next hello; returns after a data frame has come.
  void welcome_and_take_data() {
    for (;;) {
      std::string identity(9, '\0'), part(1 << 12, '\0');
      ASSERT_EQ(zmq_recv(socket_, identity.data(), identity.size(), 0), 9);
      int size = zmq_recv(socket_, part.data(), part.size(), 0);
      ASSERT_GT(size, 0);
      auto header = unseal(std::as_bytes(std::span(part)).first(static_cast<size_t>(size)));
      int more = 0;
      size_t more_size = sizeof(more);
      zmq_getsockopt(socket_, ZMQ_RCVMORE, &more, &more_size);
      if (more != 0) zmq_recv(socket_, part.data(), part.size(), 0);
      ASSERT_TRUE(header);
      if (header->kind == FrameKind::data) return;
      if (header->kind == FrameKind::hello) send_welcome(identity, header->session);
    }
  }

 private:
  void send_welcome(const std::string& identity, uint64_t session) {
    FrameHeader header;
    header.kind = FrameKind::welcome;
    header.session = session;
    std::string payload = proto::encode_welcome({1, 1, 0, 0, 1 << 20, 1 << 20, "raw"});
    std::string part(sizeof(FrameHeader) + payload.size(), '\0');
    payload.copy(part.data() + sizeof(FrameHeader), payload.size());
    seal(header, std::as_writable_bytes(std::span(part)));
    zmq_send(socket_, identity.data(), identity.size(), ZMQ_SNDMORE);
    zmq_send(socket_, part.data(), part.size(), 0);
  }
  std::string endpoint_;
  void* context_;
  void* socket_;
};

}  // namespace cohort::transport::test

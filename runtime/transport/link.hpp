#pragma once
/// Links of the data plane: many producers (Sender, DEALER) to one consumer (Receiver, ROUTER) over
/// inproc, ipc or tcp. Wire format: docs/wire.md.
///
/// Promises of a link:
///   LINK-1 each message of a producer session is delivered exactly once and in order, whatever the
///          wire drops, doubles, delays or corrupts, as long as the two ends live. A consumer that
///          was restarted gets again what it had not acknowledged (then FLOW-1 holds by the
///          reader).
///   LINK-2 nothing is acknowledged on the wire before the consumer called ack() for it and for all
///          before it (FLOW-2); acknowledgement may be withheld for any time.
///   LINK-3 a producer holds at most queue_bytes, and at most credit_bytes of one producer are at
///          the consumer without ack() (FLOW-4). A message costs header + body +
///          k_message_overhead_bytes.
///   LINK-4 an end may close, or its process die, at any time and with bytes under way; no other
///          process ends of it.
///
/// Threads: each link end owns one pump thread, which alone touches its socket and runs all
/// callbacks; a callback must be short and must not destroy its link. All methods may be called
/// from any thread. Destructors join the pump: they wait for a running callback, else a few
/// milliseconds.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/tensor/buffer.hpp"

namespace cohort::transport {

// A closing link's last words (bye, acks) may take this long.
inline constexpr int k_linger_ms = 100;

/// The ZeroMQ context of a process, one per process (tests may have several). Links share ownership
/// of the sockets' context, so the order of destruction does not matter: the last link ends it, and
/// waits at most k_linger_ms for bytes still in sockets. inproc endpoints are names inside one
/// Context. Thread-safe.
class Context {
 public:
  /// `io_threads` serve tcp and ipc; inproc needs none of them.
  explicit Context(int io_threads = 1);
  struct Handle;
  /// For the folder's own use.
  const std::shared_ptr<Handle>& handle() const { return handle_; }

 private:
  std::shared_ptr<Handle> handle_;
};

inline constexpr uint32_t k_protocol_min = 1, k_protocol_max = 1;
inline constexpr size_t k_message_overhead_bytes = 128;  // what a message costs besides its bytes
inline constexpr size_t k_max_header_bytes = size_t{4} << 20;  // of Message::header
inline constexpr size_t k_max_chunk_bytes = size_t{4} << 20;
inline constexpr size_t k_min_chunk_bytes = 1024;

/// `type` and `header` belong to the application; `body` is shared, never copied, by the producer.
/// A producer that knows the xxh3-64 of a body of at most chunk_bytes spares the link computing it.
struct Message {
  uint32_t type = 0;
  std::string header;
  tensor::Buffer body;
  std::optional<uint64_t> body_checksum = {};
};

/// Keys in Z85 (40 characters), tcp only: the cluster's pair, the same at both ends. A producer
/// also names the consumer's public key, which is that of the pair; a consumer lets in only
/// producers whose public key is its own.
struct CurveKeys {
  std::string public_key, secret_key, server_key;
  bool empty() const { return secret_key.empty(); }
};

struct LinkOptions {
  std::string endpoint;  // "inproc://name", "ipc:///path", "tcp://127.0.0.1:*"
  std::string run_id;    // both ends must name the same run
  std::string name;      // for errors and logs, e.g. "rollout.0->reward"
  /// The consumer's name in the run, or the name that a producer looks for. A port that is given
  /// again may belong to another consumer by now, which does not answer such a hello; the producer
  /// asks on.
  std::string service = {};
  size_t credit_bytes = size_t{64} << 20;  // consumer: granted to each producer
  size_t queue_bytes = size_t{64} << 20;   // producer: waiting and unacknowledged
  size_t chunk_bytes = size_t{1} << 20;    // producer: a longer body is cut
  int heartbeat_ms = 1000;
  int peer_timeout_ms = 10000;  // silence after which the peer counts as lost
  /// Consumer: false leaves the checksum of a body that came in one chunk to the reader, who has a
  /// checksum of its own in the message's header; the link does not send such a body again.
  bool verifies_bodies = true;
  /// Producer: time without a connection after which the consumer counts as lost, checked at a
  /// heartbeat; a process that ends closes its connections at once. 0: by silence only.
  int disconnect_grace_ms = 0;
  CurveKeys curve;
  bool is_insecure = false;  // tcp beyond loopback without keys, because the user said so
  /// Producer, instead of `endpoint`: the consumer's present endpoint, empty while it is unknown
  /// (the producer keeps its queue and the last known endpoint). Asked by open(), then on the
  /// pump's thread with each hello, when the link connects anew, and at a heartbeat that the
  /// consumer does not answer, so that a consumer may come back elsewhere; it must not block for
  /// long.
  std::function<std::string()> resolve = {};
  /// Consumer: told the resolved endpoint once it is bound, before open() returns.
  std::function<void(const std::string& endpoint)> announce = {};
};

/// Counters of one link end since open().
struct LinkStats {
  uint64_t messages = 0;    // sent for the first time / delivered
  uint64_t bytes = 0;       // headers and bodies of those
  uint64_t chunks = 0;      // data frames on the wire, resent ones included
  uint64_t resent = 0;      // of those, sent again / received again and dropped
  uint64_t acks = 0;        // acknowledgement frames
  uint64_t corrupt = 0;     // frames dropped for their checksum
  uint64_t gaps = 0;        // resends requested
  uint64_t reconnects = 0;  // handshakes after the first
  uint64_t rejected = 0;    // peers turned away: run id, protocol, limits
};

namespace detail {
class AckHandle;
}  // namespace detail

/// A message at the consumer. Copies share one acknowledgement.
struct Delivery {
  std::string peer;      // name of the producer's link end
  uint64_t session = 0;  // of the producer
  uint64_t seq = 0;      // 1, 2, 3, … per session
  Message message;
  /// Tells the producer that it may forget the message. Thread-safe, idempotent, in any order, also
  /// after the Receiver is gone (then without effect).
  void ack() const;

  std::shared_ptr<detail::AckHandle> handle;
};

/// Consumer end.
class Receiver {
 public:
  using Delivery = transport::Delivery;
  using OnDelivery = std::function<void(Delivery)>;
  /// Errc::timeout: silent for peer_timeout_ms (its session resumes if it comes back).
  /// Errc::protocol, Errc::corrupt: turned away after it was let in. Not reported: a producer that
  /// closes in order, and one that is refused at its first hello (of another run or attempt, or one
  /// too many), which hears why; the log names it and LinkStats::rejected counts it.
  using OnPeerLost = std::function<void(std::string peer, Error)>;

  /// Binds and starts. Returns Errc::io if the endpoint cannot be bound, Errc::invalid_argument if
  /// an option makes no sense (a tcp endpoint beyond loopback without CURVE keys is one).
  static Expected<std::unique_ptr<Receiver>> open(Context& context, LinkOptions options,
                                                  OnDelivery on_delivery, OnPeerLost on_peer_lost);
  virtual ~Receiver() = default;
  /// Returns the resolved endpoint, e.g. with the port the system chose.
  virtual std::string endpoint() const = 0;
  virtual LinkStats stats() const = 0;
};

/// Producer end.
class Sender {
 public:
  using OnAcked = std::function<void(uint64_t seq)>;
  /// Errc::timeout: the consumer is silent, or was without a connection for disconnect_grace_ms;
  /// the link keeps trying and resumes if it comes back (once per outage). Any other code: the
  /// consumer turned us away; the link is dead and send() says so.
  using OnFailed = std::function<void(Error)>;

  /// Connects and starts; the consumer may appear later. Returns Errc::invalid_argument or
  /// Errc::io.
  static Expected<std::unique_ptr<Sender>> open(Context& context, LinkOptions options,
                                                OnFailed on_failed);
  /// Says goodbye without waiting for acknowledgements (wait_drained() before, if they matter).
  virtual ~Sender() = default;
  /// Queues a message and returns its seq; never blocks. `on_acked` runs once, in order of seq, on
  /// the pump thread. Returns Errc::backpressure if queue_bytes are in use (retry after an ack),
  /// Errc::capacity if the message can never fit, Errc::closed if the link is dead.
  virtual Expected<uint64_t> send(Message message, OnAcked on_acked = {}) = 0;
  /// Returns the cost of all messages that are not acknowledged.
  virtual size_t pending_bytes() const = 0;
  /// Returns true when nothing is pending and every on_acked has returned, false after `timeout_ms`
  /// or when the link is dead. Not for callbacks.
  virtual bool wait_drained(int timeout_ms) = 0;
  virtual LinkStats stats() const = 0;
};

}  // namespace cohort::transport

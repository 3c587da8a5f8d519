#include "runtime/transport/socket.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/listen.hpp"
#include "runtime/transport/keeper.hpp"

namespace cohort::transport {

struct Context::Handle {
  void* context = zmq_ctx_new();
  std::once_flag keeper_is_made;
  std::unique_ptr<detail::Keeper> keeper;  // of tcp endpoints, made with the first of them

  detail::Keeper& door_keeper() {
    std::call_once(keeper_is_made, [&] { keeper = std::make_unique<detail::Keeper>(context); });
    return *keeper;
  }
  ~Handle() {
    zmq_ctx_shutdown(context);  // every link has gone; this ends the keeper's thread
    keeper.reset();
    while (zmq_ctx_term(context) != 0 && zmq_errno() == EINTR) {
    }
  }
};

Context::Context(int io_threads) : handle_(std::make_shared<Handle>()) {
  COHORT_CHECK(handle_->context != nullptr, "zmq_ctx_new failed");
  zmq_ctx_set(handle_->context, ZMQ_IO_THREADS, io_threads);
  zmq_ctx_set(handle_->context, ZMQ_MAX_SOCKETS, 4096);
}

namespace detail {

namespace {

constexpr int k_backlog = 1024;        // ZeroMQ's 100 makes a burst of peers wait for seconds
constexpr size_t k_copy_bytes = 4096;  // below, a memcpy is cheaper than zmq's reference block

void free_buffer(void*, void* hint) { delete static_cast<tensor::Buffer*>(hint); }

bool set(void* socket, int option, int value) {
  return zmq_setsockopt(socket, option, &value, sizeof(value)) == 0;
}

bool set(void* socket, int option, std::string_view value) {
  return zmq_setsockopt(socket, option, value.data(), value.size()) == 0;
}

bool set_curve(void* socket, int type, const CurveKeys& keys) {
  // zmq wants the terminating zero of a Z85 key.
  auto set_key = [&](int option, const std::string& key) {
    return zmq_setsockopt(socket, option, key.c_str(), key.size() + 1) == 0;
  };
  if (type == ZMQ_ROUTER)
    return set(socket, ZMQ_CURVE_SERVER, 1) && set_key(ZMQ_CURVE_SECRETKEY, keys.secret_key) &&
           set(socket, ZMQ_ZAP_DOMAIN, keys.public_key);  // DOOR-1: what a client's key must be
  return set_key(ZMQ_CURVE_SERVERKEY, keys.server_key) &&
         set_key(ZMQ_CURVE_PUBLICKEY, keys.public_key) &&
         set_key(ZMQ_CURVE_SECRETKEY, keys.secret_key);
}

/// A peer that vanished without a word: the kernel ends the tcp connection, the session (its pings)
/// does the rest. Never ZMQ_HEARTBEAT_IVL: libzmq 4.3.4's heartbeat timer writes to an engine whose
/// connection the peer has closed while its input was stopped (a full pipe, a socket being closed),
/// and aborts the process ("Assertion failed: !_io_error", libzmq issue 4364; link_close_test).
bool set_silence(void* socket, const LinkOptions& options) {
  auto seconds = [](int ms) { return std::max(1, ms / 1000); };
  const int interval = seconds(options.heartbeat_ms);
  return set(socket, ZMQ_TCP_MAXRT, options.peer_timeout_ms) && set(socket, ZMQ_TCP_KEEPALIVE, 1) &&
         set(socket, ZMQ_TCP_KEEPALIVE_IDLE, interval) &&
         set(socket, ZMQ_TCP_KEEPALIVE_INTVL, interval) &&
         set(socket, ZMQ_TCP_KEEPALIVE_CNT,
             std::max(1, seconds(options.peer_timeout_ms) / interval));
}

bool set_options(void* socket, int type, const LinkOptions& options, std::string_view identity) {
  int64_t max_message = static_cast<int64_t>(
      sizeof(FrameHeader) +
      (k_max_header_bytes > k_max_chunk_bytes ? k_max_header_bytes : k_max_chunk_bytes));
  bool ok = set(socket, ZMQ_LINGER, k_linger_ms) && set(socket, ZMQ_SNDHWM, k_hwm_frames) &&
            set(socket, ZMQ_RCVHWM, k_hwm_frames) &&
            set(socket, ZMQ_HANDSHAKE_IVL, k_handshake_ms) && set_silence(socket, options) &&
            zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_message, sizeof(max_message)) == 0;
  if (type == ZMQ_ROUTER)
    ok = ok && set(socket, ZMQ_ROUTER_MANDATORY, 1) && set(socket, ZMQ_ROUTER_HANDOVER, 1) &&
         set(socket, ZMQ_BACKLOG, k_backlog);
  else
    ok = ok && set(socket, ZMQ_ROUTING_ID, identity) && set(socket, ZMQ_IMMEDIATE, 1) &&
         set(socket, ZMQ_RECONNECT_IVL, 20) && set(socket, ZMQ_RECONNECT_IVL_MAX, 1000);
  if (!options.curve.empty()) ok = ok && set_curve(socket, type, options.curve);
  return ok;
}

}  // namespace

Part::Part(size_t size_bytes) {
  COHORT_CHECK(zmq_msg_init_size(&message_, size_bytes) == 0, "zmq: out of memory");
}

Part::Part(tensor::Buffer bytes) {
  size_t size_bytes = bytes.size_bytes();
  if (size_bytes <= k_copy_bytes) {
    COHORT_CHECK(zmq_msg_init_size(&message_, size_bytes) == 0, "zmq: out of memory");
    if (size_bytes > 0) std::memcpy(zmq_msg_data(&message_), bytes.bytes().data(), size_bytes);
    return;
  }
  auto* owner = new tensor::Buffer(std::move(bytes));
  // zmq only reads what it sends; its C API has no const form.
  auto* data = const_cast<std::byte*>(owner->bytes().data());
  COHORT_CHECK(zmq_msg_init_data(&message_, data, size_bytes, free_buffer, owner) == 0,
               "zmq: out of memory");
}

Part::Part(Part&& other) noexcept {
  zmq_msg_init(&message_);
  zmq_msg_move(&message_, &other.message_);
}

Part& Part::operator=(Part&& other) noexcept {
  if (this != &other) zmq_msg_move(&message_, &other.message_);
  return *this;
}

std::span<const std::byte> Part::bytes() const {
  return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
}

std::span<std::byte> Part::mutable_bytes() {
  return {static_cast<std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
}

Part make_frame(const FrameHeader& header, std::string_view payload) {
  Part part(sizeof(FrameHeader) + payload.size());
  if (!payload.empty())
    std::memcpy(part.mutable_bytes().data() + sizeof(FrameHeader), payload.data(), payload.size());
  seal(header, part.mutable_bytes());
  return part;
}

Expected<Socket> Socket::open(const std::shared_ptr<Context::Handle>& context, int type,
                              const LinkOptions& options, std::string_view identity) {
  Socket result;
  result.context_ = context;
  result.socket_ = zmq_socket(context->context, type);
  if (result.socket_ == nullptr)
    return zmq_failure(Errc::io, "link " + options.name + ": cannot create a socket");
  if (!set_options(result.socket_, type, options, identity))
    return zmq_failure(Errc::invalid_argument, "link " + options.name + ": cannot set an option");
  if (type == ZMQ_ROUTER && options.endpoint.starts_with("tcp://"))
    COHORT_TRY(context->door_keeper().watch(result.socket_, options.name, !options.curve.empty()));
  return result;
}

Socket::Socket(Socket&& other) noexcept
    : context_(std::move(other.context_)),
      socket_(std::exchange(other.socket_, nullptr)),
      bound_(std::move(other.bound_)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    context_ = std::move(other.context_);
    socket_ = std::exchange(other.socket_, nullptr);
    bound_ = std::move(other.bound_);
  }
  return *this;
}

void Socket::close() {
  if (void* socket = std::exchange(socket_, nullptr)) {
    // libzmq's reaper frees the name some time later; the end that replaces this one binds it now.
    if (bound_.starts_with("inproc://")) zmq_unbind(socket, bound_.c_str());
    zmq_close(socket);
  }
  context_.reset();
}

Expected<std::string> Socket::bind(const std::string& endpoint) {
  if (zmq_bind(socket_, endpoint.c_str()) != 0)
    return zmq_failure(Errc::io, "cannot bind " + endpoint);
  std::array<char, 1024> text{};
  size_t size = text.size();
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text.data(), &size) != 0 || size == 0)
    return zmq_failure(Errc::io, "cannot resolve " + endpoint);
  bound_ = std::string(text.data(), size - 1);
  return bound_;
}

Expected<void> Socket::connect(const std::string& endpoint) {
  if (zmq_connect(socket_, endpoint.c_str()) != 0)
    return zmq_failure(Errc::io, "cannot connect to " + endpoint);
  return {};
}

IoResult Socket::send(Part& part, bool has_more) {
  int flags = ZMQ_DONTWAIT | (has_more ? ZMQ_SNDMORE : 0);
  while (zmq_msg_send(part.native(), socket_, flags) < 0) {
    int error = zmq_errno();
    if (error == EINTR) continue;
    return error == EAGAIN ? IoResult::again : IoResult::unreachable;
  }
  return IoResult::done;
}

bool Socket::receive(Part& part) {
  while (zmq_msg_recv(part.native(), socket_, ZMQ_DONTWAIT) < 0)
    if (zmq_errno() != EINTR) return false;
  return true;
}

Wake::Wake() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  COHORT_CHECK(fd_ >= 0, "eventfd: out of file descriptors");
}

Wake::~Wake() { ::close(fd_); }

void Wake::wake() {
  if (!is_asleep_.exchange(false)) return;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = ::write(fd_, &one, sizeof(one));
}

void Wake::wait(const Socket& socket, bool wants_output, int timeout_ms) {
  std::array<zmq_pollitem_t, 2> items{};
  items[0].fd = fd_;
  items[0].events = ZMQ_POLLIN;
  items[1].socket = socket.native();
  items[1].events = static_cast<short>(ZMQ_POLLIN | (wants_output ? ZMQ_POLLOUT : 0));
  int count = socket.native() != nullptr ? 2 : 1;
  zmq_poll(items.data(), count, timeout_ms);
  stay_awake();
  if ((items[0].revents & ZMQ_POLLIN) != 0) {
    uint64_t ignored = 0;
    [[maybe_unused]] ssize_t read_bytes = ::read(fd_, &ignored, sizeof(ignored));
  }
}

Error zmq_failure(Errc code, std::string_view what) {
  return {code, fmt::format("{}: {}", what, zmq_strerror(zmq_errno()))};
}

namespace {

/// "tcp://[::1]:5555" -> "[::1]"; the interface "lo" is loopback by another name.
std::string_view host_of(std::string_view endpoint) {
  endpoint.remove_prefix(std::string_view("tcp://").size());
  const std::string_view host = endpoint.substr(0, endpoint.rfind(':'));
  return host == "lo" ? "localhost" : host;
}

Error refusal(const LinkOptions& options, const std::string& endpoint, std::string_view what) {
  return {Errc::invalid_argument, fmt::format("link {} ({}): {}", options.name, endpoint, what)};
}

}  // namespace

Expected<void> check_options(const LinkOptions& options) {
  auto refuse = [&](std::string_view what) { return refusal(options, options.endpoint, what); };
  if (options.chunk_bytes < k_min_chunk_bytes || options.chunk_bytes > k_max_chunk_bytes)
    return refuse(fmt::format("chunk_bytes {} is not in [{}, {}]", options.chunk_bytes,
                              k_min_chunk_bytes, k_max_chunk_bytes));
  if (options.heartbeat_ms <= 0 || options.peer_timeout_ms <= options.heartbeat_ms)
    return refuse("heartbeat_ms must be positive and below peer_timeout_ms");
  if (options.credit_bytes <= k_message_overhead_bytes ||
      options.queue_bytes <= k_message_overhead_bytes)
    return refuse("credit_bytes and queue_bytes must hold at least a message");
  if (options.resolve) return {};  // the endpoint is checked when it is known
  return check_endpoint(options, options.endpoint);
}

Expected<void> check_endpoint(const LinkOptions& options, const std::string& endpoint) {
  bool is_tcp = endpoint.starts_with("tcp://");
  if (!is_tcp && !endpoint.starts_with("ipc://") && !endpoint.starts_with("inproc://"))
    return refusal(options, endpoint, "endpoint is neither inproc://, ipc:// nor tcp://");
  if (!options.curve.empty() && !is_tcp)
    return refusal(options, endpoint, "curve keys are for tcp only");
  if (!options.curve.empty() && options.curve.public_key.empty())
    return refusal(options, endpoint, "curve keys are a pair: the public one is missing");
  if (!is_tcp) return {};
  auto allowed = check_exposure(host_of(endpoint), {.has_credentials = !options.curve.empty(),
                                                    .is_insecure = options.is_insecure});
  if (!allowed) return refusal(options, endpoint, allowed.error().detail);
  return {};
}

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace detail
}  // namespace cohort::transport

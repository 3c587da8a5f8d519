#include "runtime/transport/keeper.hpp"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"
#include "runtime/transport/socket.hpp"

namespace cohort::transport::detail {

namespace {

constexpr const char *k_zap_endpoint = "inproc://zeromq.zap.01",
                     *k_command_endpoint = "inproc://cohort.keeper";
constexpr int64_t k_log_ms = 10000;
constexpr int k_look_ms = 100;  // how often strangers are looked at
// Greeting (64 bytes) and WELCOME (170): a server sends more only to a client that has shown its
// keys, beginning with READY.
constexpr uint64_t k_bytes_to_stranger = 64 + 170;
constexpr size_t k_key_bytes = 32, k_key_chars = 40;

/// Receives one message of short parts; empty when there is none.
std::vector<std::string> receive_parts(void* socket) {
  std::vector<std::string> parts;
  int has_more = 1;
  while (has_more != 0) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&message);
      break;
    }
    parts.emplace_back(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    has_more = zmq_msg_more(&message);
    zmq_msg_close(&message);
  }
  return parts;
}

uint64_t cookie_of(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return ::getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

struct Traffic {
  uint64_t sent = 0, received = 0;
};

/// Returns nullopt if `fd` is no tcp socket, or the kernel (before 4.19) does not count.
std::optional<Traffic> traffic_of(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_bytes_sent) + sizeof(info.tcpi_bytes_sent))
    return std::nullopt;
  return Traffic{info.tcpi_bytes_sent, info.tcpi_bytes_received};
}

/// The port of "tcp://10.0.0.7:5555", 0 if there is none.
uint16_t port_of(std::string_view endpoint) {
  const size_t colon = endpoint.rfind(':');
  uint16_t port = 0;
  if (colon != std::string_view::npos)
    std::from_chars(endpoint.data() + colon + 1, endpoint.data() + endpoint.size(), port);
  return port;
}

uint16_t local_port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

/// DOOR-1. A ZAP request: version, id, domain, address, identity, mechanism, credentials. The
/// domain is the key that the consumer asks for (Socket::open), in Z85.
bool is_member(const std::vector<std::string>& request) {
  if (request.size() != 7 || request[5] != "CURVE" || request[6].size() != k_key_bytes)
    return false;
  std::array<char, k_key_chars + 1> key{};
  zmq_z85_encode(key.data(), reinterpret_cast<const uint8_t*>(request[6].data()), k_key_bytes);
  return request[2].size() == k_key_chars && request[2] == key.data();
}

}  // namespace

Keeper::Keeper(void* context)
    : context_(context),
      zap_(zmq_socket(context, ZMQ_REP)),
      commands_(zmq_socket(context, ZMQ_PULL)) {
  COHORT_CHECK(zap_ != nullptr && commands_ != nullptr && zmq_bind(zap_, k_zap_endpoint) == 0 &&
                   zmq_bind(commands_, k_command_endpoint) == 0,
               "zmq: no keeper");
  thread_ = std::thread([this] { run(); });
}

Keeper::~Keeper() { thread_.join(); }

Expected<void> Keeper::watch(void* socket, const std::string& name, bool has_keys) {
  std::lock_guard lock(mutex_);
  const std::string events = fmt::format("inproc://cohort.keeper.{}", doors_made_++);
  const std::string command = fmt::format("{}\n{}\n{}", events, has_keys ? 1 : 0, name);
  void* commander = zmq_socket(context_, ZMQ_PUSH);
  const int linger_ms = -1;
  const bool is_told = commander != nullptr &&
                       zmq_setsockopt(commander, ZMQ_LINGER, &linger_ms, sizeof(linger_ms)) == 0 &&
                       zmq_socket_monitor(socket, events.c_str(),
                                          ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                                              ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                              ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                              ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) == 0 &&
                       zmq_connect(commander, k_command_endpoint) == 0 &&
                       zmq_send(commander, command.data(), command.size(), 0) >= 0;
  Expected<void> result;
  if (!is_told) result = zmq_failure(Errc::io, "link " + name + ": cannot be watched");
  if (commander != nullptr) zmq_close(commander);
  return result;
}

void Keeper::run() {
  while (!is_over_) {
    wait();
    const int64_t now = now_ms();
    for (Door& door : doors_) {
      while (door.events != nullptr && take_event(door)) {
      }
      look_at(door, now);
    }
    std::erase_if(doors_, [](const Door& door) { return door.events == nullptr; });
  }
  for (Door& door : doors_) zmq_close(door.events);
  zmq_close(commands_);
  zmq_close(zap_);
}

void Keeper::wait() {
  std::vector<zmq_pollitem_t> items{{zap_, 0, ZMQ_POLLIN, 0}, {commands_, 0, ZMQ_POLLIN, 0}};
  bool has_strangers = false;
  for (const Door& door : doors_) {
    items.push_back({door.events, 0, ZMQ_POLLIN, 0});
    has_strangers = has_strangers || !door.strangers.empty();
  }
  const int count =
      zmq_poll(items.data(), static_cast<int>(items.size()), has_strangers ? k_look_ms : -1);
  if (count < 0 && zmq_errno() == ETERM) is_over_ = true;
  if (count <= 0) return;
  if (items[0].revents != 0) answer();
  if (items[1].revents != 0) open_door();
}

void Keeper::answer() {
  const std::vector<std::string> request = receive_parts(zap_);
  if (request.size() < 2) return;
  const bool is_known = is_member(request);
  const std::array<std::string, 6> reply{
      "1.0", request[1], is_known ? "200" : "400", is_known ? "OK" : "not of this cluster", "", ""};
  for (size_t i = 0; i < reply.size(); ++i)
    zmq_send(zap_, reply[i].data(), reply[i].size(),
             ZMQ_DONTWAIT | (i + 1 < reply.size() ? ZMQ_SNDMORE : 0));
}

void Keeper::open_door() {
  const std::vector<std::string> command = receive_parts(commands_);
  if (command.empty()) return;
  const size_t first = command[0].find('\n'), second = command[0].find('\n', first + 1);
  Door door;
  door.events = zmq_socket(context_, ZMQ_PAIR);
  door.has_keys = command[0][first + 1] == '1';
  door.name = command[0].substr(second + 1);
  const int no_limit = 0, linger_ms = 0;  // a full pipe would stop the thread that serves everybody
  if (door.events == nullptr) return;
  zmq_setsockopt(door.events, ZMQ_RCVHWM, &no_limit, sizeof(no_limit));
  zmq_setsockopt(door.events, ZMQ_LINGER, &linger_ms, sizeof(linger_ms));
  if (zmq_connect(door.events, command[0].substr(0, first).c_str()) != 0) {
    zmq_close(door.events);  // the consumer has gone meanwhile
    return;
  }
  doors_.push_back(std::move(door));
}

bool Keeper::take_event(Door& door) {
  const std::vector<std::string> parts = receive_parts(door.events);
  if (parts.empty()) return false;
  if (parts[0].size() != sizeof(uint16_t) + sizeof(int32_t)) return true;
  uint16_t kind = 0;
  int32_t value = 0;
  std::memcpy(&kind, parts[0].data(), sizeof(kind));
  std::memcpy(&value, parts[0].data() + sizeof(kind), sizeof(value));
  switch (kind) {
    case ZMQ_EVENT_MONITOR_STOPPED:
      zmq_close(std::exchange(door.events, nullptr));
      return false;
    case ZMQ_EVENT_ACCEPTED:
      // The socket may have gone meanwhile, and its number be somebody else's.
      if (door.has_keys && parts.size() > 1 && local_port_of(value) == port_of(parts[1]))
        door.strangers.push_back({value, cookie_of(value), now_ms()});
      break;
    case ZMQ_EVENT_DISCONNECTED:
      std::erase_if(door.strangers, [&](const Stranger& x) { return x.fd == value; });
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      refuse(door, "its key is not of this cluster");
      break;
    default:
      refuse(door, "it did not complete the handshake of a peer that has the cluster's keys");
  }
  return true;
}

/// DOOR-2. ZeroMQ owns the sockets; shutting one down makes ZeroMQ close it.
void Keeper::look_at(Door& door, int64_t now) {
  auto is_over = [&](const Stranger& x) {
    if (now - x.since > k_handshake_ms || x.cookie == 0 || cookie_of(x.fd) != x.cookie)
      return true;  // ZeroMQ has let it in or closed it
    const auto traffic = traffic_of(x.fd);
    if (!traffic || traffic->sent > k_bytes_to_stranger) return true;  // let in
    if (traffic->received <= k_max_stranger_bytes) return false;
    ::shutdown(x.fd, SHUT_RDWR);
    return true;
  };
  std::erase_if(door.strangers, is_over);
  for (; door.strangers.size() > k_max_strangers; door.strangers.pop_front())
    ::shutdown(door.strangers.front().fd, SHUT_RDWR);
}

void Keeper::refuse(Door& door, const std::string& why) {
  ++door.refused;
  const int64_t now = now_ms();
  if (now < door.next_log) return;
  door.next_log = now + k_log_ms;  // DOOR-3
  log::warn("link {}: turned away {} connection{}, the last: {}", door.name, door.refused,
            door.refused == 1 ? "" : "s", why);
  door.refused = 0;
}

}  // namespace cohort::transport::detail

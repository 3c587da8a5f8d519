// Rendezvous: the table in this process, and the same served over a socket. One request is
// u32 size, u8 verb, u32 key size, key, value; one reply is u32 size, u8 verb, value.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/compute/collectives.hpp"

namespace cohort::compute {
namespace {

constexpr size_t k_key_max = 1 << 10, k_value_max = 64 << 10, k_keys_max = 1 << 16;
constexpr size_t k_frame_max = k_key_max + k_value_max + 16;  // [bytes]
constexpr size_t k_clients_max = 4096;
constexpr int k_request_timeout_ms = 10000;

enum Verb : uint8_t {
  k_put = 1,
  k_put_if_absent = 2,
  k_get = 3,
  k_value = 4,
  k_nothing = 5,
  k_full = 6
};

Error errno_error(Errc code, const std::string& what) {
  return {code, fmt::format("rendezvous: {}: {}", what, std::strerror(errno))};
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

class Table final : public Rendezvous {
 public:
  uint16_t port() const override { return 0; }
  Expected<void> put(const std::string& key, const std::string& value) override {
    COHORT_TRY(check(key, value));
    std::lock_guard lock(mutex_);
    COHORT_TRY(check_room(key));
    values_[key] = value;
    return {};
  }
  Expected<std::string> put_if_absent(const std::string& key, const std::string& value) override {
    COHORT_TRY(check(key, value));
    std::lock_guard lock(mutex_);
    COHORT_TRY(check_room(key));
    return values_.emplace(key, value).first->second;
  }
  Expected<std::optional<std::string>> get(const std::string& key) override {
    std::lock_guard lock(mutex_);
    auto it = values_.find(key);
    if (it == values_.end()) return std::optional<std::string>();
    return std::optional(it->second);
  }
  std::shared_ptr<void> share(const std::string& key,
                              const std::function<std::shared_ptr<void>()>& make) override {
    std::lock_guard lock(mutex_);
    std::shared_ptr<void> object = shared_[key].lock();
    if (object == nullptr) shared_[key] = object = make();
    return object;
  }

  static Expected<void> check(const std::string& key, const std::string& value) {
    if (key.size() <= k_key_max && value.size() <= k_value_max) return {};
    return Error{Errc::capacity, fmt::format("rendezvous: key of {} or value of {} bytes is over "
                                             "{} or {}",
                                             key.size(), value.size(), k_key_max, k_value_max)};
  }

 private:
  Expected<void> check_room(const std::string& key) const {
    if (values_.size() < k_keys_max || values_.contains(key)) return {};
    return Error{Errc::capacity, fmt::format("rendezvous: {} keys are all it takes", k_keys_max)};
  }
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::weak_ptr<void>> shared_;
};

void append_u32(std::string& to, size_t value) {
  const auto number = static_cast<uint32_t>(value);
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

uint32_t read_u32(const char* from) {
  uint32_t number = 0;
  std::memcpy(&number, from, sizeof number);
  return number;
}

std::string request_frame(Verb verb, const std::string& key, const std::string& value) {
  std::string frame;
  append_u32(frame, 1 + sizeof(uint32_t) + key.size() + value.size());
  frame.push_back(static_cast<char>(verb));
  append_u32(frame, key.size());
  return frame + key + value;
}

std::string reply_frame(Verb verb, const std::string& value) {
  std::string frame;
  append_u32(frame, 1 + value.size());
  frame.push_back(static_cast<char>(verb));
  return frame + value;
}

/// Answers one request body; an empty string if it is malformed.
std::string answer(Table& table, std::string_view body) {
  if (body.size() < 1 + sizeof(uint32_t)) return {};
  const auto verb = static_cast<Verb>(body[0]);
  const size_t key_size = read_u32(body.data() + 1);
  body.remove_prefix(1 + sizeof(uint32_t));
  if (key_size > body.size()) return {};
  const std::string key(body.substr(0, key_size)), value(body.substr(key_size));
  switch (verb) {
    case k_put: {
      auto done = table.put(key, value);
      return done ? reply_frame(k_nothing, "") : reply_frame(k_full, done.error().detail);
    }
    case k_put_if_absent: {
      auto kept = table.put_if_absent(key, value);
      return kept ? reply_frame(k_value, *kept) : reply_frame(k_full, kept.error().detail);
    }
    case k_get: {
      auto found = table.get(key).value();
      return found ? reply_frame(k_value, *found) : reply_frame(k_nothing, "");
    }
    default:
      return {};
  }
}

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
};

Expected<void> resolve(const std::string& host, uint16_t port, AddressList& out) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &out.first);
  if (code == 0) return {};
  return Error{Errc::not_found,
               fmt::format("rendezvous: host '{}': {}", host, ::gai_strerror(code))};
}

uint16_t port_of(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

/// The table, and one thread that answers everybody. A client that sends nonsense is cut off.
class Server final : public Rendezvous {
 public:
  Server(Descriptor listener, Descriptor stop)
      : port_(port_of(listener.get())),
        listener_(std::move(listener)),
        stop_(std::move(stop)),
        thread_([this] { serve_all(); }) {}
  ~Server() override {
    const uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  uint16_t port() const override { return port_; }
  Expected<void> put(const std::string& key, const std::string& value) override {
    return table_.put(key, value);
  }
  Expected<std::string> put_if_absent(const std::string& key, const std::string& value) override {
    return table_.put_if_absent(key, value);
  }
  Expected<std::optional<std::string>> get(const std::string& key) override {
    return table_.get(key);
  }

 private:
  struct Client {
    Descriptor socket;
    std::string in, out;
  };
  void serve_all() {
    std::map<int, Client> clients;
    for (;;) {
      std::vector<pollfd> watched = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const auto& [fd, client] : clients)
        watched.push_back({fd, static_cast<short>(client.out.empty() ? POLLIN : POLLOUT), 0});
      if (::poll(watched.data(), watched.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return;
      }
      if (watched[0].revents != 0) return;
      for (size_t i = 2; i < watched.size(); ++i) {
        auto it = clients.find(watched[i].fd);
        if (watched[i].revents != 0 && !serve(it->second)) clients.erase(it);
      }
      if (watched[1].revents == 0) continue;
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0 && clients.size() < k_clients_max)
        clients[fd].socket = Descriptor(fd);
      else if (fd >= 0)
        ::close(fd);
    }
  }
  /// Moves what can be moved; false when the client is gone or talks nonsense.
  bool serve(Client& client) {
    char bytes[4096];
    if (client.out.empty()) {
      const ssize_t count = ::recv(client.socket.get(), bytes, sizeof bytes, 0);
      if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
      client.in.append(bytes, static_cast<size_t>(count));
    }
    while (client.in.size() >= sizeof(uint32_t)) {
      const size_t size = read_u32(client.in.data());
      if (size > k_frame_max) return false;
      if (client.in.size() < sizeof(uint32_t) + size) break;
      std::string reply =
          answer(table_, std::string_view(client.in).substr(sizeof(uint32_t), size));
      if (reply.empty()) return false;
      client.out += reply;
      client.in.erase(0, sizeof(uint32_t) + size);
    }
    while (!client.out.empty()) {
      const ssize_t count =
          ::send(client.socket.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
      if (count < 0) return errno == EAGAIN || errno == EINTR;
      client.out.erase(0, static_cast<size_t>(count));
    }
    return true;
  }

  Table table_;
  uint16_t port_;
  Descriptor listener_, stop_;
  std::thread thread_;
};

/// One connection to a Server; a request at a time. A broken one stays broken.
class Remote final : public Rendezvous {
 public:
  Remote(Descriptor socket, std::string where, uint16_t port)
      : socket_(std::move(socket)), where_(std::move(where)), port_(port) {}
  uint16_t port() const override { return port_; }
  Expected<void> put(const std::string& key, const std::string& value) override {
    COHORT_TRY(Table::check(key, value));
    COHORT_ASSIGN(Reply ignored, ask(k_put, key, value));
    return {};
  }
  Expected<std::string> put_if_absent(const std::string& key, const std::string& value) override {
    COHORT_TRY(Table::check(key, value));
    COHORT_ASSIGN(Reply reply, ask(k_put_if_absent, key, value));
    return std::move(reply.value);
  }
  Expected<std::optional<std::string>> get(const std::string& key) override {
    COHORT_ASSIGN(Reply reply, ask(k_get, key, ""));
    if (reply.verb == k_nothing) return std::optional<std::string>();
    return std::optional(std::move(reply.value));
  }

 private:
  Error gone() const {
    return {Errc::closed,
            fmt::format("rendezvous at {}: the process that serves it is gone", where_)};
  }
  struct Reply {
    Verb verb = k_nothing;
    std::string value;
  };
  Expected<Reply> ask(Verb verb, const std::string& key, const std::string& value) {
    const std::string frame = request_frame(verb, key, value);
    std::lock_guard lock(mutex_);
    if (is_broken_) return gone();
    is_broken_ = true;  // until the reply is whole
    for (size_t at = 0; at < frame.size();) {
      const ssize_t count =
          ::send(socket_.get(), frame.data() + at, frame.size() - at, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return gone();
      at += static_cast<size_t>(count);
    }
    std::string head(sizeof(uint32_t), '\0');
    if (!receive(head)) return gone();
    std::string body(read_u32(head.data()), '\0');
    if (body.empty() || body.size() > k_frame_max || !receive(body)) return gone();
    is_broken_ = false;
    Reply reply{static_cast<Verb>(body[0]), body.substr(1)};
    if (reply.verb == k_full) return Error{Errc::capacity, reply.value};
    return reply;
  }
  bool receive(std::string& bytes) const {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t count = ::recv(socket_.get(), bytes.data() + at, bytes.size() - at, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      at += static_cast<size_t>(count);
    }
    return true;
  }

  std::mutex mutex_;
  Descriptor socket_;
  std::string where_;
  uint16_t port_;
  bool is_broken_ = false;
};

}  // namespace

std::shared_ptr<void> Rendezvous::share(const std::string&,
                                        const std::function<std::shared_ptr<void>()>&) {
  return nullptr;
}

std::shared_ptr<Rendezvous> Rendezvous::in_process() { return std::make_shared<Table>(); }

Expected<std::shared_ptr<Rendezvous>> Rendezvous::serve(const std::string& host, uint16_t port,
                                                        int) {
  AddressList found;
  COHORT_TRY(resolve(host, port, found));
  const addrinfo& at = *found.first;
  Descriptor listener(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (listener.get() < 0 ||
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(listener.get(), at.ai_addr, at.ai_addrlen) != 0 || ::listen(listener.get(), 512) != 0)
    return errno_error(Errc::io, fmt::format("cannot listen on {}:{}", host, port));
  Descriptor stop(::eventfd(0, EFD_CLOEXEC));
  if (stop.get() < 0) return errno_error(Errc::io, "eventfd");
  return std::shared_ptr<Rendezvous>(
      std::make_shared<Server>(std::move(listener), std::move(stop)));
}

Expected<std::shared_ptr<Rendezvous>> Rendezvous::connect(const std::string& host, uint16_t port,
                                                          int timeout_ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const std::string where = fmt::format("{}:{}", host, port);
  AddressList found;
  COHORT_TRY(resolve(host, port, found));
  for (;;) {
    const addrinfo& at = *found.first;
    Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) return errno_error(Errc::io, "socket");
    const timeval limit = {k_request_timeout_ms / 1000, 0};
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(socket.get(), at.ai_addr, at.ai_addrlen) == 0)
      return std::shared_ptr<Rendezvous>(std::make_shared<Remote>(std::move(socket), where, port));
    if (std::chrono::steady_clock::now() >= end)
      return errno_error(Errc::timeout,
                         fmt::format("nobody serves {} within {} ms", where, timeout_ms));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace cohort::compute

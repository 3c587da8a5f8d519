#include "runtime/control/http_server.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/base/listen.hpp"
#include "runtime/control/sockets.hpp"
#include "runtime/control/tls.hpp"

namespace cohort::control {

using namespace detail;
using observe::HttpParse;

namespace {

constexpr int k_accept_batch = 16;       // taken before those that are there get a turn
constexpr int k_no_descriptor_ms = 100;  // pause when the process has none left
constexpr int64_t k_idle_ms = 1000, k_last_replies_ms = 500;
constexpr int k_nice = 10;

/// The result of a read or a write on a socket, or TLS over it.
struct Moved {
  TlsResult what = TlsResult::failed;
  size_t bytes = 0;
};

Moved from_socket(ssize_t result, TlsResult otherwise) {
  if (result > 0) return {TlsResult::done, static_cast<size_t>(result)};
  if (result < 0 && (errno == EAGAIN || errno == EINTR)) return {otherwise, 0};
  return {};
}

}  // namespace

struct HttpServer::Connection {
  enum class State { shaking, reading, writing, draining, over };
  Descriptor socket;
  std::unique_ptr<TlsSession> tls;
  State state = State::reading;
  int64_t deadline = 0;
  short waits_for = POLLIN;
  std::string in, out;
  size_t sent = 0;

  Moved read(std::span<char> to) {
    Moved moved;
    if (tls) {
      moved.what = tls->read(to, moved.bytes);
      return moved;
    }
    return from_socket(::recv(socket.get(), to.data(), to.size(), 0), TlsResult::wants_input);
  }
  Moved write(std::string_view from) {
    Moved moved;
    if (tls) {
      moved.what = tls->write({from.data(), from.size()}, moved.bytes);
      return moved;
    }
    return from_socket(::send(socket.get(), from.data(), from.size(), MSG_NOSIGNAL),
                       TlsResult::wants_output);
  }
  /// Notes what to wait for; returns whether bytes have moved.
  bool has_moved(const Moved& moved) {
    if (moved.what == TlsResult::wants_input) waits_for = POLLIN;
    if (moved.what == TlsResult::wants_output) waits_for = POLLOUT;
    if (moved.what == TlsResult::failed) state = State::over;
    return moved.what == TlsResult::done;
  }
};

struct HttpServer::Impl {
  using State = Connection::State;
  HttpServerOptions options;
  std::shared_ptr<TlsContext> tls;
  Descriptor listener, wake;
  std::atomic<bool> is_stopping{false};
  std::deque<Connection> connections;  // oldest first; the thread's alone
  int64_t resumes_at = 0;              // accepts nothing before: no descriptor was left
  std::thread thread;

  void run();
  void serve_ready(const std::vector<short>& ready);
  void finish_replies();
  bool wait(std::vector<short>& ready);
  void accept_some();
  void advance(Connection& x);
  void read_head(Connection& x);
  void reply(Connection& x, const HttpParse& parse);
  void write_reply(Connection& x);
  void drain(Connection& x);
};

void HttpServer::Impl::run() {
  ::setpriority(PRIO_PROCESS, 0, k_nice);  // on Linux: of this thread
  std::vector<short> ready;
  while (!is_stopping) {
    const bool has_arrivals = wait(ready);
    serve_ready(ready);
    if (has_arrivals) accept_some();
  }
  finish_replies();
}

void HttpServer::Impl::serve_ready(const std::vector<short>& ready) {
  for (size_t i = 0; i < ready.size(); ++i)
    if (ready[i] != 0) advance(connections[i]);
  const int64_t now = now_ms();
  std::erase_if(connections,
                [now](const Connection& x) { return x.state == State::over || x.deadline <= now; });
}

// The end of a run: a request that came in time gets its whole answer.
void HttpServer::Impl::finish_replies() {
  const int64_t until = now_ms() + k_last_replies_ms;
  std::vector<pollfd> items;
  std::vector<short> ready;
  for (;;) {
    std::erase_if(connections, [](const Connection& x) { return x.state != State::writing; });
    const int64_t left = until - now_ms();
    if (connections.empty() || left <= 0) return;
    items.clear();
    for (const Connection& x : connections) items.push_back({x.socket.get(), x.waits_for, 0});
    if (::poll(items.data(), items.size(), static_cast<int>(left)) <= 0) return;
    ready.clear();
    for (const pollfd& item : items) ready.push_back(item.revents);
    serve_ready(ready);
  }
}

/// Returns whether somebody wants in.
bool HttpServer::Impl::wait(std::vector<short>& ready) {
  const int64_t now = now_ms();
  const bool is_accepting = now >= resumes_at;
  int64_t until = is_accepting ? now + k_idle_ms : resumes_at;
  std::vector<pollfd> items;
  for (const Connection& x : connections) {
    items.push_back({x.socket.get(), x.waits_for, 0});
    until = std::min(until, x.deadline);
  }
  items.push_back({wake.get(), POLLIN, 0});
  items.push_back({is_accepting ? listener.get() : -1, POLLIN, 0});
  const int count = ::poll(items.data(), items.size(),
                           static_cast<int>(std::clamp<int64_t>(until - now, 0, k_idle_ms)));
  ready.clear();
  for (size_t i = 0; i < connections.size(); ++i) ready.push_back(count > 0 ? items[i].revents : 0);
  return count > 0 && items.back().revents != 0;
}

void HttpServer::Impl::accept_some() {
  for (int i = 0; i < k_accept_batch; ++i) {
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
      resumes_at = now_ms() + k_no_descriptor_ms;
      if (!connections.empty()) connections.pop_front();
      return;
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connections.size() >= k_http_connections) connections.pop_front();  // HTTP-2
    Connection x;
    x.socket = std::move(socket);
    x.deadline = now_ms() + k_http_head_ms;
    if (tls) x.state = State::shaking;
    connections.push_back(std::move(x));
  }
}

void HttpServer::Impl::advance(Connection& x) {
  if (x.state == State::shaking) {
    if (!x.tls)  // a connection that says nothing costs no TLS state
      x.tls = std::make_unique<TlsSession>(tls, x.socket.get(), TlsSide::server);
    if (x.has_moved({x.tls->handshake(), 0})) x.state = State::reading;
  }
  if (x.state == State::reading) read_head(x);
  if (x.state == State::writing) write_reply(x);
  if (x.state == State::draining) drain(x);
}

void HttpServer::Impl::read_head(Connection& x) {
  std::array<char, 4096> bytes;
  while (x.state == State::reading) {
    const Moved moved = x.read(bytes);
    if (!x.has_moved(moved)) return;
    x.in.append(bytes.data(), moved.bytes);
    if (HttpParse parse = observe::parse_http(x.in); parse.status != 0) reply(x, parse);
  }
}

void HttpServer::Impl::reply(Connection& x, const HttpParse& parse) {
  const observe::HttpReply reply =
      parse.status == 200 ? options.handler(parse.request) : observe::refusal(parse.status);
  x.out = observe::to_bytes(reply, parse.request.is_head);
  x.in = {};
  x.state = State::writing;
  x.deadline = now_ms() + k_http_reply_ms;
}

void HttpServer::Impl::write_reply(Connection& x) {
  while (x.sent < x.out.size()) {
    const Moved moved = x.write(std::string_view(x.out).substr(x.sent));
    if (!x.has_moved(moved)) return;
    x.sent += moved.bytes;
  }
  // What is left unread would reset the connection, and the reply with it: the client closes first.
  ::shutdown(x.socket.get(), SHUT_WR);
  x.out = {};
  x.state = State::draining;
  x.waits_for = POLLIN;
  x.deadline = now_ms() + k_http_drain_ms;
}

void HttpServer::Impl::drain(Connection& x) {
  std::array<char, 4096> bytes;
  while (x.state == State::draining) {
    const ssize_t got = ::recv(x.socket.get(), bytes.data(), bytes.size(), 0);
    if (!x.has_moved(from_socket(got, TlsResult::wants_input))) return;
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  impl_->is_stopping = true;
  wake_up(impl_->wake.get());
  impl_->thread.join();
}

uint16_t HttpServer::port() const { return port_of(impl_->listener.get()); }

Expected<std::unique_ptr<HttpServer>> HttpServer::open(HttpServerOptions options) {
  COHORT_TRY(check_exposure(options.host, {options.credentials.has_value(), options.is_insecure}));
  auto impl = std::make_unique<Impl>();
  if (options.credentials) {
    COHORT_ASSIGN(impl->tls, TlsContext::open(*options.credentials, TlsPeers::anyone));
  }
  COHORT_ASSIGN(impl->listener, listen_on(options.host, options.port));
  impl->wake = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (impl->wake.get() < 0)
    return Error{Errc::io, fmt::format("cannot make an eventfd: {}", std::strerror(errno))};
  impl->options = std::move(options);
  impl->thread = std::thread([raw = impl.get()] { raw->run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace cohort::control

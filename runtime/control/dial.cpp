#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/control/gate.hpp"
#include "runtime/control/sockets.hpp"

namespace cohort::control::detail {

namespace {

/// Waits until `socket` is ready; false when `deadline` has passed.
bool wait_ready(int socket, short events, int64_t deadline) {
  for (;;) {
    const int64_t left = deadline - now_ms();
    if (left <= 0) return false;
    pollfd item{socket, events, 0};
    if (::poll(&item, 1, static_cast<int>(left)) > 0) return true;
  }
}

Expected<Descriptor> connect_to(const addrinfo& address, int64_t deadline) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int error = 0;
  if (socket.get() < 0 || ::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0)
    error = errno;
  if (error == EINPROGRESS) {
    if (!wait_ready(socket.get(), POLLOUT, deadline)) return Error{Errc::timeout, "no answer"};
    socklen_t size = sizeof(error);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) return Error{Errc::closed, std::strerror(error)};
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

Expected<void> shake_hands(TlsSession& tls, int socket, int64_t deadline) {
  for (;;) {
    const TlsResult result = tls.handshake();
    if (result == TlsResult::done) return {};
    if (result == TlsResult::failed)
      return Error{Errc::denied, "the handshake failed: " + tls.failure()};
    const short events = result == TlsResult::wants_input ? POLLIN : POLLOUT;
    if (!wait_ready(socket, events, deadline))
      return Error{Errc::timeout, "it answers, but takes no handshake"};
  }
}

}  // namespace

Expected<Connection> dial(const std::string& host, uint16_t port,
                          const std::shared_ptr<TlsContext>& tls, int limit_ms) {
  const int64_t deadline = now_ms() + limit_ms;
  COHORT_ASSIGN(const AddressList addresses, resolve(host, port, false));
  Error last{Errc::closed, "no address"};
  for (const addrinfo* x = addresses.get(); x != nullptr; x = x->ai_next) {
    auto socket = connect_to(*x, deadline);
    if (!socket) {
      last = socket.error();
      continue;
    }
    Connection connection{std::move(*socket), nullptr, fmt::format("{}:{}", host, port), nullptr};
    if (!tls) return connection;
    connection.tls = std::make_unique<TlsSession>(tls, connection.socket.get(), TlsSide::client);
    COHORT_TRY(shake_hands(*connection.tls, connection.socket.get(), deadline));
    return connection;
  }
  return last;
}

}  // namespace cohort::control::detail

#include "runtime/control/gate.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/control/sockets.hpp"

namespace cohort::control::detail {

namespace {

constexpr int k_accept_batch = 64;       // connections taken before those that wait get a turn
constexpr int k_no_descriptor_ms = 100;  // pause when the process has none left
constexpr int k_idle_ms = 1000;

Error io_error(std::string_view what) {
  return {Errc::io, fmt::format("{}: {}", what, std::strerror(errno))};
}

}  // namespace

Expected<std::unique_ptr<Gate>> Gate::open(GateOptions options) {
  std::unique_ptr<Gate> gate(new Gate(std::move(options)));
  COHORT_TRY(gate->listen());
  gate->thread_ = std::thread([raw = gate.get()] { raw->run(); });
  return gate;
}

Expected<void> Gate::listen() {
  COHORT_ASSIGN(listener_, listen_on(options_.host, options_.port));
  port_ = port_of(listener_.get());
  wake_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  announcements_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE));
  if (wake_.get() < 0 || announcements_.get() < 0) return io_error("cannot make an eventfd");
  return {};
}

Gate::~Gate() {
  if (!thread_.joinable()) return;
  is_stopping_ = true;
  wake_up(wake_.get());
  thread_.join();
}

Descriptor Gate::announcements() const {
  return Descriptor(::fcntl(announcements_.get(), F_DUPFD_CLOEXEC, 0));
}

std::optional<Connection> Gate::take() {
  std::lock_guard lock(mutex_);
  if (admitted_.empty()) return std::nullopt;
  Connection connection = std::move(admitted_.front());
  admitted_.pop_front();
  return connection;
}

void Gate::run() {
  while (!is_stopping_) {
    wait();
    for (size_t i = unknown_.size(); i-- > 0;)
      if (ready_[i] != 0) shake_hands(i);
    drop_late(now_ms());
    if (has_arrivals_) accept_some();
  }
}

void Gate::wait() {
  const int64_t now = now_ms();
  std::vector<pollfd> items;
  items.reserve(unknown_.size() + 2);
  for (const Unknown& x : unknown_) items.push_back({x.connection.socket.get(), x.waits_for, 0});
  items.push_back({wake_.get(), POLLIN, 0});
  const bool is_accepting = now >= resumes_at_;
  items.push_back({is_accepting ? listener_.get() : -1, POLLIN, 0});
  int64_t until = unknown_.empty() ? now + k_idle_ms : unknown_.front().deadline;
  if (!is_accepting) until = std::min(until, resumes_at_);
  const int timeout_ms = static_cast<int>(std::clamp<int64_t>(until - now, 0, k_idle_ms));
  const int count = ::poll(items.data(), items.size(), timeout_ms);
  ready_.clear();
  for (size_t i = 0; i < unknown_.size(); ++i) ready_.push_back(count > 0 ? items[i].revents : 0);
  has_arrivals_ = count > 0 && items.back().revents != 0;
}

void Gate::accept_some() {
  for (int i = 0; i < k_accept_batch; ++i) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
      resumes_at_ = now_ms() + k_no_descriptor_ms;
      if (!unknown_.empty()) {
        turn_away(unknown_.front().connection, "no file descriptor was left");
        unknown_.pop_front();
      }
      return;
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    Connection connection{std::move(socket), nullptr, {}, nullptr};
    if (!options_.tls) {
      admit(std::move(connection));
      continue;
    }
    if (unknown_.size() >= k_max_unknown) {  // GATE-1
      turn_away(unknown_.front().connection, "others came before it had shaken hands");
      unknown_.pop_front();
    }
    unknown_.push_back({std::move(connection), now_ms() + options_.handshake_ms, POLLIN});
  }
}

void Gate::shake_hands(size_t i) {
  Unknown& x = unknown_[i];
  Connection& connection = x.connection;
  if (!connection.tls)  // a connection that says nothing costs no TLS state
    connection.tls =
        std::make_unique<TlsSession>(options_.tls, connection.socket.get(), TlsSide::server);
  const TlsResult result = connection.tls->handshake();
  if (result == TlsResult::wants_input || result == TlsResult::wants_output) {
    x.waits_for = result == TlsResult::wants_input ? POLLIN : POLLOUT;
    return;
  }
  if (result == TlsResult::done)
    admit(std::move(connection));
  else
    turn_away(connection, connection.tls->failure());
  unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Gate::admit(Connection connection) {
  if (members_->load() >= options_.max_members)  // GATE-2
    return turn_away(connection, fmt::format("{} connections are open", options_.max_members));
  ++*members_;
  connection.place = std::shared_ptr<void>(nullptr, [members = members_](void*) { --*members; });
  connection.peer = peer_of(connection.socket.get());
  {
    std::lock_guard lock(mutex_);
    admitted_.push_back(std::move(connection));
  }
  wake_up(announcements_.get());
}

void Gate::turn_away(const Connection& connection, const std::string& why) {
  ++turned_away_;
  const int64_t now = now_ms();
  if (now < next_log_) return;
  next_log_ = now + k_log_ms;  // GATE-3
  log::warn("port {}: turned away {} connection{}, the last from {}: {}", port_, turned_away_,
            turned_away_ == 1 ? "" : "s", peer_of(connection.socket.get()), why);
  turned_away_ = 0;
}

void Gate::drop_late(int64_t now) {
  while (!unknown_.empty() && unknown_.front().deadline <= now) {
    turn_away(unknown_.front().connection,
              fmt::format("no handshake within {} ms", options_.handshake_ms));
    unknown_.pop_front();
  }
}

}  // namespace cohort::control::detail

#pragma once
/// Passes one TCP connection on to a port of loopback, keeps what the client said, and stops
/// passing on when told to, without closing: a peer that does not read, or a partition. Owner: the
/// test. One thread; ends when destroyed.
#include <poll.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "tests/support/raw_socket.hpp"

namespace cohort::test {

class Tap {
 public:
  enum class Passes { both, to_server, none };

  explicit Tap(uint16_t port) : port_(port), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    own_port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Tap() {
    is_stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    ::close(listener_);
  }
  uint16_t port() const { return own_port_; }
  void let_pass(Passes what) { passes_ = what; }
  /// The server has closed its side.
  bool is_cut_off() const { return is_cut_off_; }
  /// What the client said; call after the connection has ended.
  std::string heard() {
    thread_.join();
    return heard_;
  }

 private:
  static constexpr int k_look_ms = 20;  // how soon let_pass() and the end are seen

  /// Returns false when the connection is over.
  bool pass(int from, int to, std::string* heard) {
    std::array<char, 65536> buffer;
    const ssize_t got = ::recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0) return false;
    if (heard != nullptr) heard->append(buffer.data(), static_cast<size_t>(got));
    return ::send(to, buffer.data(), static_cast<size_t>(got), MSG_NOSIGNAL) == got;
  }
  void run() {
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    const RawSocket server(port_);
    bool is_open = true;
    while (is_open && !is_stopping_) {
      const Passes passes = passes_;
      const auto from_client = static_cast<short>(passes == Passes::none ? 0 : POLLIN);
      const auto from_server = static_cast<short>(passes == Passes::both ? POLLIN : 0);
      std::array<pollfd, 2> items{pollfd{client, from_client, 0},
                                  pollfd{server.fd(), from_server, 0}};
      if (::poll(items.data(), 2, k_look_ms) <= 0) continue;
      is_cut_off_ = (items[1].revents & (POLLHUP | POLLERR)) != 0;
      if (is_cut_off_) break;
      if (items[0].revents != 0) is_open = pass(client, server.fd(), &heard_);
      if (is_open && (items[1].revents & POLLIN) != 0) is_open = pass(server.fd(), client, nullptr);
    }
    ::close(client);
  }

  const uint16_t port_;
  int listener_;
  uint16_t own_port_ = 0;
  std::atomic<Passes> passes_{Passes::both};
  std::atomic<bool> is_stopping_{false}, is_cut_off_{false};
  std::string heard_;
  std::thread thread_;
};

}  // namespace cohort::test

#pragma once
/// Servers of a test on ephemeral loopback ports: one that answers as told, and a socket that
/// dribbles.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace cohort::plugin::support {

class TestServer {
 public:
  using Handler = std::function<void(const httplib::Request&, httplib::Response&)>;
  explicit TestServer(Handler handler,
                      std::unique_ptr<httplib::Server> server = std::make_unique<httplib::Server>())
      : server_(std::move(server)) {
    server_->set_keep_alive_timeout(1);
    server_->set_tcp_nodelay(true);
    server_->Post(".*", [this, handler](const httplib::Request& request, httplib::Response& reply) {
      {
        std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      handler(request, reply);
    });
    port = server_->bind_to_any_port("127.0.0.1");
    EXPECT_GT(port, 0);
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::yield();
  }
  ~TestServer() {
    server_->stop();
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string url(const std::string& path = "/v1") const {
    return "http://127.0.0.1:" + std::to_string(port) + path;
  }
  std::vector<httplib::Request> requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  size_t count() { return requests().size(); }
  int port = 0;

 private:
  std::unique_ptr<httplib::Server> server_;
  std::mutex mutex_;
  std::vector<httplib::Request> requests_;
  std::thread thread_;
};

/// A port that is taken and on which nobody listens.
class BoundSocket {
 public:
  BoundSocket() : file_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(file_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t size = sizeof address;
    ::getsockname(file_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~BoundSocket() { ::close(file_); }
  BoundSocket(const BoundSocket&) = delete;
  BoundSocket& operator=(const BoundSocket&) = delete;
  int file() const { return file_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1"; }

 private:
  int file_;
  int port_ = 0;
};

/// Accepts TLS connections, reads a byte of each, ends it and resets it.
class ResettingServer {
 public:
  ResettingServer(X509* certificate, EVP_PKEY* key) : context_(::SSL_CTX_new(TLS_server_method())) {
    SSL_CTX_use_certificate(context_, certificate);
    SSL_CTX_use_PrivateKey(context_, key);
    EXPECT_EQ(::listen(socket_.file(), 4), 0);
    thread_ = std::thread([this] {
      for (int peer; (peer = ::accept(socket_.file(), nullptr, nullptr)) >= 0;) {
        SSL* tls = SSL_new(context_);
        SSL_set_fd(tls, peer);
        char byte = 0;
        EXPECT_TRUE(SSL_accept(tls) == 1 && SSL_read(tls, &byte, 1) == 1);
        SSL_free(tls);
        ::shutdown(peer, SHUT_WR);  // a reset behind an end is EPIPE on the other side
        const linger at_once{1, 0};
        ::setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        ::close(peer);
        ++resets;
      }
    });
  }
  ~ResettingServer() {
    ::shutdown(socket_.file(), SHUT_RDWR);
    thread_.join();
    SSL_CTX_free(context_);
  }
  ResettingServer(const ResettingServer&) = delete;
  ResettingServer& operator=(const ResettingServer&) = delete;
  std::string url() const { return "https" + socket_.url().substr(4); }
  std::atomic<int> resets{0};

 private:
  SSL_CTX* context_;
  BoundSocket socket_;
  std::thread thread_;
};

/// Accepts one connection and sends a byte of `text` every 20 ms, again and again, until the other
/// side closes.
class DribblingServer {
 public:
  explicit DribblingServer(std::string text) {
    EXPECT_EQ(::listen(socket_.file(), 4), 0);
    thread_ = std::thread([this, text = std::move(text)] {
      const int peer = ::accept(socket_.file(), nullptr, nullptr);
      for (size_t i = 0; peer >= 0 && !is_over; ++i) {
        if (::send(peer, &text[i % text.size()], 1, MSG_NOSIGNAL) != 1) break;
        ++sent;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      if (peer >= 0) ::close(peer);
    });
  }
  ~DribblingServer() {
    is_over = true;
    ::shutdown(socket_.file(), SHUT_RDWR);
    thread_.join();
  }
  DribblingServer(const DribblingServer&) = delete;
  DribblingServer& operator=(const DribblingServer&) = delete;
  std::string url() const { return socket_.url(); }
  std::atomic<size_t> sent{0};

 private:
  BoundSocket socket_;
  std::atomic<bool> is_over{false};
  std::thread thread_;
};

/// Holds callers back until it is opened.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

}  // namespace cohort::plugin::support

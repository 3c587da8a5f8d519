#pragma once
/// The dashboard's door: HTTP on one address, over TLS where there are credentials. One thread
/// serves every connection and calls the handler; it waits for no actor. It runs behind the threads
/// of the run (nice), and knows no CAF.
///   HTTP-2 at most k_http_connections are open, the oldest makes room for the next; a head has
///          k_http_head_ms to come and k_http_head_bytes_max of room, a reply k_http_reply_ms to be
///          taken. A connection is one request.
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/control/credentials.hpp"
#include "runtime/observe/http.hpp"

namespace cohort::control {

inline constexpr size_t k_http_connections = 64;
inline constexpr int64_t k_http_head_ms = 5000, k_http_reply_ms = 20000, k_http_drain_ms = 1000;

struct HttpServerOptions {
  std::string host;
  uint16_t port = 0;                       // 0: any
  std::optional<Credentials> credentials;  // TLS with the cluster's certificate
  bool is_insecure = false;                // the user said so
  std::function<observe::HttpReply(const observe::HttpRequest&)> handler;
};

class HttpServer {
 public:
  /// Errc::denied beyond loopback without credentials or is_insecure, Errc::io if the port is
  /// taken.
  static Expected<std::unique_ptr<HttpServer>> open(HttpServerOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  uint16_t port() const;

 private:
  struct Connection;
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::control

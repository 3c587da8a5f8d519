#pragma once
/// POSTs to one server over HTTP or HTTPS, each with a deadline that holds whatever the server does
/// (silence, a byte a minute, an endless reply). Connections are kept and used again. Thread-safe;
/// owns one thread, which closes late connections. Bound: a connection per call at once, a reply of
/// at most reply_bytes_max. Internal to runtime/plugin; cpp-httplib is in its .cpp alone.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::plugin {

struct HttpUrl {
  std::string origin;  // "https://host:port"
  std::string path;    // begins with '/'
};
/// Returns Errc::config unless the text is http(s)://host[:port][/path] without user, query and
/// fragment.
Expected<HttpUrl> parse_http_url(std::string_view text);

struct HttpPoolOptions {
  HttpUrl url;
  std::vector<std::pair<std::string, std::string>> headers;  // of every request
  std::string ca_file;                       // trusted certificates; empty: the system's
  size_t reply_bytes_max = size_t{4} << 20;  // decompressed
};

struct HttpReply {
  int status = 0;
  std::string body;
  std::optional<double> retry_after_s;  // the header, as seconds or as a date
};

class HttpPool {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  explicit HttpPool(HttpPoolOptions options);
  ~HttpPool();  // no post() is under way
  HttpPool(const HttpPool&) = delete;
  HttpPool& operator=(const HttpPool&) = delete;

  /// Posts JSON and returns the reply, whatever its status. Returns Errc::timeout at the deadline,
  /// Errc::closed if the server cannot be reached or hangs up, Errc::capacity for too long a reply,
  /// Errc::cancelled after stop(); each names the url.
  Expected<HttpReply> post(const std::string& body, TimePoint deadline);
  /// Ends the calls under way and every later one.
  void stop();
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the seconds of a Retry-After header: a number, or an HTTP date against `now_unix_s`.
std::optional<double> retry_after_seconds(const std::string& value, int64_t now_unix_s);

}  // namespace cohort::plugin

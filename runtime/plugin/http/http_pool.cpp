#include "runtime/plugin/http/http_pool.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/base/waits.hpp"
#include "runtime/plugin/sandbox/without_sigpipe.hpp"

namespace cohort::plugin {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds k_connect_max{10};
constexpr std::chrono::milliseconds k_close_again{20};
constexpr std::chrono::seconds k_watch_first{1};  // the watch ends a call before a timeout does
constexpr size_t k_url_max = 2048;                // [bytes]

struct Call {
  std::shared_ptr<httplib::Client> client;
  Clock::time_point deadline;
  bool is_closed = false;  // stopped by the deadline or by stop(): the connection is of no more use
};

Error wrong_url(std::string_view text, std::string_view why) {
  return {Errc::config, fmt::format("url \"{}\": {}", text.substr(0, 200), why)};
}

}  // namespace

Expected<HttpUrl> parse_http_url(std::string_view text) {
  if (text.size() > k_url_max) return wrong_url(text, "too long");
  const size_t scheme = text.find("://");
  const std::string_view name = text.substr(0, std::min(scheme, text.size()));
  if (scheme == std::string_view::npos || (name != "http" && name != "https"))
    return wrong_url(text, "http://host:port/path or https://… is expected");
  for (char c : text) {
    if (c <= ' ' || c > '~') return wrong_url(text, "a blank or a letter outside ASCII");
    if (c == '?' || c == '#' || c == '@')
      return wrong_url(text, "no query, fragment or user (a key belongs into api_key_env)");
  }
  const size_t host = scheme + 3;
  const size_t slash = std::min(text.find('/', host), text.size());
  std::string_view authority = text.substr(host, slash - host);
  const size_t colon = authority.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && authority.find(']', colon) == std::string_view::npos;
  if (has_port) {
    std::string_view port = authority.substr(colon + 1);
    int number = 0;
    auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535)
      return wrong_url(text, fmt::format("\"{}\" is no port", port));
    authority = authority.substr(0, colon);
  }
  if (authority.empty()) return wrong_url(text, "no host");
  return HttpUrl{std::string(text.substr(0, slash)),
                 slash < text.size() ? std::string(text.substr(slash)) : std::string("/")};
}

std::optional<double> retry_after_seconds(const std::string& value, int64_t now_unix_s) {
  double seconds = 0;
  const char* end = value.data() + value.size();
  auto [at, error] = std::from_chars(value.data(), end, seconds, std::chars_format::fixed);
  if (error == std::errc() && at == end && seconds >= 0) return seconds;
  std::tm date{};
  const char* rest = ::strptime(value.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  return std::max<double>(0, static_cast<double>(::timegm(&date) - now_unix_s));
}

struct HttpPool::Impl {
  explicit Impl(HttpPoolOptions with) : options(std::move(with)), watch([this] { run_watch(); }) {}
  ~Impl() {
    {
      std::lock_guard lock(mutex);
      is_ending = true;
      changed.notify_all();
    }
    watch.join();
    const WithoutSigpipe guard;
    idle.clear();  // TLS says goodbye
  }

  void stop() {
    std::lock_guard lock(mutex);
    is_stopped = true;
    changed.notify_all();
  }

  /// Closes the connections of calls whose deadline is over, all of them after stop(); again and
  /// again until the calls have ended, because one may have been about to connect.
  void run_watch() {
    const WithoutSigpipe guard;
    std::unique_lock lock(mutex);
    while (!is_ending) {
      auto next = Clock::time_point::max();
      std::vector<std::shared_ptr<httplib::Client>> late;
      for (auto& [id, call] : calls) {
        call.is_closed = call.is_closed || is_stopped || call.deadline <= Clock::now();
        if (call.is_closed)
          late.push_back(call.client);
        else
          next = std::min(next, call.deadline);
      }
      if (!late.empty()) {
        lock.unlock();  // a client's own lock is held while it connects
        for (auto& client : late) client->stop();
        lock.lock();
        next = Clock::now() + k_close_again;
      }
      if (next == Clock::time_point::max())
        changed.wait(lock);
      else
        changed.wait_until(lock, next);
    }
  }

  std::shared_ptr<httplib::Client> make_client() const {
    auto client = std::make_shared<httplib::Client>(options.url.origin);
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
    client->set_follow_location(false);
    if (!options.ca_file.empty()) client->set_ca_cert_path(options.ca_file);
    return client;
  }

  /// Registers a call on an idle or a new connection; 0: stopped.
  uint64_t begin(Clock::time_point deadline, std::shared_ptr<httplib::Client>& client) {
    std::lock_guard lock(mutex);
    if (is_stopped) return 0;
    if (idle.empty()) {
      client = make_client();
    } else {
      client = std::move(idle.back());
      idle.pop_back();
    }
    calls[++last_id] = {client, deadline};
    changed.notify_all();
    return last_id;
  }

  /// Returns whether the call ran to its end undisturbed.
  bool end(uint64_t id, bool is_reusable) {
    std::lock_guard lock(mutex);
    auto call = calls.find(id);
    const bool is_closed = call->second.is_closed;
    if (!is_closed && is_reusable) idle.push_back(std::move(call->second.client));
    calls.erase(call);
    return !is_closed;
  }

  std::string url() const { return options.url.origin + options.url.path; }
  Error error(Errc code, std::string_view what) const {
    return {code, fmt::format("{}: {}", url(), what)};
  }
  Error interrupted() {
    std::lock_guard lock(mutex);
    return is_stopped ? error(Errc::cancelled, "stopped")
                      : error(Errc::timeout, "no whole reply before the deadline");
  }
  Error failed(httplib::Error why) const {
    const bool is_trust =
        why == httplib::Error::SSLServerVerification || why == httplib::Error::SSLLoadingCerts;
    return error(is_trust ? Errc::config : Errc::closed,
                 is_trust ? "its certificate is not trusted; ca_file names a file of trusted ones"
                          : fmt::format("no connection or it broke ({})", httplib::to_string(why)));
  }

  HttpPoolOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, Call> calls;
  std::vector<std::shared_ptr<httplib::Client>> idle;
  uint64_t last_id = 0;
  bool is_stopped = false;
  bool is_ending = false;
  std::thread watch;  // last: it uses all of the above
};

HttpPool::HttpPool(HttpPoolOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpPool::~HttpPool() = default;
void HttpPool::stop() { impl_->stop(); }
std::string HttpPool::url() const { return impl_->url(); }

Expected<HttpReply> HttpPool::post(const std::string& body, TimePoint deadline) {
  const auto left = deadline - Clock::now();
  if (left <= Clock::duration::zero()) return impl_->error(Errc::timeout, "no time is left");
  const WithoutSigpipe guard;  // outlives the client
  std::shared_ptr<httplib::Client> client;
  const uint64_t id = impl_->begin(deadline, client);
  if (id == 0) return impl_->interrupted();
  client->set_connection_timeout(std::min<Clock::duration>(left, k_connect_max));
  client->set_read_timeout(left + k_watch_first);
  client->set_write_timeout(left + k_watch_first);

  httplib::Request request;
  request.method = "POST";
  request.path = impl_->options.url.path;
  request.body = body;
  request.set_header("Content-Type", "application/json");
  for (const auto& [name, value] : impl_->options.headers) request.set_header(name, value);
  HttpReply reply;
  bool is_too_long = false;
  request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
    is_too_long = reply.body.size() + size > impl_->options.reply_bytes_max;
    if (!is_too_long) reply.body.append(data, size);
    return !is_too_long;
  };
  httplib::Response response;
  httplib::Error error = httplib::Error::Unknown;
  bool is_sent = false;
  Wait wait({WaitLevel::outside, "a call of a server", impl_->url(),
             "its reply, or the deadline of the call"});
  try {
    is_sent = client->send(request, response, error);
  } catch (const std::exception& e) {
    impl_->end(id, false);
    return impl_->error(Errc::closed, e.what());
  }
  if (!impl_->end(id, is_sent)) return impl_->interrupted();
  if (is_too_long)
    return impl_->error(Errc::capacity, fmt::format("a reply of more than {} bytes",
                                                    impl_->options.reply_bytes_max));
  if (!is_sent) return impl_->failed(error);
  reply.status = response.status;
  if (response.has_header("Retry-After"))
    reply.retry_after_s =
        retry_after_seconds(response.get_header_value("Retry-After"), std::time(nullptr));
  return reply;
}

}  // namespace cohort::plugin

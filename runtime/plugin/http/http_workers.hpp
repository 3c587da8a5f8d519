#pragma once
/// Threads that post requests to one server: retries with growing pauses, a common rate, one
/// deadline per request over all its tries. Thread-safe. Bound: `workers` requests at once; the
/// queue holds only requests that a caller waits for. HTTP-1: every post() is answered exactly
/// once. HTTP-2: no more than requests_per_minute requests begin in any minute, tries included, and
/// none while the server has asked for a pause (at most k_hold_max of it). Internal to
/// runtime/plugin.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/plugin/http/http_pool.hpp"

namespace cohort::plugin {

struct HttpWorkersOptions {
  uint32_t workers = 2;
  double timeout_s = 10;           // of a request, from its first try's begin, pauses included
  double try_timeout_s = 0;        // of one try; 0: timeout_s
  uint32_t retries = 3;            // further tries after what may pass: no connection, 408, 425,
                                   // 429, 5xx, a try's timeout
  double backoff_s = 0.5;          // pause before the first retry; doubled for each further one
  double requests_per_minute = 0;  // 0: no limit
};

/// Returns the beginning of a reply in printable ASCII, for an error.
std::string shown_reply(std::string_view body);

class HttpWorkers {
 public:
  static constexpr std::chrono::seconds k_hold_max{120};
  /// The body of a 2xx reply, or why there is none: url, status, the beginning of the body, tries.
  using Done = std::function<void(Expected<std::string>)>;

  HttpWorkers(HttpPoolOptions server, const HttpWorkersOptions& options);
  ~HttpWorkers();  // answers the rest with Errc::cancelled
  HttpWorkers(const HttpWorkers&) = delete;
  HttpWorkers& operator=(const HttpWorkers&) = delete;

  /// `done` runs on a thread of the workers, or here after stop().
  void post(std::string body, Done done);
  void stop();
  uint32_t workers() const { return options_.workers; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    std::string body;
    Done done;
  };
  void run();
  Expected<std::string> work(const std::string& body);
  Expected<void> wait_turn(std::optional<Clock::time_point> deadline);
  Expected<void> wait_again(Clock::time_point until, Clock::time_point deadline);
  Error cancelled() const;

  HttpWorkersOptions options_;
  HttpPool pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  Clock::time_point next_start_{};  // HTTP-2: no request begins before
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace cohort::plugin

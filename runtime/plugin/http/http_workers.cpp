#include "runtime/plugin/http/http_workers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort::plugin {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double k_backoff_max_s = 30;
constexpr size_t k_shown_max = 200;  // [bytes] of a reply in an error

Clock::duration duration_of(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

bool may_pass(int status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}

bool may_pass(Errc code) { return code == Errc::closed || code == Errc::timeout; }

/// A status that is no success, as an error.
Error refusal(const std::string& url, const HttpReply& reply) {
  const bool is_key = reply.status == 401 || reply.status == 403;
  return {is_key ? Errc::config : Errc::closed,
          fmt::format("{}: status {}{}: {}", url, reply.status,
                      is_key ? " (api_key_env names the variable that holds the key)" : "",
                      shown_reply(reply.body))};
}

}  // namespace

std::string shown_reply(std::string_view body) {
  std::string text(body.substr(0, k_shown_max));
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, ' ');
  return text;
}

HttpWorkers::HttpWorkers(HttpPoolOptions server, const HttpWorkersOptions& options)
    : options_(options), pool_(std::move(server)) {
  options_.workers = std::max<uint32_t>(options_.workers, 1);
  if (options_.try_timeout_s <= 0) options_.try_timeout_s = options_.timeout_s;
  for (uint32_t i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { run(); });
}

HttpWorkers::~HttpWorkers() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

Error HttpWorkers::cancelled() const { return {Errc::cancelled, pool_.url() + ": stopped"}; }

void HttpWorkers::post(std::string body, Done done) {
  {
    std::lock_guard lock(mutex_);
    if (!is_stopped_) {
      waiting_.push_back({std::move(body), std::move(done)});
      changed_.notify_all();
      return;
    }
  }
  done(cancelled());
}

void HttpWorkers::stop() {
  std::deque<Job> dropped;
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
    dropped.swap(waiting_);
    changed_.notify_all();
  }
  pool_.stop();
  for (Job& job : dropped) job.done(cancelled());
}

void HttpWorkers::run() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopped_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    job.done(work(job.body));
  }
}

/// Waits until a request may begin and takes that beginning.
Expected<void> HttpWorkers::wait_turn(std::optional<Clock::time_point> deadline) {
  std::unique_lock lock(mutex_);
  while (!is_stopped_ && next_start_ > Clock::now()) {
    if (deadline && next_start_ >= *deadline)
      return Error{Errc::timeout,
                   "the rate limit, or a pause that the server asked for, leaves no "
                   "time for another try"};
    changed_.wait_until(lock, next_start_);
  }
  if (is_stopped_) return cancelled();
  if (options_.requests_per_minute > 0)
    next_start_ = Clock::now() + duration_of(60 / options_.requests_per_minute);
  return {};
}

/// Waits out the pause before a retry, then for its turn.
Expected<void> HttpWorkers::wait_again(Clock::time_point until, Clock::time_point deadline) {
  if (until >= deadline) return Error{Errc::timeout, "no time is left for another try"};
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [this] { return is_stopped_; });
  }
  return wait_turn(deadline);
}

Expected<std::string> HttpWorkers::work(const std::string& body) {
  COHORT_TRY(wait_turn(std::nullopt));
  const Clock::time_point deadline = Clock::now() + duration_of(options_.timeout_s);
  double backoff_s = options_.backoff_s;
  for (uint32_t tries = 1;; ++tries) {
    auto reply =
        pool_.post(body, std::min(deadline, Clock::now() + duration_of(options_.try_timeout_s)));
    const bool is_good = reply && reply->status >= 200 && reply->status < 300;
    if (is_good) return std::move(reply->body);
    Error error = reply ? refusal(pool_.url(), *reply) : reply.error();
    const bool is_last =
        tries > options_.retries || !(reply ? may_pass(reply->status) : may_pass(error.code));
    if (tries > 1) error.detail += fmt::format(" (after {} tries)", tries);
    if (is_last) return error;
    if (reply && reply->retry_after_s) {
      std::lock_guard lock(mutex_);
      const auto hold =
          std::min<Clock::duration>(duration_of(std::min(*reply->retry_after_s, 1e6)), k_hold_max);
      next_start_ = std::max(next_start_, Clock::now() + hold);
    }
    if (auto turn = wait_again(Clock::now() + duration_of(backoff_s), deadline); !turn)
      return turn.error().code == Errc::cancelled
                 ? turn.error()
                 : Error{error.code, error.detail + "; " + turn.error().detail};
    backoff_s = std::min(backoff_s * 2, k_backoff_max_s);
  }
}

}  // namespace cohort::plugin

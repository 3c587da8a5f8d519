#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/transport/link_book.hpp"
#include "runtime/transport/producer_session.hpp"

namespace cohort::transport {

namespace {

using namespace detail;

constexpr int k_replies_batch = 256;  // frames handled before the other duties get a turn

uint64_t random_session() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

/// A routing id may not begin with a zero byte; the ROUTER checks that it names the frame's
/// session.
std::string identity_of(uint64_t session) {
  std::string identity(1, 'S');
  for (int i = 0; i < 8; ++i) identity.push_back(static_cast<char>(session >> (8 * i) & 0xff));
  return identity;
}

/// The producer's pump: one thread that owns the DEALER socket and runs a ProducerSession. Shared
/// state is behind mutex_; everything under "pump only" is touched by the pump thread alone.
class SenderPump final : public Sender, ProducerPort {
 public:
  SenderPump(std::shared_ptr<Context::Handle> context, LinkOptions options,
             Sender::OnFailed on_failed)
      : context_(std::move(context)),
        options_(std::move(options)),
        on_failed_(std::move(on_failed)),
        books_(options_),
        session_(random_session(), options_, *this, counters_) {}
  ~SenderPump() override {
    if (!thread_.joinable()) return;
    COHORT_CHECK(thread_.get_id() != std::this_thread::get_id(),
                 "LINK: a Sender may not be destroyed by its own callback");
    is_stopping_ = true;
    wake_.wake();
    thread_.join();
  }
  Expected<void> start() {
    COHORT_TRY(check_options(options_));
    COHORT_TRY(open_socket());
    session_.start(now_ms());
    thread_ = std::thread([this] { run(); });
    place_ = LinkPlace([this] {
      return LinkEnd{options_.name,        true, counters_.read(), pending_bytes(),
                     options_.queue_bytes, 0};
    });
    return {};
  }
  Expected<uint64_t> send(Message message, Sender::OnAcked on_acked) override {
    std::lock_guard lock(mutex_);
    if (dead_) return Error{Errc::closed, dead_->detail};
    auto item = books_.admit(std::move(message), std::move(on_acked));
    if (!item) return item.error();
    uint64_t seq = item->seq;
    inbox_.push_back(std::move(*item));
    wake_.wake();
    return seq;
  }
  size_t pending_bytes() const override {
    std::lock_guard lock(mutex_);
    return books_.pending_bytes();
  }
  bool wait_drained(int timeout_ms) override {
    std::unique_lock lock(mutex_);
    drained_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] {
      return (books_.pending_bytes() == 0 && !is_calling_back_) || dead_;
    });
    return books_.pending_bytes() == 0;
  }
  LinkStats stats() const override { return counters_.read(); }

 private:
  // ProducerPort
  IoResult send(const FrameHeader& header, std::string_view payload,
                tensor::Buffer chunk) override {
    if (socket_.native() == nullptr) return IoResult::unreachable;
    bool has_chunk = !chunk.empty();
    Part first = make_frame(header, payload);
    IoResult result = socket_.send(first, has_chunk);
    if (result != IoResult::done || !has_chunk) return result;
    Part body(std::move(chunk));
    return socket_.send(body, false);
  }
  void reconnect() override {
    socket_.close();
    // A failure here (no file descriptor left) is retried: the session comes back.
    auto opened = open_socket();
    std::string error = opened ? std::string() : opened.error().to_string();
    if (!error.empty() && error != open_error_) log::warn("link {}: {}", options_.name, error);
    open_error_ = std::move(error);
  }
  bool is_stuck() const override {
    if (endpoint_.empty()) return false;  // has_moved() will tell
    return socket_.native() == nullptr || endpoint_.starts_with("inproc://");
  }
  bool has_moved() override {
    if (!options_.resolve) return false;
    std::string found = options_.resolve();
    if (found.empty() || found == endpoint_) return false;
    if (!endpoint_.empty())
      log::info("link {}: the consumer moved from {} to {}", options_.name, endpoint_, found);
    return true;
  }
  std::string where() const override {
    return endpoint_.empty() ? std::string("address not known yet") : endpoint_;
  }
  void on_credit(uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    books_.set_peer_credit(bytes);
  }
  void on_acked(std::vector<ProducerItem> done, size_t cost) override {
    {
      std::lock_guard lock(mutex_);
      books_.release(cost);  // before the callbacks: one may want to send
      is_calling_back_ = true;
    }
    for (ProducerItem& item : done)
      if (item.on_acked) item.on_acked(item.seq);
    std::lock_guard lock(mutex_);
    is_calling_back_ = false;
    if (books_.pending_bytes() == 0) drained_.notify_all();
  }
  void on_outage(Error error) override {
    log::warn("{}", error.detail);
    if (on_failed_) on_failed_(std::move(error));
  }
  void on_silent(int64_t silent_ms, size_t messages) override {
    silence_ = Wait(
        {WaitLevel::outside, "link " + options_.name,
         fmt::format("an answer of {}, which has {} messages to acknowledge", where(), messages),
         "a frame of the consumer", 0, now_seconds() - static_cast<double>(silent_ms) * 1e-3});
  }
  void on_heard() override { silence_.end(); }
  void on_dead(Error error) override {
    log::error("{}", error.detail);
    {
      std::lock_guard lock(mutex_);
      dead_ = error;
      drained_.notify_all();
    }
    if (on_failed_) on_failed_(std::move(error));
  }

  /// Connects to where the consumer is now. While nobody knows, there is no socket and no error.
  Expected<void> open_socket() {
    endpoint_ = options_.resolve ? options_.resolve() : options_.endpoint;
    if (endpoint_.empty()) return {};
    COHORT_TRY(check_endpoint(options_, endpoint_));
    COHORT_ASSIGN(socket_,
                  Socket::open(context_, ZMQ_DEALER, options_, identity_of(session_.id())));
    return socket_.connect(endpoint_);
  }
  void run() {
    while (!is_stopping_ && !session_.is_dead()) {
      take_inbox();
      bool is_busy = receive_some();
      is_busy = session_.send_some() || is_busy;
      session_.on_timers(now_ms());
      if (!is_busy) sleep();
    }
    session_.say_bye();
    socket_.close();
  }
  void sleep() {
    wake_.announce_sleep();
    {
      std::lock_guard lock(mutex_);
      if (!inbox_.empty() || is_stopping_) {
        wake_.stay_awake();
        return;
      }
    }
    int64_t wait_ms = std::clamp<int64_t>(session_.next_due() - now_ms(), 0, options_.heartbeat_ms);
    wake_.wait(socket_, session_.wants_output(), static_cast<int>(wait_ms));
  }
  void take_inbox() {
    {
      std::lock_guard lock(mutex_);
      if (inbox_.empty()) return;
      taken_.swap(inbox_);
    }
    for (ProducerItem& item : taken_) session_.push(std::move(item));
    taken_.clear();
  }
  bool receive_some() {
    Part part;
    for (int i = 0; i < k_replies_batch; ++i) {
      if (session_.is_dead() || !socket_.receive(part)) return i > 0;
      bool has_more = part.has_more();
      auto header = has_more ? std::nullopt : unseal(part.bytes());
      if (header)
        session_.on_frame(*header, part.bytes().subspan(sizeof(FrameHeader)), now_ms());
      else
        ++counters_.corrupt;
      for (Part rest; has_more && socket_.receive(rest);) has_more = rest.has_more();
    }
    return true;
  }

  const std::shared_ptr<Context::Handle> context_;
  const LinkOptions options_;
  const Sender::OnFailed on_failed_;
  Wake wake_;

  mutable std::mutex mutex_;
  std::condition_variable drained_;
  std::vector<ProducerItem> inbox_;
  ProducerBooks books_;
  bool is_calling_back_ = false;  // acknowledged, but on_acked has not returned
  std::optional<Error> dead_;
  std::atomic<bool> is_stopping_{false};
  Counters counters_;

  // pump only
  Socket socket_;
  std::string endpoint_;    // where the consumer is, as far as we know; empty: nobody knows
  std::string open_error_;  // of the last try, so that the log says it once
  Wait silence_;            // of the consumer
  ProducerSession session_;
  std::vector<ProducerItem> taken_;

  std::thread thread_;  // starts when all else is there
  LinkPlace place_;     // the first to end
};

}  // namespace

Expected<std::unique_ptr<Sender>> Sender::open(Context& context, LinkOptions options,
                                               OnFailed on_failed) {
  auto pump =
      std::make_unique<SenderPump>(context.handle(), std::move(options), std::move(on_failed));
  COHORT_TRY(pump->start());
  return std::unique_ptr<Sender>(std::move(pump));
}

}  // namespace cohort::transport

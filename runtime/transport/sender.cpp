#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/transport/sender_pump.hpp"

namespace cohort::transport {
namespace detail {

namespace {

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

}  // namespace

SenderPump::SenderPump(std::shared_ptr<Context::Handle> context, LinkOptions options,
                       Sender::OnFailed on_failed)
    : context_(std::move(context)),
      options_(std::move(options)),
      on_failed_(std::move(on_failed)),
      books_(options_),
      session_(random_session(), options_, *this, counters_) {}

SenderPump::~SenderPump() {
  if (!thread_.joinable()) return;
  COHORT_CHECK(thread_.get_id() != std::this_thread::get_id(),
               "LINK: a Sender may not be destroyed by its own callback");
  is_stopping_ = true;
  wake_.wake();
  thread_.join();
}

Expected<void> SenderPump::start() {
  COHORT_TRY(check_options(options_));
  COHORT_TRY(open_socket());
  session_.start(now_ms());
  thread_ = std::thread([this] { run(); });
  return {};
}

/// Connects to where the consumer is now. While nobody knows, there is no socket and no error.
Expected<void> SenderPump::open_socket() {
  endpoint_ = options_.resolve ? options_.resolve() : options_.endpoint;
  if (endpoint_.empty()) return {};
  COHORT_TRY(check_endpoint(options_, endpoint_));
  COHORT_ASSIGN(socket_, Socket::open(context_, ZMQ_DEALER, options_, identity_of(session_.id())));
  return socket_.connect(endpoint_);
}

Expected<uint64_t> SenderPump::send(Message message, Sender::OnAcked on_acked) {
  std::lock_guard lock(mutex_);
  if (dead_) return Error{Errc::closed, dead_->detail};
  auto item = books_.admit(std::move(message), std::move(on_acked));
  if (!item) return item.error();
  uint64_t seq = item->seq;
  inbox_.push_back(std::move(*item));
  wake_.wake();
  return seq;
}

size_t SenderPump::pending_bytes() const {
  std::lock_guard lock(mutex_);
  return books_.pending_bytes();
}

bool SenderPump::wait_drained(int timeout_ms) {
  std::unique_lock lock(mutex_);
  drained_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                    [this] { return (books_.pending_bytes() == 0 && !is_calling_back_) || dead_; });
  return books_.pending_bytes() == 0;
}

void SenderPump::run() {
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

void SenderPump::sleep() {
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

void SenderPump::take_inbox() {
  {
    std::lock_guard lock(mutex_);
    if (inbox_.empty()) return;
    taken_.swap(inbox_);
  }
  for (ProducerItem& item : taken_) session_.push(std::move(item));
  taken_.clear();
}

bool SenderPump::receive_some() {
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

IoResult SenderPump::send(const FrameHeader& header, std::string_view payload,
                          tensor::Buffer chunk) {
  if (socket_.native() == nullptr) return IoResult::unreachable;
  bool has_chunk = !chunk.empty();
  Part first = make_frame(header, payload);
  IoResult result = socket_.send(first, has_chunk);
  if (result != IoResult::done || !has_chunk) return result;
  Part body(std::move(chunk));
  return socket_.send(body, false);
}

void SenderPump::reconnect() {
  socket_.close();
  // A failure here (no file descriptor left) is retried: the session comes back.
  auto opened = open_socket();
  std::string error = opened ? std::string() : opened.error().to_string();
  if (!error.empty() && error != open_error_) log::warn("link {}: {}", options_.name, error);
  open_error_ = std::move(error);
}

bool SenderPump::is_stuck() const {
  if (endpoint_.empty()) return false;  // has_moved() will tell
  return socket_.native() == nullptr || endpoint_.starts_with("inproc://");
}

bool SenderPump::has_moved() {
  if (!options_.resolve) return false;
  std::string found = options_.resolve();
  if (found.empty() || found == endpoint_) return false;
  if (!endpoint_.empty())
    log::info("link {}: the consumer moved from {} to {}", options_.name, endpoint_, found);
  return true;
}

std::string SenderPump::where() const {
  return endpoint_.empty() ? std::string("address not known yet") : endpoint_;
}

void SenderPump::on_credit(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  books_.set_peer_credit(bytes);
}

void SenderPump::on_acked(std::vector<ProducerItem> done, size_t cost) {
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

void SenderPump::on_outage(Error error) {
  log::warn("{}", error.detail);
  if (on_failed_) on_failed_(std::move(error));
}

void SenderPump::on_dead(Error error) {
  log::error("{}", error.detail);
  {
    std::lock_guard lock(mutex_);
    dead_ = error;
    drained_.notify_all();
  }
  if (on_failed_) on_failed_(std::move(error));
}

}  // namespace detail

Sender::Sender(std::unique_ptr<detail::SenderPump> pump) : pump_(std::move(pump)) {}
Sender::~Sender() = default;

Expected<std::unique_ptr<Sender>> Sender::open(Context& context, LinkOptions options,
                                               OnFailed on_failed) {
  auto pump = std::make_unique<detail::SenderPump>(context.handle(), std::move(options),
                                                   std::move(on_failed));
  COHORT_TRY(pump->start());
  return std::unique_ptr<Sender>(new Sender(std::move(pump)));
}

Expected<uint64_t> Sender::send(Message message, OnAcked on_acked) {
  return pump_->send(std::move(message), std::move(on_acked));
}
size_t Sender::pending_bytes() const { return pump_->pending_bytes(); }
bool Sender::wait_drained(int timeout_ms) { return pump_->wait_drained(timeout_ms); }
LinkStats Sender::stats() const { return pump_->stats(); }

}  // namespace cohort::transport

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/tensor/checksum.hpp"
#include "runtime/transport/sender_pump.hpp"

namespace cohort::transport {
namespace detail {

namespace {

constexpr int k_first_hello_ms = 10;  // then doubled up to the heartbeat
constexpr int k_receive_batch = 256;  // frames handled before the other duties get a turn
constexpr size_t k_send_batch_bytes = size_t{8} << 20;
constexpr int k_send_batch_frames = 256;

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
      session_(random_session()) {}

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
  outage_since_ = last_heard_ = next_hello_ = socket_since_ = now_ms();
  hello_interval_ms_ = k_first_hello_ms;
  thread_ = std::thread([this] { run(); });
  return {};
}

/// Connects to where the consumer is now. While nobody knows, there is no socket and no error.
Expected<void> SenderPump::open_socket() {
  endpoint_ = options_.resolve ? options_.resolve() : options_.endpoint;
  if (endpoint_.empty()) return {};
  COHORT_TRY(check_endpoint(options_, endpoint_));
  COHORT_ASSIGN(socket_, Socket::open(context_, ZMQ_DEALER, options_, identity_of(session_)));
  return socket_.connect(endpoint_);
}

/// A consumer that was restarted may be elsewhere; ZeroMQ would knock at the old door for ever.
void SenderPump::follow_consumer() {
  if (!options_.resolve) return;
  std::string found = options_.resolve();
  if (found.empty() || found == endpoint_) return;
  if (!endpoint_.empty())
    log::info("link {}: the consumer moved from {} to {}", options_.name, endpoint_, found);
  lose_peer(now_ms(), false);
  reopen();
}

std::string SenderPump::where() const {
  return endpoint_.empty() ? std::string("address not known yet") : endpoint_;
}

Expected<uint64_t> SenderPump::send(Message message, Sender::OnAcked on_acked) {
  Item item;
  size_t header_bytes = message.header.size(), body_bytes = message.body.size_bytes();
  item.cost = cost_of(header_bytes, body_bytes);
  item.chunk_count = static_cast<uint32_t>(chunk_count_of(body_bytes, options_.chunk_bytes));
  item.message = std::move(message);
  item.on_acked = std::move(on_acked);
  {
    std::lock_guard lock(mutex_);
    if (dead_) return Error{Errc::closed, dead_->detail};
    uint64_t limit = options_.queue_bytes;
    if (peer_credit_ != 0) limit = std::min(limit, peer_credit_);
    if (item.cost > limit || header_bytes > k_max_header_bytes)
      return Error{
          Errc::capacity,
          fmt::format("link {}: a message of {} + {} bytes never fits (limit {}, header {})",
                      options_.name, header_bytes, body_bytes, limit, k_max_header_bytes)};
    if (pending_bytes_ + item.cost > options_.queue_bytes)
      return Error{Errc::backpressure,
                   fmt::format("link {}: {} of {} queue bytes are in use", options_.name,
                               pending_bytes_, options_.queue_bytes)};
    item.seq = next_seq_++;
    position_ += item.cost;
    item.end_position = position_;
    pending_bytes_ += item.cost;
    uint64_t seq = item.seq;
    inbox_.push_back(std::move(item));
    wake_.wake();
    return seq;
  }
}

size_t SenderPump::pending_bytes() const {
  std::lock_guard lock(mutex_);
  return pending_bytes_;
}

bool SenderPump::wait_drained(int timeout_ms) {
  std::unique_lock lock(mutex_);
  drained_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                    [this] { return (pending_bytes_ == 0 && !is_calling_back_) || dead_; });
  return pending_bytes_ == 0;
}

LinkStats SenderPump::stats() const {
  const Counters& x = counters_;
  return {x.messages, x.bytes, x.chunks,     x.resent,  x.acks,
          x.corrupt,  x.gaps,  x.reconnects, x.rejected};
}

void SenderPump::run() {
  while (!is_stopping_ && !is_dead_) {
    take_inbox();
    bool is_busy = receive_some();
    is_busy = send_some() || is_busy;
    on_timers(now_ms());
    if (!is_busy) sleep();
  }
  send_control(FrameKind::bye);
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
  int64_t due = is_established_ ? next_ping_ : next_hello_;
  int timeout_ms = static_cast<int>(std::clamp<int64_t>(due - now_ms(), 0, options_.heartbeat_ms));
  wake_.wait(socket_, wants_output_, timeout_ms);
}

void SenderPump::take_inbox() {
  {
    std::lock_guard lock(mutex_);
    if (inbox_.empty()) return;
    taken_.swap(inbox_);
  }
  for (Item& item : taken_) window_.push_back(std::move(item));
  taken_.clear();
}

bool SenderPump::receive_some() {
  Part part;
  for (int i = 0; i < k_receive_batch; ++i) {
    if (is_dead_ || !socket_.receive(part)) return i > 0;
    bool has_more = part.has_more();
    if (!has_more)
      on_frame(part);
    else
      ++counters_.corrupt;
    for (Part rest; has_more && socket_.receive(rest);) has_more = rest.has_more();
  }
  return true;
}

void SenderPump::on_frame(const Part& part) {
  auto header = unseal(part.bytes());
  if (!header || header->session != session_) {
    ++counters_.corrupt;
    return;
  }
  last_heard_ = now_ms();
  pings_ = 0;
  auto payload = part.bytes().subspan(sizeof(FrameHeader));
  switch (header->kind) {
    case FrameKind::welcome:
      return on_welcome(payload);
    case FrameKind::reject:
      return fail(proto::decode_reject(payload).with_context(
          fmt::format("link {} ({}): turned away", options_.name, where())));
    case FrameKind::ack:
      ++counters_.acks;
      return on_ack(header->seq, header->body_bytes);
    case FrameKind::resend:
      ++counters_.gaps;
      return rewind(header->seq, header->chunk);
    case FrameKind::unknown_session:
      if (is_established_) lose_peer(last_heard_, false);
      return;
    case FrameKind::bye:
      // inproc cannot reconnect by itself, and a new consumer may bind the same name at any time.
      lose_peer(last_heard_, false);
      return reopen();
    default:
      return fail(
          {Errc::protocol, fmt::format("link {} ({}): frame kind {} from the consumer",
                                       options_.name, where(), static_cast<int>(header->kind))});
  }
}

void SenderPump::on_welcome(std::span<const std::byte> payload) {
  auto welcome = proto::decode_welcome(payload);
  if (!welcome || welcome->protocol < k_protocol_min || welcome->protocol > k_protocol_max) {
    std::string why = welcome ? fmt::format("protocol {}, we speak {} to {}", welcome->protocol,
                                            k_protocol_min, k_protocol_max)
                              : welcome.error().detail;
    return fail(
        {Errc::protocol, fmt::format("link {} ({}): welcome: {}", options_.name, where(), why)});
  }
  if (is_established_) return;  // the answer to a repeated hello
  {
    std::lock_guard lock(mutex_);
    peer_credit_ = welcome->credit_bytes;
  }
  for (const Item& item : window_)
    if (item.cost > welcome->credit_bytes)
      return fail(
          {Errc::capacity,
           fmt::format("link {} ({}): a queued message of {} bytes exceeds the credit {} of {}",
                       options_.name, where(), item.cost, welcome->credit_bytes, welcome->name)});
  if (was_established_) ++counters_.reconnects;
  is_established_ = was_established_ = true;
  is_outage_reported_ = false;
  unconnected_since_ = 0;
  next_ping_ = last_heard_ + options_.heartbeat_ms;
  granted_ = welcome->granted;
  on_ack(welcome->acked_seq, welcome->granted);
  cursor_ = window_.size();
  cursor_chunk_ = 0;
  rewind(welcome->next_seq, welcome->next_chunk);
}

void SenderPump::on_ack(uint64_t acked_seq, uint64_t granted) {
  if (!is_established_) return;
  uint64_t last_seq = window_.empty() ? acked_seq_ : window_.back().seq;
  if (acked_seq > last_seq)
    return fail({Errc::protocol, fmt::format("link {} ({}): acknowledges {}, last sent {}",
                                             options_.name, where(), acked_seq, last_seq)});
  granted_ = std::max(granted_, granted);
  std::vector<Item> done;
  size_t freed = 0;
  while (!window_.empty() && window_.front().seq <= acked_seq) {
    freed += window_.front().cost;
    acked_position_ = window_.front().end_position;
    done.push_back(std::move(window_.front()));
    window_.pop_front();
    if (cursor_ > 0)
      --cursor_;
    else
      cursor_chunk_ = 0;
  }
  if (done.empty()) return;
  acked_seq_ = acked_seq;
  {
    std::lock_guard lock(mutex_);
    pending_bytes_ -= freed;  // before the callbacks: one may want to send
    is_calling_back_ = true;
  }
  for (Item& item : done)
    if (item.on_acked) item.on_acked(item.seq);
  std::lock_guard lock(mutex_);
  is_calling_back_ = false;
  if (pending_bytes_ == 0) drained_.notify_all();
}

void SenderPump::rewind(uint64_t seq, uint32_t chunk) {
  if (!is_established_ || window_.empty() || seq > window_.back().seq)
    return;  // nothing of it is left, or nothing was sent yet
  size_t index = seq > window_.front().seq ? seq - window_.front().seq : 0;
  uint32_t from = seq < window_.front().seq || chunk >= window_[index].chunk_count ? 0 : chunk;
  if (index > cursor_ || (index == cursor_ && from > cursor_chunk_)) return;
  cursor_ = index;
  cursor_chunk_ = from;
}

bool SenderPump::send_some() {
  wants_output_ = false;
  size_t bytes = 0;
  int frames = 0;
  while (is_established_ && cursor_ < window_.size() && frames < k_send_batch_frames &&
         bytes < k_send_batch_bytes) {
    const Item& item = window_[cursor_];
    if (item.end_position > granted_) break;  // LINK-3: the consumer has not granted it
    if (send_chunk(item) != IoResult::done) {
      wants_output_ = true;
      break;
    }
    ++frames;
    bytes += options_.chunk_bytes < item.cost ? options_.chunk_bytes : item.cost;
    bool is_again = item.seq < high_seq_ || (item.seq == high_seq_ && cursor_chunk_ < high_chunk_);
    ++counters_.chunks;
    if (is_again) ++counters_.resent;
    if (++cursor_chunk_ == item.chunk_count) {
      if (!is_again) {
        ++counters_.messages;
        counters_.bytes += item.cost - k_message_overhead_bytes;
      }
      cursor_chunk_ = 0;
      ++cursor_;
    }
    if (!is_again) {
      high_seq_ = item.seq;
      high_chunk_ = cursor_chunk_ == 0 ? item.chunk_count : cursor_chunk_;
    }
  }
  return frames > 0;
}

IoResult SenderPump::send_chunk(const Item& item) {
  const Message& message = item.message;
  size_t size = chunk_size_of(message.body.size_bytes(), options_.chunk_bytes, cursor_chunk_);
  FrameHeader header;
  header.kind = FrameKind::data;
  header.session = session_;
  header.seq = item.seq;
  header.chunk = cursor_chunk_;
  header.chunk_count = item.chunk_count;
  header.body_bytes = message.body.size_bytes();
  header.header_bytes = static_cast<uint32_t>(message.header.size());
  header.type = message.type;
  bool is_last_chunk = cursor_chunk_ + 1 == item.chunk_count;
  bool has_next = cursor_ + 1 < window_.size() && window_[cursor_ + 1].end_position <= granted_;
  if (!is_last_chunk || has_next) header.flags = k_more_follows;
  tensor::Buffer chunk = message.body.slice(uint64_t{cursor_chunk_} * options_.chunk_bytes, size);
  if (size > 0)
    header.body_checksum = item.chunk_count == 1 && message.body_checksum
                               ? *message.body_checksum
                               : tensor::checksum64(chunk.bytes());
  Part first = make_frame(
      header, cursor_chunk_ == 0 ? std::string_view(message.header) : std::string_view());
  IoResult result = socket_.send(first, size > 0);
  if (result != IoResult::done || size == 0) return result;
  Part body(std::move(chunk));
  return socket_.send(body, false);
}

bool SenderPump::send_control(FrameKind kind, std::string_view payload) {
  if (socket_.native() == nullptr) return false;
  FrameHeader header;
  header.kind = kind;
  header.session = session_;
  header.seq = cursor_ < window_.size() ? window_[cursor_].seq
               : window_.empty()        ? acked_seq_ + 1
                                        : window_.back().seq + 1;
  header.chunk = cursor_chunk_;
  Part part = make_frame(header, payload);
  return socket_.send(part, false) == IoResult::done;
}

void SenderPump::on_timers(int64_t now) {
  if (is_dead_) return;
  if (is_established_) {
    if (now - last_heard_ > options_.peer_timeout_ms) {
      lose_peer(now, true);
      reopen();
    } else if (now >= next_ping_) {
      ping(now);
    }
    return;
  }
  if (now >= next_hello_) say_hello(now);
  bool has_grace = was_established_ && options_.disconnect_grace_ms > 0;
  int patience_ms = has_grace ? options_.disconnect_grace_ms : options_.peer_timeout_ms;
  if (!is_outage_reported_ && now - outage_since_ > patience_ms)
    report_outage(fmt::format("the consumer was not there for {} ms", patience_ms));
  if (now - socket_since_ > options_.peer_timeout_ms) reopen();
}

/// ZMQ_IMMEDIATE: without a connection there is no pipe, and nothing can be sent. A pipe that is
/// full says the same, but holds k_hwm_frames.
void SenderPump::ping(int64_t now) {
  bool is_sent = send_control(FrameKind::ping);
  next_ping_ = now + options_.heartbeat_ms;
  if (!is_sent || pings_ > 0) follow_consumer();
  if (!is_established_) return;  // it has moved
  bool is_full = cursor_ + static_cast<size_t>(++pings_) >= k_hwm_frames / 2;
  if (is_sent || is_full || options_.disconnect_grace_ms == 0) {
    unconnected_since_ = 0;
    return;
  }
  if (unconnected_since_ == 0) unconnected_since_ = now;
  if (now - unconnected_since_ < options_.disconnect_grace_ms || is_outage_reported_) return;
  report_outage(fmt::format("the consumer has closed its connection, and took none for {} ms",
                            now - unconnected_since_));
}

void SenderPump::say_hello(int64_t now) {
  follow_consumer();
  std::string payload = proto::encode_hello(
      {k_protocol_min, k_protocol_max, options_.run_id, options_.name, acked_seq_ + 1,
       acked_position_, options_.chunk_bytes, static_cast<uint32_t>(options_.heartbeat_ms)});
  bool is_sent = send_control(FrameKind::hello, payload);
  if (!is_sent && (socket_.native() == nullptr || endpoint_.starts_with("inproc://"))) reopen();
  next_hello_ = now + hello_interval_ms_;
  hello_interval_ms_ = std::min(2 * hello_interval_ms_, options_.heartbeat_ms);
}

void SenderPump::lose_peer(int64_t now, bool is_silent) {
  if (is_established_) {
    is_established_ = false;
    outage_since_ = now;
    next_hello_ = now;
    hello_interval_ms_ = k_first_hello_ms;
  }
  if (is_silent && !is_outage_reported_)
    report_outage(fmt::format("the consumer was silent for {} ms", options_.peer_timeout_ms));
}

void SenderPump::report_outage(const std::string& what) {
  is_outage_reported_ = true;
  Error error{Errc::timeout, fmt::format("link {} ({}): {}", options_.name, where(), what)};
  log::warn("{}", error.detail);
  if (on_failed_) on_failed_(error);
}

void SenderPump::reopen() {
  socket_.close();
  socket_since_ = now_ms();
  // A failure here (no file descriptor left) is retried: say_hello or the timer comes back.
  auto opened = open_socket();
  std::string error = opened ? std::string() : opened.error().to_string();
  if (!error.empty() && error != open_error_) log::warn("link {}: {}", options_.name, error);
  open_error_ = std::move(error);
}

void SenderPump::fail(Error error) {
  is_dead_ = true;
  is_established_ = false;
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

#include "runtime/transport/producer_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/proto/link_hello.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::transport::detail {

namespace {

constexpr int k_first_hello_ms = 10;  // then doubled up to the heartbeat
constexpr size_t k_send_batch_bytes = size_t{8} << 20;
constexpr int k_send_batch_frames = 256;
constexpr int k_silent_pings = 2;  // one may wait for a thread that a busy machine put aside

}  // namespace

ProducerBooks::ProducerBooks(const LinkOptions& options)
    : name_(options.name), queue_bytes_(options.queue_bytes), chunk_bytes_(options.chunk_bytes) {}

Expected<ProducerItem> ProducerBooks::admit(Message message, Sender::OnAcked on_acked) {
  size_t header_bytes = message.header.size(), body_bytes = message.body.size_bytes();
  uint64_t cost = cost_of(header_bytes, body_bytes);
  uint64_t limit = peer_credit_ != 0 ? std::min(queue_bytes_, peer_credit_) : queue_bytes_;
  if (cost > limit || header_bytes > k_max_header_bytes)
    return Error{Errc::capacity,
                 fmt::format("link {}: a message of {} + {} bytes never fits (limit {}, header {})",
                             name_, header_bytes, body_bytes, limit, k_max_header_bytes)};
  if (pending_bytes_ + cost > queue_bytes_)
    return Error{Errc::backpressure, fmt::format("link {}: {} of {} queue bytes are in use", name_,
                                                 pending_bytes_, queue_bytes_)};
  position_ += cost;
  pending_bytes_ += cost;
  return ProducerItem{
      next_seq_++,         std::move(message),
      std::move(on_acked), cost,
      position_,           static_cast<uint32_t>(chunk_count_of(body_bytes, chunk_bytes_))};
}

ProducerSession::ProducerSession(uint64_t id, const LinkOptions& options, ProducerPort& port,
                                 Counters& counters)
    : id_(id), options_(options), port_(port), counters_(counters) {}

void ProducerSession::start(int64_t now) {
  outage_since_ = last_heard_ = next_hello_ = socket_since_ = last_timers_ = now;
  hello_interval_ms_ = k_first_hello_ms;
}

std::string ProducerSession::label() const {
  return fmt::format("link {} ({})", options_.name, port_.where());
}

void ProducerSession::on_frame(const FrameHeader& header, std::span<const std::byte> payload,
                               int64_t now) {
  if (is_dead_) return;
  if (header.session != id_) {
    ++counters_.corrupt;
    return;
  }
  // An earlier consumer may have granted more, and what it acknowledged last the present one does
  // not know: its late word would end the session. 0: a peer that does not number.
  bool is_numbered = header.kind == FrameKind::welcome || header.kind == FrameKind::ack ||
                     header.kind == FrameKind::resend;
  if (is_numbered && header.type != 0 && header.type != handshake_) return;
  last_heard_ = now;
  pings_ = 0;
  end_silence();
  switch (header.kind) {
    case FrameKind::welcome:
      return on_welcome(payload, now);
    case FrameKind::reject:
      return fail(proto::decode_reject(payload).with_context(label() + ": turned away"));
    case FrameKind::ack:
      ++counters_.acks;
      return on_ack(header.seq, header.body_bytes);
    case FrameKind::resend:
      ++counters_.gaps;
      return rewind(header.seq, header.chunk);
    case FrameKind::unknown_session:
      if (is_established_) lose_peer(now, false);
      return;
    case FrameKind::bye:
      // inproc cannot reconnect by itself, and a new consumer may bind the same name at any time.
      lose_peer(now, false);
      return reconnect(now);
    default:
      return fail({Errc::protocol, fmt::format("{}: frame kind {} from the consumer", label(),
                                               static_cast<int>(header.kind))});
  }
}

void ProducerSession::on_welcome(std::span<const std::byte> payload, int64_t now) {
  auto welcome = proto::decode_welcome(payload);
  if (!welcome || welcome->protocol < k_protocol_min || welcome->protocol > k_protocol_max) {
    std::string why = welcome ? fmt::format("protocol {}, we speak {} to {}", welcome->protocol,
                                            k_protocol_min, k_protocol_max)
                              : welcome.error().detail;
    return fail({Errc::protocol, fmt::format("{}: welcome: {}", label(), why)});
  }
  if (is_established_) return;  // the answer to a repeated hello
  port_.on_credit(welcome->credit_bytes);
  for (const ProducerItem& item : window_)
    if (item.cost > welcome->credit_bytes)
      return fail({Errc::capacity,
                   fmt::format("{}: a queued message of {} bytes exceeds the credit {} of {}",
                               label(), item.cost, welcome->credit_bytes, welcome->name)});
  if (was_established_) ++counters_.reconnects;
  is_established_ = was_established_ = true;
  is_outage_reported_ = false;
  unconnected_since_ = 0;
  next_ping_ = now + options_.heartbeat_ms;
  granted_ = welcome->granted;
  on_ack(welcome->acked_seq, welcome->granted);
  cursor_ = window_.size();
  cursor_chunk_ = 0;
  rewind(welcome->next_seq, welcome->next_chunk);
}

void ProducerSession::on_ack(uint64_t acked_seq, uint64_t granted) {
  if (!is_established_) return;
  uint64_t last_seq = window_.empty() ? acked_seq_ : window_.back().seq;
  if (acked_seq > last_seq)
    return fail({Errc::protocol,
                 fmt::format("{}: acknowledges {}, last sent {}", label(), acked_seq, last_seq)});
  granted_ = std::max(granted_, granted);
  std::vector<ProducerItem> done;
  size_t cost = 0;
  while (!window_.empty() && window_.front().seq <= acked_seq) {
    cost += window_.front().cost;
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
  port_.on_acked(std::move(done), cost);
}

void ProducerSession::rewind(uint64_t seq, uint32_t chunk) {
  if (!is_established_ || window_.empty() || seq > window_.back().seq)
    return;  // nothing of it is left, or nothing was sent yet
  size_t index = seq > window_.front().seq ? seq - window_.front().seq : 0;
  uint32_t from = seq < window_.front().seq || chunk >= window_[index].chunk_count ? 0 : chunk;
  if (index > cursor_ || (index == cursor_ && from > cursor_chunk_)) return;
  cursor_ = index;
  cursor_chunk_ = from;
}

bool ProducerSession::send_some() {
  wants_output_ = false;
  size_t bytes = 0;
  int frames = 0;
  while (is_established_ && cursor_ < window_.size() && frames < k_send_batch_frames &&
         bytes < k_send_batch_bytes) {
    const ProducerItem& item = window_[cursor_];
    if (item.end_position > granted_) break;  // LINK-3: the consumer has not granted it
    if (send_chunk(item) != IoResult::done) {
      wants_output_ = true;
      break;
    }
    ++frames;
    bytes += options_.chunk_bytes < item.cost ? options_.chunk_bytes : item.cost;
    advance(item);
  }
  return frames > 0;
}

void ProducerSession::advance(const ProducerItem& item) {
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
  if (is_again) return;
  high_seq_ = item.seq;
  high_chunk_ = cursor_chunk_ == 0 ? item.chunk_count : cursor_chunk_;
}

IoResult ProducerSession::send_chunk(const ProducerItem& item) {
  const Message& message = item.message;
  size_t size = chunk_size_of(message.body.size_bytes(), options_.chunk_bytes, cursor_chunk_);
  FrameHeader header;
  header.kind = FrameKind::data;
  header.session = id_;
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
  return port_.send(header,
                    cursor_chunk_ == 0 ? std::string_view(message.header) : std::string_view(),
                    std::move(chunk));
}

bool ProducerSession::send_control(FrameKind kind, std::string_view payload) {
  FrameHeader header;
  header.kind = kind;
  header.session = id_;
  header.seq = cursor_ < window_.size() ? window_[cursor_].seq
               : window_.empty()        ? acked_seq_ + 1
                                        : window_.back().seq + 1;
  header.chunk = cursor_chunk_;
  if (kind == FrameKind::hello) header.type = handshake_;
  return port_.send(header, payload, {}) == IoResult::done;
}

void ProducerSession::say_bye() { send_control(FrameKind::bye); }

void ProducerSession::forgive_pause(int64_t now) {
  const int64_t pause = now - std::exchange(last_timers_, now);
  if (pause <= 2 * options_.heartbeat_ms) return;
  for (int64_t* since : {&outage_since_, &last_heard_, &socket_since_, &unconnected_since_})
    if (*since > 0) *since = std::min(now, *since + pause);
}

void ProducerSession::on_timers(int64_t now) {
  if (is_dead_) return;
  forgive_pause(now);
  if (is_established_) {
    if (now - last_heard_ > options_.peer_timeout_ms) {
      lose_peer(now, true);
      reconnect(now);
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
  if (now - socket_since_ > options_.peer_timeout_ms) reconnect(now);
}

/// ZMQ_IMMEDIATE: without a connection there is no pipe, and nothing can be sent. A pipe that is
/// full says the same, but holds k_hwm_frames.
void ProducerSession::ping(int64_t now) {
  if (pings_ >= k_silent_pings) tell_silence(now);
  bool is_sent = send_control(FrameKind::ping);
  next_ping_ = now + options_.heartbeat_ms;
  if (!is_sent || pings_ > 0) follow_consumer(now);
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

void ProducerSession::say_hello(int64_t now) {
  follow_consumer(now);
  ++handshake_;
  std::string payload =
      proto::encode_hello({k_protocol_min, k_protocol_max, options_.run_id, options_.name,
                           acked_seq_ + 1, acked_position_, options_.chunk_bytes,
                           static_cast<uint32_t>(options_.heartbeat_ms), options_.service});
  if (!send_control(FrameKind::hello, payload) && port_.is_stuck()) reconnect(now);
  next_hello_ = now + hello_interval_ms_;
  hello_interval_ms_ = std::min(2 * hello_interval_ms_, options_.heartbeat_ms);
}

/// A consumer that was restarted may be elsewhere; ZeroMQ would knock at the old door for ever.
void ProducerSession::follow_consumer(int64_t now) {
  if (!port_.has_moved()) return;
  lose_peer(now, false);
  reconnect(now);
}

void ProducerSession::lose_peer(int64_t now, bool is_silent) {
  if (is_established_) {
    is_established_ = false;
    outage_since_ = now;
    next_hello_ = now;
    hello_interval_ms_ = k_first_hello_ms;
  }
  if (is_silent && !is_outage_reported_)
    report_outage(fmt::format("the consumer was silent for {} ms", options_.peer_timeout_ms));
}

void ProducerSession::reconnect(int64_t now) {
  socket_since_ = now;
  port_.reconnect();
}

void ProducerSession::tell_silence(int64_t now) {
  if (window_.empty()) return end_silence();
  is_silent_ = true;
  port_.on_silent(now - last_heard_, window_.size());
}

void ProducerSession::end_silence() {
  if (std::exchange(is_silent_, false)) port_.on_heard();
}

void ProducerSession::report_outage(const std::string& what) {
  is_outage_reported_ = true;
  port_.on_outage({Errc::timeout, fmt::format("{}: {}", label(), what)});
}

void ProducerSession::fail(Error error) {
  is_dead_ = true;
  is_established_ = false;
  end_silence();
  port_.on_dead(std::move(error));
}

}  // namespace cohort::transport::detail

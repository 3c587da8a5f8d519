#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/transport/receiver_pump.hpp"

namespace cohort::transport {
namespace detail {

namespace {

constexpr int k_receive_batch = 64;       // frames before acknowledgements get a turn
constexpr int k_gather_ms = 2;            // an ack waits at most this long for company
constexpr size_t k_max_sessions = 4096;   // known producers, lost ones included
constexpr int k_max_corrupt_streak = 16;  // corrupt frames without progress: the path is broken

/// Returns the session that a routing id names ('S' and 8 bytes, as Sender sets it).
std::optional<uint64_t> session_of(std::span<const std::byte> identity) {
  if (identity.size() != 9 || identity[0] != std::byte{'S'}) return std::nullopt;
  uint64_t id = 0;
  for (size_t i = 0; i < 8; ++i) id |= std::to_integer<uint64_t>(identity[i + 1]) << (8 * i);
  return id;
}

Part identity_part(uint64_t id) {
  Part part(9);
  part.mutable_bytes()[0] = std::byte{'S'};
  for (size_t i = 0; i < 8; ++i)
    part.mutable_bytes()[i + 1] = static_cast<std::byte>(id >> (8 * i) & 0xff);
  return part;
}

}  // namespace

void AckInbox::push(Ack ack) {
  std::lock_guard lock(mutex);
  if (is_closed) return;
  acks.push_back(ack);
  wake.wake();
}

void AckHandle::ack() {
  if (!is_done_.exchange(true)) inbox_->push(ack_);
}

ReceiverPump::ReceiverPump(std::shared_ptr<Context::Handle> context, LinkOptions options,
                           Receiver::OnDelivery on_delivery, Receiver::OnPeerLost on_peer_lost)
    : context_(std::move(context)),
      options_(std::move(options)),
      on_delivery_(std::move(on_delivery)),
      on_peer_lost_(std::move(on_peer_lost)) {}

ReceiverPump::~ReceiverPump() {
  if (!thread_.joinable()) return;
  COHORT_CHECK(thread_.get_id() != std::this_thread::get_id(),
               "LINK: a Receiver may not be destroyed by its own callback");
  is_stopping_ = true;
  inbox_->wake.wake();
  thread_.join();
}

Expected<void> ReceiverPump::start() {
  COHORT_TRY(check_options(options_));
  COHORT_TRY(check_endpoint(options_, options_.endpoint));
  COHORT_CHECK(on_delivery_ != nullptr, "LINK: a Receiver needs on_delivery");
  COHORT_ASSIGN(socket_, Socket::open(context_, ZMQ_ROUTER, options_, {}));
  auto endpoint = socket_.bind(options_.endpoint);
  if (!endpoint) return endpoint.error().with_context("link " + options_.name);
  endpoint_ = *endpoint;
  if (options_.announce) options_.announce(endpoint_);
  thread_ = std::thread([this] { run(); });
  return {};
}

LinkStats ReceiverPump::stats() const {
  const Counters& x = counters_;
  return {x.messages, x.bytes, x.chunks,     x.resent,  x.acks,
          x.corrupt,  x.gaps,  x.reconnects, x.rejected};
}

void ReceiverPump::run() {
  while (!is_stopping_) {
    now_ = now_ms();
    bool is_busy = receive_some();
    apply_acks();
    flush_acks();
    on_timers(now_);
    if (!is_busy) sleep();
  }
  {
    std::lock_guard lock(inbox_->mutex);
    inbox_->is_closed = true;
  }
  FrameHeader bye;
  bye.kind = FrameKind::bye;
  for (const auto& [id, session] : sessions_)
    if (!session->is_lost) send_control(id, bye);
  socket_.close();
}

void ReceiverPump::sleep() {
  inbox_->wake.announce_sleep();
  {
    std::lock_guard lock(inbox_->mutex);
    if (!inbox_->acks.empty() || is_stopping_) {
      inbox_->wake.stay_awake();
      return;
    }
  }
  // Unsent acks are being gathered, or wait for room in the pipe of a producer that does not read.
  int timeout_ms = dirty_.empty() ? options_.heartbeat_ms : k_gather_ms;
  inbox_->wake.wait(socket_, false, timeout_ms);
}

bool ReceiverPump::receive_some() {
  for (int i = 0; i < k_receive_batch; ++i)
    if (!receive_frame()) return i > 0;
  return true;
}

bool ReceiverPump::receive_frame() {
  Part identity, first, body;
  if (!socket_.receive(identity)) return false;
  bool is_whole = identity.has_more() && socket_.receive(first);
  bool has_body = is_whole && first.has_more() && socket_.receive(body);
  bool has_more = is_whole && (has_body ? body.has_more() : first.has_more());
  is_whole = is_whole && !has_more;
  for (Part rest; has_more && socket_.receive(rest);) has_more = rest.has_more();
  auto id = session_of(identity.bytes());
  if (!id) {
    ++counters_.corrupt;
    return true;
  }
  auto header = is_whole ? unseal(first.bytes()) : std::nullopt;
  if (!header || header->session != *id) {
    on_corrupt(*id, false);
    return true;
  }
  on_frame(*id, *header, first.bytes().subspan(sizeof(FrameHeader)), std::move(body));
  return true;
}

Session* ReceiverPump::find(uint64_t id) {
  auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void ReceiverPump::on_frame(uint64_t id, const FrameHeader& header,
                            std::span<const std::byte> payload, Part body) {
  if (header.kind == FrameKind::hello) return on_hello(id, payload);
  Session* session = find(id);
  if (header.kind == FrameKind::bye) {
    sessions_.erase(id);
    return;
  }
  if (session == nullptr || session->is_lost) {
    FrameHeader answer;
    answer.kind = FrameKind::unknown_session;
    send_control(id, answer);
    return;
  }
  session->last_heard = now_;
  if (header.kind == FrameKind::data) return on_data(*session, header, payload, std::move(body));
  if (header.kind == FrameKind::ping) return on_ping(*session, header);
  turn_away(id, session->name(),
            {Errc::protocol, fmt::format("frame kind {}", static_cast<int>(header.kind))});
}

Expected<void> ReceiverPump::check_hello(const proto::LinkHello& hello) const {
  if (hello.protocol_min > k_protocol_max || hello.protocol_max < k_protocol_min)
    return Error{Errc::protocol,
                 fmt::format("protocol {} to {}, the consumer speaks {} to {}", hello.protocol_min,
                             hello.protocol_max, k_protocol_min, k_protocol_max)};
  if (hello.run_id != options_.run_id)
    return Error{Errc::protocol, fmt::format("run id \"{}\", the consumer's is \"{}\"",
                                             hello.run_id, options_.run_id)};
  if (hello.chunk_bytes < k_min_chunk_bytes || hello.chunk_bytes > k_max_chunk_bytes ||
      hello.first_seq == 0 || hello.name.size() > 256)
    return Error{Errc::protocol, fmt::format("hello with chunks of {} bytes, first message {}",
                                             hello.chunk_bytes, hello.first_seq)};
  return {};
}

void ReceiverPump::on_hello(uint64_t id, std::span<const std::byte> payload) {
  auto hello = proto::decode_hello(payload);
  if (!hello) return turn_away(id, "?", hello.error());
  if (auto checked = check_hello(*hello); !checked)
    return turn_away(id, hello->name, checked.error());
  Session* session = find(id);
  if (session == nullptr) {
    if (!make_room()) return turn_away(id, hello->name, {Errc::capacity, "too many producers"});
    auto made = std::make_unique<Session>(id, next_slot_++, *hello, options_.credit_bytes,
                                          options_.verifies_bodies);
    session = made.get();
    sessions_.emplace(id, std::move(made));
  } else {
    if (auto checked = session->check_return(*hello); !checked)
      return turn_away(id, session->name(), checked.error());
    ++counters_.reconnects;
  }
  session->is_lost = session->is_resend_asked = false;
  session->last_heard = now_;
  welcome(*session);
}

bool ReceiverPump::make_room() {
  if (sessions_.size() < k_max_sessions) return true;
  auto oldest = sessions_.end();
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it)
    if (it->second->is_lost &&
        (oldest == sessions_.end() || it->second->last_heard < oldest->second->last_heard))
      oldest = it;
  if (oldest == sessions_.end()) return false;
  sessions_.erase(oldest);
  return true;
}

void ReceiverPump::welcome(Session& session) {
  FrameHeader header;
  header.kind = FrameKind::welcome;
  send_control(session.id(), header,
               proto::encode_welcome({k_protocol_max, session.next_seq(), session.next_chunk(),
                                      session.acked_seq(), session.granted(), options_.credit_bytes,
                                      options_.name}));
}

void ReceiverPump::on_data(Session& session, const FrameHeader& header,
                           std::span<const std::byte> payload, Part body) {
  ++counters_.chunks;
  session.more_follows = (header.flags & k_more_follows) != 0;
  auto outcome = session.on_data(header, payload, std::move(body));
  if (!outcome) return turn_away(session.id(), session.name(), outcome.error());
  switch (*outcome) {
    case Session::Outcome::progress:
      return;
    case Session::Outcome::duplicate:
      ++counters_.resent;
      return mark_dirty(session);
    case Session::Outcome::gap:
      if (!session.is_resend_asked) ask_resend(session);
      return;
    case Session::Outcome::corrupt:
      return on_corrupt(session.id(), true);
    case Session::Outcome::message:
      break;
  }
  Message message = session.take();
  ++counters_.messages;
  counters_.bytes += message.header.size() + message.body.size_bytes();
  auto handle =
      std::make_shared<AckHandle>(inbox_, AckInbox::Ack{session.id(), session.slot(), header.seq});
  on_delivery_({session.name(), session.id(), header.seq, std::move(message), std::move(handle)});
}

void ReceiverPump::on_ping(Session& session, const FrameHeader& header) {
  // Frames keep their order on a connection: what the producer sent before the ping and is not here
  // was lost with an older connection.
  if (session.is_gap(header.seq, header.chunk)) ask_resend(session);
  mark_dirty(session);
}

void ReceiverPump::on_corrupt(uint64_t id, bool is_expected_frame) {
  ++counters_.corrupt;
  Session* session = find(id);
  if (session == nullptr || session->is_lost) return;
  if (++session->corrupt_streak > k_max_corrupt_streak)
    return turn_away(
        id, session->name(),
        {Errc::corrupt, fmt::format("{} corrupt frames in a row", k_max_corrupt_streak)});
  if (is_expected_frame || !session->is_resend_asked) ask_resend(*session);
}

void ReceiverPump::ask_resend(Session& session) {
  ++counters_.gaps;
  session.is_resend_asked = true;
  FrameHeader header;
  header.kind = FrameKind::resend;
  header.seq = session.next_seq();
  header.chunk = session.next_chunk();
  send_control(session.id(), header);
}

void ReceiverPump::turn_away(uint64_t id, const std::string& name, Error error) {
  ++counters_.rejected;
  FrameHeader header;
  header.kind = FrameKind::reject;
  send_control(id, header, proto::encode_reject(error));
  Error full = error.with_context(
      fmt::format("link {} ({}): turned away {}", options_.name, endpoint_, name));
  std::string peer = name;  // `name` may live in the session
  sessions_.erase(id);
  log::warn("{}", full.detail);
  if (on_peer_lost_) on_peer_lost_(std::move(peer), std::move(full));
}

void ReceiverPump::apply_acks() {
  {
    std::lock_guard lock(inbox_->mutex);
    if (inbox_->acks.empty()) return;
    taken_.swap(inbox_->acks);
  }
  for (const AckInbox::Ack& ack : taken_) {
    Session* session = find(ack.session);
    if (session == nullptr || session->slot() != ack.slot) continue;
    session->ack(ack.seq);
    mark_dirty(*session);
  }
  taken_.clear();
}

void ReceiverPump::mark_dirty(Session& session) {
  if (std::exchange(session.is_dirty, true)) return;
  session.dirty_since = now_;
  dirty_.push_back(session.id());
}

void ReceiverPump::flush_acks() {
  size_t kept = 0;
  for (uint64_t id : dirty_) {
    Session* session = find(id);
    if (session == nullptr || !session->is_dirty) continue;
    if (session->more_follows && now_ - session->dirty_since < k_gather_ms &&
        session->granted() - session->announced < options_.credit_bytes / 8) {
      dirty_[kept++] = id;  // more is on its way: one ack frame will do for all of it
      continue;
    }
    FrameHeader header;
    header.kind = FrameKind::ack;
    header.seq = session->acked_seq();
    header.body_bytes = session->granted();
    IoResult result = session->is_lost ? IoResult::unreachable : send_control(id, header);
    if (result == IoResult::again) {
      dirty_[kept++] = id;
      continue;
    }
    session->announced = header.body_bytes;
    session->is_dirty = false;  // unreachable: the welcome after the reconnect says it
    ++counters_.acks;
  }
  dirty_.resize(kept);
}

void ReceiverPump::on_timers(int64_t now) {
  if (now < next_check_) return;
  next_check_ = now + options_.heartbeat_ms / 2;
  std::vector<std::string> lost;
  for (auto& [id, session] : sessions_) {
    if (session->is_lost || now - session->last_heard <= options_.peer_timeout_ms) continue;
    session->is_lost = true;
    session->drop_assembly();
    lost.push_back(session->name());
  }
  for (std::string& name : lost) {
    Error error{Errc::timeout, fmt::format("link {} ({}): {} was silent for {} ms", options_.name,
                                           endpoint_, name, options_.peer_timeout_ms)};
    log::warn("{}", error.detail);
    if (on_peer_lost_) on_peer_lost_(std::move(name), std::move(error));
  }
}

IoResult ReceiverPump::send_control(uint64_t id, FrameHeader header, std::string_view payload) {
  header.session = id;
  Part identity = identity_part(id);
  IoResult result = socket_.send(identity, true);
  if (result != IoResult::done) return result;
  Part part = make_frame(header, payload);
  return socket_.send(part, false);
}

}  // namespace detail

void Delivery::ack() const {
  if (handle) handle->ack();
}

Receiver::Receiver(std::unique_ptr<detail::ReceiverPump> pump) : pump_(std::move(pump)) {}
Receiver::~Receiver() = default;

Expected<std::unique_ptr<Receiver>> Receiver::open(Context& context, LinkOptions options,
                                                   OnDelivery on_delivery,
                                                   OnPeerLost on_peer_lost) {
  auto pump = std::make_unique<detail::ReceiverPump>(
      context.handle(), std::move(options), std::move(on_delivery), std::move(on_peer_lost));
  COHORT_TRY(pump->start());
  return std::unique_ptr<Receiver>(new Receiver(std::move(pump)));
}

std::string Receiver::endpoint() const { return pump_->endpoint(); }
LinkStats Receiver::stats() const { return pump_->stats(); }

}  // namespace cohort::transport

#include "runtime/transport/consumer_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::transport::detail {

namespace {

constexpr int k_gather_ms = 2;            // an ack waits at most this long for company
constexpr size_t k_max_sessions = 4096;   // known producers, lost ones included
constexpr int k_max_corrupt_streak = 16;  // corrupt frames without progress: the path is broken

}  // namespace

ConsumerEnd::ConsumerEnd(const LinkOptions& options, ConsumerPort& port, Counters& counters)
    : options_(options), port_(port), counters_(counters) {}

Session* ConsumerEnd::find(uint64_t id) {
  auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void ConsumerEnd::on_frame(uint64_t id, const FrameHeader* header,
                           std::span<const std::byte> payload, Part body, int64_t now) {
  if (header == nullptr || header->session != id) return on_corrupt(id, false);
  if (header->kind == FrameKind::hello) return on_hello(id, header->type, payload, now);
  Session* session = find(id);
  if (header->kind == FrameKind::bye) {
    sessions_.erase(id);
    return;
  }
  if (session == nullptr || session->is_lost) {
    FrameHeader answer;
    answer.kind = FrameKind::unknown_session;
    send_control(id, answer);
    return;
  }
  session->last_heard = now;
  if (header->kind == FrameKind::data)
    return on_data(*session, *header, payload, std::move(body), now);
  if (header->kind == FrameKind::ping) return on_ping(*session, *header, now);
  turn_away(id, session->name(),
            {Errc::protocol, fmt::format("frame kind {}", static_cast<int>(header->kind))});
}

Expected<void> ConsumerEnd::check_hello(const proto::LinkHello& hello) const {
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

void ConsumerEnd::on_hello(uint64_t id, uint32_t handshake, std::span<const std::byte> payload,
                           int64_t now) {
  auto hello = proto::decode_hello(payload);
  if (!hello) return turn_away(id, "?", hello.error());
  if (!hello->service.empty() && !options_.service.empty() && hello->service != options_.service) {
    ++counters_.rejected;  // a wrong door, not a wrong peer: it will ask where to knock
    return;
  }
  if (auto checked = check_hello(*hello); !checked)
    return turn_away(id, hello->name, checked.error());
  Session* session = find(id);
  if (session == nullptr) {
    if (!make_room()) return turn_away(id, hello->name, {Errc::capacity, "too many producers"});
    auto made = std::make_unique<Session>(id, next_slot_++, *hello, options_.credit_bytes,
                                          options_.verifies_bodies);
    session = made.get();
    sessions_.emplace(id, std::move(made));
  } else if (handshake < session->handshake) {
    return;  // overtaken by a later one
  } else {
    if (auto checked = session->check_return(*hello); !checked)
      return turn_away(id, session->name(), checked.error());
    ++counters_.reconnects;
  }
  session->is_lost = session->is_resend_asked = false;
  session->last_heard = now;
  session->handshake = handshake;
  welcome(*session);
}

bool ConsumerEnd::make_room() {
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

void ConsumerEnd::welcome(Session& session) {
  FrameHeader header;
  header.kind = FrameKind::welcome;
  header.type = session.handshake;
  send_control(session.id(), header,
               proto::encode_welcome({k_protocol_max, session.next_seq(), session.next_chunk(),
                                      session.acked_seq(), session.granted(), options_.credit_bytes,
                                      options_.name}));
}

void ConsumerEnd::on_data(Session& session, const FrameHeader& header,
                          std::span<const std::byte> payload, Part body, int64_t now) {
  ++counters_.chunks;
  session.more_follows = (header.flags & k_more_follows) != 0;
  auto outcome = session.on_data(header, payload, std::move(body));
  if (!outcome) return turn_away(session.id(), session.name(), outcome.error());
  switch (*outcome) {
    case Session::Outcome::progress:
      return;
    case Session::Outcome::duplicate:
      ++counters_.resent;
      return mark_dirty(session, now);
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
  port_.deliver(session, header.seq, std::move(message));
}

void ConsumerEnd::on_ping(Session& session, const FrameHeader& header, int64_t now) {
  // Frames keep their order on a connection: frames that the producer sent before the ping and are
  // not here was lost with an older connection.
  if (session.is_gap(header.seq, header.chunk)) ask_resend(session);
  mark_dirty(session, now);
}

void ConsumerEnd::on_corrupt(uint64_t id, bool is_expected_frame) {
  ++counters_.corrupt;
  Session* session = find(id);
  if (session == nullptr || session->is_lost) return;
  if (++session->corrupt_streak > k_max_corrupt_streak)
    return turn_away(
        id, session->name(),
        {Errc::corrupt, fmt::format("{} corrupt frames in a row", k_max_corrupt_streak)});
  if (is_expected_frame || !session->is_resend_asked) ask_resend(*session);
}

void ConsumerEnd::ask_resend(Session& session) {
  ++counters_.gaps;
  session.is_resend_asked = true;
  FrameHeader header;
  header.kind = FrameKind::resend;
  header.type = session.handshake;
  header.seq = session.next_seq();
  header.chunk = session.next_chunk();
  send_control(session.id(), header);
}

void ConsumerEnd::turn_away(uint64_t id, const std::string& name, Error error) {
  ++counters_.rejected;
  FrameHeader header;
  header.kind = FrameKind::reject;
  send_control(id, header, proto::encode_reject(error));
  Error full = error.with_context(
      fmt::format("link {} ({}): turned away {}", options_.name, port_.where(), name));
  const std::string peer = name;  // `name` may live in the session
  const bool was_admitted = sessions_.erase(id) > 0;
  was_admitted ? port_.on_peer_lost(peer, std::move(full)) : port_.on_refused(full);
}

void ConsumerEnd::ack(uint64_t id, uint64_t slot, uint64_t seq, int64_t now) {
  Session* session = find(id);
  if (session == nullptr || session->slot() != slot) return;
  session->ack(seq);
  mark_dirty(*session, now);
}

void ConsumerEnd::mark_dirty(Session& session, int64_t now) {
  if (std::exchange(session.is_dirty, true)) return;
  session.dirty_since = now;
  dirty_.push_back(session.id());
}

void ConsumerEnd::flush_acks(int64_t now) {
  size_t kept = 0;
  for (uint64_t id : dirty_) {
    Session* session = find(id);
    if (session == nullptr || !session->is_dirty) continue;
    if (session->more_follows && now - session->dirty_since < k_gather_ms &&
        session->granted() - session->announced < options_.credit_bytes / 8) {
      dirty_[kept++] = id;  // more is on its way: one ack frame will do for all of it
      continue;
    }
    FrameHeader header;
    header.kind = FrameKind::ack;
    header.type = session->handshake;
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

void ConsumerEnd::on_timers(int64_t now) {
  // Later than two heartbeats: this process stood still, and nobody was silent meanwhile.
  const int64_t pause = now - std::exchange(last_timers_, now);
  if (pause > 2 * options_.heartbeat_ms)
    for (auto& [id, session] : sessions_)
      session->last_heard = std::min(now, session->last_heard + pause);
  if (now < next_check_) return;
  next_check_ = now + options_.heartbeat_ms / 2;
  std::vector<std::string> lost;
  for (auto& [id, session] : sessions_) {
    if (session->is_lost || now - session->last_heard <= options_.peer_timeout_ms) continue;
    session->is_lost = true;
    session->drop_assembly();
    lost.push_back(session->name());
  }
  for (const std::string& name : lost) {
    Error error{Errc::timeout, fmt::format("link {} ({}): {} was silent for {} ms", options_.name,
                                           port_.where(), name, options_.peer_timeout_ms)};
    port_.on_peer_lost(name, std::move(error));
  }
}

void ConsumerEnd::say_bye() {
  FrameHeader bye;
  bye.kind = FrameKind::bye;
  for (const auto& [id, session] : sessions_)
    if (!session->is_lost) send_control(id, bye);
}

IoResult ConsumerEnd::send_control(uint64_t id, FrameHeader header, std::string_view payload) {
  header.session = id;
  return port_.send(id, header, payload);
}

}  // namespace cohort::transport::detail

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/publish/event_queue.hpp"
#include "runtime/publish/ports.hpp"

namespace cohort::publish {
namespace {

constexpr uint32_t k_message_note = 1;
constexpr int k_grace_ms = 1000;  // without a connection: its process has ended
// A receiver gathers acknowledgements up to an eighth of it: chunks are to come back soon.
constexpr size_t k_credit_bytes = size_t{16} << 20;
constexpr double k_drain_seconds = 0.1;  // for the last words; a peer that has closed takes none

/// What the links' threads share with the port. Outlives neither: both hold it.
struct Mail {
  EventQueue<std::pair<PortEvent, std::shared_ptr<transport::Delivery>>> queue;
  std::atomic<uint64_t> held_bytes{0};  // of data; the words of a failure are not weights
  std::atomic<uint64_t> kept_from{0};   // data of older versions is dropped
  bool is_forgotten(const Note& note) const {
    return note.kind == NoteKind::data && note.version < kept_from;
  }
};

/// A link's name is the card's index, so that both ends know who the other is.
std::optional<uint32_t> card_of(const std::string& name) {
  uint32_t card = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), card);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return card;
}

class LinkPort final : public Port {
 public:
  explicit LinkPort(LinkPortOptions options) : options_(std::move(options)) {
    options_.link.chunk_bytes = transport::k_max_chunk_bytes;
    options_.link.credit_bytes = k_credit_bytes;
    options_.link.name = "publish";
    options_.link.verifies_bodies = false;  // the session does, once, where it copies (PUBLISH-1)
    if (options_.link.disconnect_grace_ms == 0)
      options_.link.disconnect_grace_ms = std::min(k_grace_ms, options_.link.peer_timeout_ms);
  }

  ~LinkPort() override {
    const double end = now_seconds() + k_drain_seconds;
    for (auto& [card, peer] : peers_)
      if (!peer.is_lost)
        peer.sender->wait_drained(static_cast<int>(1e3 * std::max(0.0, end - now_seconds())));
  }

  Expected<void> open() {
    auto mail = mail_;
    auto deliver = [mail](transport::Delivery delivery) {
      auto kept = std::make_shared<transport::Delivery>(std::move(delivery));
      const transport::Message& message = kept->message;
      PortEvent event;
      if (message.type != k_message_note || message.header.size() != sizeof(Note)) {
        kept->ack();
        return;
      }
      std::memcpy(&event.note, message.header.data(), sizeof(Note));
      if (mail->is_forgotten(event.note)) {
        kept->ack();
        return;
      }
      event.peer = card_of(kept->peer).value_or(event.note.from);
      event.body = message.body;
      mail->queue.push({std::move(event), std::move(kept)});
    };
    auto lost = [mail](const std::string& peer, const Error& error) {
      if (auto card = card_of(peer))
        mail->queue.push({{PortEvent::Kind::lost, *card, {}, {}, error.detail}, nullptr});
    };
    COHORT_ASSIGN(receiver_,
                  transport::Receiver::open(*options_.context, options_.link, deliver, lost));
    return {};
  }

  std::string endpoint() const override {
    return receiver_->endpoint() + "#" + options_.link.curve.public_key;
  }

  Expected<void> connect(uint32_t own, const std::vector<std::string>& endpoints,
                         uint64_t) override {
    for (uint32_t i = 0; i < endpoints.size(); ++i) {
      if (endpoints[i].empty()) continue;
      size_t key = endpoints[i].find('#');  // a key in Z85 may have one too
      if (key == std::string::npos)
        return Error{Errc::invalid_argument,
                     fmt::format("publish: {} is no endpoint of a link", endpoints[i])};
      transport::LinkOptions link = options_.link;
      link.endpoint = endpoints[i].substr(0, key);
      if (!link.curve.empty()) link.curve.server_key = endpoints[i].substr(key + 1);
      link.name = std::to_string(own);
      auto mail = mail_;
      auto failed = [mail, i](const Error& error) {
        mail->queue.push({{PortEvent::Kind::lost, i, {}, {}, error.detail}, nullptr});
      };
      COHORT_ASSIGN(peers_[i].sender,
                    transport::Sender::open(*options_.context, std::move(link), failed));
    }
    return {};
  }

  Expected<void> forget(uint64_t version) override {
    mail_->kept_from = version + 1;
    return {};
  }
  std::span<std::byte> window() override { return {}; }
  std::span<const std::byte> window_of(uint32_t) override { return {}; }
  bool has_windows() const override { return false; }
  uint64_t held_bytes() const override { return mail_->held_bytes; }
  int wait_fd() const override { return mail_->queue.fd(); }

  Expected<bool> send(uint32_t peer, const Note& note, tensor::Buffer body) override {
    Peer& to = peers_[peer];
    if (to.is_lost) return Error{Errc::closed, "its link is lost"};
    auto sent = note.kind == NoteKind::data ? send_data(peer, note, std::move(body))
                                            : to.sender->send(message_of(note, std::move(body)));
    if (sent) return true;
    if (sent.error().code == Errc::backpressure) return false;
    return Error{Errc::closed, sent.error().detail};
  }

  /// Its acknowledgement becomes an event.
  Expected<uint64_t> send_data(uint32_t peer, const Note& note, tensor::Buffer body) {
    uint64_t bytes = body.size_bytes();
    transport::Message message = message_of(note, std::move(body));
    message.body_checksum = note.checksum;
    mail_->held_bytes += bytes;
    auto taken = [mail = mail_, peer, bytes, version = note.version](uint64_t) {
      mail->held_bytes -= bytes;
      PortEvent event{PortEvent::Kind::taken, peer, {}, {}, {}};
      event.note.version = version;
      event.note.bytes = 1;
      mail->queue.push({std::move(event), nullptr});
    };
    auto sent = peers_[peer].sender->send(std::move(message), taken);
    if (!sent) mail_->held_bytes -= bytes;
    return sent;
  }

  static transport::Message message_of(const Note& note, tensor::Buffer body) {
    return {k_message_note, {reinterpret_cast<const char*>(&note), sizeof(note)}, std::move(body)};
  }

  std::optional<PortEvent> next() override {
    while (auto item = mail_->queue.pop()) {
      auto& [event, delivery] = *item;
      if (delivery) delivery->ack();
      auto peer = peers_.find(event.peer);
      if (peer == peers_.end()) continue;  // no card that this one exchanges with
      bool is_lost = event.kind == PortEvent::Kind::lost;
      bool is_note = event.kind == PortEvent::Kind::note;
      if (is_note && mail_->is_forgotten(event.note)) continue;
      peer->second.is_lost = peer->second.is_lost || is_lost;
      return std::move(event);
    }
    return std::nullopt;
  }

 private:
  struct Peer {
    std::unique_ptr<transport::Sender> sender;
    bool is_lost = false;
  };
  LinkPortOptions options_;
  std::shared_ptr<Mail> mail_ = std::make_shared<Mail>();
  std::unique_ptr<transport::Receiver> receiver_;
  std::map<uint32_t, Peer> peers_;
};

}  // namespace

Expected<std::unique_ptr<Port>> open_link_port(LinkPortOptions options) {
  auto port = std::make_unique<LinkPort>(std::move(options));
  COHORT_TRY(port->open());
  return std::unique_ptr<Port>(std::move(port));
}

}  // namespace cohort::publish

#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/transport/consumer_end.hpp"
#include "runtime/transport/link_book.hpp"

namespace cohort::transport {

namespace detail {

/// Where acknowledgements wait for the pump; outlives it while Deliveries are about. Thread-safe.
struct AckInbox {
  struct Ack {
    uint64_t session = 0, slot = 0, seq = 0;
  };
  std::mutex mutex;
  std::vector<Ack> acks;
  bool is_closed = false;
  Wake wake;
  void push(Ack ack) {
    std::lock_guard lock(mutex);
    if (is_closed) return;
    acks.push_back(ack);
    wake.wake();
  }
};

/// Shared by the copies of one Delivery.
class AckHandle {
 public:
  AckHandle(std::shared_ptr<AckInbox> inbox, AckInbox::Ack ack)
      : inbox_(std::move(inbox)), ack_(ack) {}
  void ack() {
    if (!is_done_.exchange(true)) inbox_->push(ack_);
  }

 private:
  std::shared_ptr<AckInbox> inbox_;
  AckInbox::Ack ack_;
  std::atomic<bool> is_done_{false};
};

}  // namespace detail

namespace {

using namespace detail;

constexpr int k_receive_batch = 64;  // frames before acknowledgements get a turn
constexpr int k_acks_due_ms = 2;     // how often gathered ones are looked at

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

/// The consumer's pump: one thread that owns the ROUTER socket and runs a ConsumerEnd.
class ReceiverPump final : public Receiver, ConsumerPort {
 public:
  ReceiverPump(std::shared_ptr<Context::Handle> context, LinkOptions options,
               Receiver::OnDelivery on_delivery, Receiver::OnPeerLost on_peer_lost)
      : context_(std::move(context)),
        options_(std::move(options)),
        on_delivery_(std::move(on_delivery)),
        on_peer_lost_(std::move(on_peer_lost)),
        end_(options_, *this, counters_) {}
  ~ReceiverPump() override {
    if (!thread_.joinable()) return;
    COHORT_CHECK(thread_.get_id() != std::this_thread::get_id(),
                 "LINK: a Receiver may not be destroyed by its own callback");
    is_stopping_ = true;
    inbox_->wake.wake();
    thread_.join();
  }
  Expected<void> start() {
    COHORT_TRY(check_options(options_));
    COHORT_TRY(check_endpoint(options_, options_.endpoint));
    COHORT_CHECK(on_delivery_ != nullptr, "LINK: a Receiver needs on_delivery");
    COHORT_ASSIGN(socket_, Socket::open(context_, ZMQ_ROUTER, options_, {}));
    auto endpoint = socket_.bind(options_.endpoint);
    if (!endpoint) return endpoint.error().with_context("link " + options_.name);
    endpoint_ = *endpoint;
    if (options_.announce) options_.announce(endpoint_);
    thread_ = std::thread([this] { run(); });
    place_ = LinkPlace([this] {
      return LinkEnd{options_.name, false, counters_.read(), 0, 0, options_.credit_bytes};
    });
    return {};
  }
  std::string endpoint() const override { return endpoint_; }
  LinkStats stats() const override { return counters_.read(); }

 private:
  // ConsumerPort
  IoResult send(uint64_t id, const FrameHeader& header, std::string_view payload) override {
    Part identity = identity_part(id);
    IoResult result = socket_.send(identity, true);
    if (result != IoResult::done) return result;
    Part part = make_frame(header, payload);
    return socket_.send(part, false);
  }
  void deliver(const Session& session, uint64_t seq, Message message) override {
    auto handle =
        std::make_shared<AckHandle>(inbox_, AckInbox::Ack{session.id(), session.slot(), seq});
    on_delivery_({session.name(), session.id(), seq, std::move(message), std::move(handle)});
  }
  void on_peer_lost(const std::string& peer, Error error) override {
    log::warn("{}", error.detail);
    if (on_peer_lost_) on_peer_lost_(peer, std::move(error));
  }
  void on_refused(const Error& error) override { log::warn("{}", error.detail); }
  std::string where() const override { return endpoint_; }

  void run() {
    while (!is_stopping_) {
      now_ = now_ms();
      bool is_busy = receive_some();
      apply_acks();
      end_.flush_acks(now_);
      end_.on_timers(now_);
      if (!is_busy) sleep();
    }
    {
      std::lock_guard lock(inbox_->mutex);
      inbox_->is_closed = true;
    }
    end_.say_bye();
    socket_.close();
  }
  void sleep() {
    inbox_->wake.announce_sleep();
    {
      std::lock_guard lock(inbox_->mutex);
      if (!inbox_->acks.empty() || is_stopping_) {
        inbox_->wake.stay_awake();
        return;
      }
    }
    // Unsent acks are being gathered, or wait for room in the pipe of a producer that does not
    // read.
    int timeout_ms = end_.owes_acks() ? k_acks_due_ms : options_.heartbeat_ms;
    inbox_->wake.wait(socket_, false, timeout_ms);
  }
  bool receive_some() {
    for (int i = 0; i < k_receive_batch; ++i)
      if (!receive_frame()) return i > 0;
    return true;
  }
  bool receive_frame() {
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
    auto payload =
        header ? first.bytes().subspan(sizeof(FrameHeader)) : std::span<const std::byte>();
    end_.on_frame(*id, header ? &*header : nullptr, payload, std::move(body), now_);
    return true;
  }
  void apply_acks() {
    {
      std::lock_guard lock(inbox_->mutex);
      if (inbox_->acks.empty()) return;
      taken_.swap(inbox_->acks);
    }
    for (const AckInbox::Ack& ack : taken_) end_.ack(ack.session, ack.slot, ack.seq, now_);
    taken_.clear();
  }

  const std::shared_ptr<Context::Handle> context_;
  const LinkOptions options_;
  const Receiver::OnDelivery on_delivery_;
  const Receiver::OnPeerLost on_peer_lost_;
  const std::shared_ptr<AckInbox> inbox_ = std::make_shared<AckInbox>();
  std::string endpoint_;
  std::atomic<bool> is_stopping_{false};
  Counters counters_;

  // pump only
  Socket socket_;
  ConsumerEnd end_;
  std::vector<AckInbox::Ack> taken_;
  int64_t now_ = 0;

  std::thread thread_;
  LinkPlace place_;  // the first to end
};

}  // namespace

void Delivery::ack() const {
  if (handle) handle->ack();
}

Expected<std::unique_ptr<Receiver>> Receiver::open(Context& context, LinkOptions options,
                                                   OnDelivery on_delivery,
                                                   OnPeerLost on_peer_lost) {
  auto pump = std::make_unique<ReceiverPump>(context.handle(), std::move(options),
                                             std::move(on_delivery), std::move(on_peer_lost));
  COHORT_TRY(pump->start());
  return std::unique_ptr<Receiver>(std::move(pump));
}

}  // namespace cohort::transport

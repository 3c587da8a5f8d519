#include "actors/node/link_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/compute/collectives/group_roll.hpp"

namespace cohort::actors {
namespace {

using compute::GroupOptions;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using compute::Collective;
using compute::Received;
using compute::Sent;

constexpr uint32_t k_message_parcel = 1;
constexpr int k_heartbeat_ms = 250;  // a closed connection is seen at a heartbeat
constexpr int k_ask_ms = 250;        // how often a long wait asks whether somebody told a cause
constexpr int k_leave_ms = 2000;     // how long one that leaves waits for what is on its way
constexpr size_t k_credit_bytes = size_t{32} << 20;
constexpr size_t k_piece_bytes = size_t{1} << 20;
// Up to here a copy costs less than waiting until nobody holds the caller's bytes.
constexpr size_t k_copied_bytes = size_t{64} << 10;
constexpr size_t k_copied_pending_bytes = size_t{8} << 20;  // to one rank; above, callers wait

/// Header of a message; its body is bytes [offset, offset + size) of what goes to the receiver.
struct Parcel {
  uint64_t number = 0;  // of the operation, counted by each rank
  uint64_t offset = 0;
  uint64_t total_bytes = 0;
  Collective operation = Collective::barrier;
  uint32_t rank = 0;  // of the sender
};

std::string header_of(const Parcel& parcel) {
  return {reinterpret_cast<const char*>(&parcel), sizeof parcel};
}

struct Piece {
  Parcel parcel;
  transport::Delivery delivery;
};

/// What the links' threads share with the group. Outlives neither: both hold it.
struct Mail {
  struct Peer {
    std::deque<Piece> box;  // bounded by the credit
    std::string lost;       // why; empty while it is there
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Peer> peers;
  size_t held = 0;  // operations whose callers' bytes somebody still holds
  std::optional<Error> error;
};

void put_in_box(Mail& mail, transport::Delivery delivery) {
  const std::string& header = delivery.message.header;
  Piece piece;
  if (header.size() == sizeof(Parcel)) std::memcpy(&piece.parcel, header.data(), sizeof(Parcel));
  if (delivery.message.type != k_message_parcel || header.size() != sizeof(Parcel) ||
      piece.parcel.rank >= mail.peers.size()) {
    log::warn("a link of a group brought what is no parcel, from {}", delivery.peer);
    return delivery.ack();
  }
  piece.delivery = std::move(delivery);
  std::lock_guard lock(mail.mutex);
  mail.peers[piece.parcel.rank].box.push_back(std::move(piece));
  mail.changed.notify_all();
}

void lose(Mail& mail, size_t rank, const std::string& why) {
  std::lock_guard lock(mail.mutex);
  if (rank < mail.peers.size() && mail.peers[rank].lost.empty()) mail.peers[rank].lost = why;
  mail.changed.notify_all();
}

class LinkGroup final : public compute::RollGroup {
 public:
  LinkGroup(GroupOptions options, LinkGroupOptions links)
      : RollGroup(std::move(options)), links_(std::move(links)) {
    mail_->peers.resize(static_cast<size_t>(options_.size));
    senders_.resize(mail_->peers.size());
  }
  ~LinkGroup() override {
    const auto end = Clock::now() + Milliseconds(k_leave_ms);
    for (size_t r = 0; r < senders_.size(); ++r) {
      if (senders_[r] == nullptr) continue;
      for (bool is_done = false; !is_done && Clock::now() < end;) {
        is_done = senders_[r]->wait_drained(10);
        std::lock_guard lock(mail_->mutex);
        is_done = is_done || mail_->error || !mail_->peers[r].lost.empty();
      }
    }
    close();
  }
  Expected<void> connect() {
    if (size() > 1) COHORT_TRY(open_receiver());
    COHORT_TRY(roll_.meet());
    return open_senders();
  }

  Expected<void> exchange(Collective operation, Sent send, Received receive) override {
    COHORT_TRY(roll_.check(operation, send, receive));
    const auto own = static_cast<size_t>(rank());
    {
      std::lock_guard lock(mail_->mutex);
      if (mail_->error) return *mail_->error;
    }
    if (receive[own].data() != send[own].data() && !receive[own].empty())
      std::memmove(receive[own].data(), send[own].data(), receive[own].size());
    if (size() == 1) return {};
    const Call call{operation, operations_++, Clock::now() + Milliseconds(options_.timeout_ms)};
    auto done = run(call, send, receive);
    if (done) return done;
    close();
    return done.error();
  }
  void abort(const std::string& reason) override {
    {
      std::lock_guard lock(mail_->mutex);
      if (mail_->error) return;
      mail_->error = roll_.cancelled(reason);
      mail_->changed.notify_all();
    }
    roll_.agree_on(roll_.stopped(reason));
  }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Call {
    Collective operation;
    uint64_t number;
    Clock::time_point end;
  };
  Expected<void> open_receiver() {
    const std::string name = fmt::format("{}#{}", options_.name, rank());
    transport::LinkOptions link = links_.link("group." + name, name);
    is_inproc_ = link.endpoint.starts_with("inproc://");
    const std::string key = link.curve.public_key;
    link.announce = nullptr;
    link.credit_bytes = k_credit_bytes;
    link.heartbeat_ms = std::min(link.heartbeat_ms, k_heartbeat_ms);
    auto deliver = [mail = mail_](transport::Delivery delivery) {
      put_in_box(*mail, std::move(delivery));
    };
    auto is_lost = [mail = mail_](const std::string& peer, const Error& error) {
      size_t at = peer.rfind('#') + 1, from = std::numeric_limits<size_t>::max();
      std::from_chars(peer.data() + at, peer.data() + peer.size(), from);
      lose(*mail, from, error.detail);
    };
    COHORT_ASSIGN(receiver_,
                  transport::Receiver::open(*links_.context, std::move(link), deliver, is_lost));
    return options_.rendezvous->put(fmt::format("{}/link/{}", options_.name, rank()),
                                    receiver_->endpoint() + " " + key);
  }
  Expected<void> open_senders() {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      COHORT_ASSIGN(const auto found,
                    options_.rendezvous->get(fmt::format("{}/link/{}", options_.name, peer)));
      const std::string where = found.value_or("");
      const size_t key = where.find(' ');
      if (key == std::string::npos)
        return Error{Errc::not_found,
                     fmt::format("join of group {}: the rendezvous has no endpoint "
                                 "of {}",
                                 options_.name, roll_.name_of(peer))};
      transport::LinkOptions link = links_.link(fmt::format("group.{}#{}", options_.name, peer),
                                                fmt::format("{}#{}", options_.name, rank()));
      link.endpoint = where.substr(0, key);
      link.resolve = nullptr;
      if (!link.curve.empty()) link.curve.server_key = where.substr(key + 1);
      link.queue_bytes = std::numeric_limits<size_t>::max() / 2;  // the callers' own bytes
      link.chunk_bytes = transport::k_max_chunk_bytes;            // pieces are not cut again
      link.heartbeat_ms = std::min(link.heartbeat_ms, k_heartbeat_ms);
      link.disconnect_grace_ms = k_group_grace_ms;
      const auto at = static_cast<size_t>(peer);
      auto failed = [mail = mail_, at](const Error& error) { lose(*mail, at, error.detail); };
      COHORT_ASSIGN(senders_[at],
                    transport::Sender::open(*links_.context, std::move(link), failed));
    }
    return {};
  }
  Expected<void> run(const Call& call, Sent send, Received receive) {
    COHORT_ASSIGN(const bool is_held, post_all(call, send));
    COHORT_TRY(take_all(call, receive));
    if (!is_held) return {};
    Lock lock(mail_->mutex);
    return wait(lock, call, [&] {
      std::vector<int> holders;
      for (int peer = 0; peer < size() && mail_->held > 0; ++peer)
        if (peer != rank() && senders_[static_cast<size_t>(peer)]->pending_bytes() > 0)
          holders.push_back(peer);
      if (holders.empty() && mail_->held > 0) holders.push_back(rank());  // libzmq, a moment longer
      return holders;
    });
  }
  /// Nearest ranks first, each starting with its next one, so that no rank is everybody's first.
  /// Returns whether the caller's bytes are held until somebody has let go of them.
  Expected<bool> post_all(const Call& call, Sent send) {
    std::shared_ptr<void> hold;
    std::pair<const std::byte*, tensor::Buffer> copied;  // all_gather sends the same to every rank
    for (int i = 1; i < size(); ++i) {
      const int peer = (rank() + i) % size();
      const auto at = static_cast<size_t>(peer);
      const auto from = send[at];
      if (from.empty()) continue;
      const bool is_copied = is_inproc_ || (from.size() <= k_copied_bytes &&
                                            senders_[at]->pending_bytes() < k_copied_pending_bytes);
      tensor::Buffer whole;
      if (is_copied && copied.first == from.data() && copied.second.size_bytes() == from.size()) {
        whole = copied.second;
      } else if (is_copied) {
        whole = tensor::Buffer::copy_of(from);
        copied = {from.data(), whole};
      } else {
        if (hold == nullptr) {
          hold = std::shared_ptr<void>(mail_.get(), [mail = mail_](void*) {
            std::lock_guard lock(mail->mutex);
            --mail->held;
            mail->changed.notify_all();
          });
          std::lock_guard lock(mail_->mutex);
          ++mail_->held;
        }
        whole = tensor::Buffer::adopt(from.data(), from.size(), hold);
      }
      Parcel parcel{call.number, 0, from.size(), call.operation, static_cast<uint32_t>(rank())};
      for (; parcel.offset < from.size(); parcel.offset += k_piece_bytes) {
        const size_t bytes = std::min(k_piece_bytes, from.size() - parcel.offset);
        auto sent = senders_[at]->send(
            {k_message_parcel, header_of(parcel), whole.slice(parcel.offset, bytes)});
        if (!sent)
          return lost(Errc::closed, call,
                      fmt::format("{} is gone ({})", roll_.name_of(peer), sent.error().detail));
      }
      bytes_sent_ += from.size();
    }
    return hold != nullptr;
  }
  Expected<void> take_all(const Call& call, Received receive) {
    std::vector<size_t> filled(receive.size());
    filled[static_cast<size_t>(rank())] = receive[static_cast<size_t>(rank())].size();
    for (;;) {
      std::vector<Piece> pieces;
      {
        Lock lock(mail_->mutex);
        COHORT_TRY(wait(lock, call, [&] {
          std::vector<int> missing;
          for (size_t r = 0; r < receive.size(); ++r) {
            if (filled[r] == receive[r].size()) continue;
            if (!mail_->peers[r].box.empty()) return std::vector<int>();
            missing.push_back(static_cast<int>(r));
          }
          return missing;
        }));
        for (size_t r = 0; r < receive.size(); ++r) {
          auto& box = mail_->peers[r].box;
          size_t room = receive[r].size() - filled[r];
          while (room > 0 && !box.empty()) {
            room -= std::min(room, box.front().delivery.message.body.size_bytes());
            pieces.push_back(std::move(box.front()));
            box.pop_front();
          }
        }
      }
      if (pieces.empty()) return {};
      for (const Piece& piece : pieces)
        COHORT_TRY(take(call, piece, receive[piece.parcel.rank], filled[piece.parcel.rank]));
    }
  }
  /// What an earlier operation brought and nobody wanted is dropped.
  Expected<void> take(const Call& call, const Piece& piece, std::span<std::byte> to,
                      size_t& filled) {
    const Parcel& parcel = piece.parcel;
    const auto bytes = piece.delivery.message.body.bytes();
    if (parcel.number >= call.number) {
      if (parcel.number != call.number || parcel.operation != call.operation ||
          parcel.total_bytes != to.size() || parcel.offset != filled ||
          bytes.size() > to.size() - filled)
        return lost(Errc::protocol, call,
                    fmt::format("{} sent {} bytes in {} (operation {}), {} expects {} in {} ({})",
                                roll_.name_of(static_cast<int>(parcel.rank)), parcel.total_bytes,
                                to_string(parcel.operation), parcel.number, roll_.name_of(rank()),
                                to.size(), to_string(call.operation), call.number));
      std::memcpy(to.data() + filled, bytes.data(), bytes.size());
      filled += bytes.size();
    }
    piece.delivery.ack();
    return {};
  }
  template <class Missing>
  /// Sleeps until missing() returns no rank. COLL-2: ends when one of them is lost, when another
  /// rank has told a cause, and at call.end.
  Expected<void> wait(Lock& lock, const Call& call, Missing missing) {
    auto next_ask = Clock::now() + Milliseconds(k_ask_ms);
    Wait shown;
    std::vector<int> shown_ranks;
    for (;;) {
      if (mail_->error) return *mail_->error;
      const std::vector<int> ranks = missing();
      if (ranks.empty()) return {};
      if (ranks != shown_ranks)
        shown =
            Wait({WaitLevel::link, fmt::format("{} of {}", roll_.name_of(rank()), options_.name),
                  fmt::format("{} in {}", roll_.names_of(ranks), to_string(call.operation)),
                  "their bytes, or the time limit of the group"});
      shown_ranks = ranks;
      for (int peer : ranks)
        if (const std::string why = mail_->peers[static_cast<size_t>(peer)].lost; !why.empty()) {
          lock.unlock();
          return lost(Errc::closed, call, fmt::format("{} is gone ({})", roll_.name_of(peer), why));
        }
      const auto now = Clock::now();
      if (now >= call.end) {
        lock.unlock();
        return timed_out(call, ranks);
      }
      if (now >= next_ask) {
        lock.unlock();
        ask(call);
        lock.lock();
        next_ask = Clock::now() + Milliseconds(k_ask_ms);
        continue;
      }
      mail_->changed.wait_until(lock, std::min(call.end, next_ask));
    }
  }
  /// The ranks that are waited for may be alive and wait for one that is not.
  void ask(const Call& call) {
    if (const auto cause = roll_.cause()) {
      std::lock_guard lock(mail_->mutex);
      if (!mail_->error) mail_->error = roll_.seen(Errc::closed, to_string(call.operation), *cause);
    } else if (roll_.is_called()) {
      roll_.answer("awake");
    }
  }
  Error timed_out(const Call& call, const std::vector<int>& missing) {
    roll_.call();
    const auto absent = roll_.missing_from("awake", Milliseconds(compute::k_roll_call_ms));
    const bool is_known = absent && !absent->empty();
    return lost(Errc::timeout, call,
                fmt::format("{} did not answer within {} ms",
                            roll_.names_of(is_known ? *absent : missing), options_.timeout_ms));
  }
  Error lost(Errc code, const Call& call, const std::string& cause) {
    const std::string told = roll_.agree_on(cause);
    std::lock_guard lock(mail_->mutex);
    if (!mail_->error) mail_->error = roll_.seen(code, to_string(call.operation), told);
    return *mail_->error;
  }
  /// Afterwards nothing holds the callers' bytes: what is left of them is with libzmq's own thread,
  /// which drops it when the sockets are closed.
  void close() {
    senders_.clear();
    receiver_.reset();
    Lock lock(mail_->mutex);
    for (Mail::Peer& peer : mail_->peers) peer.box.clear();
    mail_->changed.wait(lock, [this] { return mail_->held == 0; });
  }

  const LinkGroupOptions links_;
  const std::shared_ptr<Mail> mail_ = std::make_shared<Mail>();
  bool is_inproc_ = false;
  uint64_t operations_ = 0;
  std::unique_ptr<transport::Receiver> receiver_;
  std::vector<std::unique_ptr<transport::Sender>> senders_;  // by rank, own: null
};

}  // namespace

std::function<Expected<std::unique_ptr<compute::Collectives>>(const compute::GroupOptions&)>
link_groups(LinkGroupOptions options) {
  return [options](const GroupOptions& group) -> Expected<std::unique_ptr<compute::Collectives>> {
    auto joined = std::make_unique<LinkGroup>(group, options);
    COHORT_TRY(joined->connect());
    return std::unique_ptr<compute::Collectives>(std::move(joined));
  };
}

}  // namespace cohort::actors

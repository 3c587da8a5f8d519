#include <fmt/format.h>

#include <utility>

#include "runtime/publish/event_queue.hpp"
#include "runtime/publish/ports.hpp"

namespace cohort::publish {
namespace {

using Window = std::vector<std::byte>;

struct InprocEvent {
  PortEvent event;
  std::shared_ptr<Window> window;  // a new window of the peer, in place of an event
};

}  // namespace

struct InprocHub::Seat {
  std::string name;
  EventQueue<InprocEvent> queue;
};

std::shared_ptr<InprocHub::Seat> InprocHub::add() {
  auto seat = std::make_shared<Seat>();
  std::lock_guard lock(mutex_);
  seat->name = fmt::format("inproc://publish.{}", next_++);
  seats_[seat->name] = seat;
  std::erase_if(seats_, [](const auto& entry) { return entry.second.expired(); });
  return seat;
}

std::shared_ptr<InprocHub::Seat> InprocHub::find(const std::string& name) const {
  std::lock_guard lock(mutex_);
  auto seat = seats_.find(name);
  return seat == seats_.end() ? nullptr : seat->second.lock();
}

namespace {

class InprocPort final : public Port {
 public:
  explicit InprocPort(std::shared_ptr<InprocHub> hub) : hub_(std::move(hub)), seat_(hub_->add()) {}

  ~InprocPort() override {
    for (const auto& peer : peers_)
      if (peer.seat)
        peer.seat->queue.push({{PortEvent::Kind::lost, own_, {}, {}, "it was closed"}, nullptr});
  }

  std::string endpoint() const override { return seat_->name; }

  Expected<void> connect(uint32_t own, const std::vector<std::string>& endpoints,
                         uint64_t window_bytes) override {
    own_ = own;
    window_bytes_ = window_bytes;
    peers_.resize(endpoints.size());
    for (size_t i = 0; i < endpoints.size(); ++i) {
      if (endpoints[i].empty()) continue;
      peers_[i].seat = hub_->find(endpoints[i]);
      if (!peers_[i].seat)
        seat_->queue.push({{PortEvent::Kind::lost,
                            static_cast<uint32_t>(i),
                            {},
                            {},
                            fmt::format("nothing listens at {}", endpoints[i])},
                           nullptr});
    }
    renew_window();
    return {};
  }

  Expected<void> forget(uint64_t) override {
    renew_window();
    return {};
  }

  void renew_window() {
    own_window_ = std::make_shared<Window>(window_bytes_);
    for (const Peer& peer : peers_)
      if (peer.seat)
        peer.seat->queue.push({{PortEvent::Kind::note, own_, {}, {}, {}}, own_window_});
  }

  std::span<std::byte> window() override { return *own_window_; }
  std::span<const std::byte> window_of(uint32_t peer) override {
    return peers_[peer].window ? std::span<const std::byte>(*peers_[peer].window)
                               : std::span<const std::byte>();
  }
  bool has_windows() const override { return true; }
  uint64_t held_bytes() const override { return 0; }
  int wait_fd() const override { return seat_->queue.fd(); }

  Expected<bool> send(uint32_t peer, const Note& note, tensor::Buffer body) override {
    Peer& to = peers_[peer];
    if (!to.seat || to.is_lost) return Error{Errc::closed, "it was closed"};
    to.seat->queue.push({{PortEvent::Kind::note, own_, note, std::move(body), {}}, nullptr});
    return true;
  }

  std::optional<PortEvent> next() override {
    while (auto item = seat_->queue.pop()) {
      Peer& from = peers_[item->event.peer];
      if (item->window) {
        from.window = std::move(item->window);
        continue;
      }
      if (item->event.kind == PortEvent::Kind::lost) from.is_lost = true;
      return std::move(item->event);
    }
    return std::nullopt;
  }

 private:
  struct Peer {
    std::shared_ptr<InprocHub::Seat> seat;
    std::shared_ptr<Window> window;
    bool is_lost = false;
  };
  std::shared_ptr<InprocHub> hub_;
  std::shared_ptr<InprocHub::Seat> seat_;
  uint32_t own_ = 0;
  uint64_t window_bytes_ = 0;
  std::shared_ptr<Window> own_window_;
  std::vector<Peer> peers_;
};

}  // namespace

Expected<std::unique_ptr<Port>> open_inproc_port(std::shared_ptr<InprocHub> hub) {
  return std::unique_ptr<Port>(std::make_unique<InprocPort>(std::move(hub)));
}

}  // namespace cohort::publish

#pragma once
/// The fake network between processes. It drops, doubles, delays, reorders and damages frames of
/// links. Control messages are CAF's over a connection: in order and once, late if the two are cut
/// off from each other, gone with the process that they are for. One thread. Bound: what is under
/// way.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tensor/buffer.hpp"
#include "runtime/transport/frame.hpp"
#include "tools/cohort-sim/world.hpp"

namespace cohort::sim {

/// One frame of a link on the wire.
struct Frame {
  uint64_t session = 0;  // as the routing id says it
  transport::FrameHeader header;
  std::string payload;
  tensor::Buffer chunk;
  bool is_whole = true;  // false: the header's checksum fails
};

/// How likely a frame is harmed, or a word without an answer overtaken.
struct Harm {
  double drop = 0, twice = 0, late = 0, damage = 0;
  int64_t late_ms = 50;
  double late_words = 0;
};

class Network {
 public:
  using Take = std::function<void(Frame)>;
  explicit Network(World& world) : world_(world) {}

  /// The consumer `service` listens; returns its new address, which the directory tells.
  uint64_t bind(Process& process, const std::string& service, Take take) {
    uint64_t address = world_.fresh_id();
    if (!freed_.empty() && world_.chance(0.4)) {  // a port that was somebody's
      auto at = freed_.begin() + world_.pick(0, static_cast<int64_t>(freed_.size()) - 1);
      address = *at;
      freed_.erase(at);
    }
    consumers_[address] = {&process, process.life, std::make_shared<Take>(std::move(take)), 0};
    directory_[service] = address;
    return address;
  }
  void unbind(uint64_t address) {
    consumers_.erase(address);
    freed_.push_back(address);
  }
  /// Returns where `service` is, as far as the directory knows; 0: nowhere yet.
  uint64_t resolve(const std::string& service) const {
    auto found = directory_.find(service);
    return found == directory_.end() ? 0 : found->second;
  }
  void attach(uint64_t session, Process& process, Take take) {
    producers_[session] = {&process, process.life, std::make_shared<Take>(std::move(take)), 0};
  }
  void detach(uint64_t session) { producers_.erase(session); }

  /// Returns false if nobody listens there: there is no connection.
  bool to_consumer(const Process& from, uint64_t address, Frame frame) {
    auto found = consumers_.find(address);
    if (found == consumers_.end() || found->second.life != found->second.process->life)
      return false;
    carry(from, found->second, std::move(frame));
    return true;
  }
  bool to_producer(const Process& from, Frame frame) {
    auto found = producers_.find(frame.session);
    if (found == producers_.end() || found->second.life != found->second.process->life)
      return false;
    carry(from, found->second, std::move(frame));
    return true;
  }
  /// A control message from `from` to the life `life` of `to`.
  void control(const Process& from, Process& to, uint64_t life, std::function<void()> what) {
    Held message{&from, &to, life, std::move(what)};
    if (is_cut(from, to))
      held_.push_back(std::move(message));
    else
      send_control(std::move(message));
  }
  /// One that has no answer: later ones may overtake it, so that nothing may depend on its order.
  void control_late(const Process& from, Process& to, uint64_t life, std::function<void()> what) {
    if (!world_.chance(harm.late_words)) return control(from, to, life, std::move(what));
    if (to.life != life) return;
    world_.deliver(to, world_.now() + world_.pick(1, 1000), std::move(what));
  }

  void cut(const Process& a, const Process& b) { cuts_.insert(std::minmax(&a, &b)); }
  bool is_cut(const Process& a, const Process& b) const {
    return cuts_.contains(std::minmax(&a, &b));
  }
  void heal() {
    cuts_.clear();
    for (Held& message : std::exchange(held_, {})) send_control(std::move(message));
  }
  Harm harm;

 private:
  struct End {
    Process* process = nullptr;
    uint64_t life = 0;
    std::shared_ptr<Take> take;
    int64_t last = 0;  // frames keep their order unless the wire harms them
  };
  using Pair = std::pair<const Process*, const Process*>;
  struct Held {  // a control message behind a cut
    const Process* from = nullptr;
    Process* to = nullptr;
    uint64_t life = 0;
    std::function<void()> what;
  };
  void send_control(Held message) {
    if (message.to->life != message.life) return;
    int64_t& last = control_last_[{message.from, message.to}];
    last = std::max(last, world_.now() + world_.pick(0, 2));
    world_.deliver(*message.to, last, std::move(message.what));
  }
  void carry(const Process& from, End& to, Frame frame) {
    if (is_cut(from, *to.process) || world_.chance(harm.drop)) return;
    if (world_.chance(harm.damage)) {
      if (frame.chunk.empty() || world_.chance(0.5)) {
        frame.is_whole = false;
      } else {
        frame.chunk = tensor::Buffer::copy_of(frame.chunk.bytes());
        auto bytes = frame.chunk.mutable_bytes();
        bytes[static_cast<size_t>(world_.pick(0, static_cast<int64_t>(bytes.size()) - 1))] ^=
            std::byte{1};
      }
    }
    int copies = world_.chance(harm.twice) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      auto take = to.take;
      Frame copy = i + 1 < copies ? frame : std::move(frame);
      world_.deliver(
          *to.process, arrival(to.last),
          [take, held = std::make_shared<Frame>(std::move(copy))] { (*take)(std::move(*held)); });
    }
  }
  int64_t arrival(int64_t& last) {
    int64_t time = world_.now() + world_.pick(0, 2);
    if (world_.chance(harm.late)) return time + world_.pick(1, harm.late_ms);  // others overtake it
    last = std::max(last, time);
    return last;
  }

  World& world_;
  std::map<uint64_t, End> consumers_, producers_;  // by address, by session
  std::map<std::string, uint64_t> directory_;
  std::vector<uint64_t> freed_;  // addresses that anybody may be given again
  std::map<Pair, int64_t> control_last_;
  std::vector<Held> held_;
  std::set<Pair> cuts_;
};

}  // namespace cohort::sim

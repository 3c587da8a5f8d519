#pragma once
/// The fake network between processes. It drops, doubles, delays, reorders and damages frames of
/// links. Control messages are CAF's over a connection: in order and once, late if the two are cut
/// off from each other, gone with the process that they are for. One thread. Bound: what is under
/// way.
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
  uint64_t bind(Process& process, const std::string& service, Take take);
  void unbind(uint64_t address);
  /// Returns where `service` is, as far as the directory knows; 0: nowhere yet.
  uint64_t resolve(const std::string& service) const;
  void attach(uint64_t session, Process& process, Take take);
  void detach(uint64_t session) { producers_.erase(session); }

  /// Returns false if nobody listens there: there is no connection.
  bool to_consumer(const Process& from, uint64_t address, Frame frame);
  bool to_producer(const Process& from, Frame frame);
  /// A control message from `from` to the life `life` of `to`.
  void control(const Process& from, Process& to, uint64_t life, std::function<void()> what);
  /// One that has no answer: later ones may overtake it, so that nothing may depend on its order.
  void control_late(const Process& from, Process& to, uint64_t life, std::function<void()> what);

  void cut(const Process& a, const Process& b);
  bool is_cut(const Process& a, const Process& b) const;
  void heal();
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
  void send_control(Held message);
  void carry(const Process& from, End& to, Frame frame);
  int64_t arrival(int64_t& last);

  World& world_;
  std::map<uint64_t, End> consumers_, producers_;  // by address, by session
  std::map<std::string, uint64_t> directory_;
  std::vector<uint64_t> freed_;  // addresses that anybody may be given again
  std::map<Pair, int64_t> control_last_;
  std::vector<Held> held_;
  std::set<Pair> cuts_;
};

}  // namespace cohort::sim

#pragma once
/// A hop of the trajectory path: frames come in on a Receiver, are transformed, and leave on a
/// Sender. The incoming frame is acknowledged only when the next hop has acknowledged the outgoing
/// one, so that the acknowledgement of a trajectory travels back from the stream to its producer
/// (FLOW-2), and a hop that dies loses nothing: its producer still holds the frame. Where the next
/// role has several cards, each frame goes to the one that has the least before it. Not
/// thread-safe: owned by one actor; callbacks of the links only touch shared handles. Bound: what
/// waits for the next hop is bounded by the credit this hop grants to its producers (FLOW-4).
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/roles/local_messages.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/waits.hpp"
#include "runtime/transport/relay.hpp"

namespace cohort::actors {

// transport::Message::type of a frame
inline constexpr uint32_t k_message_trajectories = 1;
inline constexpr uint32_t k_message_values = 2;  // of keys, tokens and values alone

inline constexpr size_t k_frame_trajectories = 128;  // at most, of a frame to or from a train rank

/// Decodes and validates a delivered frame of trajectories. Returns Errc::protocol for a message of
/// another type, Errc::corrupt.
Expected<std::vector<proto::Trajectory>> decode_frame(const transport::Message& message,
                                                      uint32_t type = k_message_trajectories);

/// The ends of the links to the cards of the next role: one, or several that do the same work. Not
/// thread-safe.
class Outlets {
 public:
  /// `on_failed` runs on a pump thread. At least one link.
  static Expected<Outlets> open(transport::Context& context,
                                const std::vector<transport::LinkOptions>& links,
                                std::function<void(std::string link, Error)> on_failed);
  /// Returns the link with the fewest bytes that are not acknowledged, the first of equal ones.
  size_t least_busy() const;
  size_t size() const { return links_.size(); }
  transport::Sender& link(size_t index) { return *links_[index]; }
  const std::string& name(size_t index) const { return names_[index]; }

 private:
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<transport::Sender>> links_;
};

struct HopOptions {
  transport::Context* context = nullptr;
  transport::LinkOptions input;
  std::vector<transport::LinkOptions> outputs;  // to each card of the next role
};

class Hop {
 public:
  /// All three run on pump threads: they only send messages to the owning actor. `on_room`: frames
  /// wait and the next hop has room, call flush().
  static Expected<std::unique_ptr<Hop>> open(
      const HopOptions& options, std::function<void(DeliveryHandle)> on_delivery,
      std::function<void()> on_room, std::function<void(std::string link, Error)> on_failed);
  /// Decodes and validates a delivered frame; Errc::corrupt names the link.
  Expected<std::vector<proto::Trajectory>> decode(const transport::Delivery& delivery) const;
  /// Passes `trajectories` on; acknowledges `delivery` when they are acknowledged. Frames that do
  /// not fit a sender's queue wait here in order, see flush().
  Expected<void> forward(std::vector<proto::Trajectory> trajectories, DeliveryHandle delivery);
  /// Offers waiting frames again. Returns whether any is left.
  Expected<bool> flush();

 private:
  using Relay = transport::Relay<transport::Sender, DeliveryHandle>;
  void show_wait();
  std::string name_;
  Wait wait_;  // while frames wait for the next hop
  size_t waiting_ = 0;
  std::deque<Relay> relays_;  // by outlet
  std::unique_ptr<transport::Receiver> input_;
  Outlets outputs_;
};

}  // namespace cohort::actors

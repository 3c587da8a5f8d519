#pragma once
/// A hop of the trajectory path: frames come in on a Receiver, are transformed, and leave on a
/// Sender. The incoming frame is acknowledged only when the next hop has acknowledged the outgoing
/// one, so that the acknowledgement of a trajectory travels back from the stream to its producer
/// (FLOW-2), and a hop that dies loses nothing: its producer still holds the frame. Not
/// thread-safe: owned by one actor. Bound: what waits for the next hop is bounded by the credit
/// this hop grants to its producers (FLOW-4); it leaves, in order, as the next hop acknowledges.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "actors/local.hpp"
#include "runtime/base/error.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::actors {

inline constexpr uint32_t k_message_trajectories = 1;  // transport::Message::type of a frame

/// Decodes and validates a delivered frame of trajectories. Returns Errc::protocol for a message of
/// another type, Errc::corrupt.
Expected<std::vector<proto::Trajectory>> decode_frame(const transport::Message& message);

struct HopOptions {
  transport::Context* context = nullptr;
  transport::LinkOptions input;
  transport::LinkOptions output;
};

class Hop {
 public:
  /// `on_delivery` and `on_failed` run on pump threads: they only send messages to the owning
  /// actor.
  static Expected<std::unique_ptr<Hop>> open(
      const HopOptions& options, std::function<void(DeliveryHandle)> on_delivery,
      std::function<void(std::string link, Error)> on_failed);
  /// Decodes and validates a delivered frame; Errc::corrupt names the link.
  Expected<std::vector<proto::Trajectory>> decode(const transport::Delivery& delivery) const;
  /// Passes `trajectories` on, or keeps them until the sender's queue has room; acknowledges
  /// `delivery` when they are acknowledged. on_failed is told what fails later.
  Expected<void> forward(std::vector<proto::Trajectory> trajectories, DeliveryHandle delivery);

 private:
  struct Waiting {
    transport::Message message;
    DeliveryHandle delivery;
  };
  Expected<void> flush();
  std::string name_, output_name_;
  std::function<void(std::string, Error)> on_failed_;
  std::mutex mutex_;
  std::deque<Waiting> waiting_;  // offered by forward() and, on the sender's thread, by its acks
  std::unique_ptr<transport::Receiver> input_;
  std::unique_ptr<transport::Sender> output_;
};

}  // namespace cohort::actors

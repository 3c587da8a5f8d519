#include "actors/roles/hop.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/check.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::actors {

Expected<Outlets> Outlets::open(transport::Context& context,
                                const std::vector<transport::LinkOptions>& links,
                                std::function<void(std::string link, Error)> on_failed) {
  COHORT_CHECK(!links.empty(), "a hop has a next one");
  Outlets outlets;
  for (const transport::LinkOptions& link : links) {
    COHORT_ASSIGN(auto sender, transport::Sender::open(context, link,
                                                       [on_failed, name = link.name](Error error) {
                                                         on_failed(name, std::move(error));
                                                       }));
    outlets.names_.push_back(link.name);
    outlets.links_.push_back(std::move(sender));
  }
  return outlets;
}

size_t Outlets::least_busy() const {
  const auto least =
      std::ranges::min_element(links_, {}, [](const auto& link) { return link->pending_bytes(); });
  return static_cast<size_t>(least - links_.begin());
}

Expected<std::unique_ptr<Hop>> Hop::open(const HopOptions& options,
                                         std::function<void(DeliveryHandle)> on_delivery,
                                         std::function<void()> on_room,
                                         std::function<void(std::string, Error)> on_failed) {
  std::unique_ptr<Hop> hop(new Hop);
  hop->name_ = options.input.name;
  COHORT_ASSIGN(hop->outputs_, Outlets::open(*options.context, options.outputs, on_failed));
  for (size_t i = 0; i < hop->outputs_.size(); ++i) hop->relays_.emplace_back(on_room);
  COHORT_ASSIGN(hop->input_,
                transport::Receiver::open(
                    *options.context, options.input,
                    [on_delivery](transport::Delivery delivery) {
                      on_delivery(std::make_shared<transport::Delivery>(std::move(delivery)));
                    },
                    [on_failed](const std::string& peer, Error error) {
                      on_failed(peer, std::move(error));
                    }));
  return hop;
}

Expected<std::vector<proto::Trajectory>> decode_frame(const transport::Message& message,
                                                      uint32_t type) {
  if (message.type != type)
    return Error{Errc::protocol, "message of an unknown type " + std::to_string(message.type)};
  return proto::decode_batch(std::as_bytes(std::span(message.header)), message.body.bytes());
}

Expected<std::vector<proto::Trajectory>> Hop::decode(const transport::Delivery& delivery) const {
  auto batch = decode_frame(delivery.message);
  if (!batch) return batch.error().with_context(name_);
  return batch;
}

Expected<void> Hop::forward(std::vector<proto::Trajectory> trajectories, DeliveryHandle delivery) {
  proto::Encoded encoded = proto::encode_batch(trajectories);
  const size_t to = outputs_.least_busy();
  auto sent = relays_[to].forward(
      outputs_.link(to), {k_message_trajectories, std::move(encoded.header), encoded.columns},
      std::move(delivery));
  show_wait();
  return sent;
}

Expected<bool> Hop::flush() {
  bool is_left = false;
  for (size_t i = 0; i < relays_.size(); ++i) {
    COHORT_ASSIGN(const bool waits, relays_[i].flush(outputs_.link(i)));
    is_left = is_left || waits;
  }
  show_wait();
  return is_left;
}

// Fewer than before: the next hop takes frames.
void Hop::show_wait() {
  size_t waiting = 0;
  std::string links;
  for (size_t i = 0; i < relays_.size(); ++i) {
    if (relays_[i].waiting() == 0) continue;
    waiting += relays_[i].waiting();
    links += (links.empty() ? "" : ", ") + outputs_.name(i);
  }
  const size_t before = std::exchange(waiting_, waiting);
  if (waiting_ == 0) return wait_.end();
  if (before == 0)
    wait_ = Wait({WaitLevel::link, name_, fmt::format("credit of {}", links),
                  "an acknowledgement of the next hop"});
  else if (waiting_ < before)
    wait_.moved();
}

}  // namespace cohort::actors

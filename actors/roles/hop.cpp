#include "actors/roles/hop.hpp"

#include <fmt/format.h>

#include "runtime/proto/codec.hpp"

namespace cohort::actors {

Expected<std::unique_ptr<Hop>> Hop::open(const HopOptions& options,
                                         std::function<void(DeliveryHandle)> on_delivery,
                                         std::function<void()> on_room,
                                         std::function<void(std::string, Error)> on_failed) {
  std::unique_ptr<Hop> hop(new Hop(std::move(on_room)));
  hop->name_ = options.input.name;
  std::string input = options.input.name;
  std::string output = options.output.name;
  hop->output_name_ = output;
  COHORT_ASSIGN(hop->output_, transport::Sender::open(*options.context, options.output,
                                                      [on_failed, output](Error error) {
                                                        on_failed(output, std::move(error));
                                                      }));
  COHORT_ASSIGN(hop->input_,
                transport::Receiver::open(
                    *options.context, options.input,
                    [on_delivery](transport::Delivery delivery) {
                      on_delivery(std::make_shared<transport::Delivery>(std::move(delivery)));
                    },
                    [on_failed, input](const std::string& peer, Error error) {
                      on_failed(input, error.with_context(peer));
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
  auto sent =
      relay_.forward(*output_, {k_message_trajectories, std::move(encoded.header), encoded.columns},
                     std::move(delivery));
  show_wait();
  return sent;
}

Expected<bool> Hop::flush() {
  auto left = relay_.flush(*output_);
  show_wait();
  return left;
}

// Fewer than before: the next hop takes frames.
void Hop::show_wait() {
  const size_t before = std::exchange(waiting_, relay_.waiting());
  if (waiting_ == 0) return wait_.end();
  if (before == 0)
    wait_ = Wait({WaitLevel::link, name_, fmt::format("credit of {}", output_name_),
                  "an acknowledgement of the next hop"});
  else if (waiting_ < before)
    wait_.moved();
}

}  // namespace cohort::actors

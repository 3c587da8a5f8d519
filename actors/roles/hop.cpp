#include "actors/roles/hop.hpp"

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
  return relay_.forward(*output_,
                        {k_message_trajectories, std::move(encoded.header), encoded.columns},
                        std::move(delivery));
}

Expected<bool> Hop::flush() { return relay_.flush(*output_); }

}  // namespace cohort::actors

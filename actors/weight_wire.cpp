#include "actors/weight_wire.hpp"

#include <fmt/format.h>

#include <cstring>

namespace cohort::actors {
namespace {

template <class Pod>
std::string pack(const Pod& pod) {
  return {reinterpret_cast<const char*>(&pod), sizeof(Pod)};
}

template <class Pod>
Expected<Pod> unpack(const transport::Message& message, uint32_t type) {
  if (message.type != type || message.header.size() != sizeof(Pod))
    return Error{Errc::protocol,
                 fmt::format("weight link: message of type {} with a header of {} bytes, "
                             "expected type {} with {} bytes",
                             message.type, message.header.size(), type, sizeof(Pod))};
  Pod pod;
  std::memcpy(&pod, message.header.data(), sizeof(Pod));
  return pod;
}

}  // namespace

transport::Message encode(const WeightsBegin& begin) {
  return {k_message_weights_begin, pack(begin), {}};
}

transport::Message encode(const WeightsBucket& bucket, tensor::Buffer body) {
  return {k_message_weights_bucket, pack(bucket), std::move(body)};
}

Expected<WeightsBegin> decode_begin(const transport::Message& message) {
  return unpack<WeightsBegin>(message, k_message_weights_begin);
}

Expected<WeightsBucket> decode_bucket(const transport::Message& message) {
  return unpack<WeightsBucket>(message, k_message_weights_bucket);
}

}  // namespace cohort::actors

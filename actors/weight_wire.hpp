#pragma once
/// The two message types of a weight link (trainer → rollout): what is coming, and one bucket of
/// it. Little-endian PODs in the header of a transport::Message; the bucket's bytes are its body.
#include <cstdint>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::actors {

inline constexpr uint32_t k_message_trajectories = 1;
inline constexpr uint32_t k_message_weights_begin = 2;
inline constexpr uint32_t k_message_weights_bucket = 3;

struct WeightsBegin {
  uint64_t version = 0;
  uint64_t total_bytes = 0;
};

struct WeightsBucket {
  uint64_t version = 0;
  uint64_t offset_bytes = 0;
  uint64_t checksum = 0;  // xxh3 of the body
};

transport::Message encode(const WeightsBegin& begin);
transport::Message encode(const WeightsBucket& bucket, tensor::Buffer body);
/// Return Errc::protocol when the type or the header's size is not that of the struct.
Expected<WeightsBegin> decode_begin(const transport::Message& message);
Expected<WeightsBucket> decode_bucket(const transport::Message& message);

}  // namespace cohort::actors

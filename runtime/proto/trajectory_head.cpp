#include "runtime/proto/trajectory_head.hpp"

#include <google/protobuf/io/coded_stream.h>

#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "runtime/proto/codec.hpp"

namespace cohort::proto {
namespace {

using Stream = google::protobuf::io::CodedInputStream;

/// Reads one message, field by field. Numbers of fields are those of cohort.proto.
class HeadReader {
 public:
  explicit HeadReader(Stream& in) : in_(in) {}

  bool batch(uint64_t& format, uint64_t& count, Trajectory& x) {
    return each_field([&](uint32_t tag) {
      if (number_of(tag) == 1) return whole(tag, format);
      if (number_of(tag) != 3) return skip(tag);
      ++count;
      return message(tag, [&] { return trajectory(x); });
    });
  }

 private:
  // The wire types of protobuf's encoding that cohort.proto has.
  static constexpr uint32_t k_varint = 0, k_fixed64 = 1, k_bytes = 2, k_fixed32 = 5;

  static uint32_t number_of(uint32_t tag) { return tag >> 3; }
  static bool has(uint32_t tag, uint32_t type) { return (tag & 7) == type; }

  bool skip(uint32_t tag) {
    uint64_t ignored = 0;
    uint32_t size = 0;
    if (has(tag, k_varint)) return in_.ReadVarint64(&ignored);
    if (has(tag, k_fixed64)) return in_.Skip(8);
    if (has(tag, k_fixed32)) return in_.Skip(4);
    return has(tag, k_bytes) && length(size) && in_.Skip(static_cast<int>(size));
  }
  /// A length beyond what is left would be cut to it without a word.
  bool length(uint32_t& size) {
    return in_.ReadVarint32(&size) && size <= static_cast<uint32_t>(in_.BytesUntilLimit());
  }

  template <class F>
  bool each_field(F&& f) {
    while (const uint32_t tag = in_.ReadTag())
      if (!f(tag)) return false;
    return in_.ConsumedEntireMessage();
  }

  template <class F>
  bool message(uint32_t tag, F&& f) {
    uint32_t size = 0;
    if (!has(tag, k_bytes)) return skip(tag);
    if (!length(size)) return false;
    const Stream::Limit limit = in_.PushLimit(static_cast<int>(size));
    const bool is_read = f() && in_.BytesUntilLimit() == 0;
    in_.PopLimit(limit);
    return is_read;
  }

  template <class T>
  bool whole(uint32_t tag, T& value) {
    uint64_t read = 0;
    if (!has(tag, k_varint)) return skip(tag);
    if (!in_.ReadVarint64(&read)) return false;
    value = static_cast<T>(read);
    return true;
  }
  bool real(uint32_t tag, double& value) {
    uint64_t bits = 0;
    if (!has(tag, k_fixed64)) return skip(tag);
    if (!in_.ReadLittleEndian64(&bits)) return false;
    value = std::bit_cast<double>(bits);
    return true;
  }
  bool text(uint32_t tag, std::string& value) {
    uint32_t size = 0;
    if (!has(tag, k_bytes)) return skip(tag);
    return length(size) && in_.ReadString(&value, static_cast<int>(size));
  }

  bool reward_part(RewardPart& part) {
    part.weight = 0;  // what is absent on the wire is 0
    return each_field([&](uint32_t tag) {
      switch (number_of(tag)) {
        case 1:
          return text(tag, part.name);
        case 2:
          return real(tag, part.value);
        case 3:
          return real(tag, part.weight);
        case 4:
          return text(tag, part.detail);
        default:
          return skip(tag);
      }
    });
  }
  bool metric(std::pair<std::string, double>& x) {
    return each_field([&](uint32_t tag) {
      if (number_of(tag) == 1) return text(tag, x.first);
      return number_of(tag) == 2 ? real(tag, x.second) : skip(tag);
    });
  }
  bool trajectory(Trajectory& x) {
    return each_field([&](uint32_t tag) { return field(tag, x); });
  }
  bool field(uint32_t tag, Trajectory& x) {
    switch (number_of(tag)) {
      case 1:
        return text(tag, x.run_id);
      case 2:
        return kind(tag, x.key.kind);
      case 3:
        return whole(tag, x.key.step);
      case 4:
        return whole(tag, x.key.group);
      case 5:
        return whole(tag, x.key.index);
      case 6:
        return whole(tag, x.attempt);
      case 7:
        return text(tag, x.tag);
      case 8:
        return whole(tag, x.seed);
      case 9:
        return text(tag, x.prompt_id);
      case 10:
        return whole(tag, x.weight_version_min);
      case 11:
        return whole(tag, x.weight_version_max);
      case 12:
        return text(tag, x.stop_reason);
      case 13:
        return real(tag, x.generate_seconds);
      case 14:
        return real(tag, x.env_seconds);
      case 15:
        return real(tag, x.score);
      case 16:
        return message(tag, [&] { return reward_part(x.reward_parts.emplace_back()); });
      case 17:
        return message(tag, [&] { return metric(x.metrics.emplace_back()); });
      case 20:
        return text(tag, x.mask_reason);
      case 21:
        return text(tag, x.data_source);
      case 22:
        return text(tag, x.ground_truth);
      case 23:
        return whole(tag, x.is_greedy);
      default:
        return skip(tag);
    }
  }
  bool kind(uint32_t tag, TrajectoryKind& kind) {
    uint32_t number = 0;
    if (!whole(tag, number) || number > static_cast<uint32_t>(TrajectoryKind::warm_start))
      return false;
    kind = static_cast<TrajectoryKind>(number);
    return true;
  }

  Stream& in_;
};

}  // namespace

Expected<Trajectory> decode_head(std::span<const std::byte> header) {
  const Error corrupt{Errc::corrupt, "trajectory header: does not parse as a batch of one"};
  if (header.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return corrupt;
  Stream in(reinterpret_cast<const uint8_t*>(header.data()), static_cast<int>(header.size()));
  Trajectory x;
  uint64_t format = 0, count = 0;
  if (!HeadReader(in).batch(format, count, x) || format != k_batch_format || count != 1)
    return corrupt;
  return x;
}

}  // namespace cohort::proto

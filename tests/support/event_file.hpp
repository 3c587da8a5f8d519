#pragma once
/// Reads the event files of TensorBoard that a test has written: TFRecords, and of their protobufs
/// the fields that are looked at.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort::test {

/// The fields of one message, in order: number, and a varint, 8 or 4 bytes, or bytes.
struct ProtoField {
  uint32_t number = 0;
  uint64_t value = 0;
  std::string_view bytes = {};
};

inline std::vector<ProtoField> proto_fields(std::string_view bytes) {
  std::vector<ProtoField> fields;
  size_t at = 0;
  auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < bytes.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  auto fixed = [&](size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    at += size;
    return value;
  };
  while (at < bytes.size()) {
    const uint64_t key = varint();
    ProtoField& field = fields.emplace_back(ProtoField{static_cast<uint32_t>(key >> 3)});
    if ((key & 7) == 0) field.value = varint();
    if ((key & 7) == 1) field.value = fixed(8);
    if ((key & 7) == 5) field.value = fixed(4);
    if ((key & 7) != 2) continue;
    const uint64_t size = varint();
    field.bytes = bytes.substr(at, size);
    at += size;
  }
  return fields;
}

inline ProtoField proto_field(std::string_view bytes, uint32_t number) {
  for (const ProtoField& field : proto_fields(bytes))
    if (field.number == number) return field;
  return {};
}

/// One value of an event file's summaries.
struct SummaryValue {
  uint64_t step = 0;
  std::string tag;
  std::string plugin;           // empty: a scalar
  double scalar = 0;            // of a scalar
  std::vector<uint64_t> shape;  // of a tensor
  std::vector<double> numbers;  // likewise
  std::vector<std::string> texts;
};

inline SummaryValue summary_value(uint64_t step, std::string_view bytes) {
  SummaryValue value{step, std::string(proto_field(bytes, 1).bytes), {}, 0, {}, {}, {}};
  const auto bits = static_cast<uint32_t>(proto_field(bytes, 2).value);
  value.scalar = static_cast<double>(std::bit_cast<float>(bits));
  const std::string_view tensor = proto_field(bytes, 8).bytes;
  value.plugin = proto_field(proto_field(proto_field(bytes, 9).bytes, 1).bytes, 1).bytes;
  for (const ProtoField& dimension : proto_fields(proto_field(tensor, 2).bytes))
    value.shape.push_back(proto_field(dimension.bytes, 1).value);
  const std::string_view content = proto_field(tensor, 4).bytes;
  value.numbers.resize(content.size() / sizeof(double));
  std::memcpy(value.numbers.data(), content.data(), value.numbers.size() * sizeof(double));
  for (const ProtoField& field : proto_fields(tensor))
    if (field.number == 8) value.texts.emplace_back(field.bytes);
  return value;
}

/// Returns the values of a whole event file, in order.
inline std::vector<SummaryValue> summary_values(std::string_view file) {
  constexpr size_t k_head = 12, k_tail = 4;  // length and its checksum; that of the event
  std::vector<SummaryValue> values;
  for (size_t at = 0; at + k_head <= file.size();) {
    uint64_t size = 0;
    std::memcpy(&size, file.data() + at, sizeof size);
    const std::string_view event = file.substr(at + k_head, size);
    at += k_head + size + k_tail;
    const uint64_t step = proto_field(event, 2).value;
    for (const ProtoField& field : proto_fields(proto_field(event, 5).bytes))
      if (field.number == 1) values.push_back(summary_value(step, field.bytes));
  }
  return values;
}

}  // namespace cohort::test

#include "runtime/columnar/compact_reader.hpp"

#include <algorithm>

namespace cohort::columnar {

uint8_t CompactReader::byte() {
  if (is_bad_ || at_ >= bytes_.size()) {
    is_bad_ = true;
    return 0;
  }
  return static_cast<uint8_t>(bytes_[at_++]);
}

uint64_t CompactReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t part = byte();
    value |= uint64_t{part & 0x7Fu} << shift;
    if ((part & 0x80) == 0) return value;
  }
  is_bad_ = true;
  return 0;
}

int64_t CompactReader::integer() {
  const uint64_t value = varint();
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

void CompactReader::advance(uint64_t count) {
  if (count > bytes_.size() - at_)
    is_bad_ = true;
  else
    at_ += static_cast<size_t>(count);
}

CompactReader::Field CompactReader::field(int64_t previous) {
  const uint8_t head = byte();
  const auto type = static_cast<uint8_t>(head & 0x0F);
  if (is_bad_ || type == stop) return {};
  const int delta = head >> 4;
  const int64_t id = delta != 0 ? previous + delta : integer();
  if (id < 0 || id > INT16_MAX) is_bad_ = true;
  return is_bad_ ? Field{} : Field{type, id};
}

size_t CompactReader::list_size() {
  const uint8_t head = byte();
  uint64_t count = head >> 4;
  if (count == 15) count = varint();
  if (count > bytes_.size() - at_) is_bad_ = true;  // an element has at least a byte
  return is_bad_ ? 0 : static_cast<size_t>(count);
}

std::string_view CompactReader::binary_value() {
  const uint64_t size = varint();
  const size_t from = at_;
  advance(size);
  return is_bad_ ? std::string_view() : bytes_.substr(from, static_cast<size_t>(size));
}

void CompactReader::skip_list(int depth) {
  const uint8_t head = byte();
  uint64_t count = head >> 4;
  if (count == 15) count = varint();
  if (count > bytes_.size() - at_) is_bad_ = true;
  for (uint64_t i = 0; i < count && !is_bad_; ++i)
    skip(static_cast<uint8_t>(head & 0x0F), depth + 1, false);
}

void CompactReader::skip_map(int depth) {
  const uint64_t count = varint();
  if (count == 0) return;
  const uint8_t types = byte();
  if (count > bytes_.size() - at_) is_bad_ = true;
  for (uint64_t i = 0; i < count && !is_bad_; ++i) {
    skip(static_cast<uint8_t>(types >> 4), depth + 1, false);
    skip(static_cast<uint8_t>(types & 0x0F), depth + 1, false);
  }
}

void CompactReader::skip(uint8_t type, int depth, bool is_field) {
  if (depth + depth_ > k_depth_max) is_bad_ = true;
  if (is_bad_) return;
  switch (type) {
    case yes:
    case no:  // in the header of a field, a byte of its own inside a list or map
      return is_field ? void() : advance(1);
    case i8:
      return advance(1);
    case i16:
    case i32:
    case i64:
      return void(varint());
    case real:
      return advance(8);
    case binary:
      return void(binary_value());
    case list:
    case set:
      return skip_list(depth);
    case map:
      return skip_map(depth);
    case structure:
      for (int64_t id = 0; !is_bad_;) {
        const Field next = field(id);
        if (!next) return;
        id = next.id;
        skip(next.type, depth + 1, true);
      }
      return;
    default:
      is_bad_ = true;
  }
}

}  // namespace cohort::columnar

#include "runtime/columnar/bit_runs.hpp"

#include <algorithm>

namespace cohort::columnar {
namespace {

/// `width` bits (at most 64) from bit `at`, least significant first. The bytes hold them.
uint64_t bits_at(std::string_view bytes, uint64_t at, int width) {
  uint64_t value = 0;
  int have = 0;
  size_t index = static_cast<size_t>(at / 8);
  int shift = static_cast<int>(at % 8);
  while (have < width) {
    const auto byte = static_cast<uint64_t>(static_cast<uint8_t>(bytes[index++])) >> shift;
    const int taken = std::min(8 - shift, width - have);
    value |= (byte & ((uint64_t{1} << taken) - 1)) << have;
    have += taken;
    shift = 0;
  }
  return value;
}

}  // namespace

bool RunReader::begin_run() {
  uint64_t header = 0;
  for (int shift = 0;; shift += 7) {
    if (at_ >= bytes_.size() || shift > 35) return false;
    const auto part = static_cast<uint8_t>(bytes_[at_++]);
    header |= uint64_t{part & 0x7Fu} << shift;
    if ((part & 0x80) == 0) break;
  }
  is_packed_ = (header & 1) != 0;
  left_ = header >> 1;
  if (is_packed_) {
    left_ *= 8;
    bit_ = 0;
    return true;
  }
  const size_t size = static_cast<size_t>(bit_width_ + 7) / 8;
  if (size > bytes_.size() - at_) return false;
  repeated_ = 0;
  for (size_t i = size; i-- > 0;)
    repeated_ = repeated_ << 8 | static_cast<uint8_t>(bytes_[at_ + i]);
  at_ += size;
  return true;
}

bool RunReader::next(uint32_t& value) {
  while (left_ == 0) {
    if (!begin_run()) return false;
  }
  --left_;
  if (!is_packed_) {
    value = repeated_;
    return true;
  }
  const uint64_t end = bit_ + static_cast<uint64_t>(bit_width_);
  if ((end + 7) / 8 > bytes_.size() - at_)
    return false;  // the last run may be cut at its last number
  value = static_cast<uint32_t>(bits_at(bytes_.substr(at_), bit_, bit_width_));
  bit_ = end;
  if (left_ == 0) at_ += static_cast<size_t>((end + 7) / 8);
  return true;
}

DeltaReader::DeltaReader(std::string_view bytes) : bytes_(bytes) {
  const uint64_t block = varint();
  const uint64_t miniblocks = varint();
  count_ = varint();
  const uint64_t first = varint();
  value_ = (first >> 1) ^ (uint64_t{0} - (first & 1));
  if (is_bad_ || miniblocks == 0 || miniblocks > k_miniblocks_max || block > (1U << 20) ||
      block % miniblocks != 0 || block / miniblocks % 32 != 0 || block == 0) {
    is_bad_ = true;
    return;
  }
  miniblock_count_ = static_cast<size_t>(miniblocks);
  per_miniblock_ = static_cast<size_t>(block / miniblocks);
  miniblock_ = miniblock_count_;  // a block is to begin
}

uint64_t DeltaReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
    const auto part = static_cast<uint8_t>(bytes_[at_++]);
    value |= uint64_t{part & 0x7Fu} << shift;
    if ((part & 0x80) == 0) return value;
  }
  is_bad_ = true;
  return 0;
}

bool DeltaReader::begin_block() {
  const uint64_t least = varint();
  min_delta_ = (least >> 1) ^ (uint64_t{0} - (least & 1));
  if (is_bad_ || miniblock_count_ > bytes_.size() - at_) return false;
  for (size_t i = 0; i < miniblock_count_; ++i) {
    widths_[i] = static_cast<uint8_t>(bytes_[at_++]);
  }
  miniblock_ = 0;
  return begin_miniblock();
}

bool DeltaReader::begin_miniblock() {
  in_miniblock_ = 0;
  data_ = at_;
  if (widths_[miniblock_] > 64 || miniblock_bytes(miniblock_) > bytes_.size() - at_) return false;
  at_ += miniblock_bytes(miniblock_);
  return true;
}

bool DeltaReader::next(int64_t& value) {
  if (is_bad_ || given_ >= count_) return false;
  if (given_ > 0) {
    if (miniblock_ < miniblock_count_ && in_miniblock_ == per_miniblock_) {
      ++miniblock_;
      if (miniblock_ < miniblock_count_ && !begin_miniblock()) is_bad_ = true;
    }
    if (miniblock_ == miniblock_count_ && !begin_block()) is_bad_ = true;
    if (is_bad_) return false;
    const int width = widths_[miniblock_];
    const uint64_t at = in_miniblock_ * static_cast<uint64_t>(width);
    value_ += min_delta_ + bits_at(bytes_.substr(data_), at, width);
    ++in_miniblock_;
  }
  ++given_;
  value = static_cast<int64_t>(value_);
  return true;
}

size_t DeltaReader::size_bytes() const {
  DeltaReader walk = *this;
  uint64_t left = count_ > 0 ? count_ - 1 : 0;
  while (left > 0 && !walk.is_bad_) {
    if (!walk.begin_block()) return std::string_view::npos;
    for (; left > 0 && walk.miniblock_ < miniblock_count_; ++walk.miniblock_) {
      if (walk.miniblock_ > 0 && !walk.begin_miniblock()) return std::string_view::npos;
      left -= std::min<uint64_t>(left, per_miniblock_);
    }
  }
  return walk.is_bad_ ? std::string_view::npos : walk.at_;
}

}  // namespace cohort::columnar

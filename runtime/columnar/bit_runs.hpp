#pragma once
/// The two encodings of small numbers, each as a stream that keeps no more than its place: RLE and
/// bit-packed runs (levels, dictionary indices, booleans), and DELTA_BINARY_PACKED. They read from
/// bytes that may say anything: a number that is not there ends the stream. Owner: one thread.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort::columnar {

/// Runs of `bit_width` (0 to 32) bits per number.
class RunReader {
 public:
  RunReader() = default;
  RunReader(std::string_view bytes, int bit_width) : bytes_(bytes), bit_width_(bit_width) {}

  /// False: the stream has ended or is damaged.
  bool next(uint32_t& value);

 private:
  bool begin_run();

  std::string_view bytes_;
  size_t at_ = 0;
  int bit_width_ = 0;
  uint64_t left_ = 0;  // numbers of the run
  uint32_t repeated_ = 0;
  uint64_t bit_ = 0;  // of the next packed number, from at_
  bool is_packed_ = false;
};

/// DELTA_BINARY_PACKED: a first number, then blocks of differences.
class DeltaReader {
 public:
  DeltaReader() = default;
  /// Of 64-bit arithmetic for int64, of 32-bit for int32: differences wrap around.
  explicit DeltaReader(std::string_view bytes);

  bool is_bad() const { return is_bad_; }
  uint64_t count() const { return count_; }
  bool next(int64_t& value);
  /// Returns how many bytes the whole stream takes, or npos if it is damaged. Of a reader that has
  /// given no number yet. Its time is that of the block headers.
  size_t size_bytes() const;

 private:
  bool begin_block();
  bool begin_miniblock();
  uint64_t varint();
  size_t miniblock_bytes(size_t index) const { return widths_[index] * (per_miniblock_ / 8); }

  static constexpr size_t k_miniblocks_max = 512;
  std::string_view bytes_;
  size_t at_ = 0;
  uint64_t count_ = 0;  // numbers in all
  uint64_t given_ = 0;
  uint64_t value_ = 0;
  uint64_t min_delta_ = 0;
  size_t miniblock_count_ = 0;
  size_t per_miniblock_ = 0;  // numbers of one
  size_t miniblock_ = 0;      // the one being read
  size_t in_miniblock_ = 0;   // numbers taken from it
  size_t data_ = 0;           // where it begins
  std::array<uint8_t, k_miniblocks_max> widths_{};
  bool is_bad_ = false;
};

}  // namespace cohort::columnar

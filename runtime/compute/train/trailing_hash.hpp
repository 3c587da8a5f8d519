#pragma once
/// The checksum of an array while threads write it piece by piece, in any order: it follows the
/// first piece that is not written yet, so that bytes are read while they are in a cache, not once
/// more from memory. The digest is checksum64 of the whole array, whichever thread wrote what when.
/// finished() is thread-safe.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {

class TrailingHash {
 public:
  /// `ends`: where each piece ends, in bytes of `all`; what lies between two pieces is the later
  /// one's. REQUIRES: ascending, none beyond `all`; what is behind the last is not written.
  TrailingHash(std::span<const std::byte> all, std::vector<size_t> ends)
      : all_(all), ends_(std::move(ends)), is_finished_(ends_.size()) {}

  /// The piece is written. It is hashed here, by the thread that holds the pieces before it, or
  /// when those are finished. REQUIRES: called once for each piece.
  void finished(size_t piece) {
    is_finished_[piece].store(true);
    // A thread that comes while another one hashes leaves its piece to that one, which looks again
    // after it has let go (all orders are sequentially consistent).
    while (is_next_finished() && !is_busy_.exchange(true)) {
      for (; is_next_finished(); ++next_) hash_to(ends_[next_]);
      is_busy_.store(false);
    }
  }

  /// REQUIRES: every piece is finished, and the threads that said so have been waited for.
  uint64_t digest() {
    hash_to(all_.size());
    return sum_.digest();
  }

 private:
  bool is_next_finished() const {
    const size_t next = next_;
    return next < is_finished_.size() && is_finished_[next];
  }
  void hash_to(size_t end) {
    sum_.update(all_.subspan(begin_, end - begin_));
    begin_ = end;
  }

  const std::span<const std::byte> all_;
  const std::vector<size_t> ends_;
  std::vector<std::atomic<bool>> is_finished_;
  std::atomic<size_t> next_{0};  // piece to hash; written by the thread that is_busy_
  std::atomic<bool> is_busy_{false};
  size_t begin_ = 0;  // of what is not hashed: of that thread, like sum_
  tensor::Checksum sum_;
};

}  // namespace cohort::compute

#include "runtime/compute/generation_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/compute/card_memory.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {

Expected<void> WeightInbox::begin(uint64_t version, uint64_t total_bytes) {
  drop();
  COHORT_ASSIGN(bytes_, allocate_host(total_bytes));
  is_open_ = true;
  version_ = version;
  total_bytes_ = total_bytes;
  return {};
}

Expected<void> WeightInbox::write(uint64_t offset, std::span<const std::byte> bytes,
                                  uint64_t checksum) {
  if (!is_open_) return Error{Errc::invalid_argument, "weights: no version was begun"};
  if (offset > total_bytes_ || bytes.size() > total_bytes_ - offset)
    return Error{Errc::invalid_argument,
                 fmt::format("weights version {}: bytes {}..{} lie outside its {} bytes", version_,
                             offset, offset + bytes.size(), total_bytes_)};
  if (bytes.empty()) return {};
  std::memcpy(bytes_.get() + offset, bytes.data(), bytes.size());
  // The copy is what will be served, so the copy is what is checked.
  const uint64_t found = tensor::checksum64({bytes_.get() + offset, bytes.size()});
  uint64_t begin = offset;
  uint64_t end = offset + bytes.size();
  auto it = arrived_.upper_bound(begin);
  if (it != arrived_.begin() && std::prev(it)->second >= begin) --it;
  if (found != checksum) {  // whatever lay there before is overwritten: it is missing again
    while (it != arrived_.end() && it->first < end) {
      const auto [old_begin, old_end] = *it;
      it = arrived_.erase(it);
      if (old_begin < begin) arrived_.emplace(old_begin, begin);
      if (old_end > end) arrived_.emplace(end, old_end);
    }
    return Error{Errc::corrupt,
                 fmt::format("weights version {}: bytes {}..{} have checksum {:016x}, not {:016x}",
                             version_, begin, end, found, checksum)};
  }
  while (it != arrived_.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    it = arrived_.erase(it);
  }
  arrived_.emplace(begin, end);
  return {};
}

Expected<std::shared_ptr<std::byte>> WeightInbox::take(uint64_t version) {
  if (!is_open_ || version != version_)
    return Error{Errc::invalid_argument, fmt::format("weights: version {} was not begun", version)};
  uint64_t reached = 0;
  if (!arrived_.empty() && arrived_.begin()->first == 0) reached = arrived_.begin()->second;
  if (reached != total_bytes_)
    return Error{Errc::corrupt, fmt::format("weights version {}: byte {} of {} has not arrived",
                                            version_, reached, total_bytes_)};
  std::shared_ptr<std::byte> bytes = std::move(bytes_);
  drop();
  return bytes;
}

void WeightInbox::drop() {
  is_open_ = false;
  bytes_.reset();
  arrived_.clear();
}

}  // namespace cohort::compute

#include "runtime/compute/generate/tp_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/compute/generate/kv_cache.hpp"

namespace cohort::compute {
namespace {

// One frame holds the announcement of a decode iteration of some hundred sequences; what is longer
// follows in a second message.
constexpr size_t k_frame_bytes = 8192;

struct Head {
  uint32_t kind = 0;
  uint32_t chunks = 0;
  uint32_t tokens = 0;
  uint32_t blocks = 0;
};
struct ChunkHead {
  int32_t count = 0;
  int32_t first_position = 0;
  int32_t blocks = 0;
  int32_t is_sampled = 0;
};

size_t message_bytes(const Head& head) {
  return sizeof(Head) + head.chunks * sizeof(ChunkHead) +
         (size_t{head.tokens} + head.blocks) * sizeof(int32_t);
}

template <class T>
std::byte* put(std::byte* to, const T* from, size_t count) {
  if (count > 0) std::memcpy(to, from, count * sizeof(T));
  return to + count * sizeof(T);
}

/// Adds, element by element, what the ranks sent, in rank order. A strip stays in the nearest
/// cache, and its inner loops are plain vector sums.
void add_in_rank_order(float* x, const float* parts, size_t count, int ranks) {
  constexpr size_t k_strip = 1024;
  float sum[k_strip];
  for (size_t begin = 0; begin < count; begin += k_strip) {
    const size_t n = std::min(k_strip, count - begin);
    std::memcpy(sum, parts + begin, n * sizeof(float));
    for (int rank = 1; rank < ranks; ++rank) {
      const float* part = parts + static_cast<size_t>(rank) * count + begin;
      for (size_t i = 0; i < n; ++i) sum[i] += part[i];
    }
    for (size_t i = 0; i < n; ++i) x[begin + i] += sum[i];
  }
}

std::string to_text(const TpState& state) {
  if (!state.is_ready) return "has no weights or no cache on its card";
  return fmt::format("serves version {} from {} blocks", state.weight_version, state.block_count);
}

}  // namespace

TpLink::TpLink(std::shared_ptr<Collectives> group, const TpLimits& limits)
    : group_(std::move(group)), limits_(limits) {}

/// Remembers the first error (TP-4).
Expected<void> TpLink::keep(Expected<void> result) {
  if (!result && !error_) error_ = result.error();
  return result;
}

void TpLink::abort(const Error& why) { group_->abort(why.detail); }

// -- orders

Expected<void> TpLink::send(TpOrder::Kind kind) {
  if (error_) return *error_;
  const Head head{static_cast<uint32_t>(kind), 0, 0, 0};
  message_.assign(k_frame_bytes, std::byte{0});
  std::memcpy(message_.data(), &head, sizeof head);
  return keep(group_->broadcast(message_, 0));
}

Expected<void> TpLink::beat() { return send(TpOrder::Kind::beat); }

void TpLink::end() { (void)send(TpOrder::Kind::end); }

Expected<void> TpLink::announce(std::span<const BatchChunk> batch) {
  if (error_) return *error_;
  const auto blocks_of = [this](const BatchChunk& chunk) {
    return blocks_for(chunk.first_position + chunk.count, limits_.block_tokens);
  };
  Head head{static_cast<uint32_t>(TpOrder::Kind::batch), static_cast<uint32_t>(batch.size()), 0, 0};
  for (const BatchChunk& chunk : batch) {
    head.tokens += static_cast<uint32_t>(chunk.count);
    head.blocks += static_cast<uint32_t>(blocks_of(chunk));
  }
  const size_t bytes = message_bytes(head);
  message_.resize(std::max(bytes, k_frame_bytes));
  std::byte* to = put(message_.data(), &head, 1);
  for (const BatchChunk& chunk : batch) {
    const ChunkHead one{static_cast<int32_t>(chunk.count),
                        static_cast<int32_t>(chunk.first_position),
                        static_cast<int32_t>(blocks_of(chunk)), chunk.is_sampled ? 1 : 0};
    to = put(to, &one, 1);
  }
  for (const BatchChunk& chunk : batch)
    to = put(to, chunk.tokens, static_cast<size_t>(chunk.count));
  for (const BatchChunk& chunk : batch)
    to = put(to, chunk.blocks, static_cast<size_t>(blocks_of(chunk)));
  COHORT_TRY(keep(group_->broadcast(std::span(message_).first(k_frame_bytes), 0)));
  if (bytes <= k_frame_bytes) return {};
  return keep(group_->broadcast(std::span(message_).subspan(k_frame_bytes), 0));
}

Expected<TpOrder> TpLink::next() {
  if (error_) return *error_;
  message_.resize(k_frame_bytes);
  COHORT_TRY(keep(group_->broadcast(message_, 0)));
  Head head;
  std::memcpy(&head, message_.data(), sizeof head);
  const auto kind = static_cast<TpOrder::Kind>(head.kind);
  if (kind == TpOrder::Kind::beat || kind == TpOrder::Kind::end) return TpOrder{kind, {}};
  const auto rows_max = static_cast<uint64_t>(limits_.batch_tokens);
  const auto blocks_max =
      static_cast<uint64_t>(limits_.max_context / limits_.block_tokens + 1) * head.chunks;
  if (kind != TpOrder::Kind::batch || head.tokens > rows_max || head.chunks > head.tokens ||
      head.blocks > blocks_max) {
    error_ = Error{Errc::protocol,
                   fmt::format("tensor parallel rank {}: the leader announced {} "
                               "rows in {} chunks and {} blocks, kind {}",
                               rank(), head.tokens, head.chunks, head.blocks, head.kind)};
    return *error_;
  }
  if (const size_t bytes = message_bytes(head); bytes > k_frame_bytes) {
    message_.resize(bytes);
    COHORT_TRY(keep(group_->broadcast(std::span(message_).subspan(k_frame_bytes), 0)));
  }
  auto order = decode();
  if (!order) error_ = order.error();
  return order;
}

/// Reads a whole announcement; every number is checked before it is used as an index.
Expected<TpOrder> TpLink::decode() {
  Head head;
  std::memcpy(&head, message_.data(), sizeof head);
  std::vector<ChunkHead> heads(head.chunks);
  const std::byte* at = message_.data() + sizeof head;
  const auto take = [&at](auto& into) {
    if (!into.empty()) std::memcpy(into.data(), at, into.size() * sizeof(into[0]));
    at += into.size() * sizeof(into[0]);
  };
  tokens_.resize(head.tokens);
  blocks_.resize(head.blocks);
  take(heads);
  take(tokens_);
  take(blocks_);
  batch_.clear();
  int64_t token = 0;
  int64_t block = 0;
  for (const ChunkHead& one : heads) {
    const int64_t end = int64_t{one.first_position} + one.count;
    const bool is_sound = one.count > 0 && one.first_position >= 0 && end <= limits_.max_context &&
                          token + one.count <= int64_t{head.tokens} &&
                          one.blocks == blocks_for(end, limits_.block_tokens) &&
                          block + one.blocks <= int64_t{head.blocks};
    if (!is_sound)
      return Error{Errc::protocol,
                   fmt::format("tensor parallel rank {}: the leader announced a chunk of {} rows "
                               "at {} in {} blocks",
                               rank(), one.count, one.first_position, one.blocks)};
    batch_.push_back({tokens_.data() + token, one.count, one.first_position, blocks_.data() + block,
                      one.is_sampled != 0});
    token += one.count;
    block += one.blocks;
  }
  const auto is_token = [this](int32_t t) { return t >= 0 && t < limits_.vocab_size; };
  if (token != int64_t{head.tokens} || block != int64_t{head.blocks} ||
      !std::all_of(tokens_.begin(), tokens_.end(), is_token))
    return Error{
        Errc::protocol,
        fmt::format("tensor parallel rank {}: the leader's announcement does not add up", rank())};
  return TpOrder{TpOrder::Kind::batch, batch_};
}

// -- exchanges

Expected<void> TpLink::agree(const TpState& mine) {
  if (error_) return *error_;
  struct Wire {
    uint64_t version;
    int64_t blocks;
    uint64_t is_ready;
  };
  const Wire own{mine.weight_version, mine.block_count, mine.is_ready ? 1U : 0U};
  std::vector<Wire> all(static_cast<size_t>(size()));
  views_.clear();
  for (Wire& one : all) views_.push_back(std::as_writable_bytes(std::span(&one, 1)));
  COHORT_TRY(keep(group_->all_gather(std::as_bytes(std::span(&own, 1)), views_)));
  const auto state = [&all](int at) {
    const Wire& one = all[static_cast<size_t>(at)];
    return TpState{one.version, one.blocks, one.is_ready != 0};
  };
  for (int other = 0; other < size(); ++other)
    if (state(other) != state(0) || !state(other).is_ready)
      return Error{Errc::placement,
                   fmt::format("TP-2: tensor parallel rank {} {}, the leader {}: give weights and "
                               "cache commands to every rank before the next turn",
                               other, to_text(state(other)), to_text(state(0)))};
  return {};
}

float* TpLink::partials(int64_t rows, int64_t width) {
  const auto count = static_cast<size_t>(rows * width);
  gathered_.resize(std::max(gathered_.size(), count * static_cast<size_t>(size())));
  return gathered_.data() + count * static_cast<size_t>(rank());
}

Expected<void> TpLink::add_partials(float* x, int64_t rows, int64_t width) {
  if (error_) return *error_;
  const auto count = static_cast<size_t>(rows * width);
  views_.clear();
  for (int r = 0; r < size(); ++r)
    views_.push_back(std::as_writable_bytes(
        std::span(gathered_).subspan(count * static_cast<size_t>(r), count)));
  COHORT_TRY(keep(group_->all_gather(views_[static_cast<size_t>(rank())], views_)));
  add_in_rank_order(x, gathered_.data(), count, size());
  return {};
}

Expected<void> TpLink::spread_rows(std::span<const int32_t> owners, float* x, int64_t width) {
  if (error_) return *error_;
  const auto row_floats = static_cast<size_t>(width);
  std::vector<size_t> begins(static_cast<size_t>(size()) + 1, 0);
  for (int32_t owner : owners) begins[static_cast<size_t>(owner) + 1] += row_floats;
  for (size_t r = 1; r < begins.size(); ++r) begins[r] += begins[r - 1];
  gathered_.resize(std::max(gathered_.size(), begins.back()));
  views_.clear();
  for (size_t r = 0; r + 1 < begins.size(); ++r)
    views_.push_back(
        std::as_writable_bytes(std::span(gathered_).subspan(begins[r], begins[r + 1] - begins[r])));
  std::vector<size_t> at(begins.begin(), begins.end() - 1);
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] != rank()) continue;
    size_t& to = at[static_cast<size_t>(rank())];
    std::memcpy(gathered_.data() + to, x + i * row_floats, row_floats * sizeof(float));
    to += row_floats;
  }
  COHORT_TRY(keep(group_->all_gather(views_[static_cast<size_t>(rank())], views_)));
  at.assign(begins.begin(), begins.end() - 1);
  for (size_t i = 0; i < owners.size(); ++i) {
    size_t& from = at[static_cast<size_t>(owners[i])];
    std::memcpy(x + i * row_floats, gathered_.data() + from, row_floats * sizeof(float));
    from += row_floats;
  }
  return {};
}

Expected<const float*> TpLink::gather_columns(const float* mine, int64_t rows, int64_t width,
                                              int64_t ld) {
  if (error_) return *error_;
  const auto row_floats = static_cast<size_t>(width);
  const auto count = static_cast<size_t>(rows) * row_floats;
  const auto ranks = static_cast<size_t>(size());
  mine_.resize(std::max(mine_.size(), count));
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(mine_.data() + row * width, mine + row * ld, row_floats * sizeof(float));
  std::vector<std::span<const std::byte>> send(ranks);
  send[0] = std::as_bytes(std::span(mine_).first(count));
  views_.assign(ranks, {});
  if (rank() == 0) {
    gathered_.resize(std::max(gathered_.size(), count * ranks));
    for (size_t r = 0; r < ranks; ++r)
      views_[r] = std::as_writable_bytes(std::span(gathered_).subspan(count * r, count));
  }
  COHORT_TRY(keep(group_->all_to_all(send, views_)));
  if (rank() != 0) return nullptr;
  columns_.resize(std::max(columns_.size(), count * ranks));
  float* to = columns_.data();
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
    for (size_t r = 0; r < ranks; ++r, to += width)
      std::memcpy(to, gathered_.data() + count * r + row * row_floats, row_floats * sizeof(float));
  return columns_.data();
}

}  // namespace cohort::compute

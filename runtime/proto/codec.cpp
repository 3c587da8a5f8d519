#include "runtime/proto/codec.hpp"

#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/proto/cohort.pb.h"
#include "runtime/tensor/dtype.hpp"

namespace cohort::proto {

static_assert(std::endian::native == std::endian::little, "columns are little-endian in memory");

namespace {

using tensor::Dtype;

constexpr size_t k_arena_bytes = 8192;  // a trajectory of a few turns fits

enum ColumnId : uint32_t {
  k_tokens = 1,
  k_response_mask = 2,
  k_behavior_logp = 3,
  k_ref_logp = 4,
  k_values = 5,
  k_token_rewards = 6,
  k_token_versions = 7,
  k_teacher_logp = 8,
};

template <class T>
constexpr Dtype dtype_of() {
  if (std::is_same_v<T, int32_t>) return Dtype::i32;
  if (std::is_same_v<T, uint32_t>) return Dtype::u32;
  return std::is_same_v<T, uint8_t> ? Dtype::u8 : Dtype::f32;
}

/// The one list of columns: calls f(id, column) for each, in wire order.
template <class T, class F>
void for_each_column(T& x, F&& f) {
  f(k_tokens, x.tokens);
  f(k_response_mask, x.response_mask);
  f(k_behavior_logp, x.behavior_logp);
  f(k_ref_logp, x.ref_logp);
  f(k_values, x.values);
  f(k_token_rewards, x.token_rewards);
  f(k_token_versions, x.token_versions);
  f(k_teacher_logp, x.teacher_logp);
}

size_t align_up(size_t offset) {
  return (offset + tensor::k_buffer_alignment - 1) / tensor::k_buffer_alignment *
         tensor::k_buffer_alignment;
}

void write_header(const Trajectory& x, wire::Trajectory& out) {
  out.set_run_id(x.run_id);
  out.set_kind(static_cast<uint32_t>(x.key.kind));
  out.set_step(x.key.step);
  out.set_group(x.key.group);
  out.set_index(x.key.index);
  out.set_attempt(x.attempt);
  out.set_tag(x.tag);
  out.set_seed(x.seed);
  out.set_prompt_id(x.prompt_id);
  out.set_weight_version_min(x.weight_version_min);
  out.set_weight_version_max(x.weight_version_max);
  out.set_stop_reason(x.stop_reason);
  out.set_generate_seconds(x.generate_seconds);
  out.set_env_seconds(x.env_seconds);
  out.set_score(x.score);
  if (!x.mask_reason.empty()) out.set_mask_reason(x.mask_reason);
  if (!x.data_source.empty()) out.set_data_source(x.data_source);
  if (!x.ground_truth.empty()) out.set_ground_truth(x.ground_truth);
  if (x.is_greedy) out.set_is_greedy(true);
  for (const RewardPart& part : x.reward_parts) {
    auto* to = out.add_reward_parts();
    to->set_name(part.name);
    to->set_value(part.value);
    to->set_weight(part.weight);
    if (!part.detail.empty()) to->set_detail(part.detail);
  }
  for (const auto& [name, value] : x.metrics) {
    auto* to = out.add_metrics();
    to->set_name(name);
    to->set_value(value);
  }
  for (const Turn& turn : x.turns) {
    auto* to = out.add_turns();
    to->set_response_begin(turn.response_begin);
    to->set_response_end(turn.response_end);
    to->set_env_reward(turn.env_reward);
    to->set_is_valid(turn.is_valid);
    to->set_is_effective(turn.is_effective);
    to->set_observation(turn.observation);
    to->set_response(turn.response);
    to->set_context_begin(turn.context_begin);
  }
}

void read_header(const wire::Trajectory& in, Trajectory& x) {
  x.run_id = in.run_id();
  x.key = {static_cast<TrajectoryKind>(in.kind()), in.step(), in.group(), in.index()};
  x.attempt = in.attempt();
  x.tag = in.tag();
  x.seed = in.seed();
  x.prompt_id = in.prompt_id();
  x.weight_version_min = in.weight_version_min();
  x.weight_version_max = in.weight_version_max();
  x.stop_reason = in.stop_reason();
  x.generate_seconds = in.generate_seconds();
  x.env_seconds = in.env_seconds();
  x.score = in.score();
  x.mask_reason = in.mask_reason();
  x.data_source = in.data_source();
  x.ground_truth = in.ground_truth();
  x.is_greedy = in.is_greedy();
  x.reward_parts.reserve(static_cast<size_t>(in.reward_parts_size()));
  for (const auto& part : in.reward_parts())
    x.reward_parts.push_back({part.name(), part.value(), part.weight(), part.detail()});
  x.metrics.reserve(static_cast<size_t>(in.metrics_size()));
  for (const auto& metric : in.metrics()) x.metrics.emplace_back(metric.name(), metric.value());
  x.turns.reserve(static_cast<size_t>(in.turns_size()));
  for (const auto& turn : in.turns())
    x.turns.push_back({turn.response_begin(), turn.response_end(), turn.env_reward(),
                       turn.is_valid(), turn.is_effective(), turn.observation(), turn.response(),
                       turn.context_begin()});
}

Error corrupt(const Trajectory& x, std::string_view what) {
  return {Errc::corrupt, fmt::format("trajectory {}: {}", to_string(x.key), what)};
}

template <class T>
Expected<void> read_column(const wire::Column& in, std::span<const std::byte> columns, size_t& end,
                           const Trajectory& x, std::vector<T>& out) {
  if (in.dtype() != static_cast<uint32_t>(dtype_of<T>()))
    return corrupt(x, fmt::format("column {} has dtype {}, not {}", in.id(), in.dtype(),
                                  tensor::to_string(dtype_of<T>())));
  if (!out.empty() || in.count() == 0)
    return corrupt(x, fmt::format("column {} is repeated or empty", in.id()));
  if (in.offset() % tensor::k_buffer_alignment != 0 || in.offset() > columns.size() ||
      in.count() > (columns.size() - in.offset()) / sizeof(T))
    return corrupt(x, fmt::format("column {} at {} with {} entries is outside the {} column bytes",
                                  in.id(), in.offset(), in.count(), columns.size()));
  // In order and apart: otherwise a small header could name the same bytes a million times.
  if (in.offset() < end)
    return corrupt(
        x, fmt::format("column {} at {} overlaps what ends at {}", in.id(), in.offset(), end));
  end = in.offset() + in.count() * sizeof(T);
  out.resize(in.count());
  std::memcpy(out.data(), columns.data() + in.offset(), in.count() * sizeof(T));
  return {};
}

Expected<void> read_columns(const wire::Trajectory& in, std::span<const std::byte> columns,
                            size_t& end, Trajectory& x) {
  for (const auto& column : in.columns()) {
    Expected<void> result;
    // An id that this reader does not know was added by a newer writer: it is skipped.
    for_each_column(x, [&](uint32_t id, auto& out) {
      if (id == column.id()) result = read_column(column, columns, end, x, out);
    });
    COHORT_TRY(result);
  }
  Expected<void> result;
  for_each_column(x, [&](uint32_t id, auto& column) {
    if (!column.empty() && column.size() != x.tokens.size())
      result = corrupt(x, fmt::format("column {} has {} entries for {} tokens", id, column.size(),
                                      x.tokens.size()));
  });
  COHORT_TRY(result);
  for (const Turn& turn : x.turns)
    if (turn.context_begin > turn.response_begin || turn.response_begin > turn.response_end ||
        turn.response_end > x.tokens.size())
      return corrupt(x, "a turn's token range is outside the tokens");
  return {};
}

size_t layout_columns(const Trajectory& x, size_t offset, wire::Trajectory& out) {
  for_each_column(x, [&](uint32_t id, const auto& column) {
    if (column.empty()) return;
    using T = typename std::decay_t<decltype(column)>::value_type;
    offset = align_up(offset);
    auto* to = out.add_columns();
    to->set_id(id);
    to->set_dtype(static_cast<uint32_t>(dtype_of<T>()));
    to->set_offset(offset);
    to->set_count(column.size());
    offset += column.size() * sizeof(T);
  });
  return offset;
}

}  // namespace

Encoded encode_batch(std::span<const Trajectory> trajectories) {
  wire::TrajectoryBatch batch;
  batch.set_format(k_batch_format);
  batch.mutable_trajectories()->Reserve(static_cast<int>(trajectories.size()));
  size_t total = 0;
  for (const Trajectory& x : trajectories) {
    wire::Trajectory* out = batch.add_trajectories();
    write_header(x, *out);
    total = layout_columns(x, total, *out);
  }
  total = align_up(total);
  batch.set_columns_bytes(total);

  Encoded result;
  result.header = batch.SerializeAsString();
  result.columns = tensor::Buffer::allocate(total);
  std::span<std::byte> bytes = result.columns.mutable_bytes();
  size_t end = 0;  // of what is written: the padding in between is zero
  for (const Trajectory& x : trajectories)
    for_each_column(x, [&](uint32_t, const auto& column) {
      if (column.empty()) return;
      size_t begin = align_up(end);
      std::memset(bytes.data() + end, 0, begin - end);
      size_t size_bytes = column.size() * sizeof(column[0]);
      std::memcpy(bytes.data() + begin, column.data(), size_bytes);
      end = begin + size_bytes;
    });
  if (end < total) std::memset(bytes.data() + end, 0, total - end);
  return result;
}

Expected<std::vector<Trajectory>> decode_batch(std::span<const std::byte> header,
                                               std::span<const std::byte> columns) {
  // Most of what a small message costs to parse is the allocation of its parts.
  alignas(std::max_align_t) std::array<char, k_arena_bytes> first_block;
  google::protobuf::ArenaOptions arena_options;
  arena_options.initial_block = first_block.data();
  arena_options.initial_block_size = first_block.size();
  google::protobuf::Arena arena(arena_options);
  auto& batch = *google::protobuf::Arena::CreateMessage<wire::TrajectoryBatch>(&arena);
  if (header.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !batch.ParseFromArray(header.data(), static_cast<int>(header.size())))
    return Error{Errc::corrupt,
                 fmt::format("trajectory batch: header of {} bytes does not parse", header.size())};
  if (batch.format() != k_batch_format)
    return Error{Errc::corrupt, fmt::format("trajectory batch: format {}, this reader knows {}",
                                            batch.format(), k_batch_format)};
  if (batch.columns_bytes() != columns.size())
    return Error{Errc::corrupt, fmt::format("trajectory batch: {} column bytes, header says {}",
                                            columns.size(), batch.columns_bytes())};
  std::vector<Trajectory> result;
  result.reserve(static_cast<size_t>(batch.trajectories_size()));
  size_t end = 0;
  for (const auto& in : batch.trajectories()) {
    if (in.kind() > static_cast<uint32_t>(TrajectoryKind::warm_start))
      return Error{Errc::corrupt, fmt::format("trajectory batch: unknown kind {}", in.kind())};
    Trajectory& x = result.emplace_back();
    read_header(in, x);
    COHORT_TRY(read_columns(in, columns, end, x));
  }
  return result;
}

}  // namespace cohort::proto

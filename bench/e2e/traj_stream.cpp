#include "bench/e2e/traj_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <string>

#include "runtime/base/rng.hpp"
#include "runtime/proto/codec.hpp"
#include "runtime/stream/stream_file.hpp"

namespace cohort::bench {
namespace {

constexpr uint32_t k_group_size = 8;
constexpr uint64_t k_groups = k_step_trajectories / k_group_size;

uint64_t number_of(const proto::TrajectoryKey& key) {
  return key.step * k_step_trajectories + uint64_t{key.group} * k_group_size + key.index;
}

/// A position between 0 and k_step_trajectories, shuffled by a step's own key.
uint64_t arrival(uint64_t step, uint64_t i) {
  const uint64_t odd = mix64(step) | 1;  // a bijection on powers of two
  return (i * odd + mix64(step + 1)) % k_step_trajectories;
}

void add_tokens(proto::Trajectory& x, Rng& rng, uint32_t count, bool is_sampled) {
  for (uint32_t i = 0; i < count; ++i) {
    x.tokens.push_back(static_cast<int32_t>(rng.next_u64() % 20'000));
    x.response_mask.push_back(is_sampled ? 1 : 0);
    const auto logp = static_cast<float>(std::log(rng.uniform() * 0.999 + 0.001));
    x.behavior_logp.push_back(is_sampled ? logp : 0.0F);
    x.ref_logp.push_back(is_sampled ? logp * 1.01F : 0.0F);
    x.token_versions.push_back(static_cast<uint32_t>(x.key.step));
  }
}

}  // namespace

proto::TrajectoryKey sample_key(uint64_t n) {
  return {proto::TrajectoryKind::train, n / k_step_trajectories,
          static_cast<uint32_t>(n % k_step_trajectories / k_group_size),
          static_cast<uint32_t>(n % k_group_size)};
}

proto::Trajectory sample_trajectory(uint64_t step, uint32_t group, uint32_t index,
                                    uint32_t more_tokens) {
  static constexpr const char* k_moves[] = {"Up", "Down", "Left", "Right"};
  proto::Trajectory x;
  x.run_id = "bench";
  x.key = {proto::TrajectoryKind::train, step, group, index};
  const uint64_t n = number_of(x.key);
  Rng rng(n);
  const bool is_needle = n % k_needle_every == 0;
  x.tag = "FrozenLake";
  x.seed = mix64(step * k_groups + group);
  x.prompt_id = fmt::format("lake-{}", step * k_groups + group);
  x.weight_version_min = x.weight_version_max = step;
  for (int turn = 0; turn < 3; ++turn) {
    add_tokens(x, rng, 18, false);
    const auto begin = static_cast<uint32_t>(x.tokens.size());
    add_tokens(x, rng, 6 + static_cast<uint32_t>(rng.next_u64() % 6) + more_tokens / 3, true);
    const char* move = k_moves[rng.next_u64() % 4];
    x.turns.push_back(
        {begin, static_cast<uint32_t>(x.tokens.size()), 0, true, true,
         fmt::format("You stand at row {}, column {}.\nP__O\n_O__\n__O_\nO__G\nWhere?",
                     rng.next_u64() % 4, rng.next_u64() % 4),
         is_needle ? fmt::format("<answer>needle {}</answer>", n)
                   : fmt::format("<answer>{}</answer>", move)});
  }
  x.score = is_needle ? 3 : std::floor(rng.uniform() * 2);
  x.stop_reason = x.score > 0 ? "goal" : "hole";
  x.generate_seconds = rng.uniform();
  x.reward_parts.push_back({"frozen_lake", x.score, 1, ""});
  x.metrics = {{"success", x.score > 0 ? 1.0 : 0.0}, {"moves", 3}, {"valid", 1}};
  return x;
}

uint64_t columns_bytes(const proto::Trajectory& x) {
  return x.tokens.size() * (4 + 1 + 4 + 4 + 4);  // token, mask, two log-probs, version
}

StreamSize make_stream(const std::filesystem::path& folder, uint64_t count, uint32_t more_tokens,
                       stream::WriterOptions options) {
  std::filesystem::remove_all(folder);
  auto writer = stream::Writer::open(folder, std::move(options)).value();
  StreamSize size;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t step = i / k_step_trajectories;
    const bool is_whole = (step + 1) * k_step_trajectories <= count;
    const uint64_t n =
        is_whole ? step * k_step_trajectories + arrival(step, i % k_step_trajectories) : i;
    const proto::TrajectoryKey key = sample_key(n);
    const proto::Trajectory x = sample_trajectory(key.step, key.group, key.index, more_tokens);
    const proto::Encoded encoded = proto::encode_batch({&x, 1});
    writer
        .append_keyed(stream::RecordType::trajectory, {key.step, key, 0},
                      std::as_bytes(std::span(encoded.header)), encoded.columns.bytes())
        .value();
    size.headers_bytes += encoded.header.size();
    size.columns_bytes += columns_bytes(x);
  }
  writer.close().value();
  size.stored_bytes = segment_bytes(folder);
  return size;
}

uint64_t segment_bytes(const std::filesystem::path& folder) {
  uint64_t bytes = 0;
  const std::vector<uint32_t> segments = stream::list_segments(folder).value();
  for (uint32_t segment : segments)
    bytes += std::filesystem::file_size(stream::segment_path(folder, segment));
  return bytes;
}

void drop_from_page_cache(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    ::fdatasync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

}  // namespace cohort::bench

#pragma once
/// How a packed forward is computed: the seam between scheduling and arithmetic. Runners: CPU
/// kernels (decode_runner.cpp) and ATen (generation_aten.cpp; any device, any layer, slower).
/// A ModelRunner is shared by the lanes: forward only reads it. A LaneRunner belongs to one lane.
/// Exceptions of third parties do not leave a runner. Under tensor parallelism a runner has one
/// rank's part of the model, and its lanes exchange sums with the other ranks through a TpLink;
/// then every rank's forward must be given the same batches.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/base/error.hpp"
#include "runtime/compute/model/model_tp.hpp"

namespace cohort::compute {

class Device;
class TpLink;

/// Rows of one sequence: `count` tokens from `first_position` on.
struct BatchChunk {
  const int32_t* tokens = nullptr;
  int64_t count = 0;
  int64_t first_position = 0;
  const int32_t* blocks = nullptr;  // enough blocks for first_position + count tokens
  bool is_sampled = false;          // logits of the last row are wanted
};

/// Row i is that of the i-th sampled chunk; valid until the lane's next forward.
struct LogitsView {
  const float* data = nullptr;
  int64_t ld = 0;  // [floats] from row to row
};

class LaneRunner {
 public:
  virtual ~LaneRunner() = default;
  /// Computes the rows, writes their KV, returns the logits of the sampled chunks in order (over
  /// the whole vocabulary; on rank 0 only).
  virtual Expected<LogitsView> forward(std::span<const BatchChunk> batch) = 0;
  /// The threads that compute for the lane, its own included.
  virtual uint32_t members() const { return 1; }
  /// Calls work(item, member) once for each of `count` items, shared by the members: each has one
  /// item at a time. Returns when all are done.
  using Work = std::function<void(int64_t item, uint32_t member)>;
  virtual void share(int64_t count, const Work& work) {
    for (int64_t item = 0; item < count; ++item) work(item, 0);
  }
};

struct RunnerOptions {
  ModelConfig model;  // of this rank: tp_config()
  int64_t max_context = 0;
  int64_t batch_tokens = 0;
  int64_t block_tokens = 0;
  TpRank tp;
  uint32_t threads = 1;           // of a lane, its own included; results do not depend on them
  Device* card_device = nullptr;  // the card is one: weights and cache lie in its blocks; null: cpu
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual uint64_t flat_bytes() const = 0;      // weights as they are published
  virtual uint64_t card_bytes() const = 0;      // weights as they lie on the card
  virtual uint64_t kv_block_bytes() const = 0;  // all layers
  /// Uses `card` (card_bytes, zero-filled) for the weights from now on; an empty span forgets them.
  virtual void attach(std::span<std::byte> card) = 0;
  /// Writes the weights of `flat` to the attached card bytes.
  virtual Expected<void> load(std::span<const std::byte> flat) = 0;
  /// Likewise, of the flat buffer that `read` reads, and which need not be there whole: elements
  /// from `begin` on, as many as `to` holds; from several threads at once. Returns false, and reads
  /// nothing, where a runner takes flat buffers only.
  using FlatReader = std::function<void(int64_t begin, std::span<std::byte> to)>;
  virtual bool load_from(const FlatReader& read) {
    (void)read;
    return false;
  }
  /// The inverse of load(), exact to the bit.
  virtual Expected<void> store(std::span<std::byte> flat) const = 0;
  /// `link` is null unless tp.size > 1; it outlives the lane.
  virtual std::unique_ptr<LaneRunner> make_lane(std::span<std::byte> cache, TpLink* link) = 0;
};

/// Returns whether make_cpu_runner can compute the model's layers: no routed experts, no latents.
inline bool has_packed_layers(const ModelConfig& model) { return !model.moe && !model.mla; }
std::unique_ptr<ModelRunner> make_cpu_runner(const RunnerOptions& options);
/// Returns Errc::invalid_argument if the device is not there.
Expected<std::unique_ptr<ModelRunner>> make_aten_runner(const RunnerOptions& options);

}  // namespace cohort::compute

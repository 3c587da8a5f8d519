#pragma once
/// The inside of TrainEngine, shared by its source files. Private to the folder.
///
/// Where things are. master: the f32 parameters that the optimizer moves. f32 models compute on
/// them; bf16 models compute on `compute`. Up to stage 0 the bf16 copy lives on the card only and
/// is made from the master there; from stage 1 on it is train_params, and the master is cut and
/// lies in front of the moments. "Cut" buffers have ZeroLayout's shard layout, others the flat one.
/// With an adapter master, grads and optimizer are the adapter's, in f32, and `base` is the frozen
/// model in its dtype, which comes and goes with train_params.
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/device/resident_object.hpp"
#include "runtime/compute/model/ops.hpp"
#include "runtime/compute/model/policy_graph.hpp"
#include "runtime/compute/train/bf16.hpp"
#include "runtime/compute/train/expert_cut.hpp"
#include "runtime/compute/train/flat_math.hpp"
#include "runtime/compute/train/optimizer.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/compute/train/zero_layout.hpp"

namespace cohort::compute {

/// A buffer over all parameters, or over this rank's parts of them.
struct HeldBuffer {
  std::byte* data = nullptr;       // of the host, or of the card's device
  size_t element = sizeof(float);  // [bytes]
  bool is_cut = false;
};

struct TrainEngine::State {
  TrainEngineOptions options;
  model::HfConfig described;       // what config.json of a checkpoint says
  ParameterLayout layout;          // of what is trained, on this rank
  std::optional<LoraLayout> lora;  // its layout.flat is `layout`
  ParameterLayout base_layout;     // with lora: the model's, on this rank
  ExpertCut experts;               // experts.whole(): the layout over all ranks
  ExpertCut base_experts;          // with lora: the model's
  ZeroLayout zero;
  ops::RopeTable rope;  // where the graph runs
  FlatMath math;
  ResidentObject master, compute, grads, base;
  ResidentObject optimizer;           // [cut master], m, v
  ResidentObject swap;                // on the card: one piece of the optimizer
  std::array<bool, 3> is_ready = {};  // of objects that rest on the host
  uint64_t steps = 0;
  std::vector<std::byte> shards_copied, master_copied;  // of a card that is a device: for readers
  std::string base_folder;                              // that load_model() has read
  mutable std::optional<uint64_t> base_hash_known;
  std::unique_ptr<State> teacher;  // whose distribution step() compares; nullptr: none
  LogitDivergence divergence;

  /// Says in a config.json what stands in the place of lm_head.
  void describe_head(model::HfConfig& file) const;

  bool has_lora() const { return lora.has_value(); }
  /// Parameters that are trained have a bf16 copy, which products read.
  bool is_bf16() const { return options.model.dtype == tensor::Dtype::bf16 && !has_lora(); }
  int rank() const { return options.zero.group == nullptr ? 0 : options.zero.group->rank(); }
  int ranks() const { return zero.ranks(); }
  int stage() const { return options.zero.stage; }
  bool has_cut_master() const { return is_bf16() && stage() >= 1; }
  bool is_optimizer_hosted() const {
    return options.zero.offload_optimizer || options.zero.swap_optimizer;
  }
  /// Parameters come to the card unit by unit.
  bool is_by_unit() const { return stage() == 3 || options.zero.offload_params; }
  bool is_hosted(TrainObject which) const;
  size_t compute_element() const {
    return has_lora() ? sizeof(float) : tensor::size_of(options.model.dtype);
  }
  size_t flat_elements() const { return static_cast<size_t>(layout.total_elements); }
  size_t shard_elements() const { return static_cast<size_t>(zero.shard_elements()); }
  size_t optimizer_elements() const { return stage() >= 1 ? shard_elements() : flat_elements(); }
  /// f32 arrays in `optimizer`.
  size_t optimizer_arrays() const {
    return (options.is_frozen ? 0 : 2) + (has_cut_master() ? 1 : 0);
  }

  /// Elements of one array in a piece of a swapped optimizer: a sixteenth (MindSpeed's number).
  size_t swap_elements() const {
    constexpr size_t k_pieces = 16, k_multiple = static_cast<size_t>(k_alignment);
    const size_t piece = (optimizer_elements() + k_pieces - 1) / k_pieces;
    return (piece + k_multiple - 1) / k_multiple * k_multiple;
  }

  HeldBuffer master_buffer() const;
  HeldBuffer params_buffer() const;  // what products read
  HeldBuffer grads_buffer() const;
  HeldBuffer m_buffer() const { return optimizer_array(has_cut_master() ? 1 : 0); }
  HeldBuffer v_buffer() const { return optimizer_array(has_cut_master() ? 2 : 1); }

  /// Returns the part of tensor `spec` that a buffer holds.
  TensorPart held(const HeldBuffer& buffer, size_t spec) const;
  /// Returns where element `at` of tensor `spec` is; it must be held.
  std::byte* find(const HeldBuffer& buffer, size_t spec, int64_t at) const;
  float* find_float(const HeldBuffer& buffer, size_t spec, int64_t at) const {
    return reinterpret_cast<float*>(find(buffer, spec, at));
  }
  /// Writes elements [begin, begin + values.size()) of tensor `spec` into the master and, rounded,
  /// into what products read, as far as they hold them.
  void store_parameters(size_t spec, int64_t begin, std::span<const float> values) const;

  /// Returns the buffer itself where it is the host's, else a copy of it in `copied`.
  HeldBuffer on_host(const HeldBuffer& buffer, std::vector<std::byte>& copied) const;

  /// The card's device as torch names it.
  at::Device torch_device() const;
  /// Returns the flat parameter tensor that forward and backward read. Not by unit.
  at::Tensor compute_flat() const;
  /// Returns views of it, over the frozen model where it is an adapter's. The leaves are what is
  /// trained.
  PolicyWeights weights(const at::Tensor& flat, bool is_trained,
                        AdapterUse use = AdapterUse::on) const;
  /// Writes elements [0, values.size()) of tensor `spec` of the frozen model, rounded to its dtype.
  void store_base(size_t spec, std::span<const float> values) const;
  /// Returns xxh3-64 of the frozen model as it lies in the flat buffer of a rank that has all
  /// experts; collective where they are cut and the model is new.
  Expected<uint64_t> base_hash() const;
  /// Returns what comes to the card with `which` and leaves with it, or nullptr: the bf16 copy
  /// (stage 0), the frozen model.
  ResidentObject* companion(TrainObject which);
  /// Rounds the master parameters into the bf16 ones, as far as both are held.
  void refresh_compute() const;
  /// Returns Errc::placement naming the first of `objects` that is not on the card (PLACE-4).
  Expected<void> require_on_card(std::initializer_list<TrainObject> objects,
                                 std::string_view what) const;
  bool is_on_card(TrainObject which) const;
  ResidentObject& object(TrainObject which);
  const ResidentObject& object(TrainObject which) const;
  /// Starts every parameter from options.seed; of a frozen model only if options.draws_weights.
  void initialise() const;

  /// Every rank tells how it fares; all return the error of the first that failed, or
  /// Errc::invalid_argument if `fingerprint` differs.
  Expected<void> agree(const Expected<void>& mine, uint64_t fingerprint,
                       std::string_view what) const;
  using VisitUnit = std::function<Expected<void>(const ZeroUnit&, std::span<const float>)>;
  /// Returns xxh3-64 of the flat master over all ranks; collective where it is cut. `visit`, if
  /// any, sees each unit of experts.whole() whole, padding included.
  Expected<uint64_t> hash_master(const VisitUnit& visit) const;
  /// Returns everybody's `mine`, by rank; sizes[r] is known to all.
  Expected<std::vector<std::vector<std::byte>>> gather_bytes(
      std::span<const std::byte> mine, const std::vector<size_t>& sizes) const;
  /// The same of one value each.
  template <class T>
  Expected<std::vector<T>> gather_each(const T& mine) const {
    const std::vector<size_t> sizes(static_cast<size_t>(ranks()), sizeof mine);
    COHORT_ASSIGN(const auto bytes, gather_bytes(std::as_bytes(std::span(&mine, 1)), sizes));
    std::vector<T> all(bytes.size());
    for (size_t r = 0; r < all.size(); ++r) std::memcpy(&all[r], bytes[r].data(), sizeof mine);
    return all;
  }

 private:
  HeldBuffer optimizer_array(size_t index) const;
  Expected<uint64_t> hash_cut_base(std::span<const std::byte> own) const;
};

/// What a card that is a device throws (FlatMath), as Errc::compute: every public call ends with
/// it.
Error failed(std::string_view what, const std::exception& e);

}  // namespace cohort::compute

#pragma once
/// The training engine of one card: the policy's parameters, gradients and AdamW moments as
/// residency objects, packed forward and backward over several threads, the optimizer step,
/// checkpoints and shards for the publisher. Owner: the trainer's compute thread (also the
/// reference role, with is_frozen). Not thread-safe: one call at a time; inside a call it uses
/// `threads` threads. Torch-free header.
///
/// TRAIN-1: parameters after step() are a function of (parameters, moments, samples, loss, learning
///          rate) only: gradients are added in micro-batch order, for any `threads` and
///          whichever finishes first.
/// TRAIN-3: with a group, parameters after step() are the same bits for any number of ranks, any
///          ZeRO stage, and offload or swap on or off (reduce: ordered).
/// TRAIN-2: a step whose gradient norm is not finite changes nothing and says so, on every rank
///          (StepReport::is_finite); the next one is as if it had not been.
/// PLACE-4: step() and log_probs() on an object that is not on the card are Errc::placement.
/// On a card that is a device (CardMemory) the graph and the optimizer run there; a group then has
/// the same device in its options. TRAIN-1 and 3 hold as far as the device's own sums are ordered.
/// With experts cut over ranks every rank works at one micro-batch at a time, in step with the
/// others: the rows of a layer go to the owners of their experts and come back, in the forward and
/// in the backward. An owner has the rows of each micro-batch apart, so TRAIN-3 holds.
/// Bound: activations of `threads` micro-batches of micro_batch_tokens; at most 2 * threads
/// gradients wait. A large bf16 model, or fewer micro-batches than threads, on one card of the CPU:
/// one micro-batch at a time, whose products the threads share, and no gradients of its layers. By
/// unit (ZeRO 3, offload_params): one micro-batch at a time, its layer inputs and one layer's
/// activations.
///
/// With TrainEngineOptions::lora the model is frozen and an adapter over it is trained: layout(),
/// shards(), param_hash(), gradients, moments and checkpoints are the adapter's, in f32, whatever
/// the model's dtype; the model is part of train_params on the card, whole on every rank but for
/// experts that are cut over ranks, whose adapters lie where they do. LORA-2: an adapter whose B is
/// zero changes no bit of a log-probability.
///
/// Ranks: one engine per card, joined by `group`. Calls marked "collective" are made by every rank
/// in the same order with the same arguments; each rank computes its share of the micro-batches and
/// all of them end alike: with the same report, or with an error that names the first rank that
/// failed. After Errc::closed or Errc::timeout (a rank is gone) parameters may be half way through
/// a step: load() a checkpoint in a new group.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/numbers.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/model/logit_divergence.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/model/lora.hpp"
#include "runtime/tensor/buffer.hpp"

namespace cohort::compute {

class Collectives;
struct MicroBatch;  // loss_factory.hpp, with the other three
struct MicroOutputs;
struct MicroLoss;
struct StepCounts;
using LossFunction = std::function<MicroLoss(const MicroBatch&, const MicroOutputs&)>;
using LossFactory = std::function<LossFunction(const StepCounts&)>;

/// One sequence. Entry t of every span belongs to token t; its log-probability is given the prefix
/// < t. Spans have tokens.size() entries; the columns of floats may be empty (in all samples
/// alike).
struct TrainSample {
  std::span<const int32_t> tokens;
  std::span<const uint8_t> response_mask;  // 1 = trained on; entry 0 must be 0
  std::span<const float> old_logp, advantages, ref_logp;
  std::span<const float> weights = {};  // factor of the token's loss
  std::span<const float> marks = {};    // 0 or 1; what a 1 says is the loss's own affair
};

struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0;   // decoupled; not on norm weights and biases
  double max_grad_norm = 1;  // global L2 norm; <= 0 switches clipping off
};

/// How gradients of several ranks become one sum.
enum class GradientReduce : uint8_t {
  ordered = 0,   // in micro-batch order: the bits do not depend on the number of ranks
  per_card = 1,  // ZeRO 0 and 1: each card sums its own, one exchange per step, in rank order
};

/// The training state over the ranks of a group (arXiv 1910.02054): stage 1 cuts the optimizer, 2
/// gradients too, 3 parameters too. zero_layout.hpp says who holds what.
struct ZeroOptions {
  Collectives* group = nullptr;  // outlives the engine; nullptr: alone
  int stage = 0;                 // 0..3
  GradientReduce reduce = GradientReduce::ordered;
  bool offload_optimizer = false;  // it stays on the host, and the optimizer's arithmetic with it
  bool offload_params = false;     // they stay on the host; units come to the card when needed
  bool swap_optimizer = false;     // it stays on the host; the step streams it through the card
  /// Ranks over which the routed experts of a layer are cut (expert_cut.hpp); divides the ranks of
  /// the group and the experts. Stages 0 to 2, parameters on the card.
  int expert_ways = 1;
};

struct TrainEngineOptions {
  ModelConfig model;
  /// Of config.json in checkpoints: ids, max_position, where the tokenizer is. load_model() and
  /// load() know better.
  model::HfConfig described = {};
  /// value: a critic, whose log-probabilities, here and in MicroOutputs, are values.
  model::HeadKind head = model::HeadKind::language;
  OptimizerOptions optimizer;
  uint64_t seed = 0;          // of the initial parameters
  bool draws_weights = true;  // false: the model is zero until it is loaded; adapters are drawn
  int threads = 1;            // worker threads of step() and log_probs()
  int64_t micro_batch_tokens =
      2048;  // packed tokens per micro-batch; one longer sample is one micro-batch
  int64_t logits_max = 1 << 24;  // [floats] logits alive per thread: vocabulary * rows of a chunk
  CardMemory* card = nullptr;    // outlives the engine; of the host, or a device
  std::string role = "actor_train";  // prefix of object names on the card
  bool is_frozen = false;            // reference: parameters only, step() is an error
  ZeroOptions zero;
  /// As model::resolve_lora returns it; none: every weight is trained.
  std::optional<model::LoraShape> lora = {};
};

struct StepReport {
  double loss = 0, grad_norm = 0, learning_rate = 0, seconds = 0;
  Numbers numbers;  // of the loss
  uint64_t tokens = 0, response_tokens = 0, micro_batches = 0;
  bool is_finite = true;  // false: the loss or a gradient was NaN or infinite; no step was made
  std::optional<uint64_t> param_hash;  // of the parameters after it, where it comes at no cost
};

enum class AdapterUse : uint8_t { on = 0, off = 1 };  // off: the frozen model alone

enum class TrainObject : uint8_t { train_params, grads, optimizer };
std::string_view to_string(TrainObject object);

/// Elements [begin, end) of one tensor taken flat, as a rank holds them.
struct ParameterShard {
  std::string_view name;  // of the layout
  int64_t begin = 0, end = 0;
  std::span<const std::byte> bytes;  // (end - begin) elements of the dtype that was asked for
};

class TrainEngine {
 public:
  struct State;  // the inside, private to the folder (train_state.hpp)
  /// Draws parameters N(0, initializer_range) from `seed` (o_proj and down_proj scaled by
  /// 1/sqrt(2 L), norms 1, biases 0), on the host, if options.draws_weights. Returns
  /// Errc::invalid_argument for a bad config.
  static Expected<std::unique_ptr<TrainEngine>> create(const TrainEngineOptions& options);
  TrainEngine(const TrainEngine&) = delete;
  TrainEngine& operator=(const TrainEngine&) = delete;
  ~TrainEngine();

  /// Moves an object to the card, or readies it where it rests: an offloaded one stays on the host
  /// and takes no card bytes, of a swapped optimizer one piece comes along. Gradients have no
  /// contents between steps: they are taken as zeros. Idempotent. Returns Errc::capacity, changing
  /// nothing, if the card's budget does not allow it.
  Expected<Residency> onload(TrainObject object);
  /// Moves an object to the host (gradients: drops them) and frees its card memory. Idempotent.
  Expected<Residency> offload(TrainObject object);
  /// Returns the bytes the object takes on the card (0: it rests on the host).
  uint64_t object_bytes(TrainObject object) const;
  bool is_on_card(TrainObject object) const;

  /// From now on losses are given how far the policy's distribution is from that of `teacher` at
  /// each token (MicroOutputs::divergence). The teacher is frozen, whole on this card, which it
  /// shares with the policy: its parameters come and go with train_params. Call it once, with
  /// train_params off the card. COHORT_CHECK: language heads, one card.
  void learn_from(std::unique_ptr<TrainEngine> teacher, LogitDivergence divergence);

  /// One optimizer step over all `samples`. Each `together` of them in a row (2: the answers of a
  /// pair) are in one micro-batch. Collective. Returns Errc::placement (PLACE-4),
  /// Errc::invalid_argument naming the sample, or Errc::compute naming the step. Ask is_finite of
  /// the report (TRAIN-2).
  Expected<StepReport> step(std::span<const TrainSample> samples, const LossFactory& loss,
                            double learning_rate, size_t together = 1);
  /// Collective. out[i][t] = log-probability of token t of sample i where its mask is 1, else 0.
  /// Without an adapter `use` says nothing.
  Expected<void> log_probs(std::span<const TrainSample> samples,
                           std::vector<std::vector<float>>& out, AdapterUse use = AdapterUse::on);

  /// Returns xxh3-64 of the flat f32 master parameters, however they are cut. Collective where they
  /// are (ZeRO 3; bf16 from stage 1 on; experts); then 0 if the group is lost, which the next call
  /// explains.
  uint64_t param_hash() const;
  /// Returns the number of optimizer steps taken (saved and loaded with the moments).
  uint64_t optimizer_steps() const;
  const ModelConfig& config() const;
  bool has_adapter() const;
  /// Of what this rank trains: the model, or an adapter, with its share of the experts.
  const ParameterLayout& layout() const;

  /// Returns the size of the flat buffer of all that is trained, every expert's share included, in
  /// the model's dtype (an adapter: f32).
  uint64_t weight_bytes() const;
  /// Returns what this rank holds of each tensor in the model's dtype, in layout order: whole
  /// tensors below ZeRO 3, else plan::Shards' cut. Pointers are good until the next onload,
  /// offload, step or load; train_params must not be absent.
  std::vector<ParameterShard> shards() const;
  /// The same of the f32 master: whole tensors at stage 0 and, in f32, below stage 3.
  std::vector<ParameterShard> master_shards() const;
  /// Overwrites a piece of the flat buffer of weight_bytes() (of which each rank takes what it
  /// holds), in the model's dtype; offset and size in whole elements.
  Expected<void> load_weights(uint64_t offset_bytes, std::span<const std::byte> bytes);

  /// Writes folder/{config.json, model.safetensors, optimizer.safetensors, train_state.json}: all
  /// or nothing, on disk when it returns; replaces an existing folder. config.json has the ids, the
  /// length and the dtype of the folder that was loaded, and its path. A frozen engine writes no
  /// optimizer. Collective: the folder must be one for all ranks; each writes its slices of the
  /// moments (optimizer-R-of-N.safetensors), rank 0 the model and, when all are on disk, the state.
  /// An adapter is written as PEFT's adapter_config.json and adapter_model.safetensors, without the
  /// model under it.
  Expected<void> save(const std::filesystem::path& folder) const;
  /// Collective. Reads what save() wrote, on any number of ranks and at any stage; bits are checked
  /// by hash. Returns Errc::corrupt or Errc::invalid_argument naming the first tensor that does not
  /// fit; parameters and moments are unchanged then. An adapter's must be over the same model
  /// (its hash is in the checkpoint), which load_model() reads before.
  Expected<void> load(const std::filesystem::path& folder);
  /// Collective. Reads the weights of a Hugging Face folder (weight_folder.hpp); moments start at
  /// zero. Errors are WeightFolder's. With an adapter these are the frozen weights under it. A
  /// value head that the folder lacks is zero.
  Expected<void> load_model(const std::filesystem::path& folder);
  /// Collective. Reads a PEFT folder over the frozen model; moments start at zero. Returns
  /// Errc::invalid_argument naming file and key or tensor for another rank, scale or module.
  Expected<void> load_adapter(const std::filesystem::path& folder);

 private:
  explicit TrainEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cohort::compute

#include "runtime/compute/train_engine.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "runtime/base/check.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/compute/cpu_setup.hpp"
#include "runtime/compute/train_state.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {
namespace {

float* floats(const ResidentObject& object) { return reinterpret_cast<float*>(object.data()); }

at::Tensor flat_tensor(const ResidentObject& object, int64_t elements, at::ScalarType type) {
  auto owner = object.card_owner();  // keeps the card bytes while a tensor refers to them
  return at::from_blob(
      object.data(), {elements}, [owner](void*) {}, at::dtype(type));
}

/// Fills with N(0, std): Box-Muller on the counter-based generator, two numbers per pair of draws.
void fill_normal(std::span<float> values, Rng rng, double std) {
  for (size_t i = 0; i < values.size(); i += 2) {
    const double radius = std * std::sqrt(-2.0 * std::log(1.0 - rng.uniform()));
    const double angle = 2.0 * std::numbers::pi * rng.uniform();
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void initialise(const ParameterLayout& layout, const ModelConfig& config, uint64_t seed,
                std::span<float> flat) {
  const double residual_scale =
      1.0 / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
  const Rng root = Rng(seed).fork(0x696E6974);  // "init"
  for (size_t i = 0; i < layout.specs.size(); ++i) {
    const ParameterSpec& spec = layout.specs[i];
    auto values = flat.subspan(static_cast<size_t>(spec.offset), static_cast<size_t>(spec.count));
    if (spec.name.ends_with("norm.weight")) {
      std::fill(values.begin(), values.end(), 1.0f);
    } else if (spec.name.ends_with(".bias")) {
      std::fill(values.begin(), values.end(), 0.0f);
    } else {
      const bool is_residual =
          spec.name.ends_with("o_proj.weight") || spec.name.ends_with("down_proj.weight");
      fill_normal(values, root.fork(i),
                  config.initializer_range * (is_residual ? residual_scale : 1.0));
    }
  }
}

/// Rounds to nearest, ties to even; NaN stays NaN.
uint16_t to_bf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

std::string_view to_string(TrainObject object) {
  switch (object) {
    case TrainObject::train_params:
      return "train_params";
    case TrainObject::grads:
      return "grads";
    case TrainObject::optimizer:
      return "optimizer";
  }
  return "unknown";
}

std::span<float> TrainEngine::State::master_span() const { return {floats(master), elements()}; }
std::span<float> TrainEngine::State::grads_span() const { return {floats(grads), elements()}; }
std::span<float> TrainEngine::State::m_span() const { return {floats(moments), elements()}; }
std::span<float> TrainEngine::State::v_span() const {
  return {floats(moments) + elements(), elements()};
}

at::Tensor TrainEngine::State::compute_flat() const {
  return is_bf16() ? flat_tensor(compute, layout.total_elements, at::kBFloat16)
                   : flat_tensor(master, layout.total_elements, at::kFloat);
}

void TrainEngine::State::refresh_compute() {
  if (!is_bf16() || !compute.is_on_card()) return;
  auto* to = reinterpret_cast<uint16_t*>(compute.data());
  const auto from = master_span();
  for (size_t i = 0; i < from.size(); ++i) to[i] = to_bf16(from[i]);
}

ResidentObject& TrainEngine::State::object(TrainObject which) {
  return which == TrainObject::train_params ? master
         : which == TrainObject::grads      ? grads
                                            : moments;
}

const ResidentObject& TrainEngine::State::object(TrainObject which) const {
  return const_cast<State*>(this)->object(which);
}

Expected<void> TrainEngine::State::require_on_card(std::initializer_list<TrainObject> objects,
                                                   std::string_view what) const {
  for (TrainObject which : objects) {
    if (!object(which).is_on_card())
      return Error{Errc::placement,
                   fmt::format("PLACE-4: {} of {} needs {} on card {}: onload it first", what,
                               options.role, to_string(which), options.card->card().value)};
  }
  return {};
}

TrainEngine::TrainEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
TrainEngine::~TrainEngine() = default;

Expected<std::unique_ptr<TrainEngine>> TrainEngine::create(const TrainEngineOptions& options) {
  COHORT_TRY(validate(options.model));
  if (options.card == nullptr || options.threads < 1 || options.micro_batch_tokens < 1)
    return Error{Errc::invalid_argument,
                 "train engine: needs a card, threads >= 1 and micro_batch_tokens >= 1"};
  use_single_threaded_math();
  keep_activations_in_heap();
  auto state = std::make_unique<State>();
  state->options = options;
  state->layout = layout_of(options.model);
  state->ranges = decay_ranges(state->layout);
  const uint64_t floats_bytes = state->elements() * sizeof(float);
  state->master = ResidentObject(options.role + ".train_params", floats_bytes);
  state->compute = ResidentObject(options.role + ".train_params_bf16", floats_bytes / 2);
  state->grads = ResidentObject(options.role + ".grads", floats_bytes);
  state->moments = ResidentObject(options.role + ".optimizer", 2 * floats_bytes);
  COHORT_TRY(state->master.materialise());
  initialise(state->layout, options.model, options.seed, state->master_span());
  try {
    state->rope = ops::rope_table(options.model.max_position, options.model.head_dim,
                                  options.model.rope_theta);
  } catch (const std::exception& e) {
    return Error{Errc::compute, fmt::format("train engine: {}", e.what())};
  }
  return std::unique_ptr<TrainEngine>(new TrainEngine(std::move(state)));
}

Expected<Residency> TrainEngine::onload(TrainObject which) {
  COHORT_ASSIGN(Residency done, state_->object(which).onload(*state_->options.card));
  if (which != TrainObject::train_params || !state_->is_bf16()) return done;
  auto copy = state_->compute.onload(*state_->options.card);
  if (!copy) {
    COHORT_TRY(state_->master.offload());
    return copy.error();
  }
  state_->refresh_compute();
  done.bytes_on_card += copy->bytes_on_card;
  done.seconds += copy->seconds;
  return done;
}

Expected<Residency> TrainEngine::offload(TrainObject which) {
  if (which == TrainObject::grads) return state_->grads.drop();
  if (which == TrainObject::train_params) state_->compute.drop();
  return state_->object(which).offload();
}

uint64_t TrainEngine::object_bytes(TrainObject which) const {
  const bool has_copy = which == TrainObject::train_params && state_->is_bf16();
  return state_->object(which).size_bytes() + (has_copy ? state_->compute.size_bytes() : 0);
}

bool TrainEngine::is_on_card(TrainObject which) const { return state_->object(which).is_on_card(); }

uint64_t TrainEngine::param_hash() const {
  return tensor::checksum64(std::as_bytes(state_->master_span()));
}

uint64_t TrainEngine::optimizer_steps() const { return state_->steps; }
const ModelConfig& TrainEngine::config() const { return state_->options.model; }
const ParameterLayout& TrainEngine::layout() const { return state_->layout; }

uint64_t TrainEngine::weight_bytes() const {
  return state_->elements() * tensor::size_of(state_->options.model.dtype);
}

std::vector<WeightBucket> TrainEngine::weight_buckets(size_t bucket_bytes) const {
  COHORT_CHECK(bucket_bytes > 0 && bucket_bytes % 64 == 0, "bucket_bytes is a multiple of 64");
  const uint64_t total = weight_bytes();
  const auto source = state_->master_span();
  std::vector<WeightBucket> buckets;
  for (uint64_t offset = 0; offset < total; offset += bucket_bytes) {
    const size_t size = std::min<uint64_t>(bucket_bytes, total - offset);
    if (!state_->is_bf16()) {
      buckets.push_back(
          {offset, tensor::Buffer::copy_of(std::as_bytes(source).subspan(offset, size))});
      continue;
    }
    tensor::Buffer buffer = tensor::Buffer::allocate(size);
    auto* to = reinterpret_cast<uint16_t*>(buffer.mutable_bytes().data());
    for (size_t i = 0; i < size / 2; ++i) to[i] = to_bf16(source[offset / 2 + i]);
    buckets.push_back({offset, std::move(buffer)});
  }
  return buckets;
}

Expected<void> TrainEngine::load_weights(uint64_t offset_bytes, std::span<const std::byte> bytes) {
  const size_t element = tensor::size_of(state_->options.model.dtype);
  if (offset_bytes % element != 0 || bytes.size() % element != 0 || offset_bytes > weight_bytes() ||
      bytes.size() > weight_bytes() - offset_bytes)
    return Error{Errc::invalid_argument,
                 fmt::format("weights: {} bytes at {} do not fit {} bytes of {}-byte elements",
                             bytes.size(), offset_bytes, weight_bytes(), element)};
  float* to = state_->master_span().data() + offset_bytes / element;
  if (!state_->is_bf16()) {
    std::memcpy(to, bytes.data(), bytes.size());
    return {};
  }
  for (size_t i = 0; i < bytes.size() / element; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i * element, element);
    to[i] = from_bf16(half);
  }
  state_->refresh_compute();
  return {};
}

}  // namespace cohort::compute

// TrainEngine::State: where parameters, gradients and moments are, and what ranks tell each other.
#include "runtime/compute/train/train_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "runtime/base/check.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/base/text.hpp"
#include "runtime/compute/device/torch_device.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {
namespace {

/// Fills with N(0, std): Box-Muller on the counter-based generator, two numbers per pair of draws.
void fill_normal(std::span<float> values, Rng rng, double std) {
  for (size_t i = 0; i < values.size(); i += 2) {
    const double radius = std * std::sqrt(-2.0 * std::log(1.0 - rng.uniform()));
    const double angle = 2.0 * std::numbers::pi * rng.uniform();
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void fill_initial(const ParameterSpec& spec, const ModelConfig& config, Rng rng,
                  std::span<float> values) {
  if (spec.kind == model::Kind::norm) {
    std::fill(values.begin(), values.end(), 1.0f);
  } else if (spec.kind == model::Kind::bias || spec.kind == model::Kind::lora_b ||
             spec.kind == model::Kind::score) {
    std::fill(values.begin(), values.end(), 0.0f);
  } else if (spec.kind == model::Kind::lora_a) {
    // Kaiming's uniform with a = sqrt(5), as PEFT starts it: bound 1 / sqrt(in).
    const double bound = 1.0 / std::sqrt(static_cast<double>(spec.shape[1]));
    for (float& value : values) value = static_cast<float>(bound * (2 * rng.uniform() - 1));
  } else {
    const bool is_residual = spec.kind == model::Kind::residual;
    const double layers = static_cast<double>(config.num_hidden_layers);
    fill_normal(values, rng,
                config.initializer_range * (is_residual ? 1.0 / std::sqrt(2.0 * layers) : 1.0));
  }
}

at::Tensor flat_of(const TrainEngine::State& s, const ResidentObject& from, int64_t elements,
                   bool is_half) {
  const auto dtype = is_half ? at::kBFloat16 : at::kFloat;
  if (s.math.has_device())
    return tensor_at(s.options.card->device().get(), from.data(), elements, dtype);
  auto owner = from.card_owner();  // keeps the card bytes while a tensor refers to them
  return at::from_blob(
      from.data(), {elements}, [owner](void*) {}, at::dtype(dtype));
}

/// What a rank tells the others before and after the work of a step.
struct StatusRecord {
  uint64_t fingerprint = 0;
  uint32_t code = 0;
  char text[500] = {};
};

}  // namespace

Error failed(std::string_view what, const std::exception& e) {
  return {Errc::compute, fmt::format("{}: {}", what, first_line(e.what()))};
}

bool TrainEngine::State::is_hosted(TrainObject which) const {
  return which == TrainObject::train_params ? options.zero.offload_params
         : which == TrainObject::optimizer  ? is_optimizer_hosted()
                                            : false;
}

HeldBuffer TrainEngine::State::optimizer_array(size_t index) const {
  std::byte* data = optimizer.data();
  return {data == nullptr ? nullptr : data + index * optimizer_elements() * sizeof(float),
          sizeof(float), stage() >= 1};
}

HeldBuffer TrainEngine::State::master_buffer() const {
  if (has_cut_master()) return optimizer_array(0);
  return {master.data(), sizeof(float), stage() == 3};
}

HeldBuffer TrainEngine::State::params_buffer() const {
  if (!is_bf16()) return master_buffer();
  return {compute.data(), sizeof(uint16_t), stage() == 3};
}

HeldBuffer TrainEngine::State::grads_buffer() const {
  return {grads.data(), sizeof(float), stage() >= 2};
}

TensorPart TrainEngine::State::held(const HeldBuffer& buffer, size_t spec) const {
  return buffer.is_cut ? zero.part(spec, rank()) : TensorPart{0, layout.specs[spec].count};
}

std::byte* TrainEngine::State::find(const HeldBuffer& buffer, size_t spec, int64_t at) const {
  const int64_t index = buffer.is_cut
                            ? zero.shard_offset(spec, rank()) + at - zero.part(spec, rank()).begin
                            : layout.specs[spec].offset + at;
  return buffer.data + static_cast<size_t>(index) * buffer.element;
}

void TrainEngine::State::store_parameters(size_t spec, int64_t begin,
                                          std::span<const float> values) const {
  const auto inside = [&](const HeldBuffer& buffer) -> TensorPart {
    const TensorPart part = held(buffer, spec);
    return {std::max(part.begin, begin),
            std::min(part.end, begin + static_cast<int64_t>(values.size()))};
  };
  const HeldBuffer f32 = master_buffer(), params = params_buffer();
  if (const TensorPart at = inside(f32); at.count() > 0)
    math.copy(find(f32, spec, at.begin), values.data() + (at.begin - begin),
              static_cast<size_t>(at.count()) * sizeof(float));
  if (!is_bf16() || params.data == nullptr) return;
  if (const TensorPart at = inside(params); at.count() > 0)
    math.round(reinterpret_cast<uint16_t*>(find(params, spec, at.begin)),
               values.data() + (at.begin - begin), at.count());
}

HeldBuffer TrainEngine::State::on_host(const HeldBuffer& buffer,
                                       std::vector<std::byte>& copied) const {
  const size_t elements = buffer.is_cut ? shard_elements() : flat_elements();
  const auto bytes = math.on_host({buffer.data, elements * buffer.element}, copied);
  return {const_cast<std::byte*>(bytes.data()), buffer.element, buffer.is_cut};
}

at::Device TrainEngine::State::torch_device() const {
  return torch_device_of(options.card->device().get());
}

at::Tensor TrainEngine::State::compute_flat() const {
  return flat_of(*this, is_bf16() ? compute : master, layout.total_elements, is_bf16());
}

PolicyWeights TrainEngine::State::weights(const at::Tensor& flat, bool is_trained,
                                          AdapterUse use) const {
  if (!has_lora()) return view_weights(flat, layout, is_trained);
  const bool is_half = options.model.dtype == tensor::Dtype::bf16;
  PolicyWeights out =
      view_weights(flat_of(*this, base, base_layout.total_elements, is_half), base_layout, false);
  if (use == AdapterUse::on) attach_adapters(flat, *lora, is_trained, out);
  return out;
}

void TrainEngine::State::store_base(size_t spec, std::span<const float> values) const {
  base_hash_known.reset();
  const auto at = static_cast<size_t>(base_layout.specs[spec].offset);
  if (options.model.dtype == tensor::Dtype::bf16)
    math.round(reinterpret_cast<uint16_t*>(base.data()) + at, values.data(),
               static_cast<int64_t>(values.size()));
  else
    math.copy(reinterpret_cast<float*>(base.data()) + at, values.data(), values.size_bytes());
}

Expected<uint64_t> TrainEngine::State::base_hash() const {
  if (base_hash_known) return *base_hash_known;
  std::vector<std::byte> copied;
  const auto own = math.on_host({base.data(), base.size_bytes()}, copied);
  if (!base_experts.is_cut()) {
    base_hash_known = tensor::checksum64(own);
    return *base_hash_known;
  }
  COHORT_ASSIGN(base_hash_known, hash_cut_base(own));
  return *base_hash_known;
}

/// The experts of a family lie in the order of the slots (EP-1), one slot's behind another's.
Expected<uint64_t> TrainEngine::State::hash_cut_base(std::span<const std::byte> own) const {
  const size_t element = tensor::size_of(options.model.dtype);
  const auto slots = static_cast<size_t>(base_experts.ways());
  const auto first = static_cast<size_t>(base_experts.first_of(rank()));
  const ParameterLayout& whole = base_experts.whole();
  tensor::Checksum sum;
  int64_t done = 0;  // elements of the whole buffer
  const auto take = [&](int64_t offset, std::span<const std::byte> bytes) {
    sum.update(std::vector<std::byte>(static_cast<size_t>(offset - done) * element));  // padding
    sum.update(bytes);
    done = offset + static_cast<int64_t>(bytes.size() / element);
  };
  const std::vector<ParameterSpec>& specs = base_layout.specs;
  for (size_t spec = 0, end = 0; spec < specs.size(); spec = end) {
    end = spec + 1;
    while (end < specs.size() && specs[spec].expert >= 0 && specs[end].family == specs[spec].family)
      ++end;
    const auto begin = static_cast<size_t>(specs[spec].offset);
    const auto count = static_cast<size_t>(specs[end - 1].offset + specs[end - 1].count) - begin;
    const auto mine = own.subspan(begin * element, count * element);
    const int64_t offset = whole.specs[base_experts.whole_spec(0, spec)].offset;
    if (specs[spec].expert < 0) {
      take(offset, mine);
      continue;
    }
    std::vector<std::byte> all(slots * mine.size());
    std::vector<std::span<const std::byte>> send(static_cast<size_t>(ranks()));
    std::vector<std::span<std::byte>> receive(send.size());
    for (size_t slot = 0; slot < slots; ++slot) {
      send[first + slot] = mine;
      receive[first + slot] = std::span(all).subspan(slot * mine.size(), mine.size());
    }
    COHORT_TRY(options.zero.group->exchange(Collective::all_gather, send, receive));
    take(offset, all);
  }
  take(whole.total_elements, {});
  return sum.digest();
}

ResidentObject* TrainEngine::State::companion(TrainObject which) {
  if (which != TrainObject::train_params) return nullptr;
  if (has_lora()) return &base;
  return is_bf16() && !has_cut_master() ? &compute : nullptr;
}

void TrainEngine::State::refresh_compute() const {
  const HeldBuffer params = params_buffer(), from = master_buffer();
  if (!is_bf16() || params.data == nullptr) return;
  for (size_t spec = 0; spec < layout.specs.size(); ++spec) {
    const TensorPart part = held(from, spec);
    if (part.count() == 0) continue;
    math.round(reinterpret_cast<uint16_t*>(find(params, spec, part.begin)),
               find_float(from, spec, part.begin), part.count());
  }
}

ResidentObject& TrainEngine::State::object(TrainObject which) {
  return which == TrainObject::train_params ? (has_cut_master() ? compute : master)
         : which == TrainObject::grads      ? grads
                                            : optimizer;
}

const ResidentObject& TrainEngine::State::object(TrainObject which) const {
  return const_cast<State*>(this)->object(which);
}

bool TrainEngine::State::is_on_card(TrainObject which) const {
  return is_hosted(which) ? is_ready[static_cast<size_t>(which)] : object(which).is_on_card();
}

Expected<void> TrainEngine::State::require_on_card(std::initializer_list<TrainObject> objects,
                                                   std::string_view what) const {
  for (TrainObject which : objects) {
    if (!is_on_card(which))
      return Error{Errc::placement,
                   fmt::format("PLACE-4: {} of {} needs {} on card {}: onload it first", what,
                               options.role, to_string(which), options.card->card().value)};
  }
  return {};
}

void TrainEngine::State::describe_head(model::HfConfig& file) const {
  const bool is_value = options.head == model::HeadKind::value;
  file.head = is_value ? model::HfConfig::Head::sequence_score : model::HfConfig::Head::language;
  file.labels = is_value ? 1 : 0;
}

void TrainEngine::State::initialise() const {
  const Rng root = Rng(options.seed).fork(0x696E6974);  // "init"
  std::vector<float> values;
  const auto each = [&](const ParameterLayout& of, const Rng& rng, auto number, auto store) {
    for (size_t spec = 0; spec < of.specs.size(); ++spec) {
      values.assign(static_cast<size_t>(of.specs[spec].count), 0.0f);
      fill_initial(of.specs[spec], options.model, rng.fork(number(spec)), values);
      store(spec);
    }
  };
  const auto store_trained = [&](size_t spec) { store_parameters(spec, 0, values); };
  // A tensor's values are those that it has when no expert is elsewhere.
  const auto in_whole = [&](size_t spec) {
    return experts.whole_spec(experts.slot_of(rank()), spec);
  };
  if (!has_lora()) return each(layout, root, in_whole, store_trained);
  const auto of_base = [&](size_t spec) {
    return base_experts.whole_spec(base_experts.slot_of(rank()), spec);
  };
  if (options.draws_weights)
    each(base_layout, root, of_base, [&](size_t spec) { store_base(spec, values); });
  each(layout, Rng(options.seed).fork(0x6C6F7261), in_whole, store_trained);  // "lora"
}

Expected<std::vector<std::vector<std::byte>>> TrainEngine::State::gather_bytes(
    std::span<const std::byte> mine, const std::vector<size_t>& sizes) const {
  std::vector<std::vector<std::byte>> all;
  std::vector<std::span<std::byte>> spans;
  for (size_t size : sizes) all.emplace_back(size);
  if (ranks() == 1) {
    std::copy(mine.begin(), mine.end(), all[0].begin());
    return all;
  }
  for (auto& bytes : all) spans.emplace_back(bytes);
  COHORT_TRY(options.zero.group->all_gather(mine, spans));
  return all;
}

Expected<void> TrainEngine::State::agree(const Expected<void>& mine, uint64_t fingerprint,
                                         std::string_view what) const {
  if (ranks() == 1) return mine;
  StatusRecord record;
  record.fingerprint = fingerprint;
  if (!mine) {
    record.code = static_cast<uint32_t>(mine.error().code);
    const std::string text = fmt::format("rank {} (card {}): {}", rank(),
                                         options.card->card().value, mine.error().detail);
    std::memcpy(record.text, text.data(), std::min(text.size(), sizeof record.text - 1));
  }
  COHORT_ASSIGN(std::vector<StatusRecord> all, gather_each(record));
  for (size_t r = 0; r < all.size(); ++r) {
    StatusRecord& other = all[r];
    other.text[sizeof other.text - 1] = '\0';
    if (other.code != 0) return Error{static_cast<Errc>(other.code), std::string(other.text)};
    if (other.fingerprint != all[0].fingerprint)
      return Error{Errc::invalid_argument,
                   fmt::format("{}: ranks 0 and {} were called with different arguments; every "
                               "rank must get the same",
                               what, r)};
  }
  return {};
}

}  // namespace cohort::compute

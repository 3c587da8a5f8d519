#include "runtime/compute/model/lora_base.hpp"

#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;

Tensor matrix_at(std::span<const std::byte> flat, const PartSpan& span) {
  auto* data = const_cast<float*>(reinterpret_cast<const float*>(flat.data()));  // only read
  return at::from_blob(data + span.offset, {span.rows, span.columns}, at::dtype(at::kFloat));
}

/// Whether the tensor is the pair's module, or an expert's share of it.
bool is_of(const LoraPair& pair, const PartSpan& part, const ParameterSpec& spec) {
  if (pair.experts == 0) return spec.offset == part.offset + pair.first_row * part.columns;
  const int64_t row = pair.first_row + spec.expert * (part.rows / pair.experts);
  return spec.expert >= 0 && spec.offset == part.offset + row * part.columns;
}

PartSpan half_of(const LoraPair& pair, const PartSpan& half, const ParameterSpec& spec) {
  return pair.experts == 0 ? half : pair.of_expert(half, spec.expert);
}

}  // namespace

LoraBase::LoraBase(WeightFolder weights, const ModelConfig& whole, const ModelConfig& part,
                   TpRank tp, LoraLayout lora)
    : weights_(std::move(weights)),
      tp_(tp),
      model_(part),
      whole_(layout_of(whole)),
      layout_(layout_of(part)),
      lora_(std::move(lora)) {}

Expected<LoraBase> LoraBase::open(const std::filesystem::path& folder, const ModelConfig& model,
                                  const model::LoraShape& lora, TpRank tp) {
  COHORT_ASSIGN(const model::LoraShape resolved, model::resolve_lora(model, lora));
  COHORT_ASSIGN(const ModelConfig part, tp_config(model, tp.size));
  COHORT_ASSIGN(WeightFolder weights, WeightFolder::open(folder));
  COHORT_TRY(weights.check(model, layout_of(model)));
  return LoraBase(std::move(weights), model, part, tp, lora_layout_of(part, resolved));
}

/// A part's rows are consecutive in the file; of columns each row has a piece.
void LoraBase::read_part(size_t index, std::span<float> to) const {
  const ParameterSpec &whole = whole_.specs[index], &part = layout_.specs[index];
  const auto extent = [](const ParameterSpec& spec, size_t axis) {
    return axis < spec.shape.size() ? spec.shape[axis] : 1;
  };
  // Parts of an axis: fewer than ranks where key-value heads are repeated.
  const auto first = [&](size_t axis) {
    const int64_t parts = extent(whole, axis) / extent(part, axis);
    return tp_.rank * parts / tp_.size * extent(part, axis);
  };
  const int64_t stride = extent(whole, 1), begin = first(0) * stride + first(1);
  if (extent(part, 1) == stride) return weights_.read(part.name, begin, to);
  const auto width = static_cast<size_t>(extent(part, 1));
  for (int64_t row = 0; row < extent(part, 0); ++row)
    weights_.read(part.name, begin + row * stride,
                  to.subspan(static_cast<size_t>(row) * width, width));
}

void LoraBase::merge(std::span<const std::byte> adapter, std::span<std::byte> flat) const {
  const size_t element = tensor::size_of(model_.dtype);
  COHORT_CHECK(adapter.size() == adapter_bytes() &&
                   flat.size() == static_cast<size_t>(layout_.total_elements) * element,
               "LORA-1: an adapter or a model of another layout");
  use_single_threaded_math();  // the same bits in every process
  at::NoGradGuard no_grad;
  const auto dtype = model_.dtype == tensor::Dtype::bf16 ? at::kBFloat16 : at::kFloat;
  std::vector<float> values;
  for (size_t index = 0; index < layout_.specs.size(); ++index) {
    const ParameterSpec& spec = layout_.specs[index];
    values.resize(static_cast<size_t>(spec.count));
    read_part(index, values);
    const Tensor weight = at::from_blob(values.data(), {spec.count}, at::dtype(at::kFloat));
    if (spec.layer >= 0)
      for (const LoraPair& pair : lora_.layers[static_cast<size_t>(spec.layer)])
        if (is_of(pair, layout_.layers[static_cast<size_t>(spec.layer)][pair.part], spec))
          weight.view({spec.shape[0], spec.shape[1]})
              .addmm_(matrix_at(adapter, half_of(pair, pair.b, spec)),
                      matrix_at(adapter, half_of(pair, pair.a, spec)), 1, lora_.shape.scale());
    std::byte* to = flat.data() + static_cast<size_t>(spec.offset) * element;
    at::from_blob(to, {spec.count}, at::dtype(dtype)).copy_(weight);
  }
}

}  // namespace cohort::compute

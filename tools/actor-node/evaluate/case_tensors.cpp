#include "tools/actor-node/evaluate/case_tensors.hpp"

#include <algorithm>

namespace cohort::evaluate {

using at::Tensor;

Tensor tensor_of(const Case& in, const Array& array) {
  const auto dtype = in.precision() == Precision::f32 ? at::kFloat : at::kDouble;
  Tensor wide = at::empty({static_cast<int64_t>(array.values.size())}, at::kDouble);
  std::copy(array.values.begin(), array.values.end(), wide.data_ptr<double>());
  return wide.to(dtype);
}

Tensor leaf_of(const Case& in, const Array& array) {
  return tensor_of(in, array).set_requires_grad(true);
}

Json json_of(const Case& in, const Tensor& values, const Array& model) {
  const Tensor wide = values.detach().to(at::kDouble).contiguous();
  return in.answer({wide.data_ptr<double>(), static_cast<size_t>(wide.numel())}, model);
}

Json gradient_of(const Case& in, const Tensor& total, const Tensor& leaf, const Array& model) {
  if (total.requires_grad()) {
    const auto found = torch::autograd::grad({total}, {leaf}, {}, true, false, true);
    if (found[0].defined()) return json_of(in, found[0], model);
  }
  return json_of(in, at::zeros_like(leaf), model);
}

algorithms::TokenPlaces places_of(const Array& mask) {
  const auto rows = static_cast<int64_t>(mask.rows());
  const auto columns = static_cast<int64_t>(mask.columns());
  Tensor counts = at::empty({rows * columns}, at::kBool);
  std::transform(mask.values.begin(), mask.values.end(), counts.data_ptr<bool>(),
                 [](double x) { return x != 0; });
  return {counts, at::arange(rows, at::kLong).repeat_interleave(columns), rows};
}

algorithms::GlobalCounts counts_of(const Array& mask) {
  algorithms::GlobalCounts counts{0, 0, static_cast<double>(mask.columns())};
  for (size_t row = 0; row < mask.rows(); ++row) {
    const auto first = mask.values.begin() + static_cast<std::ptrdiff_t>(row * mask.columns());
    const auto tokens = std::count_if(first, first + static_cast<std::ptrdiff_t>(mask.columns()),
                                      [](double x) { return x != 0; });
    counts.tokens += static_cast<double>(tokens);
    counts.sequences += tokens > 0 ? 1 : 0;
  }
  return counts;
}

PairMask pair_mask_of(Case& in, size_t pairs) {
  if (!in.has_input("mask")) return {{}, static_cast<double>(pairs)};
  const Array mask = in.array_like("mask", Array{{static_cast<int64_t>(pairs)}, {}});
  return {places_of(mask).mask, counts_of(mask).tokens};
}

algorithms::LossAgg aggregation_of(Case& in) {
  std::vector<std::string> known;
  const auto rows = catalog::entries(algorithms::LossAgg{});
  for (const catalog::Dialect dialect : {catalog::Dialect::roll, catalog::Dialect::verl})
    for (const catalog::Name& name : catalog::names(rows, dialect))
      if (std::find(known.begin(), known.end(), name.text) == known.end())
        known.emplace_back(name.text);
  const std::string own = in.text("dialect", "verl");
  std::optional<std::string> standard = "token-mean";
  if (own == "roll") standard = "seq-mean-token-mean";
  if (own == "trl") standard.reset();
  const std::string text = in.choice("loss_agg_mode", known, standard);
  std::vector dialects{catalog::Dialect::verl, catalog::Dialect::roll};
  if (own == "roll") std::swap(dialects[0], dialects[1]);
  for (const catalog::Dialect dialect : dialects)
    if (const auto found = catalog::find<algorithms::LossAgg>(text, dialect)) return *found;
  return algorithms::LossAgg::token_mean;  // the case has a problem, and is not computed
}

}  // namespace cohort::evaluate

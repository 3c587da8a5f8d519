#include "runtime/compute/train/expert_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/text.hpp"
#include "runtime/compute/model/policy_parts.hpp"
#include "runtime/compute/train/train_step.hpp"

namespace cohort::compute {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Counts = std::vector<int64_t>;

/// One layer of the model and what is known of it in a round.
class ExpertExchange::Layer final : public ExpertRows {
 public:
  /// What the micro-batch of a rank of this replica asks of own experts.
  struct Member {
    Counts counts;                  // [experts per slot] rows
    Tensor x, y;                    // [n, H]; y of a training pass has its graph
    std::vector<Tensor> gradients;  // of `own`
  };

  Layer(ExpertExchange& of, size_t at, size_t in_model, PolicyWeights::Layer& parts)
      : exchange(&of), weights(&parts), index(at), number(in_model) {
    parts.experts = this;
  }
  Tensor apply(const Tensor& x, const Counts& counts) override;

  ExpertExchange* exchange;
  PolicyWeights::Layer* weights;
  size_t index, number;  // among the layers with experts; of the model
  /// What is trained of own experts: their weights, or the adapters over them.
  std::vector<PolicyWeights::Leaf> own;
  Counts counts;                // [experts] rows of the own micro-batch
  std::vector<Member> members;  // by slot
};

namespace {

int64_t total(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

std::span<std::byte> bytes_of(const Tensor& rows) {
  // An empty span has no address: a group takes neighbours of one address for one message.
  if (rows.numel() == 0) return {};
  return {static_cast<std::byte*>(rows.data_ptr()), rows.nbytes()};
}

/// Cuts rows that are sorted by experts into those of each slot.
std::vector<Tensor> by_slot(const Tensor& rows, const Counts& counts, size_t slots) {
  const size_t per_slot = counts.size() / slots;
  std::vector<Tensor> out;
  int64_t begin = 0;
  for (size_t slot = 0; slot < slots; ++slot) {
    const int64_t count = total(std::span(counts).subspan(slot * per_slot, per_slot));
    out.push_back(rows.narrow(0, begin, count));
    begin += count;
  }
  return out;
}

/// The way of rows to their experts and back, as one operation of a graph. `anchor` is a leaf, so
/// that the backward comes here though nothing that made x is trained: what is trained of the
/// experts is in no graph of this micro-batch.
struct RemoteRows : torch::autograd::Function<RemoteRows> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor&,
                        ExpertExchange::Layer* layer, const Counts& counts) {
    ctx->saved_data["layer"] = reinterpret_cast<int64_t>(layer);
    return value_or_throw(layer->exchange->forward(*layer, x, counts));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto* layer = reinterpret_cast<ExpertExchange::Layer*>(ctx->saved_data["layer"].toInt());
    return {value_or_throw(layer->exchange->backward(*layer, grads[0])), Tensor(), Tensor(),
            Tensor()};
  }
  static Tensor value_or_throw(Expected<Tensor> result) {
    if (!result) throw std::runtime_error(result.error().detail);
    return std::move(*result);
  }
};

}  // namespace

Tensor ExpertExchange::Layer::apply(const Tensor& x, const Counts& of) {
  return RemoteRows::apply(x, exchange->anchor_, this, of);
}

ExpertExchange::ExpertExchange(const TrainEngine::State& state, ExpertPass pass, AdapterUse use)
    : state_(&state),
      pass_(pass),
      weights_(state.weights(state.compute_flat(), pass == ExpertPass::training, use)),
      anchor_(at::zeros({1}, weights_.embedding.options())),
      options_(weights_.embedding.options()) {
  for (size_t i = 0; i < weights_.layers.size(); ++i)
    if (weights_.layers[i][Part::router].defined())
      layers_.push_back(std::make_unique<Layer>(*this, layers_.size(), i, weights_.layers[i]));
  if (pass == ExpertPass::forward) return;
  find_own_leaves();
  anchor_.set_requires_grad(true);
  weights_.leaves.push_back({anchor_, state.layout.total_elements});  // no parameter's
}

ExpertExchange::~ExpertExchange() = default;

void ExpertExchange::find_own_leaves() {
  const std::vector<ParameterSpec>& specs = state_->layout.specs;
  for (const PolicyWeights::Leaf& leaf : weights_.leaves) {
    const auto spec = std::ranges::lower_bound(specs, leaf.offset, {}, &ParameterSpec::offset);
    COHORT_CHECK(spec != specs.end() && spec->offset == leaf.offset,
                 "LAYOUT-2: a leaf begins with a tensor");
    if (spec->expert < 0) continue;
    for (const auto& layer : layers_)
      if (layer->number == static_cast<size_t>(spec->layer)) layer->own.push_back(leaf);
  }
}

void ExpertExchange::begin_round() {
  forwards_ = backwards_ = 0;
  gradients_.clear();
  for (auto& layer : layers_) {
    layer->members.assign(static_cast<size_t>(state_->experts.ways()), {});
    layer->counts.assign(
        static_cast<size_t>(state_->experts.experts_per_slot() * state_->experts.ways()), 0);
  }
}

Expected<void> ExpertExchange::end_round(Expected<void>& mine) {
  while (group_ && forwards_ < layers_.size()) {
    Layer& layer = *layers_[forwards_];
    (void)forward(layer, new_rows(0), layer.counts);
  }
  while (group_ && pass_ == ExpertPass::training && backwards_ < layers_.size()) {
    Layer& layer = *layers_[layers_.size() - 1 - backwards_];
    (void)backward(layer, new_rows(total(layer.counts)).zero_());
  }
  COHORT_TRY(group_);
  if (mine && !service_) mine = service_;
  if (pass_ == ExpertPass::forward) return {};
  std::vector<PolicyWeights::Leaf> leaves;
  for (const auto& layer : layers_)
    for (const PolicyWeights::Leaf& leaf : layer->own) leaves.push_back(leaf);
  for (size_t slot = 0; slot < static_cast<size_t>(state_->experts.ways()); ++slot) {
    std::vector<Tensor> of_member;
    for (const auto& layer : layers_)
      for (const Tensor& gradient : layer->members[slot].gradients) of_member.push_back(gradient);
    gradients_.emplace_back(std::move(of_member), leaves);
  }
  return {};
}

Tensor ExpertExchange::new_rows(int64_t count) const {
  return at::empty({count, state_->options.model.hidden_size}, options_);
}

template <class F>
Expected<Tensor> ExpertExchange::or_abort(F f) {
  if (!group_) return group_.error();
  try {
    Expected<Tensor> done = f();
    if (!done) group_ = done.error();
    return done;
  } catch (const std::exception& e) {
    group_ = Error{Errc::compute, fmt::format("routed experts of rank {}: {}", state_->rank(),
                                              first_line(e.what()))};
    state_->options.zero.group->abort(group_.error().detail);
    return group_.error();
  }
}

/// Parcels of slots of this replica; no other rank gets or gives anything.
Expected<void> ExpertExchange::exchange(const std::vector<Tensor>& send,
                                        const std::vector<Tensor>& receive) {
  const auto first = static_cast<size_t>(state_->experts.first_of(state_->rank()));
  std::vector<std::span<const std::byte>> from(static_cast<size_t>(state_->ranks()));
  std::vector<std::span<std::byte>> to(from.size());
  for (size_t slot = 0; slot < send.size(); ++slot) {
    from[first + slot] = bytes_of(send[slot]);
    to[first + slot] = bytes_of(receive[slot]);
  }
  return state_->options.zero.group->all_to_all(from, to);
}

Expected<void> ExpertExchange::exchange_counts(Layer& layer) {
  const size_t slots = layer.members.size(), per_slot = layer.counts.size() / slots;
  const Tensor mine = at::tensor(layer.counts, at::kLong).view({static_cast<int64_t>(slots), -1});
  const Tensor theirs = at::zeros_like(mine);
  COHORT_TRY(exchange(at::unbind(mine), at::unbind(theirs)));
  constexpr int64_t k_rows_max = int64_t{1} << 31;
  const auto* found = theirs.data_ptr<int64_t>();
  for (size_t slot = 0; slot < slots; ++slot) {
    Counts& counts = layer.members[slot].counts;
    counts.assign(found + slot * per_slot, found + (slot + 1) * per_slot);
    for (const int64_t count : counts)
      if (count < 0 || count > k_rows_max)
        return Error{
            Errc::protocol,
            fmt::format("routed experts: rank {} announces {} rows for an expert",
                        static_cast<size_t>(state_->experts.first_of(state_->rank())) + slot,
                        count)};
  }
  return {};
}

Expected<Tensor> ExpertExchange::forward(Layer& layer, const Tensor& x, Counts counts) {
  return or_abort([&]() -> Expected<Tensor> {
    COHORT_CHECK(layer.index == forwards_, "EP-5: layers with experts in the order of the model");
    layer.counts = std::move(counts);
    COHORT_TRY(exchange_counts(layer));
    const size_t slots = layer.members.size();
    std::vector<Tensor> rows, results;
    for (Layer::Member& member : layer.members) {
      member.x = new_rows(total(member.counts));
      rows.push_back(member.x);
    }
    COHORT_TRY(exchange(by_slot(x.detach().contiguous(), layer.counts, slots), rows));
    serve_forward(layer, results);
    const Tensor y = new_rows(x.size(0));
    COHORT_TRY(exchange(results, by_slot(y, layer.counts, slots)));
    ++forwards_;
    return y;
  });
}

void ExpertExchange::serve_forward(Layer& layer, std::vector<Tensor>& results) {
  at::AutoGradMode mode(pass_ == ExpertPass::training);
  for (Layer::Member& member : layer.members) {
    member.x.set_requires_grad(pass_ == ExpertPass::training);
    guarded(service_, [&] { member.y = expert_rows(member.x, member.counts, *layer.weights); });
    results.push_back(member.y.defined() ? member.y.detach().contiguous()
                                         : at::zeros_like(member.x.detach()));
    if (pass_ == ExpertPass::forward) member = {std::move(member.counts), {}, {}, {}};
  }
}

Expected<Tensor> ExpertExchange::backward(Layer& layer, const Tensor& dy) {
  return or_abort([&]() -> Expected<Tensor> {
    COHORT_CHECK(layer.index + backwards_ + 1 == layers_.size(),
                 "EP-5: layers with experts against the order of the model");
    const size_t slots = layer.members.size();
    std::vector<Tensor> arrived, results;
    for (const Layer::Member& member : layer.members) arrived.push_back(new_rows(member.x.size(0)));
    COHORT_TRY(exchange(by_slot(dy.contiguous(), layer.counts, slots), arrived));
    serve_backward(layer, arrived, results);
    const Tensor dx = new_rows(dy.size(0));
    COHORT_TRY(exchange(results, by_slot(dx, layer.counts, slots)));
    ++backwards_;
    return dx;
  });
}

void ExpertExchange::serve_backward(Layer& layer, const std::vector<Tensor>& dy,
                                    std::vector<Tensor>& dx) {
  for (size_t slot = 0; slot < dy.size(); ++slot) {
    Layer::Member& member = layer.members[slot];
    variable_list of = {member.x};
    for (const PolicyWeights::Leaf& leaf : layer.own) of.push_back(leaf.tensor);
    variable_list found(of.size());
    if (dy[slot].size(0) > 0)
      guarded(service_, [&] {
        found = torch::autograd::grad({member.y}, of, {dy[slot]}, false, false, true);
      });
    dx.push_back(found[0].defined() ? found[0].contiguous() : at::zeros_like(dy[slot]));
    member = {std::move(member.counts), {}, {}, {found.begin() + 1, found.end()}};  // graph: spent
  }
}

}  // namespace cohort::compute

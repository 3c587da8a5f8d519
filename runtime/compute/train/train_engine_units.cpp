// TrainEngine by unit (ZeRO 3, parameters on the host): a unit's parameters are on the card only
// while it is computed. The forward keeps the input of each layer; the backward computes a layer
// again, and its gradients leave at once. The arithmetic, and its order, is policy_log_probs'.
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/device/torch_device.hpp"
#include "runtime/compute/train/train_step.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;
using torch::autograd::variable_list;
using State = TrainEngine::State;
using Leaves = std::vector<PolicyWeights::Leaf>;

/// Bytes of the largest unit that is on the card whole.
uint64_t gathered_bytes(const State& s) {
  const std::vector<ZeroUnit>& units = s.zero.units();
  int64_t most = units.back().elements() + (s.layout.is_tied() ? units.front().elements() : 0);
  for (const ZeroUnit& unit : units) most = std::max(most, unit.elements());
  return static_cast<uint64_t>(most) * s.compute_element();
}

/// Whole parameters of one unit at a time; with tied embeddings the head is two.
class Gathered {
 public:
  Gathered(const State& state, UnitExchange& exchange, CardStorage storage)
      : state_(&state), exchange_(&exchange), storage_(std::move(storage)) {}

  static Expected<Gathered> create(const State& state, UnitExchange& exchange) {
    COHORT_ASSIGN(
        CardStorage storage,
        state.options.card->allocate(state.options.role + ".gathered", gathered_bytes(state)));
    return Gathered(state, exchange, std::move(storage));
  }
  /// Puts a unit `at` elements into the buffer.
  Expected<void> fetch(const ZeroUnit& unit, int64_t at = 0) {
    const HeldBuffer from = state_->params_buffer();
    std::byte* to = storage_.data() + static_cast<size_t>(at) * from.element;
    if (from.is_cut) return exchange_->gather(unit, from, to);
    state_->math.copy(to, from.data + static_cast<size_t>(unit.begin) * from.element,
                      static_cast<size_t>(unit.elements()) * from.element);
    return {};
  }
  Tensor tensor(const ZeroUnit& unit, int64_t at = 0) const {
    const size_t element = state_->compute_element();
    return tensor_at(state_->options.card->device().get(),
                     storage_.data() + static_cast<size_t>(at) * element, unit.elements(),
                     state_->is_bf16() ? at::kBFloat16 : at::kFloat);
  }

 private:
  const State* state_;
  UnitExchange* exchange_;
  CardStorage storage_;
};

/// One micro-batch on its way through the units; a rank without one in this round, or whose work
/// has failed, makes the same exchanges.
class UnitPass {
 public:
  UnitPass(const State& state, Gathered& gathered, std::span<const TrainSample> samples,
           const StepPlan& plan, size_t round, Expected<void>& mine)
      : s_(state), gathered_(gathered), mine_(mine), units_(state.zero.units()) {
    if (round < plan.own_count())
      guarded(mine_, [&] {
        batch_ = to_device(pack(samples, plan.rows, plan.own(round)), s_.torch_device());
      });
  }

  /// Embedding and layers; inputs of the layers, and of the head, are kept for a backward.
  Expected<void> forward(bool keeps_inputs) {
    const ModelConfig& c = s_.options.model;
    at::NoGradGuard no_grad;
    COHORT_TRY(gathered_.fetch(units_.front()));
    run([&] {
      Leaves leaves;
      inputs_ = {ops::embedding(embedding(leaves, 0, false), batch_->ids)};
    });
    for (size_t i = 0; i < s_.layout.layers.size(); ++i) {
      COHORT_TRY(gathered_.fetch(layer_unit(i)));
      run([&] {
        Leaves leaves;
        Tensor out = run_layer(inputs_.back(), layer(i, false, leaves), c, s_.rope, *batch_,
                               static_cast<int64_t>(i));
        if (!keeps_inputs) inputs_.clear();
        inputs_.push_back(out);
      });
    }
    return fetch_head();
  }

  Tensor log_probs() {
    at::NoGradGuard no_grad;
    Tensor logp;
    run([&] {
      Leaves leaves;
      logp = head(inputs_.back(), false, leaves).logp.contiguous();
    });
    return logp;
  }

  /// After forward(true): loss and all gradients, which leave unit by unit.
  Expected<void> backward(const StepInput& in, size_t round) {
    const std::vector<bool> adds = in.plan.adds(round);
    LeafGradients head_gradients;
    run([&] { head_gradients = head_backward(in, round); });
    COHORT_TRY(in.exchange.add_gradients(units_.back(), adds, given(head_gradients)));
    for (size_t i = s_.layout.layers.size(); i-- > 0;) {
      COHORT_TRY(gathered_.fetch(layer_unit(i)));
      LeafGradients gradients;
      run([&] { gradients = layer_backward(i); });
      COHORT_TRY(in.exchange.add_gradients(layer_unit(i), adds, given(gradients)));
    }
    LeafGradients gradients;
    run([&] { gradients = embedding_backward(); });
    return in.exchange.add_gradients(units_.front(), adds, given(gradients));
  }

 private:
  template <class F>
  void run(F f) {
    if (batch_) guarded(mine_, f);
  }
  const LeafGradients* given(const LeafGradients& gradients) const {
    return batch_ && mine_ ? &gradients : nullptr;
  }
  bool is_tied() const { return s_.layout.is_tied(); }
  const ZeroUnit& layer_unit(size_t layer) const { return units_[layer + 1]; }

  Expected<void> fetch_head() {
    COHORT_TRY(gathered_.fetch(units_.back()));
    if (is_tied()) COHORT_TRY(gathered_.fetch(units_.front(), units_.back().elements()));
    return {};
  }
  Tensor embedding(Leaves& leaves, int64_t at, bool is_trained) const {
    return view_leaf(gathered_.tensor(units_.front(), at), units_.front().begin,
                     s_.layout.embedding, is_trained, leaves);
  }
  PolicyWeights::Layer layer(size_t i, bool is_trained, Leaves& leaves) const {
    return view_layer(gathered_.tensor(layer_unit(i)), layer_unit(i).begin, s_.layout.layers[i],
                      is_trained, leaves);
  }
  MicroOutputs head(const Tensor& x, bool is_trained, Leaves& leaves,
                    const Lesson& lesson = {}) const {
    const ZeroUnit& last = units_.back();
    const Tensor flat = gathered_.tensor(last);
    Tensor norm = view_leaf(flat, last.begin, s_.layout.final_norm, is_trained, leaves);
    Tensor table = is_tied() ? embedding(leaves, last.elements(), is_trained)
                             : view_leaf(flat, last.begin, s_.layout.lm_head, is_trained, leaves);
    return run_head(x, norm, table, s_.options.model, *batch_, s_.options.logits_max, lesson);
  }

  /// Takes the newest kept input as a leaf.
  Tensor take_input() {
    Tensor x = inputs_.back().detach().requires_grad_(true);
    inputs_.pop_back();
    return x;
  }
  /// Gradients of `out` for x (into dx_) and the leaves.
  variable_list gradients_of(const Tensor& out, const Tensor& x, const Leaves& leaves,
                             const variable_list& of_out) {
    variable_list wanted = {x};
    for (const auto& leaf : leaves) wanted.push_back(leaf.tensor);
    variable_list all = torch::autograd::grad({out}, wanted, of_out, false, false, true);
    dx_ = all[0];
    all.erase(all.begin());
    return all;
  }

  LeafGradients head_backward(const StepInput& in, size_t round) {
    at::AutoGradMode grad_on(true);
    Leaves leaves;
    const Tensor x = take_input();
    const MicroOutputs out = head(x, true, leaves, lesson_of(s_, *batch_));
    MicroLoss loss =
        in.loss(to_device(loss_columns(in.samples, in.plan.own(round)), s_.torch_device()), out);
    in.numbers[round] = {loss.total.item<double>(), loss.numbers};
    variable_list gradients = gradients_of(loss.total, x, leaves, {});
    if (is_tied()) {  // waits for the embedding's own share
      table_ = gradients.back();
      gradients.pop_back();
    }
    return LeafGradients(std::move(gradients), leaves);
  }
  LeafGradients layer_backward(size_t i) {
    const Tensor input = take_input();
    if (!dx_.defined()) return {};  // nothing depends on the layer
    at::AutoGradMode grad_on(true);
    Leaves leaves;
    const Tensor out = run_layer(input, layer(i, true, leaves), s_.options.model, s_.rope, *batch_,
                                 static_cast<int64_t>(i));
    return LeafGradients(gradients_of(out, input, leaves, {dx_}), leaves);
  }
  /// The table's gradient needs its shape only: what the buffer holds is not looked at.
  LeafGradients embedding_backward() {
    at::AutoGradMode grad_on(true);
    Leaves leaves;
    const Tensor table = embedding(leaves, 0, true);
    Tensor gradient = table_;
    if (dx_.defined()) {
      const Tensor out = ops::embedding(table, batch_->ids);
      Tensor own = torch::autograd::grad({out}, {table}, {dx_})[0];
      gradient = gradient.defined() ? gradient + own : own;
    }
    if (!gradient.defined()) return {};
    return LeafGradients({gradient.detach()}, leaves);
  }

  const State& s_;
  Gathered& gathered_;
  Expected<void>& mine_;
  const std::vector<ZeroUnit>& units_;
  std::optional<PackedBatch> batch_;
  std::vector<Tensor> inputs_;
  Tensor dx_, table_;  // gradient of the residual stream; the head's share of a tied table
};

/// Allocates the gather buffer on every rank, or tells all which cannot.
Expected<Gathered> gathered_on_all(const State& s, UnitExchange& exchange) {
  auto gathered = Gathered::create(s, exchange);
  Expected<void> mine;
  if (!gathered) mine = gathered.error();
  COHORT_TRY(s.agree(mine, 0, "gather buffer"));
  return std::move(*gathered);
}

}  // namespace

Expected<void> accumulate_by_unit(const StepInput& in, Expected<void>& mine) {
  const State& s = in.state;
  use_single_threaded_math();
  COHORT_ASSIGN(Gathered gathered, gathered_on_all(s, in.exchange));
  for (size_t round = 0; round < in.plan.rounds(); ++round) {
    UnitPass pass(s, gathered, in.samples, in.plan, round, mine);
    COHORT_TRY(pass.forward(true));
    COHORT_TRY(pass.backward(in, round));
  }
  return {};
}

Expected<void> log_probs_by_unit(const State& s, std::span<const TrainSample> samples,
                                 const StepPlan& plan, UnitExchange& exchange,
                                 std::vector<Tensor>& out, Expected<void>& mine) {
  use_single_threaded_math();
  COHORT_ASSIGN(Gathered gathered, gathered_on_all(s, exchange));
  for (size_t round = 0; round < plan.rounds(); ++round) {
    UnitPass pass(s, gathered, samples, plan, round, mine);
    COHORT_TRY(pass.forward(false));
    if (round < plan.own_count()) out[round] = pass.log_probs();
  }
  return {};
}

}  // namespace cohort::compute

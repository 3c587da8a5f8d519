#include "runtime/compute/train/train_engine.hpp"

#include <fmt/format.h>

#include <string>

#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/train/train_state.hpp"

namespace cohort::compute {
namespace {

Expected<void> check(const TrainEngineOptions& options) {
  COHORT_TRY(validate(options.model));
  if (options.card == nullptr || options.threads < 1 || options.micro_batch_tokens < 1)
    return Error{Errc::invalid_argument,
                 "train engine: needs a card, threads >= 1 and micro_batch_tokens >= 1"};
  const ZeroOptions& zero = options.zero;
  if (zero.stage < 0 || zero.stage > 3)
    return Error{Errc::invalid_argument,
                 fmt::format("train engine: ZeRO stage {} is not in 0..3", zero.stage)};
  if (zero.offload_optimizer && zero.swap_optimizer)
    return Error{Errc::invalid_argument,
                 "train engine: the optimizer is either offloaded (its step runs on the host) or "
                 "swapped (its step runs on the card): choose one"};
  if (zero.reduce == GradientReduce::per_card && zero.stage >= 2)
    return Error{Errc::invalid_argument,
                 fmt::format("train engine: reduce per_card needs whole gradients on each card, "
                             "ZeRO stage {} cuts them: use ordered",
                             zero.stage)};
  return {};
}

/// Bytes of one array over all parameters, or over this rank's parts.
uint64_t array_bytes(const TrainEngine::State& state, bool is_cut, uint64_t element) {
  return (is_cut ? state.shard_elements() : state.flat_elements()) * element;
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

TrainEngine::TrainEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
TrainEngine::~TrainEngine() = default;

Expected<std::unique_ptr<TrainEngine>> TrainEngine::create(const TrainEngineOptions& options) {
  COHORT_TRY(check(options));
  use_single_threaded_math();
  keep_activations_in_heap();
  auto owned = std::make_unique<State>();
  State& s = *owned;
  s.options = options;
  s.math = FlatMath(options.card->device().get());
  s.layout = layout_of(options.model);
  const Collectives* group = options.zero.group;
  s.zero = ZeroLayout(s.layout, group == nullptr ? 1 : group->size());
  const bool is_cut = s.stage() == 3;
  const std::string& role = options.role;
  if (!s.has_cut_master())
    s.master = ResidentObject(role + ".train_params", array_bytes(s, is_cut, sizeof(float)));
  if (s.is_bf16())
    s.compute = ResidentObject(role + ".train_params_bf16", array_bytes(s, is_cut, 2));
  s.grads = ResidentObject(role + ".grads", array_bytes(s, s.stage() >= 2, sizeof(float)));
  const uint64_t array = s.optimizer_elements() * sizeof(float);
  s.optimizer = ResidentObject(role + ".optimizer", s.optimizer_arrays() * array);
  s.swap =
      ResidentObject(role + ".optimizer", s.optimizer_arrays() * s.swap_elements() * sizeof(float));
  COHORT_TRY(s.object(TrainObject::train_params).materialise());
  if (s.has_cut_master()) COHORT_TRY(s.optimizer.materialise());
  s.initialise();
  try {
    s.rope = ops::rope_table(options.model.max_position, options.model.head_dim,
                             options.model.rope.theta);
    s.rope = {s.rope.cos.to(s.torch_device()), s.rope.sin.to(s.torch_device())};
  } catch (const std::exception& e) {
    return Error{Errc::compute, fmt::format("train engine: {}", e.what())};
  }
  return std::unique_ptr<TrainEngine>(new TrainEngine(std::move(owned)));
}

Expected<Residency> TrainEngine::onload(TrainObject which) try {
  State& s = *state_;
  CardMemory& card = *s.options.card;
  // f32, or stage 0, has its bf16 copy beside it; from stage 1 on the copy is the object.
  const bool has_copy = which == TrainObject::train_params && s.is_bf16() && !s.has_cut_master();
  if (s.is_hosted(which)) {
    COHORT_TRY(s.object(which).materialise());
    if (has_copy) {
      COHORT_TRY(s.compute.materialise());
      s.refresh_compute();
    }
    Residency done;
    if (which == TrainObject::optimizer && s.options.zero.swap_optimizer) {
      COHORT_ASSIGN(done, s.swap.onload(card));
    }
    s.is_ready[static_cast<size_t>(which)] = true;
    return done;
  }
  COHORT_ASSIGN(Residency done, s.object(which).onload(card));
  if (!has_copy) return done;
  auto copy = s.compute.onload(card);
  if (!copy) {
    COHORT_TRY(s.master.offload());
    return copy.error();
  }
  s.refresh_compute();
  done.bytes_on_card += copy->bytes_on_card;
  done.seconds += copy->seconds;
  return done;
} catch (const std::exception& e) {
  return failed("onload", e);
}

Expected<Residency> TrainEngine::offload(TrainObject which) {
  State& s = *state_;
  if (which == TrainObject::grads) return s.grads.drop();
  if (s.is_hosted(which)) {
    s.is_ready[static_cast<size_t>(which)] = false;
    return which == TrainObject::optimizer ? s.swap.drop() : Residency{};
  }
  if (which == TrainObject::train_params && !s.has_cut_master()) s.compute.drop();
  return s.object(which).offload();
}

uint64_t TrainEngine::object_bytes(TrainObject which) const {
  const State& s = *state_;
  if (s.is_hosted(which))
    return which == TrainObject::optimizer && s.options.zero.swap_optimizer ? s.swap.size_bytes()
                                                                            : 0;
  const bool has_copy = which == TrainObject::train_params && s.is_bf16() && !s.has_cut_master();
  return s.object(which).size_bytes() + (has_copy ? s.compute.size_bytes() : 0);
}

bool TrainEngine::is_on_card(TrainObject which) const { return state_->is_on_card(which); }
uint64_t TrainEngine::optimizer_steps() const { return state_->steps; }
const ModelConfig& TrainEngine::config() const { return state_->options.model; }
const ParameterLayout& TrainEngine::layout() const { return state_->layout; }

}  // namespace cohort::compute

#include "runtime/compute/train/train_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/text.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/train/train_state.hpp"
#include "runtime/compute/train/zero_exchange.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {

using State = TrainEngine::State;

namespace {

Expected<void> check_experts(const TrainEngineOptions& options) {
  const ZeroOptions& zero = options.zero;
  const int ways = zero.expert_ways, ranks = zero.group == nullptr ? 1 : zero.group->size();
  if (ways == 1) return {};
  const auto refused = [&](const std::string& why) {
    return Error{Errc::invalid_argument,
                 fmt::format("train engine: experts over {} ranks: {}", ways, why)};
  };
  if (ways < 1) return refused("at least 1 is needed");
  if (!options.model.moe) return refused("the model has no routed experts; use 1");
  if (options.model.moe->num_experts % ways != 0)
    return refused(
        fmt::format("does not divide the {} experts of a layer", options.model.moe->num_experts));
  if (ranks % ways != 0) return refused(fmt::format("does not divide the {} ranks", ranks));
  if (zero.stage == 3 || zero.offload_params)
    return refused(
        "ZeRO 3 and offload_params, which bring parameters layer by layer, are not built in with "
        "it; use stage 0 to 2");
  return {};
}

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
  if (options.lora && (zero.stage == 3 || zero.offload_params))
    return Error{Errc::invalid_argument,
                 "train engine: an adapter is small: ZeRO 3 and offload_params, which bring "
                 "parameters layer by layer, are not built in with lora; use stage 0 to 2"};
  if (options.lora && options.head != model::HeadKind::language)
    return Error{Errc::invalid_argument, "train engine: lora is for a language model's head"};
  return check_experts(options);
}

/// Bytes of one array over all parameters, or over this rank's parts.
uint64_t array_bytes(const TrainEngine::State& state, bool is_cut, uint64_t element) {
  return (is_cut ? state.shard_elements() : state.flat_elements()) * element;
}

/// The layouts of what is trained and, with an adapter, of the model under it.
Expected<void> lay_out(TrainEngine::State& s) {
  const TrainEngineOptions& options = s.options;
  const int ways = options.zero.expert_ways;
  const auto cut = [&](const ExpertCut::LayoutOf& of) {
    return ways > 1 ? ExpertCut(options.model.moe->num_experts, ways, of) : ExpertCut(of({}));
  };
  s.experts = cut([&](ExpertRange held) { return layout_of(options.model, options.head, held); });
  const int slot = s.experts.slot_of(s.rank());
  if (options.lora) {
    COHORT_ASSIGN(const model::LoraShape lora, model::resolve_lora(options.model, *options.lora));
    s.base_experts = std::exchange(s.experts, cut([&](ExpertRange held) {
                                     return lora_layout_of(options.model, lora, held).flat;
                                   }));
    s.base_layout = s.base_experts.layout_of_slot(slot);
    s.lora = lora_layout_of(options.model, lora, s.experts.held_by(slot));
  }
  s.layout = s.experts.layout_of_slot(slot);
  return {};
}

std::vector<ParameterShard> shards_of(const TrainEngine::State& s, const HeldBuffer& buffer) {
  std::vector<ParameterShard> shards;
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
    const TensorPart part = s.held(buffer, spec);
    if (part.count() == 0) continue;
    shards.push_back(
        {s.layout.specs[spec].name,
         part.begin,
         part.end,
         {s.find(buffer, spec, part.begin), static_cast<size_t>(part.count()) * buffer.element}});
  }
  return shards;
}

}  // namespace

std::string_view to_string(TrainObject object) {
  constexpr std::string_view k_names[] = {"train_params", "grads", "optimizer"};
  return name_in(k_names, object);
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
  s.described = options.described;
  s.described.shape = options.model;
  if (const int64_t length = options.described.shape.max_position; length > 0)
    s.described.shape.max_position = length;
  s.described.dtype = s.is_bf16() ? "bfloat16" : "float32";
  s.describe_head(s.described);
  s.math = FlatMath(options.card->device().get());
  const Collectives* group = options.zero.group;
  COHORT_TRY(lay_out(s));
  if (s.has_lora()) {
    s.base = ResidentObject(
        options.role + ".base_params",
        static_cast<uint64_t>(s.base_layout.total_elements) * tensor::size_of(options.model.dtype));
    COHORT_TRY(s.base.materialise());
  }
  s.zero = ZeroLayout(s.layout, group == nullptr ? 1 : group->size(), s.experts.ways());
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
  if (options.draws_weights || s.has_lora()) s.initialise();
  try {
    s.rope =
        ops::rope_table(options.model.max_position, options.model.rotary_dim(), options.model.rope);
    s.rope = {s.rope.cos.to(s.torch_device()), s.rope.sin.to(s.torch_device())};
  } catch (const std::exception& e) {
    return Error{Errc::compute, fmt::format("train engine: {}", e.what())};
  }
  return std::unique_ptr<TrainEngine>(new TrainEngine(std::move(owned)));
}

namespace {

Expected<Residency> onload_own(State& s, TrainObject which) try {
  CardMemory& card = *s.options.card;
  ResidentObject* companion = s.companion(which);
  if (s.is_hosted(which)) {
    COHORT_TRY(s.object(which).materialise());
    if (companion != nullptr) {
      COHORT_TRY(companion->materialise());
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
  if (companion == nullptr) return done;
  auto copy = companion->onload(card);
  if (!copy) {
    COHORT_TRY(s.master.offload());
    return copy.error();
  }
  s.refresh_compute();
  done.bytes_on_card += copy->bytes_on_card;
  if (s.has_lora()) done.bytes_moved += copy->bytes_moved;  // a bf16 copy is made here
  done.seconds += copy->seconds;
  return done;
} catch (const std::exception& e) {
  return failed("onload", e);
}

Expected<Residency> offload_own(State& s, TrainObject which) {
  if (which == TrainObject::grads) return s.grads.drop();
  if (s.is_hosted(which)) {
    s.is_ready[static_cast<size_t>(which)] = false;
    return which == TrainObject::optimizer ? s.swap.drop() : Residency{};
  }
  ResidentObject* companion = s.companion(which);
  if (companion == nullptr) return s.object(which).offload();
  Residency model;
  if (s.has_lora()) {
    COHORT_ASSIGN(model, companion->offload());
  } else {
    companion->drop();  // made again from the master
  }
  COHORT_ASSIGN(Residency done, s.object(which).offload());
  done.bytes_moved += model.bytes_moved;
  done.seconds += model.seconds;
  return done;
}

uint64_t own_bytes(State& s, TrainObject which) {
  if (s.is_hosted(which))
    return which == TrainObject::optimizer && s.options.zero.swap_optimizer ? s.swap.size_bytes()
                                                                            : 0;
  const ResidentObject* companion = s.companion(which);
  return s.object(which).size_bytes() + (companion != nullptr ? companion->size_bytes() : 0);
}

/// The teacher's share of what is done to `which`, and where it is.
State* teacher_of(const State& s, TrainObject which) {
  return which == TrainObject::train_params ? s.teacher.get() : nullptr;
}

void add(Residency& sum, const Residency& more) {
  sum.bytes_on_card += more.bytes_on_card;
  sum.bytes_moved += more.bytes_moved;
  sum.seconds += more.seconds;
}

}  // namespace

Expected<Residency> TrainEngine::onload(TrainObject which) {
  COHORT_ASSIGN(Residency done, onload_own(*state_, which));
  State* const teacher = teacher_of(*state_, which);
  if (teacher == nullptr) return done;
  const auto more = onload_own(*teacher, which);
  if (!more) {
    COHORT_TRY(offload_own(*state_, which));
    return more.error();
  }
  add(done, *more);
  return done;
}

Expected<Residency> TrainEngine::offload(TrainObject which) {
  COHORT_ASSIGN(Residency done, offload_own(*state_, which));
  if (State* const teacher = teacher_of(*state_, which)) {
    COHORT_ASSIGN(const Residency more, offload_own(*teacher, which));
    add(done, more);
  }
  return done;
}

uint64_t TrainEngine::object_bytes(TrainObject which) const {
  State* const teacher = teacher_of(*state_, which);
  return own_bytes(*state_, which) + (teacher != nullptr ? own_bytes(*teacher, which) : 0);
}

void TrainEngine::learn_from(std::unique_ptr<TrainEngine> teacher, LogitDivergence divergence) {
  const TrainEngineOptions &own = state_->options, &other = teacher->state_->options;
  COHORT_CHECK(other.is_frozen && other.card == own.card && !other.lora,
               "a teacher is frozen, and on the card of its student");
  COHORT_CHECK(own.head == model::HeadKind::language && other.head == own.head,
               "distributions are those of language models");
  state_->teacher = std::move(teacher->state_);
  state_->divergence = std::move(divergence);
}

bool TrainEngine::is_on_card(TrainObject which) const { return state_->is_on_card(which); }
uint64_t TrainEngine::optimizer_steps() const { return state_->steps; }
const ModelConfig& TrainEngine::config() const { return state_->options.model; }
bool TrainEngine::has_adapter() const { return state_->has_lora(); }
const ParameterLayout& TrainEngine::layout() const { return state_->layout; }

// -- the parameters as others see them: hash, shards

namespace {

/// Puts units of the master together that are cut, by ZeRO or by experts.
class MasterUnits {
 public:
  static Expected<MasterUnits> create(const TrainEngine::State& s) {
    COHORT_ASSIGN(UnitExchange exchange, UnitExchange::create(s, sizeof(float), true));
    return MasterUnits(s, std::move(exchange));
  }
  /// Returns a unit of this rank's layout, whole; good until the next call.
  Expected<std::span<const float>> unit(const ZeroUnit& of) {
    const auto count = static_cast<size_t>(of.elements());
    if (from_.is_cut) {
      values_.assign(count, 0.0f);
      COHORT_TRY(exchange_.gather(of, from_, reinterpret_cast<std::byte*>(values_.data())));
      return std::span<const float>(values_);
    }
    const auto bytes = s_->math.on_host(
        {from_.data + static_cast<size_t>(of.begin) * sizeof(float), count * sizeof(float)},
        copied_);
    return std::span(reinterpret_cast<const float*>(bytes.data()), count);
  }
  /// Puts a unit of this rank's layout, and the other slots' share of it, into `to`, which holds
  /// the whole layout from element `begin` on.
  Expected<void> put(const ZeroUnit& of, int64_t begin, std::span<float> to) {
    COHORT_ASSIGN(const std::span<const float> mine, unit(of));
    const int own = s_->experts.slot_of(s_->rank());
    if (!of.is_experts) {
      put_slot(of, own, mine, begin, to);
      return {};
    }
    std::vector<std::vector<float>> slots(static_cast<size_t>(s_->experts.ways()));
    std::vector<std::span<const std::byte>> send(static_cast<size_t>(s_->ranks()));
    std::vector<std::span<std::byte>> receive(send.size());
    const auto first = static_cast<size_t>(s_->experts.first_of(s_->rank()));
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      slots[slot].resize(mine.size());
      send[first + slot] = std::as_bytes(mine);
      receive[first + slot] = std::as_writable_bytes(std::span(slots[slot]));
    }
    COHORT_TRY(s_->options.zero.group->exchange(Collective::all_gather, send, receive));
    for (size_t slot = 0; slot < slots.size(); ++slot)
      put_slot(of, static_cast<int>(slot), slots[slot], begin, to);
    return {};
  }

 private:
  MasterUnits(const TrainEngine::State& s, UnitExchange exchange)
      : s_(&s), from_(s.master_buffer()), exchange_(std::move(exchange)) {}

  void put_slot(const ZeroUnit& of, int slot, std::span<const float> values, int64_t begin,
                std::span<float> to) const {
    for (size_t spec = of.first_spec; spec < of.end_spec; ++spec) {
      const ParameterSpec& here = s_->layout.specs[spec];
      const ParameterSpec& there = s_->experts.whole().specs[s_->experts.whole_spec(slot, spec)];
      std::copy_n(values.data() + (here.offset - of.begin), here.count,
                  to.data() + (there.offset - begin));
    }
  }

  const TrainEngine::State* s_;
  HeldBuffer from_;
  UnitExchange exchange_;
  std::vector<float> values_;
  std::vector<std::byte> copied_;
};

}  // namespace

Expected<uint64_t> TrainEngine::State::hash_master(const VisitUnit& visit) const {
  tensor::Checksum sum;
  COHORT_ASSIGN(MasterUnits units, MasterUnits::create(*this));
  const auto take = [&](const ZeroUnit& unit, std::span<const float> whole) -> Expected<void> {
    sum.update(std::as_bytes(whole));
    return visit ? visit(unit, whole) : Expected<void>();
  };
  if (!experts.is_cut()) {
    for (const ZeroUnit& unit : zero.units()) {
      COHORT_ASSIGN(const std::span<const float> whole, units.unit(unit));
      COHORT_TRY(take(unit, whole));
    }
    return sum.digest();
  }
  const ZeroLayout all(experts.whole(), 1);
  size_t next = 0;  // of this rank's units, of which several are one of all ranks
  std::vector<float> values;
  for (const ZeroUnit& unit : all.units()) {
    const int64_t layer = experts.whole().specs[unit.first_spec].layer;
    values.assign(static_cast<size_t>(unit.elements()), 0.0f);
    const bool is_last = unit.end == experts.whole().total_elements;
    for (; next < zero.units().size(); ++next) {
      const ZeroUnit& part = zero.units()[next];
      if (layout.specs[part.first_spec].layer != layer) break;
      COHORT_TRY(units.put(part, unit.begin, values));
    }
    COHORT_CHECK(!is_last || next == zero.units().size(), "EP-2: units of a slot are left over");
    COHORT_TRY(take(unit, values));
  }
  return sum.digest();
}

uint64_t TrainEngine::param_hash() const {
  auto hash = state_->hash_master({});
  return hash ? *hash : 0;
}

uint64_t TrainEngine::weight_bytes() const {
  return static_cast<uint64_t>(state_->experts.whole().total_elements) * state_->compute_element();
}

std::vector<ParameterShard> TrainEngine::shards() const {
  const HeldBuffer params = state_->params_buffer();
  if (params.data == nullptr) return {};
  return shards_of(*state_, state_->on_host(params, state_->shards_copied));
}

std::vector<ParameterShard> TrainEngine::master_shards() const {
  const HeldBuffer master = state_->master_buffer();
  if (master.data == nullptr) return {};
  return shards_of(*state_, state_->on_host(master, state_->master_copied));
}

Expected<void> TrainEngine::load_weights(uint64_t offset_bytes,
                                         std::span<const std::byte> bytes) try {
  const State& s = *state_;
  const size_t element = s.compute_element();
  if (offset_bytes % element != 0 || bytes.size() % element != 0 || offset_bytes > weight_bytes() ||
      bytes.size() > weight_bytes() - offset_bytes)
    return Error{Errc::invalid_argument,
                 fmt::format("weights: {} bytes at {} do not fit {} bytes of {}-byte elements",
                             bytes.size(), offset_bytes, weight_bytes(), element)};
  const auto begin = static_cast<int64_t>(offset_bytes / element);
  const int64_t end = begin + static_cast<int64_t>(bytes.size() / element);
  std::vector<float> values;
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
    const size_t of = s.experts.whole_spec(s.experts.slot_of(s.rank()), spec);
    const int64_t offset = s.experts.whole().specs[of].offset;
    const int64_t first = std::max(begin, offset);
    const int64_t last = std::min(end, offset + s.layout.specs[spec].count);
    if (first >= last) continue;
    values.resize(static_cast<size_t>(last - first));
    const std::byte* from = bytes.data() + static_cast<size_t>(first - begin) * element;
    if (!s.is_bf16()) {
      std::memcpy(values.data(), from, values.size() * sizeof(float));
    } else {
      for (size_t i = 0; i < values.size(); ++i) {
        uint16_t half = 0;
        std::memcpy(&half, from + i * sizeof half, sizeof half);
        values[i] = from_bf16(half);
      }
    }
    s.store_parameters(spec, first - offset, values);
  }
  return {};
} catch (const std::exception& e) {
  return failed("load_weights", e);
}

}  // namespace cohort::compute

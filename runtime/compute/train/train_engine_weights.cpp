// TrainEngine: the parameters as others see them: hash, shards.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/compute/train/train_state.hpp"
#include "runtime/compute/train/zero_exchange.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {
namespace {

using State = TrainEngine::State;

std::vector<ParameterShard> shards_of(const State& s, const HeldBuffer& buffer) {
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

Expected<uint64_t> TrainEngine::State::hash_master(
    const std::function<Expected<void>(const ZeroUnit&, std::span<const float>)>& visit) const {
  const HeldBuffer from = master_buffer();
  tensor::Checksum sum;
  COHORT_ASSIGN(UnitExchange exchange, UnitExchange::create_on_host(*this, sizeof(float)));
  std::vector<float> values;
  std::vector<std::byte> copied;
  for (const ZeroUnit& unit : zero.units()) {
    std::span<const float> whole;
    if (from.is_cut) {
      values.assign(static_cast<size_t>(unit.elements()), 0.0f);
      COHORT_TRY(exchange.gather(unit, from, reinterpret_cast<std::byte*>(values.data())));
      whole = values;
    } else {
      const auto bytes = math.on_host({from.data + static_cast<size_t>(unit.begin) * sizeof(float),
                                       static_cast<size_t>(unit.elements()) * sizeof(float)},
                                      copied);
      whole = {reinterpret_cast<const float*>(bytes.data()), static_cast<size_t>(unit.elements())};
    }
    sum.update(std::as_bytes(whole));
    if (visit) COHORT_TRY(visit(unit, whole));
  }
  return sum.digest();
}

uint64_t TrainEngine::param_hash() const {
  auto hash = state_->hash_master({});
  return hash ? *hash : 0;
}

uint64_t TrainEngine::weight_bytes() const {
  return state_->flat_elements() * state_->compute_element();
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
    const int64_t offset = s.layout.specs[spec].offset;
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

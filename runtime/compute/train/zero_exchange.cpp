#include "runtime/compute/train/zero_exchange.hpp"

#include <utility>

namespace cohort::compute {
namespace {

std::byte* slot(std::byte* messages, size_t bytes, int rank) {
  return messages + bytes * static_cast<size_t>(rank);
}

}  // namespace

LeafGradients::LeafGradients(std::vector<at::Tensor> gradients,
                             const std::vector<PolicyWeights::Leaf>& leaves) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const int64_t begin = leaves[i].offset, count = gradients[i].numel();
    pieces_.push_back({begin, begin + count, gradients[i].contiguous()});
  }
}

FlatSource LeafGradients::find(int64_t offset) const {
  for (const Piece& piece : pieces_) {
    if (offset < piece.begin || offset >= piece.end) continue;
    const int64_t at = offset - piece.begin;
    return {static_cast<const std::byte*>(piece.gradient.data_ptr()) +
                static_cast<size_t>(at) * piece.gradient.element_size(),
            piece.gradient, at};
  }
  return {};
}

uint64_t UnitExchange::booked_bytes(const TrainEngine::State& state, size_t element) {
  if (state.ranks() == 1) return 0;
  return 2 * static_cast<uint64_t>(state.ranks()) *
         static_cast<uint64_t>(state.zero.largest_unit_part()) * element;
}

Expected<UnitExchange> UnitExchange::create(const TrainEngine::State& state, size_t element) {
  UnitExchange exchange(state);
  const uint64_t bytes = booked_bytes(state, element) / 2;
  const std::string name = state.options.role + ".exchange";
  COHORT_ASSIGN(CardStorage send, state.options.card->allocate(name, bytes));
  COHORT_ASSIGN(CardStorage receive, state.options.card->allocate(name, bytes));
  exchange.send_ = send.data();
  exchange.receive_ = receive.data();
  exchange.owners_[0] = send.owner();
  exchange.owners_[1] = receive.owner();
  return exchange;
}

Expected<UnitExchange> UnitExchange::create_on_host(const TrainEngine::State& state,
                                                    size_t element) {
  UnitExchange exchange(state);
  const uint64_t bytes = booked_bytes(state, element) / 2;
  COHORT_ASSIGN(std::shared_ptr<std::byte> send, allocate_host(bytes));
  COHORT_ASSIGN(std::shared_ptr<std::byte> receive, allocate_host(bytes));
  exchange.send_ = send.get();
  exchange.receive_ = receive.get();
  exchange.owners_[0] = std::move(send);
  exchange.owners_[1] = std::move(receive);
  return exchange;
}

void UnitExchange::add_part(const ZeroUnit& unit, const std::byte* from, bool is_half) const {
  const TrainEngine::State& s = *state_;
  const HeldBuffer grads = s.grads_buffer();
  const size_t element = is_half ? sizeof(uint16_t) : sizeof(float);
  for (size_t spec = unit.first_spec; spec < unit.end_spec; ++spec) {
    const TensorPart part = s.zero.part(spec, s.rank());
    const auto at = static_cast<size_t>(s.zero.shard_offset(spec, s.rank()) - unit.shard_begin);
    if (part.count() == 0) continue;
    s.math.add(s.find_float(grads, spec, part.begin), {from + at * element, {}, 0}, part.count(),
               is_half);
  }
}

Expected<void> UnitExchange::add_gradients(const ZeroUnit& unit, const std::vector<bool>& adds,
                                           const LeafGradients* mine) {
  const TrainEngine::State& s = *state_;
  const size_t element = s.compute_element(), own = static_cast<size_t>(s.rank());
  const bool is_half = s.is_bf16();
  if (s.ranks() == 1) {
    for (size_t spec = unit.first_spec; mine != nullptr && spec < unit.end_spec; ++spec) {
      const FlatSource from = mine->find(s.layout.specs[spec].offset);
      if (!from) continue;
      s.math.add(s.find_float(s.grads_buffer(), spec, 0), from, s.layout.specs[spec].count,
                 is_half);
    }
    return {};
  }
  const size_t bytes = static_cast<size_t>(unit.shard_count) * element;
  std::vector<std::span<const std::byte>> send(adds.size());
  std::vector<std::span<std::byte>> receive(adds.size());
  for (size_t r = 0; r < adds.size(); ++r) {
    const int rank = static_cast<int>(r);
    if (adds[r]) receive[r] = {slot(receive_, bytes, rank), bytes};
    if (!adds[own]) continue;
    std::byte* message = slot(send_, bytes, rank);
    s.math.zero(message, bytes);
    send[r] = {message, bytes};
    for (size_t spec = unit.first_spec; mine != nullptr && spec < unit.end_spec; ++spec) {
      const TensorPart part = s.zero.part(spec, rank);
      const FlatSource from = mine->find(s.layout.specs[spec].offset);
      if (!from || part.count() == 0) continue;
      s.math.copy(
          message +
              static_cast<size_t>(s.zero.shard_offset(spec, rank) - unit.shard_begin) * element,
          from.from(part.begin), static_cast<size_t>(part.count()) * element);
    }
  }
  COHORT_TRY(s.options.zero.group->all_to_all(send, receive));
  for (size_t r = 0; r < adds.size(); ++r)
    if (adds[r]) add_part(unit, receive[r].data(), is_half);
  return {};
}

Expected<void> UnitExchange::sum_gradients(const ZeroUnit& unit) {
  const TrainEngine::State& s = *state_;
  if (s.ranks() == 1) return {};
  const HeldBuffer grads = s.grads_buffer();
  const size_t bytes = static_cast<size_t>(unit.shard_count) * sizeof(float);
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  for (int rank = 0; rank < s.ranks(); ++rank) {
    std::byte* message = slot(send_, bytes, rank);
    for (size_t spec = unit.first_spec; spec < unit.end_spec; ++spec) {
      const TensorPart part = s.zero.part(spec, rank);
      s.math.copy(
          message + static_cast<size_t>(s.zero.shard_offset(spec, rank) - unit.shard_begin) *
                        sizeof(float),
          s.find(grads, spec, part.begin), static_cast<size_t>(part.count()) * sizeof(float));
    }
    send.emplace_back(message, bytes);
    receive.emplace_back(slot(receive_, bytes, rank), bytes);
  }
  COHORT_TRY(s.options.zero.group->all_to_all(send, receive));
  for (size_t spec = unit.first_spec; spec < unit.end_spec; ++spec) {
    const TensorPart part = s.zero.part(spec, s.rank());
    s.math.zero(s.find_float(grads, spec, part.begin),
                static_cast<size_t>(part.count()) * sizeof(float));
  }
  for (const auto& part : receive) add_part(unit, part.data(), false);
  return {};
}

Expected<void> UnitExchange::gather(const ZeroUnit& unit, const HeldBuffer& from, std::byte* to) {
  const TrainEngine::State& s = *state_;
  const size_t element = from.element, bytes = static_cast<size_t>(unit.shard_count) * element;
  if (s.ranks() == 1) {
    std::byte* source = from.data + static_cast<size_t>(unit.begin) * element;
    if (source != to) s.math.copy(to, source, static_cast<size_t>(unit.elements()) * element);
    return {};
  }
  std::byte* mine = from.data + static_cast<size_t>(unit.shard_begin) * element;
  auto place = [&](size_t spec, int rank) {
    return static_cast<size_t>(s.zero.shard_offset(spec, rank) - unit.shard_begin) * element;
  };
  if (!from.is_cut) {
    mine = send_;
    for (size_t spec = unit.first_spec; spec < unit.end_spec; ++spec) {
      const TensorPart part = s.zero.part(spec, s.rank());
      s.math.copy(mine + place(spec, s.rank()), s.find(from, spec, part.begin),
                  static_cast<size_t>(part.count()) * element);
    }
  }
  std::vector<std::span<std::byte>> all;
  for (int rank = 0; rank < s.ranks(); ++rank)
    all.emplace_back(rank == s.rank() ? mine : slot(receive_, bytes, rank), bytes);
  COHORT_TRY(s.options.zero.group->all_gather({mine, bytes}, all));
  for (int rank = 0; rank < s.ranks(); ++rank) {
    for (size_t spec = unit.first_spec; spec < unit.end_spec; ++spec) {
      const TensorPart part = s.zero.part(spec, rank);
      const int64_t at = s.layout.specs[spec].offset + part.begin - unit.begin;
      s.math.copy(to + static_cast<size_t>(at) * element,
                  all[static_cast<size_t>(rank)].data() + place(spec, rank),
                  static_cast<size_t>(part.count()) * element);
    }
  }
  return {};
}

}  // namespace cohort::compute

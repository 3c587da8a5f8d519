#include "runtime/compute/train/zero_exchange.hpp"

#include <utility>

namespace cohort::compute {
namespace {

std::byte* slot(const std::shared_ptr<std::byte>& messages, size_t bytes, size_t rank) {
  return messages.get() + bytes * rank;
}

/// Calls visit(spec, part, element of the message) for each tensor that `rank` has a part of.
template <class Visit>
void for_each_part(const ZeroLayout& zero, const ZeroUnit& unit, int rank, Visit visit) {
  for (size_t spec = unit.first_spec; spec < unit.end_spec; ++spec) {
    const TensorPart part = zero.part(spec, rank);
    if (part.count() > 0)
      visit(spec, part, static_cast<size_t>(zero.shard_offset(spec, rank) - unit.shard_begin));
  }
}

size_t bytes_of(const TensorPart& part, size_t element) {
  return static_cast<size_t>(part.count()) * element;
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

Expected<UnitExchange> UnitExchange::create(const TrainEngine::State& state, size_t element,
                                            bool is_on_host) {
  UnitExchange exchange(state);
  const uint64_t bytes = state.ranks() == 1
                             ? 0
                             : static_cast<uint64_t>(state.ranks()) *
                                   static_cast<uint64_t>(state.zero.largest_unit_part()) * element;
  for (std::shared_ptr<std::byte>* buffer : {&exchange.send_, &exchange.receive_}) {
    if (is_on_host) {
      COHORT_ASSIGN(*buffer, allocate_host(bytes));
      continue;
    }
    COHORT_ASSIGN(const CardStorage storage,
                  state.options.card->allocate(state.options.role + ".exchange", bytes));
    *buffer = {storage.owner(), storage.data()};
  }
  return exchange;
}

void UnitExchange::add_part(const ZeroUnit& unit, const std::byte* from, bool is_half) const {
  const TrainEngine::State& s = *state_;
  const HeldBuffer grads = s.grads_buffer();
  const size_t element = is_half ? sizeof(uint16_t) : sizeof(float);
  for_each_part(s.zero, unit, s.rank(), [&](size_t spec, const TensorPart& part, size_t at) {
    s.math.add(s.find_float(grads, spec, part.begin), {from + at * element, {}, 0}, part.count(),
               is_half);
  });
}

void UnitExchange::add_own(const ZeroUnit& unit, const LeafGradients& mine) const {
  const TrainEngine::State& s = *state_;
  for (size_t spec = unit.first_spec; spec < unit.end_spec; ++spec) {
    const FlatSource from = mine.find(s.layout.specs[spec].offset);
    if (!from) continue;
    s.math.add(s.find_float(s.grads_buffer(), spec, 0), from, s.layout.specs[spec].count,
               s.is_bf16());
  }
}

Expected<void> UnitExchange::add_gradients(const ZeroUnit& unit, const std::vector<bool>& adds,
                                           std::span<const LeafGradients* const> mine) {
  const TrainEngine::State& s = *state_;
  const std::vector<int> sharers = s.zero.sharers(unit, s.rank());
  if (sharers.size() == 1) {
    for (const LeafGradients* one : mine)
      if (one != nullptr) add_own(unit, *one);
    return {};
  }
  const size_t element = s.compute_element(), ranks = adds.size();
  const size_t bytes = static_cast<size_t>(unit.shard_count) * element;
  // The micro-batches whose gradients a sharer makes: its own, or those of its replica.
  const auto makes = [&](int sharer) {
    const size_t first = static_cast<size_t>(unit.is_experts ? s.experts.first_of(sharer) : sharer);
    std::vector<size_t> of;  // index in `mine`
    for (size_t i = 0; i < mine.size(); ++i)
      if (adds[first + i]) of.push_back(i);
    return of;
  };
  const std::vector<size_t> own = makes(s.rank());
  std::vector<std::span<const std::byte>> send(ranks);
  std::vector<std::span<std::byte>> receive(ranks);
  std::byte *next_sent = send_.get(), *next_received = receive_.get();
  for (const int sharer : sharers) {
    const auto r = static_cast<size_t>(sharer);
    receive[r] = {next_received, makes(sharer).size() * bytes};
    next_received += receive[r].size();
    send[r] = {next_sent, own.size() * bytes};
    s.math.zero(next_sent, send[r].size());
    for (const size_t i : own) {
      auto put = [&](size_t spec, const TensorPart& part, size_t at) {
        if (const FlatSource from = mine[i]->find(s.layout.specs[spec].offset))
          s.math.copy(next_sent + at * element, from.from(part.begin), bytes_of(part, element));
      };
      if (mine[i] != nullptr) for_each_part(s.zero, unit, sharer, put);
      next_sent += bytes;
    }
  }
  COHORT_TRY(s.options.zero.group->all_to_all(send, receive));
  for (const std::byte* at = receive_.get(); at != next_received; at += bytes)
    add_part(unit, at, s.is_bf16());
  return {};
}

Expected<void> UnitExchange::sum_gradients(const ZeroUnit& unit) {
  const TrainEngine::State& s = *state_;
  const std::vector<int> sharers = s.zero.sharers(unit, s.rank());
  if (sharers.size() == 1) return {};
  const HeldBuffer grads = s.grads_buffer();
  const size_t bytes = static_cast<size_t>(unit.shard_count) * sizeof(float);
  std::vector<std::span<const std::byte>> send(static_cast<size_t>(s.ranks()));
  std::vector<std::span<std::byte>> receive(send.size());
  for (size_t i = 0; i < sharers.size(); ++i) {
    std::byte* message = slot(send_, bytes, i);
    for_each_part(s.zero, unit, sharers[i], [&](size_t spec, const TensorPart& part, size_t at) {
      s.math.copy(message + at * sizeof(float), s.find(grads, spec, part.begin),
                  bytes_of(part, sizeof(float)));
    });
    const auto r = static_cast<size_t>(sharers[i]);
    receive[r] = {slot(receive_, bytes, i), bytes};
    send[r] = {message, bytes};
  }
  COHORT_TRY(s.options.zero.group->all_to_all(send, receive));
  for_each_part(s.zero, unit, s.rank(), [&](size_t spec, const TensorPart& part, size_t) {
    s.math.zero(s.find_float(grads, spec, part.begin), bytes_of(part, sizeof(float)));
  });
  for (size_t i = 0; i < sharers.size(); ++i) add_part(unit, slot(receive_, bytes, i), false);
  return {};
}

Expected<void> UnitExchange::gather(const ZeroUnit& unit, const HeldBuffer& from, std::byte* to) {
  const TrainEngine::State& s = *state_;
  const size_t element = from.element, bytes = static_cast<size_t>(unit.shard_count) * element;
  const std::vector<int> sharers = s.zero.sharers(unit, s.rank());
  if (sharers.size() == 1 && (s.ranks() == 1 || !from.is_cut)) {
    std::byte* source = from.data + static_cast<size_t>(unit.begin) * element;
    if (source != to) s.math.copy(to, source, static_cast<size_t>(unit.elements()) * element);
    return {};
  }
  std::byte* mine = from.data + static_cast<size_t>(unit.shard_begin) * element;
  if (!from.is_cut) {
    mine = send_.get();
    for_each_part(s.zero, unit, s.rank(), [&](size_t spec, const TensorPart& part, size_t at) {
      s.math.copy(mine + at * element, s.find(from, spec, part.begin), bytes_of(part, element));
    });
  }
  std::vector<std::span<const std::byte>> send(static_cast<size_t>(s.ranks()));
  std::vector<std::span<std::byte>> all(send.size());
  for (size_t i = 0; i < sharers.size(); ++i) {
    const auto r = static_cast<size_t>(sharers[i]);
    send[r] = {mine, bytes};
    all[r] = {sharers[i] == s.rank() ? mine : slot(receive_, bytes, i), bytes};
  }
  if (sharers.size() > 1)
    COHORT_TRY(s.options.zero.group->exchange(Collective::all_gather, send, all));
  for (const int sharer : sharers) {
    const std::byte* message = all[static_cast<size_t>(sharer)].data();
    for_each_part(s.zero, unit, sharer, [&](size_t spec, const TensorPart& part, size_t at) {
      const int64_t begin = s.layout.specs[spec].offset + part.begin - unit.begin;
      s.math.copy(to + static_cast<size_t>(begin) * element, message + at * element,
                  bytes_of(part, element));
    });
  }
  return {};
}

}  // namespace cohort::compute

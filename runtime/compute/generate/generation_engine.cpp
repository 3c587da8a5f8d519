#include "runtime/compute/generate/generation_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/text.hpp"

namespace cohort::compute {
namespace {

Error refused(std::string detail) { return Error{Errc::invalid_argument, std::move(detail)}; }

}  // namespace

std::string_view to_string(TurnStop stop) {
  constexpr std::string_view k_names[] = {"none", "stop", "length", "aborted", "error"};
  return name_in(k_names, stop);
}

Expected<void> validate(const TurnRequest& request, int64_t vocab_size) {
  COHORT_TRY(validate(request.sampling));
  const auto where = [&] {
    return fmt::format("request {} turn {}", request.request_id, request.turn);
  };
  if (request.max_new_tokens < 1)
    return refused(fmt::format("{}: max_new_tokens = {}", where(), request.max_new_tokens));
  for (int32_t token : request.append_tokens)
    if (token < 0 || token >= vocab_size)
      return refused(
          fmt::format("{}: token {} is outside the vocabulary of {}", where(), token, vocab_size));
  return {};
}

EngineStats stats_of(std::vector<WorkerStats> workers) {
  WorkerStats sum;
  for (const WorkerStats& one : workers) {
    sum.iterations += one.iterations;
    sum.tokens_sampled += one.tokens_sampled;
    sum.prefill_tokens += one.prefill_tokens;
    sum.evictions += one.evictions;
    sum.busy_seconds += one.busy_seconds;
    sum.running += one.running;
    sum.waiting += one.waiting;
    sum.blocks_free += one.blocks_free;
    sum.blocks_total += one.blocks_total;
  }
  return {std::move(workers), sum};
}

double EngineStats::busiest_since(const EngineStats& start) const {
  double busiest = 0;
  for (size_t i = 0; i < workers.size() && i < start.workers.size(); ++i)
    busiest = std::max(busiest, workers[i].busy_seconds - start.workers[i].busy_seconds);
  return busiest;
}

void read_flat(const ParameterLayout& layout, size_t element_bytes, const WeightReader& read,
               int64_t begin, std::span<std::byte> to) {
  const int64_t end = begin + static_cast<int64_t>(to.size() / element_bytes);
  const auto range = [&](int64_t from, int64_t until) {
    return to.subspan(static_cast<size_t>(from - begin) * element_bytes,
                      static_cast<size_t>(until - from) * element_bytes);
  };
  auto spec = std::upper_bound(
      layout.specs.begin(), layout.specs.end(), begin,
      [](int64_t at, const ParameterSpec& one) { return at < one.offset + one.count; });
  int64_t at = begin;
  for (; spec != layout.specs.end() && spec->offset < end; ++spec) {
    const int64_t from = std::max(at, spec->offset);
    std::ranges::fill(range(at, from), std::byte{0});
    at = std::min(end, spec->offset + spec->count);
    read(*spec, from - spec->offset, range(from, at));
  }
  std::ranges::fill(range(at, end), std::byte{0});
}

Expected<void> GenerationEngine::load_weights(uint64_t version, const WeightReader& read) {
  COHORT_ASSIGN(const WeightArrival arrival, begin_weights(version));
  for (const ParameterSpec& spec : arrival.layout.specs)
    read(spec, 0,
         arrival.bytes.subspan(static_cast<size_t>(spec.offset) * arrival.element_bytes,
                               static_cast<size_t>(spec.count) * arrival.element_bytes));
  return commit_weights(version);
}

Expected<void> serve_weights(GenerationEngine& engine, uint64_t version) {
  engine.pause(PauseMode::keep);
  Expected<void> done = engine.commit_weights(version);
  if (done) done = engine.reset_cache();
  engine.resume();
  return done;
}

}  // namespace cohort::compute

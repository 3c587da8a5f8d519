#include "runtime/plan/packing.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <string>
#include <utility>

namespace cohort::plan {
namespace {

uint64_t divide_up(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

Expected<void> check_input(std::span<const uint32_t> lengths, const PackOptions& options) {
  if (options.max_tokens == 0 || options.threads == 0)
    return Error{Errc::invalid_argument,
                 "packing: max_tokens " + std::to_string(options.max_tokens) + ", threads " +
                     std::to_string(options.threads) + ": both must be above 0"};
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == 0)
      return Error{Errc::invalid_argument, "packing: sequence " + std::to_string(i) + " is empty"};
    if (lengths[i] > options.max_tokens)
      return Error{Errc::capacity, "packing: sequence " + std::to_string(i) + " of " +
                                       std::to_string(lengths[i]) +
                                       " tokens exceeds the micro-batch bound of " +
                                       std::to_string(options.max_tokens) +
                                       " tokens; raise the bound to at least that"};
  }
  return {};
}

/// Returns the fewest micro-batches that the bounds may allow, as a multiple of threads where
/// possible.
size_t first_count(std::span<const uint32_t> lengths, const PackOptions& options) {
  uint64_t total = std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
  uint64_t count = divide_up(total, options.max_tokens);
  if (options.max_sequences > 0)
    count = std::max(count, divide_up(lengths.size(), options.max_sequences));
  count = divide_up(count, options.threads) * options.threads;
  return static_cast<size_t>(std::min<uint64_t>(count, lengths.size()));
}

/// Emptiest micro-batch first, ties by number.
using Emptiest = std::priority_queue<std::pair<uint64_t, size_t>,
                                     std::vector<std::pair<uint64_t, size_t>>, std::greater<>>;

void add_empty(std::vector<MicroBatch>& batches, Emptiest& open, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    open.emplace(0, batches.size());
    batches.emplace_back();
  }
}

/// Fills micro-batches by the longest-processing-time rule. The emptiest one has the most room, so
/// a sequence that does not fit there fits nowhere, and `threads` more micro-batches are opened.
std::vector<MicroBatch> fill(std::span<const uint32_t> lengths, const PackOptions& options) {
  std::vector<uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return lengths[a] > lengths[b]; });
  std::vector<MicroBatch> batches;
  Emptiest open;
  add_empty(batches, open, first_count(lengths, options));
  for (uint32_t index : order) {
    if (open.empty() || open.top().first + lengths[index] > options.max_tokens)
      add_empty(batches, open, options.threads);
    size_t place = open.top().second;
    open.pop();
    MicroBatch& batch = batches[place];
    batch.indices.push_back(index);
    batch.tokens += lengths[index];
    if (options.max_sequences == 0 || batch.indices.size() < options.max_sequences)
      open.emplace(batch.tokens, place);
  }
  std::erase_if(batches, [](const MicroBatch& x) { return x.indices.empty(); });
  return batches;
}

void assign_threads(std::vector<MicroBatch>& batches, uint32_t threads) {
  std::ranges::stable_sort(batches, std::greater<>{}, &MicroBatch::tokens);
  Emptiest load;
  for (uint32_t thread = 0; thread < threads; ++thread) load.emplace(0, thread);
  for (MicroBatch& batch : batches) {
    auto [tokens, thread] = load.top();
    load.pop();
    batch.thread = static_cast<uint32_t>(thread);
    load.emplace(tokens + batch.tokens, thread);
  }
}

}  // namespace

Expected<std::vector<MicroBatch>> pack(std::span<const uint32_t> lengths,
                                       const PackOptions& options) {
  COHORT_TRY(check_input(lengths, options));
  std::vector<MicroBatch> batches = fill(lengths, options);
  assign_threads(batches, options.threads);
  for (MicroBatch& batch : batches) std::ranges::sort(batch.indices);
  std::ranges::sort(batches, [](const MicroBatch& a, const MicroBatch& b) {
    return std::pair{a.thread, a.indices.front()} < std::pair{b.thread, b.indices.front()};
  });
  return batches;
}

double imbalance(std::span<const MicroBatch> batches, uint32_t threads) {
  std::vector<uint64_t> load(threads, 0);
  uint64_t total = 0;
  for (const MicroBatch& batch : batches) {
    load.at(batch.thread) += batch.tokens;
    total += batch.tokens;
  }
  if (total == 0) return 1;
  return static_cast<double>(*std::ranges::max_element(load)) * threads /
         static_cast<double>(total);
}

void assert_invariants(std::span<const MicroBatch> batches, std::span<const uint32_t> lengths,
                       const PackOptions& options) {
  std::vector<uint32_t> seen(lengths.size(), 0);
  for (const MicroBatch& batch : batches) {
    uint64_t tokens = 0;
    for (uint32_t index : batch.indices) {
      COHORT_CHECK(index < lengths.size(), "SPLIT-1: an index is out of range");
      ++seen[index];
      tokens += lengths[index];
    }
    COHORT_CHECK(!batch.indices.empty(), "SPLIT-3: a micro-batch is empty");
    COHORT_CHECK(tokens == batch.tokens, "SPLIT-2: tokens are counted wrongly");
    COHORT_CHECK(tokens <= options.max_tokens, "SPLIT-2: too many tokens in a micro-batch");
    COHORT_CHECK(options.max_sequences == 0 || batch.indices.size() <= options.max_sequences,
                 "SPLIT-2: too many sequences in a micro-batch");
    COHORT_CHECK(batch.thread < options.threads, "SPLIT-2: no such thread");
  }
  COHORT_CHECK(std::ranges::all_of(seen, [](uint32_t n) { return n == 1; }),
               "SPLIT-1: a sequence is not in exactly one micro-batch");
}

}  // namespace cohort::plan

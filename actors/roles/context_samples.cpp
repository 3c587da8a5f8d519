#include "actors/roles/context_samples.hpp"

namespace cohort::actors {

using proto::TokenRange;
using proto::Trajectory;

std::vector<ContextRange> contexts_of(std::span<const Trajectory> batch, size_t first, size_t end) {
  std::vector<ContextRange> contexts;
  for (size_t i = first; i < end; ++i)
    for (const TokenRange& range : proto::contexts_of(batch[i])) contexts.push_back({i, range});
  return contexts;
}

std::vector<int32_t> context_cu_seqlens(std::span<const Trajectory> batch) {
  std::vector<int32_t> cu_seqlens{0};
  for (const ContextRange& context : contexts_of(batch, 0, batch.size()))
    cu_seqlens.push_back(cu_seqlens.back() + static_cast<int32_t>(context.tokens.size()));
  return cu_seqlens;
}

void add_samples(const Trajectory& trajectory, std::vector<compute::TrainSample>& samples) {
  for (const TokenRange& range : proto::contexts_of(trajectory)) {
    compute::TrainSample& sample = samples.emplace_back();
    sample.tokens = std::span(trajectory.tokens).subspan(range.begin, range.size());
    sample.response_mask = std::span(trajectory.response_mask).subspan(range.begin, range.size());
  }
}

Expected<std::vector<std::vector<float>>> log_probs_of(compute::TrainEngine& engine,
                                                       std::span<const Trajectory* const> batch,
                                                       compute::AdapterUse use) {
  std::vector<compute::TrainSample> samples;
  std::vector<size_t> places;
  for (size_t i = 0; i < batch.size(); ++i) {
    add_samples(*batch[i], samples);
    places.resize(samples.size(), i);
  }
  std::vector<std::vector<float>> found;
  COHORT_TRY(engine.log_probs(samples, found, use));
  std::vector<std::vector<float>> rows(batch.size());
  for (size_t k = 0; k < found.size(); ++k) {
    std::vector<float>& row = rows[places[k]];
    if (row.empty())
      row = std::move(found[k]);
    else
      row.insert(row.end(), found[k].begin(), found[k].end());
  }
  return rows;
}

}  // namespace cohort::actors

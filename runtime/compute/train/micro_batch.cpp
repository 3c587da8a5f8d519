#include "runtime/compute/train/micro_batch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort::compute {
namespace {

Error bad_sample(size_t index, const std::string& what) {
  return {Errc::invalid_argument, fmt::format("sample {}: {}", index, what)};
}

Expected<void> validate_sample(const TrainSample& sample, const TrainSample& first, size_t index,
                               const ModelConfig& config) {
  const size_t size = sample.tokens.size();
  if (size == 0) return bad_sample(index, "no tokens");
  if (static_cast<int64_t>(size) > config.max_position)
    return bad_sample(index,
                      fmt::format("{} tokens, max_position is {}", size, config.max_position));
  if (sample.response_mask.size() != size)
    return bad_sample(
        index, fmt::format("{} mask entries for {} tokens", sample.response_mask.size(), size));
  if (sample.response_mask[0] != 0)
    return bad_sample(index, "the first token has no prefix and cannot be a response token");
  using Column = std::span<const float> TrainSample::*;
  for (Column column : {&TrainSample::old_logp, &TrainSample::advantages, &TrainSample::ref_logp,
                        &TrainSample::weights, &TrainSample::marks}) {
    const size_t count = (sample.*column).size();
    if ((count != 0 && count != size) || (count == 0) != ((first.*column).size() == 0))
      return bad_sample(index, fmt::format("a column has {} entries for {} tokens", count, size));
  }
  for (size_t t = 0; t < size; ++t) {
    if (sample.tokens[t] < 0 || sample.tokens[t] >= config.vocab_size)
      return bad_sample(index, fmt::format("token {} at {} is not in the vocabulary of {}",
                                           sample.tokens[t], t, config.vocab_size));
  }
  return {};
}

}  // namespace

Expected<void> validate(std::span<const TrainSample> samples, const ModelConfig& config) {
  for (size_t i = 0; i < samples.size(); ++i)
    COHORT_TRY(validate_sample(samples[i], samples[0], i, config));
  return {};
}

std::vector<int64_t> input_rows(std::span<const TrainSample> samples) {
  std::vector<int64_t> rows;
  rows.reserve(samples.size());
  for (const TrainSample& sample : samples) {
    int64_t last = 0;
    for (size_t t = 0; t < sample.response_mask.size(); ++t) {
      if (sample.response_mask[t] != 0) last = static_cast<int64_t>(t);
    }
    rows.push_back(last);
  }
  return rows;
}

namespace {

std::vector<MicroSpan> plan_spans(std::span<const int64_t> rows, int64_t rows_max) {
  constexpr int64_t k_evenly = 4, k_rows_min = 256;
  int64_t total = 0;
  for (int64_t count : rows) total += count;
  std::vector<MicroSpan> spans;
  if (total == 0) return spans;
  const int64_t bound = std::max<int64_t>(rows_max, 1);
  int64_t pieces = (total + bound - 1) / bound;
  const int64_t even = (pieces + k_evenly - 1) / k_evenly * k_evenly;
  if (total / even >= k_rows_min) pieces = even;
  MicroSpan span;
  int64_t done = 0, in_span = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    span.end = i + 1;
    done += rows[i];
    in_span += rows[i];
    const int64_t next = i + 1 < rows.size() ? rows[i + 1] : 0;
    // close at the sample boundary nearest to this piece's share of all rows
    const int64_t share = total * static_cast<int64_t>(spans.size() + 1) / pieces;
    if (in_span == 0 || done + next / 2 < share) continue;
    spans.push_back(span);
    span = {i + 1, i + 1};
    in_span = 0;
  }
  if (in_span > 0) spans.push_back(span);
  return spans;
}

}  // namespace

std::vector<MicroSpan> plan_micro_batches(std::span<const int64_t> rows, int64_t rows_max,
                                          size_t together) {
  if (together == 1) return plan_spans(rows, rows_max);
  std::vector<int64_t> sums(rows.size() / together);
  for (size_t i = 0; i < rows.size(); ++i) sums[i / together] += rows[i];
  std::vector<MicroSpan> spans = plan_spans(sums, rows_max);
  for (MicroSpan& span : spans) span = {span.begin * together, span.end * together};
  return spans;
}

StepCounts count_responses(std::span<const TrainSample> samples) {
  StepCounts counts;
  for (const TrainSample& sample : samples) {
    const auto tokens = std::count_if(sample.response_mask.begin(), sample.response_mask.end(),
                                      [](uint8_t mask) { return mask != 0; });
    counts.sequence_tokens.push_back(tokens);
    counts.tokens += static_cast<double>(tokens);
    counts.sequences += tokens > 0 ? 1 : 0;
  }
  return counts;
}

PackedBatch pack(std::span<const TrainSample> samples, std::span<const int64_t> rows,
                 MicroSpan span) {
  std::vector<int32_t> ids, positions, cu_k{0}, cu_q{0}, q_position, target;
  std::vector<int64_t> query_rows;
  int64_t longest = 0;
  for (size_t i = span.begin; i < span.end; ++i) {
    const TrainSample& sample = samples[i];
    const auto base = static_cast<int64_t>(ids.size());
    for (int64_t t = 0; t < rows[i]; ++t) {
      const auto next = static_cast<size_t>(t + 1);
      ids.push_back(sample.tokens[next - 1]);
      positions.push_back(static_cast<int32_t>(t));
      if (sample.response_mask[next] == 0) continue;
      query_rows.push_back(base + t);
      q_position.push_back(static_cast<int32_t>(t));
      target.push_back(sample.tokens[next]);
    }
    longest = std::max(longest, rows[i]);
    cu_k.push_back(static_cast<int32_t>(ids.size()));
    cu_q.push_back(static_cast<int32_t>(target.size()));
  }
  PackedBatch batch;
  batch.ids = at::tensor(ids, at::kInt);
  batch.query_rows = at::tensor(query_rows, at::kLong);
  batch.target = at::tensor(target, at::kInt);
  at::Tensor keys = at::tensor(cu_k, at::kInt), position = at::tensor(positions, at::kInt);
  batch.all = {keys, keys, position, position, longest};
  batch.needed = {at::tensor(cu_q, at::kInt), keys, at::tensor(q_position, at::kInt), position,
                  longest};
  return batch;
}

MicroBatch loss_columns(std::span<const TrainSample> samples, MicroSpan span) {
  MicroBatch batch;
  const std::pair<std::span<const float> TrainSample::*, at::Tensor*> columns[] = {
      {&TrainSample::old_logp, &batch.old_logp},
      {&TrainSample::advantages, &batch.advantages},
      {&TrainSample::ref_logp, &batch.ref_logp},
      {&TrainSample::weights, &batch.weights},
      {&TrainSample::marks, &batch.marks}};
  std::vector<float> values[std::size(columns)];
  std::vector<int64_t> seq_id, segment_id;
  for (size_t i = span.begin; i < span.end; ++i) {
    const TrainSample& sample = samples[i];
    for (size_t t = 0; t < sample.tokens.size(); ++t) {
      if (sample.response_mask[t] == 0) continue;
      for (size_t c = 0; c < std::size(columns); ++c)
        if (const auto& column = sample.*columns[c].first; !column.empty())
          values[c].push_back(column[t]);
      if (sample.response_mask[t - 1] == 0) ++batch.segment_count;  // entry 0 is never a response
      seq_id.push_back(static_cast<int64_t>(i));
      segment_id.push_back(batch.segment_count - 1);
    }
  }
  for (size_t c = 0; c < std::size(columns); ++c)
    if (!values[c].empty()) *columns[c].second = at::tensor(values[c], at::kFloat);
  batch.seq_id = at::tensor(seq_id, at::kLong);
  batch.segment_id = at::tensor(segment_id, at::kLong);
  batch.seq_count = static_cast<int64_t>(samples.size());
  return batch;
}

PackedBatch to_device(PackedBatch batch, at::Device device) {
  if (device.is_cpu()) return batch;
  for (at::Tensor* tensor :
       {&batch.ids, &batch.query_rows, &batch.target, &batch.all.q_position, &batch.all.k_position,
        &batch.needed.q_position, &batch.needed.k_position})
    *tensor = tensor->to(device);
  return batch;
}

MicroBatch to_device(MicroBatch batch, at::Device device) {
  if (device.is_cpu()) return batch;
  for (at::Tensor* tensor : {&batch.old_logp, &batch.advantages, &batch.ref_logp, &batch.weights,
                             &batch.marks, &batch.seq_id, &batch.segment_id})
    if (tensor->defined()) *tensor = tensor->to(device);
  return batch;
}

void scatter_log_probs(std::span<const TrainSample> samples, MicroSpan span, const at::Tensor& logp,
                       std::vector<std::vector<float>>& out) {
  at::Tensor values = logp.contiguous();
  const float* next = values.data_ptr<float>();
  for (size_t i = span.begin; i < span.end; ++i) {
    for (size_t t = 0; t < samples[i].tokens.size(); ++t) {
      if (samples[i].response_mask[t] != 0) out[i][t] = *next++;
    }
  }
}

}  // namespace cohort::compute

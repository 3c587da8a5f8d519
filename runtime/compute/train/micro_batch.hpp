#pragma once
/// Splits the samples of a step into packed micro-batches and lays them out as tensors. Pure
/// functions. A sample is cut before its last response token: later tokens influence no
/// log-probability that is asked for.
///
/// PACK-1: every sample with a response token is in exactly one micro-batch, in order. PACK-2: the
/// split is a function of the samples' lengths and tokens_max only (not of threads). PACK-3: those
/// that belong together are in one micro-batch.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/model/ops.hpp"
#include "runtime/compute/train/loss_factory.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace cohort::compute {

/// Samples [begin, end) of the step.
struct MicroSpan {
  size_t begin = 0, end = 0;
  bool operator==(const MicroSpan&) const = default;
};

/// Returns Errc::invalid_argument naming the first sample whose spans, tokens or mask do not fit
/// `config`.
Expected<void> validate(std::span<const TrainSample> samples, const ModelConfig& config);

/// Returns the tokens each sample feeds to the model: index of its last response token, 0 if it has
/// none.
std::vector<int64_t> input_rows(std::span<const TrainSample> samples);

/// Returns contiguous spans of about equal rows, `rows_max` each or (by half a sample) a little
/// more; one longer sample is a span of its own. Their number is a multiple of 4 when each keeps
/// 256 rows, so that 1, 2 or 4 threads share them evenly.
/// Each `together` samples in a row count as one; `together` divides their number.
std::vector<MicroSpan> plan_micro_batches(std::span<const int64_t> rows, int64_t rows_max,
                                          size_t together = 1);

StepCounts count_responses(std::span<const TrainSample> samples);

/// The packed input of one micro-batch: N rows go in, M log-probabilities come out.
struct PackedBatch {
  at::Tensor ids;               // [N] i32 tokens
  at::Tensor query_rows;        // [M] i64 row whose output predicts the response token, ascending
  at::Tensor target;            // [M] i32 the response token
  ops::AttentionLayout all;     // every row is a query
  ops::AttentionLayout needed;  // the query_rows only: the last layer
};
PackedBatch pack(std::span<const TrainSample> samples, std::span<const int64_t> rows,
                 MicroSpan span);

/// The same batch where the graph runs; cu_q and cu_k stay on the host, which reads them.
PackedBatch to_device(PackedBatch batch, at::Device device);

/// Returns the loss's columns at the response positions of `span`.
MicroBatch loss_columns(std::span<const TrainSample> samples, MicroSpan span);
MicroBatch to_device(MicroBatch batch, at::Device device);

/// Writes logp [M] of a micro-batch back to per-token vectors (sized and zeroed by the caller).
void scatter_log_probs(std::span<const TrainSample> samples, MicroSpan span, const at::Tensor& logp,
                       std::vector<std::vector<float>>& out);

}  // namespace cohort::compute

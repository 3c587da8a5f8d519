#pragma once
/// What to change when a job does not fit its cards: the seeds' advice (CPU offload, batch 1 with
/// accumulation times k, a shorter max_model_len, more cards) and three of ours (checkpointing,
/// lower utilization, all together). Pure: each is tried by planning the changed job.
#include <vector>

#include "runtime/plan/estimate/job.hpp"

namespace cohort::plan {

/// Returns the remedies that apply to the job, each with the peak that it leads to. The optimizer
/// batch stays what it was in every one of them. Bound: about 30 plans.
std::vector<Remedy> try_remedies(const JobSpec& spec, const JobPlan& plan);

}  // namespace cohort::plan

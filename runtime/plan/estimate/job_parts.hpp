#pragma once
/// The pieces of plan_job, shared by its source files; private to the folder. Pure.
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/plan/estimate/job.hpp"
#include "runtime/plan/estimate/memory_model.hpp"

namespace cohort::plan::job {

enum class RoleKind : uint8_t { train, critic, infer, reference };  // a teacher is a reference

/// One role with cards, worked out.
struct RoleFacts {
  RoleJob job;
  RoleKind kind = RoleKind::train;
  ModelShape shape;
  HeadKind head = HeadKind::language;
  ShardCut cut;
  uint32_t ways = 1;         // cards that hold the same dense shard: cards / (TP * PP)
  uint32_t expert_ways = 1;  // … the same expert shard
  uint32_t stage = 0;        // the largest
  uint64_t layers = 0;       // of the largest stage
  ShardElements shard;       // of the largest stage
  std::map<Object, uint64_t> card_bytes, host_bytes;  // per card
  std::vector<PlanNumber> numbers;
  std::vector<TransientBytes> update, log_prob, generate;
  uint64_t kv_tokens = 0, kv_token_bytes = 0, max_model_len = 0;
  bool is_cache_too_small = false;
  bool is_on_cpu = false;
  bool trains() const { return kind == RoleKind::train || kind == RoleKind::critic; }
};

/// Generates: it holds a KV cache.
bool serves(const RoleJob& job);
/// The built-in engine with the whole model in a card's group: its flat buffers, cut by ZeRO alone.
bool is_builtin_whole(const RoleFacts& role);
/// Its training state over the cards of the role.
TrainMemory builtin_memory(const RoleFacts& role);

uint64_t sequence_length(const JobSpec& spec);
uint64_t sum_of(const std::vector<TransientBytes>& transients);
std::string text(uint64_t value);  // with thousands
uint32_t node_of(const JobSpec& spec, CardId card);

/// Returns the facts of every role with cards, KV caches not sized yet.
Expected<std::vector<RoleFacts>> work_out_roles(const JobSpec& spec);
/// Sizes the KV caches: by utilization, and by what else is on the card while generating.
void size_caches(const JobSpec& spec, std::vector<RoleFacts>& roles,
                 std::vector<PlanWarning>& warnings);

/// Fills update, log_prob and generate (job_transients.cpp).
void add_transients(const JobSpec& spec, RoleFacts& role);

/// Returns the phases with bytes per card.
std::vector<JobPhase> work_out_phases(const JobSpec& spec, const std::vector<RoleFacts>& roles,
                                      const PlacementPlan& placement);

/// Returns the reshard table, one line per mode; empty without both train and infer cards.
std::vector<ReshardLine> work_out_reshard(const JobSpec& spec, const std::vector<RoleFacts>& roles);
std::vector<TrafficLine> work_out_traffic(const JobSpec& spec, const std::vector<RoleFacts>& roles,
                                          const JobPlan& plan);

/// plan_job without remedies; `is_trial` leaves reshard and traffic out too.
Expected<JobPlan> plan_once(const JobSpec& spec, bool is_trial);

/// Returns what may be changed when the job does not fit its cards, each with the peak that it
/// leads to: the seeds' advice (CPU offload, batch 1 with accumulation times k, a shorter
/// max_model_len, more cards) and three of ours (checkpointing, lower utilization, all together).
/// Each is tried by planning the changed job, with the same optimizer batch. Bound: about 30 plans.
std::vector<Remedy> try_remedies(const JobSpec& spec, const JobPlan& plan);

}  // namespace cohort::plan::job

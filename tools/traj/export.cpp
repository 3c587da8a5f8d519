#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/traj/open_run.hpp"
#include "tools/traj/text_output.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::ordered_json;

Json turns_of(const proto::Trajectory& x) {
  auto turns = Json::array();
  for (const proto::Turn& turn : x.turns)
    turns.push_back({{"response_begin", turn.response_begin},
                     {"response_end", turn.response_end},
                     {"env_reward", turn.env_reward},
                     {"is_valid", turn.is_valid},
                     {"is_effective", turn.is_effective},
                     {"observation", printable(turn.observation)},
                     {"response", printable(turn.response)},
                     {"context_begin", turn.context_begin}});
  return turns;
}

Json parts_of(const proto::Trajectory& x) {
  auto parts = Json::array();
  for (const proto::RewardPart& part : x.reward_parts)
    parts.push_back({{"name", printable(part.name)},
                     {"value", part.value},
                     {"weight", part.weight},
                     {"detail", printable(part.detail)}});
  return parts;
}

Json to_json(const proto::Trajectory& x) {
  auto metrics = Json::object();
  for (const auto& [name, value] : x.metrics) metrics[printable(name)] = value;
  return {{"run_id", printable(x.run_id)},
          {"kind", proto::to_string(x.key.kind)},
          {"step", x.key.step},
          {"group", x.key.group},
          {"index", x.key.index},
          {"attempt", x.attempt},
          {"tag", printable(x.tag)},
          {"seed", x.seed},
          {"prompt_id", printable(x.prompt_id)},
          {"weight_version_min", x.weight_version_min},
          {"weight_version_max", x.weight_version_max},
          {"stop_reason", printable(x.stop_reason)},
          {"generate_seconds", x.generate_seconds},
          {"env_seconds", x.env_seconds},
          {"score", x.score},
          {"mask_reason", printable(x.mask_reason)},
          {"is_greedy", x.is_greedy},
          {"data_source", printable(x.data_source)},
          {"ground_truth", printable(x.ground_truth)},
          {"reward_parts", parts_of(x)},
          {"metrics", std::move(metrics)},
          {"turns", turns_of(x)},
          {"tokens", x.tokens},
          {"response_mask", x.response_mask},
          {"behavior_logp", x.behavior_logp},
          {"ref_logp", x.ref_logp},
          {"teacher_logp", x.teacher_logp},
          {"values", x.values},
          {"token_rewards", x.token_rewards},
          {"token_versions", x.token_versions}};
}

}  // namespace

Expected<void> export_jsonl(const ExportOptions& options) {
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  COHORT_ASSIGN(TextOutput out, TextOutput::open(options.jsonl));
  uint64_t count = 0;
  Expected<void> written;
  auto result = for_each_trajectory(reader, {options.step, options.kind, 0},
                                    [&](const stream::RecordInfo&, const proto::Trajectory& x) {
                                      if (written) written = out.write(to_json(x).dump() + "\n");
                                      ++count;
                                    });
  COHORT_TRY(written);
  COHORT_TRY(out.finish());
  if (!out.is_stdout()) fmt::print("{} trajectories to {}\n", count, options.jsonl);
  return result;
}

}  // namespace cohort::traj

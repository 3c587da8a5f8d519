// Losses and corrections as a run takes them from its config: the rows show them, and one process
// and three give the same parameters.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;

std::vector<std::string> loss_run(const TempFolder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> overrides = {
      "max_steps=2", "eval_steps=-1",
      // two optimizer steps a step, so that the ratio moves
      "actor_train.training_args.gradient_accumulation_steps=2", "rollout_batch_size=16",
      "train_env_manager.num_env_groups=4", "train_env_manager.num_groups_partition=[4]"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return test::tiny_run(folder, overrides);
}

struct Finished {
  std::map<uint64_t, std::string> hashes;
  nlohmann::json last;  // row of metrics.jsonl
};

Finished finished(const std::vector<std::string>& more, int processes = 0) {
  TempFolder folder;
  auto command = loss_run(folder, more);
  if (processes > 0)
    command.insert(command.begin() + 2, {"--processes", std::to_string(processes)});
  Process run(command, folder);
  EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string path = test::run_folder(run);
  return {test::hashes(path), test::metric_rows(path).back()};
}

TEST(LossRun, ACorrectedKlCovRunIsTheSameOnTwoCardsInThreeProcesses) {
  const std::vector<std::string> keys = {"actor_train.pg_variant=kl_cov",
                                         "policy_loss.kl_cov_ratio=0.2",
                                         "train_infer_correction.is_weight.enabled=true",
                                         "train_infer_correction.is_weight.bound=mask",
                                         "train_infer_correction.rejections=seq_mean_k3",
                                         "train_infer_correction.rejection_thresholds=0.01"};
  const Finished one = finished(keys);
  EXPECT_EQ(one.last.at("old_log_probs/source"), 2) << "the correction compares both";
  EXPECT_LT(one.last.at("rollout_corr/k3_kl").get<double>(), 1e-6) << "the engines agree";
  EXPECT_NEAR(one.last.at("rollout_corr/rollout_is_mean").get<double>(), 1, 1e-3);
  EXPECT_EQ(one.last.at("rollout_corr/masked_fraction"), 0);
  std::vector<std::string> three = keys;
  three.insert(three.end(), {"num_gpus_per_node=3", "actor_train.device_mapping=list(range(0,2))",
                             "actor_infer.device_mapping=list(range(2,3))",
                             "actor_train.training_args.per_device_train_batch_size=2"});
  EXPECT_EQ(finished(three, 3).hashes, one.hashes);
  EXPECT_NE(finished({"actor_train.pg_variant=gspo"}).hashes, one.hashes);
}

}  // namespace
}  // namespace cohort

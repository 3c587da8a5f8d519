// traj-compute: the commands of traj that compute advantages, losses and scores. `traj` becomes it;
// a program of its own because libtorch takes half a second to load.
#include <CLI/CLI.hpp>

#include "tools/traj/recompute/bisect.hpp"
#include "tools/traj/recompute/html_command.hpp"
#include "tools/traj/recompute/recompute_commands.hpp"
#include "tools/traj/recompute/replay.hpp"
#include "tools/traj/recompute/replay_actors.hpp"
#include "tools/traj/recompute/replay_rollout.hpp"
#include "tools/traj/recompute/what_if.hpp"
#include "tools/traj/traj_program.hpp"

namespace {

using namespace cohort;

struct Options {
  traj::StepQuestion question;
  bool is_json = false, with_tokens = false;
  std::string old_logprobs, current_logprobs;
  RewardWords reward;
  std::string steps;
  uint64_t limit = 0;
  std::optional<uint64_t> checkpoint;
  std::optional<double> tolerance;
  std::string speed;
  bool is_rollout = false, with_actors = false;
  std::vector<std::string> metrics;
  traj::BisectOptions bisect;
  traj::HtmlOptions page;
  std::string kind = "train";

  traj::Output output() const {
    return with_tokens ? traj::Output::tokens
           : is_json   ? traj::Output::trajectories
                       : traj::Output::table;
  }
};

CLI::App* add_command(CLI::App& app, Options& x, const char* name, const char* what) {
  CLI::App* command = app.add_subcommand(name, what);
  command->add_option("RUN", x.question.run, "run folder (with stream/ in it) or stream folder")
      ->required();
  command->add_option("overrides", x.question.overrides,
                      "key=value: keys of the run's config, in its dialect");
  command->add_option("--step", x.question.step, "the step of training")
      ->check(traj::whole_number())
      ->required();
  command->add_flag("--json", x.is_json, "one JSON object per trajectory");
  return command;
}

void add_tokens(CLI::App* command, Options& x) {
  command->add_flag("--tokens", x.with_tokens, "one JSON object per token that was sampled");
  command->add_option("--estimator", x.question.estimator,
                      "adv_estimator, by a name of the run's dialect (default: the run's own)");
}

void add_replay(CLI::App& app, Options& x) {
  CLI::App* replay = app.add_subcommand("replay", "proves that a run is what it recorded");
  replay->add_option("RUN", x.question.run, "run folder")->required();
  replay->add_option("--steps", x.steps, "A:B, the first and the last step (default: all)");
  replay
      ->add_option("--checkpoint", x.checkpoint,
                   "start from the checkpoint of this step (default: the newest before A)")
      ->check(traj::whole_number());
  replay
      ->add_option("--tolerance", x.tolerance,
                   "not to the bit: how far a tensor may be off, as a share of the way that "
                   "training took it (a run on a device: 0.05)")
      ->check(CLI::NonNegativeNumber);
  replay->add_flag("--json", x.is_json, "one JSON object");
  replay->add_flag("--rollout", x.is_rollout,
                   "sample the recorded trajectories again, and compare each token");
  replay->add_flag("--actors", x.with_actors,
                   "the whole run again, live rewards and trainer, without rollouts");
  replay
      ->add_option("--speed", x.speed,
                   "with --actors: full (default), or recorded: trajectories come as they came")
      ->check(CLI::IsMember({"full", "recorded"}));
  replay->add_option("--limit", x.limit, "with --rollout: at most so many trajectories")
      ->check(traj::whole_number());
  replay->footer(
      "Without --rollout: the updates, each parameter hash compared with the recorded one. Last "
      "line: `replay: N of N steps equal` (or trajectories). Exit codes: 0 all are equal, 1 the "
      "first difference is named on stderr, 2 it cannot be replayed.");
}

void add_html(CLI::App& app, Options& x) {
  CLI::App* html = app.add_subcommand("html", "one trajectory as a page, its tokens coloured");
  html->add_option("RUN", x.page.run, "run folder (with stream/ in it) or stream folder")
      ->required();
  html->add_option("KEY", x.page.key, "STEP/GROUP/INDEX")->required();
  html->add_option("--kind", x.kind, "train (default) | val | val_greedy | warm_start")
      ->check(CLI::IsMember(traj::k_kinds));
  html->add_option("-o", x.page.file,
                   "file, or - for stdout (default: KIND-STEP-GROUP-INDEX.html)");
}

void add_what_if(CLI::App& app, Options& x) {
  CLI::App* what_if =
      app.add_subcommand("what-if", "the updates of a run under changed keys, beside the recorded");
  what_if->add_option("RUN", x.question.run, "run folder")->required();
  what_if->add_option("overrides", x.question.overrides, "KEY=VALUE: what is otherwise")
      ->required();
  what_if->add_option("--steps", x.steps, "A:B, the first changed and the last step");
  what_if->add_option("--metric", x.metrics, "show this number of an update (may be repeated)");
  what_if->add_flag("--json", x.is_json, "one JSON object per step");
  what_if->footer(
      "The trajectories are the recorded ones: keys of rollouts and rewards change nothing here. "
      "For those: actor-node run with resume_from_checkpoint.");
}

void add_bisect(CLI::App& app, Options& x) {
  CLI::App* bisect = app.add_subcommand(
      "bisect", "the step, the group and the trajectory that make a predicate hold");
  bisect->add_option("RUN", x.bisect.run, "run folder")->required();
  bisect
      ->add_option("--where", x.bisect.where,
                   "a query over the numbers of a row, e.g. 'metric[\"actor/grad_norm\"] > 10'")
      ->required();
  bisect->add_option("--step", x.bisect.step, "in this step (default: the first it holds for)")
      ->check(traj::whole_number());
  bisect->add_flag("--json", x.bisect.is_json, "one JSON object");
}

Expected<void> replay(const Options& x) {
  COHORT_ASSIGN(const traj::StepRange steps, traj::parse_steps(x.steps));
  if (x.with_actors) {
    if (x.is_rollout || x.checkpoint || x.tolerance || x.is_json || !x.steps.empty())
      return Error{Errc::invalid_argument, "replay --actors: it takes no other option but --speed"};
    return traj::replay_actors(x.question.run, x.speed == "recorded");
  }
  if (!x.speed.empty()) return Error{Errc::invalid_argument, "replay --speed: it is of --actors"};
  if (!x.is_rollout)
    return traj::replay({x.question.run, steps, x.checkpoint, x.is_json, x.tolerance});
  if (x.checkpoint || x.tolerance || x.is_json)
    return Error{Errc::invalid_argument,
                 "replay --rollout: --checkpoint, --tolerance and --json belong to the replay of "
                 "updates"};
  return traj::replay_rollout({x.question.run, steps, x.limit});
}

void add_commands(CLI::App& app, Options& x) {
  add_replay(app, x);
  add_what_if(app, x);
  add_bisect(app, x);
  add_html(app, x);
  CLI::App* advantages =
      add_command(app, x, "advantages", "a step's advantages, under any estimator");
  add_tokens(advantages, x);
  advantages->footer(
      "The run's own advantages are compared with the row of the step: exit code 1 if they "
      "differ.");
  CLI::App* loss = add_command(app, x, "loss", "a step's loss terms, under any policy loss");
  add_tokens(loss, x);
  loss->add_option("--loss", x.question.loss,
                   "pg_variant (verl: loss_mode), by a name of the run's dialect");
  loss->add_option("--old", x.old_logprobs,
                   "log-probs of the policy that began the update (default: those recorded at "
                   "generation)");
  loss->add_option("--current", x.current_logprobs,
                   "log-probs of the current policy (default: the old policy's)");
  loss->footer(
      "Files of log-probs: a line per trajectory of training of the step, in the order of `traj "
      "export --step N --kind train`, as `actor-node logprobs` prints it.");
  CLI::App* rescore =
      add_command(app, x, "rescore", "a step's scores and advantages under another reward");
  add_reward_options(*rescore, x.reward, "--reward");
  rescore->footer(
      "--reward may be a config (.yaml): its `rewards`. The run's own: RUN/config.yaml.");
}

Expected<void> dispatch(const std::string& name, const Options& x) {
  if (name == "replay") return replay(x);
  if (name == "bisect") return traj::bisect(x.bisect);
  if (name == "what-if") {
    COHORT_ASSIGN(const traj::StepRange steps, traj::parse_steps(x.steps));
    return traj::what_if({x.question.run, steps, x.question.overrides, x.metrics, x.is_json});
  }
  if (name == "html")
    return traj::html({x.page.run, x.page.key, traj::k_kinds.at(x.kind), x.page.file});
  if (name == "advantages") return traj::advantages({x.question, x.output()});
  if (name == "loss")
    return traj::loss({x.question, x.old_logprobs, x.current_logprobs, x.output()});
  return traj::rescore({x.question, x.reward, x.output()});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("the part of traj that computes", "traj");
  Options options;
  add_commands(app, options);
  return traj::run_program(app, argc, argv, [&options](const CLI::App& command) {
    return dispatch(command.get_name(), options);
  });
}

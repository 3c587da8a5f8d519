#pragma once
/// Recorded trajectories against a generation engine: what the engine samples under their keys, and
/// the first token that is another than the recorded one. Prompts and observations are those that
/// were recorded. Bound: `running_max` trajectories in the engine.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/roles/turn_requests.hpp"
#include "runtime/compute/generate/generation_engine.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::traj {

/// What answers are sampled by, besides what the trajectory says.
struct SamplingRules {
  uint64_t seed = 0;
  compute::SamplingOptions sampling, held_out_sampling;
  std::map<std::string, actors::AnswerBounds> bounds;  // by tag
  std::vector<int32_t> stop_ids;
  std::vector<std::string> stop_strings;
  std::shared_ptr<const tasks::Tokenizer> tokenizer;
  bool compares_logp = true;  // to the bit
  size_t running_max = 64;
};

/// Sampled tokens of one turn and one policy.
struct Part {
  uint32_t turn = 0;
  size_t answer = 0;          // where the turn's answer begins
  size_t begin = 0, end = 0;  // positions in the trajectory
  bool ends_turn = false;
  uint32_t version = 0;
  size_t context = 0;  // where what the policy read begins
};
/// Returns the sampled tokens of a trajectory in order, cut where a turn or a policy ends.
std::vector<Part> parts_of(const proto::Trajectory& t);

/// Parts of one trajectory that one policy has sampled.
struct Stretch {
  const proto::Trajectory* trajectory = nullptr;
  std::vector<Part> parts;
};

struct TokenDifference {
  proto::TrajectoryKey key;
  uint32_t turn = 0;
  size_t position = 0;                       // in the trajectory
  std::optional<int32_t> recorded, sampled;  // nothing: the answer ended before
  float recorded_logp = 0, sampled_logp = 0;
};
/// Returns "train/step 3/group 1/index 0: turn 2, position 71: recorded token …".
std::string describe(const TokenDifference& difference, const tasks::Tokenizer& tokenizer);

/// Compares one answer's tokens. Returns where they first differ.
std::optional<TokenDifference> compare(const proto::Trajectory& t, const Part& part,
                                       const compute::TurnOutput& output, bool compares_logp);

/// Samples every stretch with the weights that the engine serves. `engine` must have been started
/// with `on_outputs` of this object.
class TokenReplay {
 public:
  TokenReplay(SamplingRules rules, compute::GenerationEngine& engine);
  ~TokenReplay();
  void on_outputs(std::vector<compute::TurnOutput> outputs);
  /// Returns the differences, at most one of each stretch. Errors are the engine's.
  Expected<std::vector<TokenDifference>> play(std::span<const Stretch> stretches);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::traj

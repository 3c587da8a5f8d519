#pragma once
/// What can be known before anything is started: the tokenizer covers the prompts, the model's
/// shape holds, every role has cards, every card has room; of pipeline rlvr every row is read and
/// has a scorer. No actor; no thread but those of environment plugins. Under 10 ms, and the files.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/roles/environment_actor.hpp"
#include "actors/run/judge_setup.hpp"
#include "actors/run/prompt_set.hpp"
#include "actors/run/row_encoder.hpp"
#include "actors/run/row_set.hpp"
#include "actors/run/teacher_hints.hpp"
#include "runtime/compute/device/device.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/model/lora.hpp"
#include "runtime/plan/place/phases.hpp"
#include "runtime/plan/place/placement.hpp"
#include "runtime/plan/reshard/reshard.hpp"
#include "runtime/tasks/seeds.hpp"
#include "runtime/tasks/tokenizer.hpp"
#include "runtime/tasks/tools/tool_world.hpp"

namespace cohort::actors {

class RecordedGroups;

struct Preflight {
  compute::ModelConfig model;
  model::HeadKind head = model::HeadKind::language;  // value: pipeline rm trains a score
  model::HfConfig described;  // what config.json of its checkpoints says besides
  /// A role that is another model than the policy, or starts from other weights.
  struct OwnWeights {
    compute::ModelConfig model;
    std::string folder;  // empty: its weights are drawn
    model::HfConfig described = {};
  };
  std::optional<OwnWeights> reference = {};  // none: the policy of step 0
  std::optional<OwnWeights> teacher = {};    // none: the run has none
  std::optional<OwnWeights> critic = {};     // none: the run has none
  /// A reward that is a model (score_model.hpp).
  struct ScoreModel {
    OwnWeights weights;
    RowEncoder encode;       // in its own ids
    int64_t tokens_max = 0;  // of a dialogue
  };
  std::map<std::string, ScoreModel> score_models = {};  // by role: "rewards.x"
  std::map<std::string, JudgeSetup> judges = {};        // likewise
  /// LoRA: what is trained and published in place of the model, in f32.
  std::optional<model::LoraShape> lora = {};
  tensor::Dtype published_dtype() const { return lora ? tensor::Dtype::f32 : model.dtype; }
  std::shared_ptr<const tasks::Tokenizer> tokenizer;
  std::map<std::string, std::shared_ptr<const EnvironmentOptions>> environments;  // by tag
  plan::PlacementPlan placement;
  plan::OffloadPolicy offload = plan::OffloadPolicy::step;
  /// How weights go from the train cards to those of a role, by its name; none for a reference of
  /// its own.
  std::map<std::string, std::shared_ptr<const plan::ReshardPlan>> weights;
  std::shared_ptr<const tasks::ChatFormat> chat;
  std::shared_ptr<const tasks::ToolLoop> tools;      // null: answers call none
  std::vector<int32_t> stop_ids;                     // each ends an answer
  std::shared_ptr<const tasks::EpisodeSeeds> seeds;  // pipeline agentic, else null
  std::shared_ptr<const PromptSet> prompts;          // pipeline rlvr, else null
  std::shared_ptr<const TeacherHints> hints;         // opsd_mode, else null
  std::shared_ptr<const RowSet> rows;                // rows of files, else null
  std::shared_ptr<RecordedGroups> recorded;          // from_stream, where they are fed, else null
  uint64_t row_steps = 0;                            // likewise: steps of num_train_epochs
  uint64_t checkpoint_bytes = 0;
  std::string plan_json;  // for plan.json and the stream's plan record
  std::map<CardId, std::shared_ptr<compute::Device>> devices;  // of own cards; cpu: none

  /// Returns the layout of actor_infer; without the role (rows of files) no rank.
  plan::ShardLayout infer_layout() const;
};

/// Returns Errc::config (key and remedy), Errc::placement (overlap) or Errc::capacity (card, bytes,
/// budget).
/// `own_cards`: those of this process, whose devices are opened in this order; all cards if absent.
Expected<Preflight> preflight(const config::RunConfig& config,
                              const std::optional<std::vector<CardId>>& own_cards = {});

}  // namespace cohort::actors

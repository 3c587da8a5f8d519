#include "runtime/config/verl/verl_sft.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "runtime/base/suggest.hpp"
#include "runtime/config/bind/binder.hpp"
#include "runtime/config/tree/compose.hpp"
#include "runtime/config/tree/interpolate.hpp"
#include "runtime/config/tree/yaml_reader.hpp"
#include "runtime/config/verl/verl_rows.hpp"
#include "runtime/config/verl/verl_sft_config.hpp"

namespace cohort::config {
namespace {

constexpr std::array k_sections = {"data",       "model",    "optim",
                                   "engine",     "trainer",  "ulysses_sequence_parallel_size",
                                   "checkpoint", "profiler", "use_remove_padding"};

bool is_section(std::string_view key) {
  return std::ranges::find(k_sections, key) != k_sections.end();
}

/// Returns "; did you mean '<full path>'?", or "".
std::string advice(const std::string& section, const std::vector<std::string>& known,
                   const std::string& key) {
  const std::string near = nearest_name(key, known);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", join_path(section, near));
}

/// ROLL's tree, as it grows.
class Tree {
 public:
  Tree(const Findings& findings, Mark other) : findings_(findings), other_(std::move(other)) {
    root = Node::make_map(other_);
  }
  /// A value that stands where the user wrote `from`.
  void put(std::string_view path, Node value, const std::string& from) {
    const Mark mark = findings_.has(from) ? findings_.mark_of(from) : other_;
    set_marks(value, mark);
    Node* at = &root;
    const std::vector<std::string> pieces = split_path(path);
    for (size_t i = 0; i + 1 < pieces.size(); ++i) {
      if (at->find(pieces[i]) == nullptr) at->set(pieces[i], mark, Node::make_map(mark));
      at = &at->find(pieces[i])->node();
    }
    at->set(pieces.back(), mark, std::move(value));
  }
  void text(std::string_view path, const std::string& value, const std::string& from) {
    put(path, Node::make_scalar(value, true), from);
  }
  template <class Number>
  void number(std::string_view path, Number value, const std::string& from) {
    put(path, Node::make_scalar(fmt::format("{}", value), false), from);
  }
  void texts(std::string_view path, const std::vector<std::string>& values,
             const std::string& from) {
    Node list;
    list.kind = NodeKind::sequence;
    for (const std::string& each : values) list.items.push_back(Node::make_scalar(each, true));
    put(path, std::move(list), from);
  }

  Node root;

 private:
  static void set_marks(Node& node, const Mark& mark) {
    node.mark = mark;
    for (Node& item : node.items) set_marks(item, mark);
    for (Entry& entry : node.entries) {
      entry.mark = mark;
      set_marks(entry.node(), mark);
    }
  }
  const Findings& findings_;
  Mark other_;
};

/// What verl's trainer reads and this one does not do.
void refuse_what_does_not_run(const VerlSft& c, Findings& f) {
  const auto refuse_if = [&f](bool is_asked, const std::string& key, std::string_view text) {
    if (is_asked) f.problem(key, text);
  };
  refuse_if(c.data.train_max_samples > 0, "data.train_max_samples",
            "is not built in: all rows are used; use -1 and a shorter file");
  refuse_if(c.data.val_max_samples > 0, "data.val_max_samples",
            "is not built in: all rows are used; use -1 and a shorter file");
  refuse_if(!c.data.custom_cls_path.empty(), "data.custom_cls.path",
            "is not built in: no Python code reads rows; use columns that docs/sft.md names");
  refuse_if(!c.data.chat_template.empty(), "data.chat_template",
            "is not built in: the chat template is the folder's; put it there as "
            "chat_template.jinja");
  const bool is_older = f.has("data.multiturn.enable_thinking_key");
  refuse_if(c.data.thinking_key != "enable_thinking",
            is_older ? "data.multiturn.enable_thinking_key" : "data.enable_thinking_key",
            "the column is enable_thinking; rename it");
  refuse_if(!c.model.lora.excluded.empty(), "model.exclude_modules",
            "is not built in; name the others in target_modules");
  refuse_if(!c.model.tokenizer_path.empty() && c.model.tokenizer_path != c.model_path(),
            "model.tokenizer_path", "is not built in: the tokenizer is that of the model; use ~");
  refuse_if(c.optim.scheduler() == "wsd", c.optim.scheduler_key(),
            "wsd is not built in; use cosine or constant");
  if (c.engine.tensor_model_parallel_size * c.engine.pipeline_model_parallel_size > 1)
    f.note("engine",
           "TP {} x PP {}: in a run each card takes whole sequences, and the model's state is cut "
           "over all cards",
           c.engine.tensor_model_parallel_size, c.engine.pipeline_model_parallel_size);
}

void check_sft(const VerlSft& c, Findings& f) {
  if (c.model_path().empty())
    f.problem("model", "path: missing: give a local folder with config.json and safetensors");
  if (c.data.train_files.empty()) f.problem("data.train_files", "missing: give rows to imitate");
  const int64_t cards = c.trainer.nnodes * c.trainer.n_gpus_per_node;
  if (c.data.train_batch_size % cards != 0)
    f.problem("data.train_batch_size",
              "{} rows do not divide over {} cards (trainer.nnodes x "
              "trainer.n_gpus_per_node)",
              c.data.train_batch_size, cards);
  if (c.trainer.resume_mode == VerlResume::resume_path && c.trainer.resume_from_path.empty())
    f.problem("trainer.resume_from_path", "missing: resume_mode resume_path needs it");
  refuse_what_does_not_run(c, f);
}

/// A column of a row, or what a column of objects has under the keys (prompt_dict_keys).
std::string column_of(const std::string& column, const std::vector<std::string>& keys) {
  return keys.empty() ? column : fmt::format("{}.{}", column, fmt::join(keys, "."));
}

void put_rows(Tree& to, const VerlSft& c) {
  const VerlSftData& d = c.data;
  const bool is_chat = c.is_engine || d.multiturn_enable;
  const auto files = [](const std::vector<std::string>& names) {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(home_expanded(name));
    return paths;
  };
  to.texts("sft_train.data_args.file_name", files(d.train_files), "data.train_files");
  if (!d.val_files.empty())
    to.texts("validation.data_args.file_name", files(d.val_files), "data.val_files");
  to.text("sft_train.data_args.truncation", d.truncation, "data.truncation");
  if (!d.val_files.empty())
    to.text("validation.data_args.truncation", d.truncation, "data.truncation");
  if (is_chat) {
    const std::string& column = d.multiturn_enable ? d.multiturn_messages_key : d.messages_key;
    to.text("sft_train.data_args.messages", column, "data.messages_key");
    if (!d.val_files.empty()) to.text("validation.data_args.messages", column, "data.messages_key");
    to.text("tools_key", d.multiturn_enable ? d.multiturn_tools_key : d.tools_key,
            "data.tools_key");
  } else {
    to.text("prompt_key", column_of(d.prompt_key, d.prompt_dict_keys), "data.prompt_key");
    to.text("response_key", column_of(d.response_key, d.response_dict_keys), "data.response_key");
  }
  if (auto kwargs = parse_yaml(d.chat_template_kwargs, "kwargs");
      kwargs && !kwargs->entries.empty())
    to.put("sft_train.data_args.chat_template_kwargs", *std::move(kwargs),
           "data.apply_chat_template_kwargs");
  if (d.ignore_input_ids_mismatch)
    to.number("ignore_input_ids_mismatch", true, "data.ignore_input_ids_mismatch");
  to.number("sequence_length", d.max_length, "data.max_length");
}

void put_model(Tree& to, const VerlSft& c) {
  const std::string args = "sft_train.model_args.";
  to.text("pretrain", home_expanded(c.model_path()),
          c.model.path.empty() ? "model.partial_pretrain" : "model.path");
  if (c.engine.dtype == "float32" || c.engine.dtype == "fp32")
    to.text(args + "dtype", "fp32", "engine.dtype");
  const VerlLora& lora = c.model.lora;
  if (!lora.adapter_path.empty())
    to.text(args + "adapter_name_or_path", home_expanded(lora.adapter_path),
            "model.lora_adapter_path");
  if (lora.rank > 0) {
    to.texts(args + "lora_target", lora.targets, "model.target_modules");
    to.number(args + "lora_rank", lora.rank, "model.lora_rank");
    to.number(args + "lora_alpha", lora.alpha, "model.lora_alpha");
  }
  const int64_t ulysses = std::max(c.ulysses_sequence_parallel_size, c.engine.ulysses_size);
  if (ulysses > 1)
    to.number(args + "ulysses_size", ulysses,
              c.engine.ulysses_size > 1 ? "engine.ulysses_sequence_parallel_size"
                                        : "ulysses_sequence_parallel_size");
}

void put_optimizer(Tree& to, const VerlSft& c) {
  const std::string args = "sft_train.training_args.";
  const VerlSftOptim& o = c.optim;
  to.number(args + "learning_rate", o.lr, "optim.lr");
  to.number(args + "weight_decay", o.weight_decay, "optim.weight_decay");
  to.number(args + "adam_beta1", o.betas[0], "optim.betas");
  to.number(args + "adam_beta2", o.betas[1], "optim.betas");
  to.number("max_grad_norm", o.clip_grad, "optim.clip_grad");
  const bool has_warmup = o.lr_warmup_steps > 0 || (o.lr_warmup_steps < 0 && o.warmup_ratio > 0);
  const std::string scheduler = o.scheduler() == "constant" && has_warmup ? "constant_with_warmup"
                                : o.scheduler() == "cosine" && o.min_lr_ratio.value_or(0) > 0
                                    ? "cosine_with_min_lr"
                                    : o.scheduler();
  to.text(args + "lr_scheduler_type", scheduler, o.scheduler_key());
  if (o.lr_warmup_steps >= 0)
    to.number(args + "warmup_steps", o.lr_warmup_steps, "optim.lr_warmup_steps");
  else
    to.number(args + "warmup_ratio", o.warmup_ratio, "optim.lr_warmup_steps_ratio");
}

/// verl's global batch, over the cards and in the micro-batches that were asked for, if they
/// divide it. Neither changes the loss.
void put_batch(Tree& to, const VerlSft& c) {
  const std::string args = "sft_train.training_args.";
  const int64_t cards = c.trainer.nnodes * c.trainer.n_gpus_per_node;
  const int64_t per_card = c.data.train_batch_size / cards, micro = c.data.micro_batch_size_per_gpu;
  const bool is_cut = micro > 0 && per_card % micro == 0;
  to.number(args + "per_device_train_batch_size", is_cut ? micro : per_card,
            "data.train_batch_size");
  to.number(args + "gradient_accumulation_steps", is_cut ? per_card / micro : 1,
            "data.train_batch_size");
}

void put_cards(Tree& to, const VerlSft& c) {
  const int64_t cards = c.trainer.nnodes * c.trainer.n_gpus_per_node;
  to.text("sft_train.strategy_args.strategy_name", "fsdp2_train", "model.strategy");
  to.text("sft_train.device_mapping", fmt::format("list(range(0,{}))", cards),
          "trainer.n_gpus_per_node");
  to.number("num_gpus_per_node", c.trainer.n_gpus_per_node, "trainer.n_gpus_per_node");
  if (!c.trainer.device.empty()) to.text("platform", c.trainer.device, "trainer.device");
}

void put_run(Tree& to, const VerlSft& c) {
  constexpr int64_t k_ends_alone = 1'000'000'000;  // before the first step and after the last
  const VerlSftTrainer& t = c.trainer;
  to.text("pipeline", "sft", "trainer");
  to.text("exp_name", t.experiment_name, "trainer.experiment_name");
  to.text("output_dir",
          t.default_local_dir.empty() ? "./checkpoints/" + t.project_name : t.default_local_dir,
          "trainer.default_local_dir");
  to.number("seed", t.seed, "trainer.seed");
  to.number("save_steps", t.save_freq > 0 ? t.save_freq : k_ends_alone, "trainer.save_freq");
  if (!c.data.val_files.empty())
    to.number("eval_steps", t.test_freq > 0 ? t.test_freq : k_ends_alone, "trainer.test_freq");
  to.number("keep_checkpoints", t.max_ckpt_to_keep.value_or(0), "trainer.max_ckpt_to_keep");
  if (t.resume_mode == VerlResume::resume_path)
    to.text("resume_from_checkpoint", t.resume_from_path, "trainer.resume_from_path");
  else
    to.number("resume_from_checkpoint", t.resume_mode == VerlResume::automatic,
              "trainer.resume_mode");
  if (t.total_training_steps)
    to.number("max_steps", *t.total_training_steps, "trainer.total_training_steps");
  else
    to.number("sft_train.training_args.num_train_epochs", t.total_epochs, "trainer.total_epochs");
  if (c.saves("hf_model"))
    to.number(
        "save_hf", true,
        c.save_contents.empty() ? "trainer.checkpoint.save_contents" : "checkpoint.save_contents");
}

/// The user's part that is verl's, its defaults under it.
Node verl_part(const Node& root) {
  Node part = Node::make_map(root.mark);
  for (const Entry& entry : root.entries)
    if (is_section(entry.key)) part.set(entry.key, entry.mark, entry.node());
  return part;
}

}  // namespace

bool is_verl_sft(const Node& user) {
  if (user.find("actor_rollout_ref") != nullptr) return false;
  return user.find("model") != nullptr || user.find("optim") != nullptr ||
         user.find("engine") != nullptr;
}

Expected<SftTree> translate_verl_sft(const Node& user, bool is_engine) {
  VerlSft config;
  Findings findings;
  Node tree = write_tree([&config](Visitor& visitor) { describe_verl_sft(visitor, config); });
  merge(tree, user);
  tree.mark = user.mark;
  Interpolated interpolated = interpolate(tree, process_sources());
  findings.problems = std::move(interpolated.problems);
  BindOptions options;
  options.definitions = &interpolated.used;
  options.is_layered = true;
  options.class_key = "_target_";
  options.class_reason = "names a Python class of verl";
  options.advice = advice;
  bind_keys([&config](Visitor& visitor) { describe_verl_sft(visitor, config); },
            verl_part(interpolated.root), options, findings);
  config.is_engine = is_engine || findings.has("model.path") || findings.has("data.messages_key");
  check_sft(config, findings);
  if (!findings.problems.empty()) return error_of(findings.problems);
  Tree to(findings, user.mark);
  put_run(to, config);
  put_rows(to, config);
  put_model(to, config);
  put_optimizer(to, config);
  put_batch(to, config);
  put_cards(to, config);
  for (const Entry& entry : interpolated.root.entries) {
    if (is_section(entry.key)) continue;
    Node own = Node::make_map(entry.mark);
    own.set(entry.key, entry.mark, entry.node());
    merge(to.root, own);
  }
  SftTree result{std::move(to.root), std::move(findings.notes), {}};
  for (const auto& [path, mark] : findings.present)
    if (!path.empty()) result.origins[path] = mark.file_line();
  return result;
}

const std::vector<KeyInfo>& verl_sft_keys() {
  static const std::vector<KeyInfo> k_keys = list_keys([](Visitor& visitor) {
    VerlSft defaults;
    describe_verl_sft(visitor, defaults);
  });
  return k_keys;
}

}  // namespace cohort::config

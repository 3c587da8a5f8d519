#pragma once
/// The layouts that processes publish between, the values of their weights, and the words between a
/// test and its card processes: files in a folder, written whole.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/plan/reshard/model_families.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/reshard_gen.hpp"

namespace cohort::test {

/// A Qwen3 mixture of experts in small: every tensor of the family, 16 routed experts.
inline model::ModelShape small_moe() {
  model::ModelShape x;
  x.vocab_size = 512;
  x.hidden_size = 64;
  x.num_hidden_layers = 4;
  x.num_attention_heads = 8;
  x.num_key_value_heads = 4;
  x.head_dim = 16;
  x.intermediate_size = 128;
  x.attention_bias = false;
  x.qk_norm = true;
  x.tie_word_embeddings = false;
  x.moe = model::MoeShape{.num_experts = 16, .experts_per_token = 4, .moe_intermediate_size = 48};
  return x;
}

inline model::ModelShape small_dense() {
  model::ModelShape x = small_moe();
  x.moe.reset();
  x.attention_bias = true;
  return x;
}

struct Scenario {
  plan::ModelTensors model;
  plan::ShardLayout from, to;
};

/// "moe": EP4/PP2 to EP8/PP1 on eight cards; "dense": TP4/PP2 to TP2/DP4 on eight; "separate": two
/// train cards (TP2) to two replicas on cards of their own.
inline Scenario make_scenario(const std::string& name) {
  Scenario x;
  x.model = plan::reshard_tensors_of(name == "moe" ? small_moe() : small_dense(), 2);
  if (name == "moe") {
    x.from = make_layout("train", 1, 2, 4, 4);
    x.to = make_layout("infer", 1, 1, 8, 8);
  } else if (name == "dense") {
    x.from = make_layout("train", 4, 2, 1, 1);
    x.to = make_layout("infer", 2, 1, 4, 1);
  } else {
    x.from = make_layout("train", 2, 1, 1, 1);
    x.to = make_layout("infer", 1, 1, 2, 1, 2);
  }
  x.from.layers_per_stage.assign(x.from.pp, x.model.layers / x.from.pp);
  x.to.layers_per_stage.assign(x.to.pp, x.model.layers / x.to.pp);
  return x;
}

inline Expected<plan::ReshardPlan> plan_scenario(const std::string& name, const std::string& mode) {
  Scenario x = make_scenario(name);
  plan::ReshardOptions options;
  for (auto candidate :
       {ReshardMode::all_gather, ReshardMode::tp_then_pp, ReshardMode::directed, ReshardMode::p2p})
    if (to_string(candidate) == mode) options.mode = candidate;
  options.bucket_bytes = 96 << 10;
  return plan::plan_reshard(x.model, x.from, x.to, options);
}

/// The bytes of a position of a layout at a version: gathered and sliced element by element.
inline std::vector<std::byte> weights_of(const plan::ModelTensors& model,
                                         const plan::ShardLayout& layout, CardId card,
                                         uint64_t version) {
  std::vector<std::byte> bytes;
  for (uint32_t position = 0; position < layout.ranks.size(); ++position) {
    if (layout.ranks[position] != card) continue;
    std::vector<uint64_t> ids = shard_of(model, layout, position);
    bytes.resize(2 * ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      auto value = static_cast<uint16_t>(mix64(ids[i] + mix64(version)));
      std::memcpy(bytes.data() + 2 * i, &value, 2);
    }
  }
  return bytes;
}

inline void write_whole(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path.string() + ".part") << text;
  std::filesystem::rename(path.string() + ".part", path);
}

inline std::string wait_for_file(const std::filesystem::path& path, int limit_ms = 30000) {
  return wait_until([&] { return std::filesystem::exists(path); }, limit_ms) ? slurp(path) : "";
}

}  // namespace cohort::test

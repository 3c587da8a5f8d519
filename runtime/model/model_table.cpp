// The shapes that ship as data: find_model. Figures are those of each model's public config.json.
#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "runtime/base/suggest.hpp"
#include "runtime/base/text.hpp"
#include "runtime/model/families.hpp"
#include "runtime/model/hf_folder.hpp"
#include "runtime/model/shape.hpp"

namespace cohort::model {
namespace {

/// What else a row has.
struct More {
  int64_t experts = 0, used = 0, expert_intermediate = 0, shared_intermediate = 0;
  int64_t delta_key_heads = 0, delta_value_heads = 0;  // of gated delta nets, heads of 128
  std::string_view left_out = {};
};

/// One row: name, family, vocabulary, hidden, layers, heads, key-value heads, head dim, …
struct Row {
  std::string_view name, family;
  int64_t vocab, hidden, layers, heads, kv_heads, head_dim, intermediate;
  bool tied;
  int64_t positions;
  More more = {};
};

constexpr More k_vision = {.left_out = "vision"};
constexpr More k_omni = {.left_out = "vision and audio"};
constexpr More k_a3b = {128, 8, 768};
constexpr More k_a22b = {128, 8, 1536};

constexpr More sees(More more, std::string_view left_out = "vision") {
  more.left_out = left_out;
  return more;
}

/// Qwen3.5 sees; its dense sizes have no experts.
constexpr More dense_delta(int64_t value_heads) {
  return {.delta_key_heads = 16, .delta_value_heads = value_heads, .left_out = "vision"};
}

constexpr std::array k_rows = {
    Row{"Qwen2.5-0.5B", "qwen2", 151936, 896, 24, 14, 2, 64, 4864, true, 32768},
    Row{"Qwen2.5-1.5B", "qwen2", 151936, 1536, 28, 12, 2, 128, 8960, true, 32768},
    Row{"Qwen2.5-3B", "qwen2", 151936, 2048, 36, 16, 2, 128, 11008, true, 32768},
    Row{"Qwen2.5-7B", "qwen2", 152064, 3584, 28, 28, 4, 128, 18944, false, 32768},
    Row{"Qwen2.5-14B", "qwen2", 152064, 5120, 48, 40, 8, 128, 13824, false, 32768},
    Row{"Qwen2.5-32B", "qwen2", 152064, 5120, 64, 40, 8, 128, 27648, false, 32768},
    Row{"Qwen2.5-72B", "qwen2", 152064, 8192, 80, 64, 8, 128, 29568, false, 32768},
    Row{"Qwen2-7B", "qwen2", 152064, 3584, 28, 28, 4, 128, 18944, false, 32768},
    Row{"Qwen2-VL-7B", "qwen2", 152064, 3584, 28, 28, 4, 128, 18944, false, 32768, k_vision},
    Row{"Qwen2.5-VL-3B", "qwen2", 151936, 2048, 36, 16, 2, 128, 11008, true, 128000, k_vision},
    Row{"Qwen2.5-VL-7B", "qwen2", 152064, 3584, 28, 28, 4, 128, 18944, false, 128000, k_vision},
    Row{"Qwen2.5-VL-32B", "qwen2", 152064, 5120, 64, 40, 8, 128, 27648, false, 128000, k_vision},
    Row{"Qwen2.5-VL-72B", "qwen2", 152064, 8192, 80, 64, 8, 128, 29568, false, 128000, k_vision},
    Row{"Qwen2.5-Omni-3B", "qwen2", 151936, 2048, 36, 16, 2, 128, 11008, false, 32768, k_omni},
    Row{"Qwen2.5-Omni-7B", "qwen2", 152064, 3584, 28, 28, 4, 128, 18944, false, 32768, k_omni},
    Row{"Qwen3-0.6B", "qwen3", 151936, 1024, 28, 16, 8, 128, 3072, true, 40960},
    Row{"Qwen3-1.7B", "qwen3", 151936, 2048, 28, 16, 8, 128, 6144, true, 40960},
    Row{"Qwen3-4B", "qwen3", 151936, 2560, 36, 32, 8, 128, 9728, true, 40960},
    Row{"Qwen3-8B", "qwen3", 151936, 4096, 36, 32, 8, 128, 12288, false, 40960},
    Row{"Qwen3-14B", "qwen3", 151936, 5120, 40, 40, 8, 128, 17408, false, 40960},
    Row{"Qwen3-32B", "qwen3", 151936, 5120, 64, 64, 8, 128, 25600, false, 40960},
    Row{"Qwen3-VL-2B", "qwen3", 151936, 2048, 28, 16, 8, 128, 6144, true, 262144, k_vision},
    Row{"Qwen3-VL-4B", "qwen3", 151936, 2560, 36, 32, 8, 128, 9728, true, 262144, k_vision},
    Row{"Qwen3-VL-8B", "qwen3", 151936, 4096, 36, 32, 8, 128, 12288, false, 262144, k_vision},
    Row{"Qwen3-VL-32B", "qwen3", 151936, 5120, 64, 64, 8, 128, 25600, false, 262144, k_vision},
    Row{"Qwen3-30B-A3B", "qwen3_moe", 151936, 2048, 48, 32, 4, 128, 6144, false, 40960, k_a3b},
    Row{"Qwen3-Coder-30B-A3B", "qwen3_moe", 151936, 2048, 48, 32, 4, 128, 5472, false, 262144,
        k_a3b},
    Row{"Qwen3-VL-30B-A3B", "qwen3_moe", 151936, 2048, 48, 32, 4, 128, 6144, false, 262144,
        sees(k_a3b)},
    Row{"Qwen3-Omni-30B-A3B", "qwen3_moe", 152064, 2048, 48, 32, 4, 128, 768, false, 65536,
        sees(k_a3b, "vision and audio")},
    Row{"Qwen3-235B-A22B", "qwen3_moe", 151936, 4096, 94, 64, 4, 128, 12288, false, 40960, k_a22b},
    Row{"Qwen3-VL-235B-A22B", "qwen3_moe", 151936, 4096, 94, 64, 4, 128, 12288, false, 262144,
        sees(k_a22b)},
    Row{"Qwen3-Next-80B-A3B", "qwen3_next", 151936, 2048, 48, 16, 2, 256, 5120, false, 262144,
        More{512, 10, 512, 512, 16, 32}},
    Row{"Qwen3.5-0.8B", "qwen3_5", 248320, 1024, 24, 8, 2, 256, 3584, true, 262144,
        dense_delta(16)},
    Row{"Qwen3.5-2B", "qwen3_5", 248320, 2048, 24, 8, 2, 256, 6144, true, 262144, dense_delta(16)},
    Row{"Qwen3.5-4B", "qwen3_5", 248320, 2560, 32, 16, 4, 256, 9216, true, 262144, dense_delta(32)},
    Row{"Qwen3.5-9B", "qwen3_5", 248320, 4096, 32, 16, 4, 256, 12288, false, 262144,
        dense_delta(32)},
    Row{"Qwen3.5-27B", "qwen3_5", 248320, 5120, 64, 24, 4, 256, 17408, false, 262144,
        dense_delta(48)},
    Row{"Qwen3.5-35B-A3B", "qwen3_5_moe", 248320, 2048, 40, 16, 2, 256, 512, false, 262144,
        More{256, 8, 512, 512, 16, 32, "vision"}},
    Row{"Qwen3.5-122B-A10B", "qwen3_5_moe", 248320, 3072, 48, 32, 2, 256, 1024, false, 262144,
        More{256, 8, 1024, 1024, 16, 64, "vision"}},
    Row{"Qwen3.5-397B-A17B", "qwen3_5_moe", 248320, 4096, 60, 32, 2, 256, 1024, false, 262144,
        More{512, 10, 1024, 1024, 16, 64, "vision"}},
    Row{"DeepSeek-V3", "deepseek_v3", 129280, 7168, 61, 128, 128, 192, 18432, false, 163840},
    Row{"DeepSeek-R1", "deepseek_v3", 129280, 7168, 61, 128, 128, 192, 18432, false, 163840},
};

void add_latent_attention(ModelShape& x) {
  x.moe = MoeShape{.num_experts = 256,
                   .experts_per_token = 8,
                   .moe_intermediate_size = 2048,
                   .shared_intermediate_size = 2048,
                   .first_moe_layer = 3,
                   .router_bias = true,
                   .norm_topk_prob = true,
                   .is_sigmoid = true,
                   .num_groups = 8,
                   .topk_groups = 4,
                   .routed_scaling = 2.5};
  x.rope.type = "yarn";
  x.rope.factor = 40;
  x.rope.original_max_position = 4096;
  x.rope.mscale = x.rope.mscale_all_dim = 1;
  x.mla = MlaShape{.q_lora_rank = 1536,
                   .kv_lora_rank = 512,
                   .qk_rope_head_dim = 64,
                   .qk_nope_head_dim = 128,
                   .v_head_dim = 128};
}

ModelShape shape_of(const Row& row) {
  const Family& family = *find_family(row.family);
  const More& more = row.more;
  ModelShape x{row.vocab,    row.hidden,    row.layers,       row.heads,
               row.kv_heads, row.head_dim,  row.intermediate, family.attention_bias,
               row.tied,     family.qk_norm};
  x.name = row.name;
  x.family = row.family;
  x.max_position = row.positions;
  x.rope.theta = family.has_latent_attention ? 1e4 : family.has_delta_nets ? 1e7 : 1e6;
  x.left_out = more.left_out;
  if (more.experts > 0)
    x.moe = MoeShape{.num_experts = more.experts,
                     .experts_per_token = more.used,
                     .moe_intermediate_size = more.expert_intermediate,
                     .shared_intermediate_size = more.shared_intermediate,
                     .shared_gate = more.shared_intermediate > 0,
                     .norm_topk_prob = true,
                     .aux_loss_coef = 0.001};
  if (more.delta_key_heads > 0) {
    x.delta = DeltaShape{.key_heads = more.delta_key_heads,
                         .value_heads = more.delta_value_heads,
                         .key_head_dim = 128,
                         .value_head_dim = 128};
    x.attention_gate = true;
  }
  if (family.has_latent_attention) add_latent_attention(x);
  return x;
}

/// A training stage or a date: the shape is the base model's. "Distill" is another model.
bool keeps_shape(std::string_view word) {
  static constexpr std::array k_words = {std::string_view("instruct"), std::string_view("base"),
                                         std::string_view("chat"),     std::string_view("thinking"),
                                         std::string_view("zero"),     std::string_view("hf"),
                                         std::string_view("bf16"),     std::string_view("it")};
  if (std::find(k_words.begin(), k_words.end(), word) != k_words.end()) return true;
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

/// Returns whether `component` is `name`, or `name` and suffixes that keep the shape.
bool names(std::string_view component, std::string_view name) {
  if (!component.starts_with(name)) return false;
  std::string_view rest = component.substr(name.size());
  while (!rest.empty()) {
    if (rest.front() != '-' && rest.front() != '_') return false;
    rest.remove_prefix(1);
    size_t end = std::min(rest.find_first_of("-_"), rest.size());
    if (!keeps_shape(rest.substr(0, end))) return false;
    rest.remove_prefix(end);
  }
  return true;
}

/// Returns the components of a path, last first, without empty ones; a hub cache's
/// models--OWNER--NAME counts as NAME.
std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    size_t slash = path.find_last_of("/\\");
    std::string_view last = slash == path.npos ? path : path.substr(slash + 1);
    path = slash == path.npos ? std::string_view() : path.substr(0, slash);
    if (size_t cut = last.rfind("--"); cut != last.npos && last.starts_with("models--"))
      last.remove_prefix(cut + 2);
    if (!last.empty()) out.push_back(to_lower(last));
  }
  return out;
}

std::string nearest_names(std::string_view component) {
  std::vector<std::pair<size_t, std::string_view>> found;
  for (const Row& row : k_rows)
    found.emplace_back(edit_distance(component, to_lower(row.name)), row.name);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (size_t i = 0; i < 3; ++i) text += (i > 0 ? ", " : "") + std::string(found[i].second);
  return text;
}

}  // namespace

Expected<ModelShape> find_model(std::string_view name) {
  constexpr size_t k_name_max = 4096;  // a path
  if (name.starts_with(k_random)) name.remove_prefix(k_random.size());
  if (name.empty() || name.size() > k_name_max)
    return Error{Errc::not_found, "model: the name is empty or over 4096 characters"};
  std::vector<std::string> parts = components(name);
  for (const std::string& part : parts) {
    const Row* best = nullptr;
    for (const Row& row : k_rows)
      if (names(part, to_lower(row.name)) && (!best || row.name.size() > best->name.size()))
        best = &row;
    if (best) return shape_of(*best);
  }
  std::string last = parts.empty() ? to_lower(name) : parts.front();
  return Error{Errc::not_found, "model '" + std::string(name) +
                                    "': no shape ships under that name; nearest: " +
                                    nearest_names(last.substr(0, 64)) +
                                    " (a folder with its config.json works too)"};
}

}  // namespace cohort::model

// Card memory, resident objects, parameter layout, AdamW, safetensors, atomic folders: no torch.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/base/rng.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/device/resident_object.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/compute/train/atomic_folder.hpp"
#include "runtime/compute/train/optimizer.hpp"
#include "runtime/compute/train/safetensors.hpp"
#include "runtime/model/families.hpp"
#include "tests/support/family_models.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

ModelConfig small_config() {
  ModelConfig c;
  c.vocab_size = 11;
  c.hidden_size = 12;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  c.head_dim = 6;
  c.intermediate_size = 10;
  c.max_position = 32;
  return c;
}

// ---- card memory -----------------------------------------------------------------------------

TEST(CardMemory, RefusesWhatTheBudgetCannotHoldAndNamesIt) {
  CardMemory card(CardId{7}, 1000);
  CardStorage first = card.allocate("grads", 600).value();
  auto second = card.allocate("kv_cache", 401);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::capacity);
  EXPECT_EQ(second.error().detail,
            "card 7: kv_cache needs 401 bytes, 600 of 1000 bytes are in use");
  EXPECT_EQ(card.bytes_in_use(), 600u);
  EXPECT_TRUE(card.allocate("kv_cache", 400).has_value());
}

TEST(CardMemory, BytesComeBackWithTheLastHandle) {
  CardMemory card(CardId{0}, 1000);
  CardStorage storage = card.allocate("a", 300).value();
  CardStorage copy = storage;
  storage.reset();
  EXPECT_EQ(card.bytes_in_use(), 300u);
  copy.reset();
  EXPECT_EQ(card.bytes_in_use(), 0u);
}

TEST(CardMemory, AHandleMayOutliveTheCard) {
  CardStorage storage;
  {
    CardMemory card(CardId{0}, 100);
    storage = card.allocate("a", 64).value();
  }
  EXPECT_EQ(storage.data()[63], std::byte{0});
}

TEST(CardMemory, FreedMemoryLeavesTheProcess) {
  constexpr uint64_t k_bytes = 64 << 20;
  CardMemory card(CardId{0}, k_bytes);
  const uint64_t before = resident_bytes();
  CardStorage storage = card.allocate("params", k_bytes).value();
  std::memset(storage.data(), 1, k_bytes);
  EXPECT_GE(resident_bytes(), before + k_bytes * 9 / 10);
  storage.reset();
  EXPECT_LE(resident_bytes(), before + k_bytes / 10);
}

TEST(ResidentObject, ContentsSurviveTheTripAndOnePlaceHoldsThem) {
  constexpr uint64_t k_bytes = 1 << 20;
  CardMemory card(CardId{0}, k_bytes);
  ResidentObject object("role.params", k_bytes);
  EXPECT_TRUE(object.is_absent());
  EXPECT_EQ(object.onload(card).value().bytes_moved, 0u);  // absent: zeros, nothing to copy
  object.data()[5] = std::byte{42};
  Residency off = object.offload().value();
  EXPECT_EQ(off.bytes_on_card, 0u);
  EXPECT_EQ(off.bytes_moved, k_bytes);
  EXPECT_EQ(card.bytes_in_use(), 0u);
  Residency on = object.onload(card).value();
  EXPECT_EQ(on.bytes_on_card, k_bytes);
  EXPECT_EQ(on.bytes_moved, k_bytes);
  EXPECT_EQ(object.data()[5], std::byte{42});
  EXPECT_EQ(object.onload(card).value().bytes_moved, 0u);  // idempotent
}

TEST(ResidentObject, AFullCardLeavesItOnTheHost) {
  CardMemory card(CardId{0}, 100);
  ResidentObject object("role.params", 200);
  ASSERT_TRUE(object.materialise().has_value());
  object.data()[0] = std::byte{9};
  EXPECT_EQ(object.onload(card).error().code, Errc::capacity);
  EXPECT_EQ(object.data()[0], std::byte{9});
  EXPECT_FALSE(object.is_on_card());
}

// ---- layout ----------------------------------------------------------------------------------

TEST(ParameterLayout, GroupsAreAlignedTightAndDisjoint) {  // LAYOUT-1, LAYOUT-2
  for (bool is_tied : {true, false}) {
    ModelConfig config = small_config();
    config.tie_word_embeddings = is_tied;
    ParameterLayout layout = layout_of(config);
    int64_t end = 0;
    for (const ParameterSpec& spec : layout.specs) {
      EXPECT_GE(spec.offset, end) << spec.name;
      end = spec.offset + spec.count;
    }
    EXPECT_GE(layout.total_elements, end);
    EXPECT_EQ(layout.find("lm_head.weight") == nullptr, is_tied);
    EXPECT_EQ(layout.is_tied(), is_tied);
    for (int64_t i = 0; i < 3; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      const auto *q = layout.find(layer + "self_attn.q_proj.weight"),
                 *k = layout.find(layer + "self_attn.k_proj.weight"),
                 *v = layout.find(layer + "self_attn.v_proj.weight");
      EXPECT_EQ(q->offset % k_alignment, 0);
      EXPECT_EQ(q->offset, layout.layers[static_cast<size_t>(i)][Part::qkv].offset);
      EXPECT_EQ(k->offset, q->offset + q->count);
      EXPECT_EQ(v->offset, k->offset + k->count);
    }
  }
}

/// FNV-1a over names, offsets, counts and decay: what the bytes of a checkpoint depend on.
uint64_t digest(const ParameterLayout& layout) {
  uint64_t hash = 1469598103934665603U;
  auto add = [&](const std::string& text) {
    for (unsigned char c : text) hash = (hash ^ c) * 1099511628211U;
  };
  for (const ParameterSpec& spec : layout.specs)
    add(spec.name + " " + std::to_string(spec.offset) + " " + std::to_string(spec.count) + " " +
        (spec.is_decayed() ? "1" : "0") + "\n");
  add(std::to_string(layout.total_elements));
  return hash;
}

TEST(ParameterLayout, LiesWhereEarlierCheckpointsAndHashesHaveIt) {
  struct Row {
    int64_t vocab, hidden, layers, heads, kv_heads, head_dim, intermediate;
    bool bias, tied;
    int64_t total;
    uint64_t digest;
  };
  const Row rows[] = {// recorded before the layout followed from model::tensors_of
                      {33, 64, 2, 4, 2, 16, 192, true, true, 100992, 0xadfef90b1222d167},
                      {10, 6, 3, 3, 1, 2, 7, true, false, 1056, 0x5119dc2d7695948a},
                      {101, 30, 1, 5, 5, 6, 50, false, true, 11264, 0xc564f9aff2372d0e},
                      {151936, 896, 24, 14, 2, 64, 4864, true, true, 494032768, 0x4c65b87013ea65a0},
                      {19, 32, 2, 4, 2, 16, 40, false, false, 21344, 0xceaf65a70c1cf96f}};
  for (const Row& x : rows) {
    ModelConfig c = small_config();
    c.vocab_size = x.vocab;
    c.hidden_size = x.hidden;
    c.num_hidden_layers = x.layers;
    c.num_attention_heads = x.heads;
    c.num_key_value_heads = x.kv_heads;
    c.head_dim = x.head_dim;
    c.intermediate_size = x.intermediate;
    c.attention_bias = x.bias;
    c.tie_word_embeddings = x.tied;
    EXPECT_EQ(layout_of(c).total_elements, x.total);
    EXPECT_EQ(digest(layout_of(c)), x.digest) << x.hidden;
  }
}

TEST(ParameterLayout, PartsOfEveryFamilyAreAlignedAndInOrder) {  // LAYOUT-1, LAYOUT-2, MODEL-1
  for (std::string_view family : model::family_names()) {
    ModelConfig c = small_config();
    c.family = family;
    c.attention_bias = model::find_family(family)->attention_bias;
    c.qk_norm = model::find_family(family)->qk_norm;
    const ParameterLayout layout = layout_of(c);
    for (const LayerParts& parts : layout.layers) {
      int64_t end = 0;
      for (const PartSpan& part : parts.items) {
        if (part.offset < 0) continue;
        EXPECT_EQ(part.offset % k_alignment, 0);
        EXPECT_GE(part.offset, end);
        end = part.offset + part.count();
      }
      EXPECT_EQ(parts[Part::qkv].rows, c.qkv_size());
      EXPECT_EQ(parts[Part::gate_up].rows, 2 * c.intermediate_size);
      EXPECT_EQ(parts[Part::qkv_bias].offset >= 0, c.attention_bias);
      EXPECT_EQ(parts[Part::q_norm].offset >= 0, c.qk_norm);
    }
  }
}

TEST(ParameterLayout, CountsTheDemoModel) {
  ModelConfig c = small_config();
  c.vocab_size = 32;
  c.hidden_size = 64;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 16;
  c.intermediate_size = 192;
  EXPECT_EQ(parameter_count(layout_of(c)), 100928);  // FrozenLake's policy
}

TEST(ModelConfig, WhatHasNoOperatorIsRefusedByName) {
  auto refusal = [](auto change) {
    ModelConfig c = small_config();
    change(c);
    auto valid = validate(c);
    return valid ? "accepted" : valid.error().detail;
  };
  EXPECT_EQ(refusal([](ModelConfig& c) {
              c.family = "llama";
              c.attention_bias = false;
            }),
            "accepted");
  for (const auto& models :
       {tests::engine_models(small_config()), tests::expert_models(small_config())})
    for (const ModelConfig& c : models) EXPECT_TRUE(validate(c)) << validate(c).error().detail;
  const std::pair<const char*, void (*)(ModelConfig&)> rows[] = {
      {"depends on the longest sequence", [](ModelConfig& c) { c.rope.type = "dynamic"; }},
      {"rope_theta", [](ModelConfig& c) { c.rope.theta = 0; }},
      {"experts_per_token 5 is over num_experts 4",
       [](ModelConfig& c) {
         c.moe = model::MoeShape{4, 5, 8};
       }},
      {"qk_rope_head_dim = 3 is odd", [](ModelConfig& c) {
         c.mla = model::MlaShape{8, 8, 3, 4, 4};
       }}};
  for (const auto& [what, change] : rows)
    EXPECT_NE(refusal(change).find(what), std::string::npos) << refusal(change);
}

TEST(ModelConfig, ValidateNamesTheField) {
  ModelConfig c = small_config();
  c.num_key_value_heads = 3;
  EXPECT_NE(validate(c).error().detail.find("num_key_value_heads 3"), std::string::npos);
  c = small_config();
  c.hidden_size = 0;
  EXPECT_NE(validate(c).error().detail.find("hidden_size"), std::string::npos);
}

// ---- AdamW -----------------------------------------------------------------------------------

struct FlatVectors {
  std::vector<float> p, g, m, v;
  AdamwPiece piece(size_t begin, size_t end, bool is_decayed) {
    return {p.data() + begin,
            m.data() + begin,
            v.data() + begin,
            g.data() + begin,
            static_cast<int64_t>(end - begin),
            is_decayed};
  }
};

TEST(AdamW, FollowsTheFormulaForTenSteps) {
  FlatVectors x{{1, -2, 0.5f, 3}, {}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  const OptimizerOptions options{
      .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .max_grad_norm = 0};
  std::vector<double> p(x.p.begin(), x.p.end()), m(4), v(4);
  for (uint64_t step = 1; step <= 10; ++step) {
    const auto s = static_cast<double>(step);
    x.g = {0.1f, static_cast<float>(-0.2 * s), 0.0f, 5.0f};
    for (size_t i = 0; i < 4; ++i) {
      const double g = x.g[i], decay = i < 2 ? 0.1 : 0;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      const double update =
          m[i] / (1 - std::pow(0.9, s)) / (std::sqrt(v[i] / (1 - std::pow(0.95, s))) + 1e-8);
      p[i] = p[i] * (1 - 0.01 * decay) - 0.01 * update;
    }
    const AdamwScale scale = adamw_scale(options, 1e9, 0.01, step);
    cpu::kernels().adamw(x.piece(0, 2, true), scale);
    cpu::kernels().adamw(x.piece(2, 4, false), scale);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(x.p[i], p[i], 2e-6) << step << " " << i;
  }
}

TEST(AdamW, ClipsByTheGlobalNorm) {
  FlatVectors clipped{{0, 0}, {30, 40}, {0, 0}, {0, 0}};
  const OptimizerOptions options{.max_grad_norm = 1};
  cpu::kernels().adamw(clipped.piece(0, 2, true), adamw_scale(options, 50.0, 0.1, 1));
  EXPECT_NEAR(clipped.m[0], 0.1 * 0.6, 1e-7);  // (1 - beta1) * g / 50
  EXPECT_NEAR(clipped.m[1], 0.1 * 0.8, 1e-7);
  EXPECT_EQ(adamw_scale(options, 0.5, 0.1, 1).grad_scale, 1.0f);
}

TEST(AdamW, PiecesMayBeCutAnywhere) {  // TRAIN-3 rests on it
  Rng rng(3);
  FlatVectors whole, cut;
  for (int i = 0; i < 1000; ++i) {
    whole.p.push_back(static_cast<float>(rng.uniform()));
    whole.g.push_back(static_cast<float>(rng.uniform() - 0.5));
    whole.m.push_back(static_cast<float>(rng.uniform() - 0.5));
    whole.v.push_back(static_cast<float>(rng.uniform()));
  }
  cut = whole;
  const AdamwScale scale = adamw_scale({.weight_decay = 0.1, .max_grad_norm = 1}, 3, 0.01, 5);
  cpu::kernels().adamw(whole.piece(0, 1000, true), scale);
  for (size_t at = 0; at < 1000;) {
    const size_t end = std::min<size_t>(1000, at + 1 + rng.below(40));
    cpu::kernels().adamw(cut.piece(at, end, true), scale);
    at = end;
  }
  EXPECT_EQ(cut.p, whole.p);
  EXPECT_EQ(cut.m, whole.m);
  EXPECT_EQ(cut.v, whole.v);
}

TEST(AdamW, DecaySkipsNormsAndBiases) {
  ParameterLayout layout = layout_of(small_config());
  EXPECT_TRUE(layout.find("model.layers.1.mlp.down_proj.weight")->is_decayed());
  EXPECT_FALSE(layout.find("model.layers.1.self_attn.k_proj.bias")->is_decayed());
  EXPECT_FALSE(layout.find("model.norm.weight")->is_decayed());
}

// ---- files -----------------------------------------------------------------------------------

class Files : public ::testing::Test {
 protected:
  Files() : folder_(fs::temp_directory_path() / ("cohort_storage_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }
  fs::path at(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(at(name), std::ios::binary) << bytes;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// A file of two tensors; returns its bytes.
  std::string sample_file() const {
    const float a[] = {1, 2, 3, 4, 5, 6};
    const uint16_t b[] = {0x3F80, 0xC000};  // 1, -2
    const NamedTensor tensors[] = {{"a", "F32", {2, 3}, std::as_bytes(std::span(a))},
                                   {"b", "BF16", {2}, std::as_bytes(std::span(b))}};
    write_safetensors(at("x.safetensors"), tensors, {{"format", "pt"}}).value();
    return read("x.safetensors");
  }
  /// A file with this header text and this many zero bytes of data.
  Expected<SafetensorsFile> open_header(const std::string& header, size_t data_bytes) const {
    const auto size = static_cast<uint64_t>(header.size());
    std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
    write("h.safetensors", bytes + header + std::string(data_bytes, '\0'));
    return SafetensorsFile::open(at("h.safetensors"));
  }

 private:
  fs::path folder_;
};

TEST_F(Files, SafetensorsRoundTrip) {
  sample_file();
  SafetensorsFile file = SafetensorsFile::open(at("x.safetensors")).value();
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.find("a")->shape, (std::vector<int64_t>{2, 3}));
  std::vector<float> a(6), b(2);
  ASSERT_TRUE(copy_to_f32(*file.find("a"), a).has_value());
  ASSERT_TRUE(copy_to_f32(*file.find("b"), b).has_value());
  EXPECT_EQ(a, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(b, (std::vector<float>{1, -2}));
  EXPECT_EQ(copy_to_f32(*file.find("a"), b).error().code, Errc::invalid_argument);
}

TEST_F(Files, EveryTruncationIsCorrupt) {
  const std::string whole = sample_file();
  for (size_t size = 0; size < whole.size(); ++size) {
    write("t.safetensors", whole.substr(0, size));
    auto file = SafetensorsFile::open(at("t.safetensors"));
    ASSERT_FALSE(file) << size;
    EXPECT_EQ(file.error().code, Errc::corrupt) << size;
  }
}

TEST_F(Files, AFlippedHeaderByteNeverCrashes) {
  const std::string whole = sample_file();
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), sizeof header_bytes);
  for (size_t i = 0; i < sizeof header_bytes + header_bytes; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      std::span<const std::byte> bytes =
          std::as_bytes(std::span(flipped)).subspan(8 + header_bytes);
      if (i < 8) continue;  // the length field: AHostileHeaderIsRefused and the truncation test
      auto header = parse_safetensors_header({flipped.data() + 8, header_bytes}, bytes, "flip");
      EXPECT_TRUE(header || header.error().code == Errc::corrupt);
    }
  }
}

TEST_F(Files, AHostileHeaderIsRefused) {
  struct Row {
    const char* header;
    size_t data_bytes;
    const char* message;
  };
  const Row rows[] = {
      {"[]", 0, "not a JSON object"},
      {"{\"a\":1}", 0, "needs exactly"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3, "outside"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "outside"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "do not fit"},
      {R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "wrong type"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "wrong type"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
       "do not fit"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "belong to no tensor"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "gap or overlaps"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "gap or overlaps"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "appears twice"},
      {R"({"a":[[[[[[[[[[]]]]]]]]]]})", 0, "nested"},
      {R"({"__metadata__":{"k":1}})", 0, "no text"},
  };
  for (const Row& row : rows) {
    auto file = open_header(row.header, row.data_bytes);
    ASSERT_FALSE(file) << row.header;
    EXPECT_EQ(file.error().code, Errc::corrupt);
    EXPECT_NE(file.error().detail.find(row.message), std::string::npos) << file.error().detail;
  }
}

TEST_F(Files, AHeaderLengthBeyondTheFileIsRefused) {
  const uint64_t huge = ~uint64_t{0};
  write("l.safetensors", std::string(reinterpret_cast<const char*>(&huge), 8) + "{}");
  EXPECT_EQ(SafetensorsFile::open(at("l.safetensors")).error().code, Errc::corrupt);
  EXPECT_EQ(SafetensorsFile::open(at("none")).error().code, Errc::not_found);
}

TEST_F(Files, AnAtomicFolderAppearsWholeOrNotAtAll) {
  {
    AtomicFolder dropped = AtomicFolder::create(at("out")).value();
    std::ofstream(dropped.path() / "f") << "half";
  }
  EXPECT_FALSE(fs::exists(at("out")));
  for (const char* text : {"one", "two"}) {  // the second replaces the first
    AtomicFolder folder = AtomicFolder::create(at("out/")).value();
    std::ofstream(folder.path() / "f") << text;
    ASSERT_TRUE(folder.commit().has_value());
    EXPECT_EQ(read("out/f"), text);
  }
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(at(""))) entries += entry.exists() ? 1 : 0;
  EXPECT_EQ(entries, 1u);
}

}  // namespace
}  // namespace cohort::compute

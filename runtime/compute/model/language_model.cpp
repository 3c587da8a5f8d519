#include "runtime/compute/model/language_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/text.hpp"
#include "runtime/compute/model/lora_adapter.hpp"
#include "runtime/compute/model/policy_graph.hpp"
#include "runtime/compute/train/weight_folder.hpp"
#include "runtime/model/hf_folder.hpp"

namespace cohort::compute {

using at::Tensor;
using model::HfConfig;

struct LanguageModel::State {
  HfConfig file;
  ModelConfig config;
  ParameterLayout layout;
  PolicyWeights weights;
  Tensor head, head_bias;  // of a classification head
  std::vector<std::string> notices;
};

namespace {

/// The base that transformers takes for a sequence of `length` tokens (dynamic NTK).
model::RopeShape rope_at(const ModelConfig& config, int64_t length) {
  model::RopeShape rope = config.rope;
  if (rope.type != "dynamic") return rope;
  const auto most = static_cast<double>(config.max_position);
  const double longest = std::max(static_cast<double>(length), most);
  const auto dim = static_cast<double>(config.rotary_dim());
  const double stretch = rope.factor * longest / most - (rope.factor - 1);
  rope.theta *= std::pow(stretch, dim / (dim - 2));
  rope.type = "linear";  // angles rounded as those of the other scaled types
  rope.factor = 1;
  return rope;
}

/// One sequence whose `rows` last inputs ask for an output.
PackedBatch batch_of(std::span<const int32_t> ids, int64_t rows) {
  const auto count = static_cast<int64_t>(ids.size());
  const auto i32 = at::dtype(at::kInt);
  PackedBatch batch;
  batch.ids = at::tensor(at::ArrayRef<int32_t>(ids.data(), ids.size()), i32);
  batch.query_rows = at::arange(count - rows, count, at::dtype(at::kLong));
  const Tensor position = at::arange(count, i32);
  batch.all = {at::tensor({0, static_cast<int32_t>(count)}, i32),
               at::tensor({0, static_cast<int32_t>(count)}, i32), position, position, count};
  batch.needed = batch.all;
  batch.needed.cu_q = at::tensor({0, static_cast<int32_t>(rows)}, i32);
  batch.needed.q_position = position.narrow(0, count - rows, rows).contiguous();
  return batch;
}

/// The hidden states [rows, H] behind the last norm.
Tensor hidden(const LanguageModel::State& s, const PackedBatch& batch, int64_t length) {
  const ops::RopeTable rope =
      ops::rope_table(length, s.config.rotary_dim(), rope_at(s.config, length));
  Tensor x = ops::embedding(s.weights.embedding, batch.ids);
  for (size_t i = 0; i < s.weights.layers.size(); ++i)
    x = run_layer(x, s.weights.layers[i], s.config, rope, batch, static_cast<int64_t>(i));
  return ops::rms_norm(x, s.weights.final_norm, s.config.rms_norm_eps);
}

std::vector<float> floats(const Tensor& x) {
  const Tensor host = x.to(at::kFloat).contiguous();
  return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
}

Expected<void> check_ids(const LanguageModel::State& s, std::span<const int32_t> ids,
                         bool has_head) {
  if (has_head != s.head.defined())
    return Error{Errc::invalid_argument,
                 has_head ? "the model has no classification head: it gives log-probabilities"
                          : "the model has a classification head: it gives scores"};
  if (ids.empty()) return Error{Errc::invalid_argument, "ids: at least one token is needed"};
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= s.config.vocab_size)
      return Error{Errc::invalid_argument, fmt::format("ids[{}] = {} is outside the {} rows of the "
                                                       "embedding",
                                                       i, ids[i], s.config.vocab_size)};
  return {};
}

/// Nobody has a use for a log-probability that is NaN; JSON cannot even say it.
Expected<void> check_finite(const std::vector<float>& values, const std::string& what) {
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return {};
  return Error{
      Errc::compute,
      fmt::format("{}[{}] is {}: the weights hold NaN, or numbers too large to compute with", what,
                  bad - values.begin(), std::isnan(*bad) ? "NaN" : "infinite")};
}

/// Runs f, and turns what torch throws into an error.
template <class F>
auto guarded(F f) -> decltype(f()) {
  try {
    at::NoGradGuard no_grad;
    return f();
  } catch (const std::exception& e) {
    return Error{Errc::compute, first_line(e.what())};
  }
}

Expected<void> load_head(LanguageModel::State& s, const WeightFolder& weights) {
  if (s.file.head == HfConfig::Head::language) return {};
  const auto read = [&](const char* name, std::vector<int64_t> shape) -> Expected<Tensor> {
    const NamedTensor* found = weights.find(name);
    if (found == nullptr || found->shape != shape)
      return Error{Errc::invalid_argument,
                   fmt::format("no tensor '{}' of shape [{}]", name, fmt::join(shape, ", "))};
    Tensor out = at::empty(shape, at::dtype(at::kFloat));
    weights.read(name, 0, {out.data_ptr<float>(), static_cast<size_t>(out.numel())});
    return out;
  };
  COHORT_ASSIGN(s.head, read("score.weight", {s.file.labels, s.config.hidden_size}));
  if (s.file.head == HfConfig::Head::token_score) {
    COHORT_ASSIGN(s.head_bias, read("score.bias", {s.file.labels}));
  }
  return {};
}

}  // namespace

LanguageModel::LanguageModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LanguageModel::~LanguageModel() = default;

Expected<std::unique_ptr<LanguageModel>> LanguageModel::open(const Options& options) {
  return guarded([&]() -> Expected<std::unique_ptr<LanguageModel>> {
    auto state = std::make_unique<State>();
    State& s = *state;
    COHORT_ASSIGN(s.file, model::read_hf_folder(options.folder));
    s.notices = s.file.notices;
    s.config = ModelConfig{s.file.shape, options.dtype};
    // A classification head stands in the place of lm_head: the rest is that of a tied model.
    const bool has_head = s.file.head != HfConfig::Head::language;
    s.config.tie_word_embeddings |= has_head;
    if (s.config.rope.type != "dynamic")
      if (const auto valid = model::check_rope(s.config.rope); !valid)
        return Error{Errc::config,
                     (options.folder / "config.json").string() + ": " + valid.error().detail};
    s.layout = layout_of(s.config);
    COHORT_ASSIGN(const WeightFolder weights, WeightFolder::open(options.folder));
    const std::vector<std::string> own = {"score.weight", "score.bias"};
    COHORT_ASSIGN(const std::vector<std::string> notices,
                  weights.check(s.config, s.layout, has_head ? own : std::vector<std::string>{}));
    s.notices.insert(s.notices.end(), notices.begin(), notices.end());
    Tensor flat = at::zeros({s.layout.total_elements}, at::dtype(at::kFloat));
    for (const ParameterSpec& spec : s.layout.specs)
      weights.read(spec.name, 0,
                   {flat.data_ptr<float>() + spec.offset, static_cast<size_t>(spec.count)});
    COHORT_TRY(load_head(s, weights));
    if (!options.adapter.empty()) COHORT_TRY(merge_adapter(options.adapter, s.layout, flat));
    if (options.dtype == tensor::Dtype::bf16) flat = flat.to(at::kBFloat16);
    s.weights = view_weights(flat, s.layout, false);
    return std::unique_ptr<LanguageModel>(new LanguageModel(std::move(state)));
  });
}

const HfConfig& LanguageModel::config() const { return state_->file; }
const std::vector<std::string>& LanguageModel::notices() const { return state_->notices; }

Expected<LanguageModel::Scores> LanguageModel::score(std::span<const int32_t> ids,
                                                     double temperature) const {
  return guarded([&]() -> Expected<Scores> {
    const State& s = *state_;
    COHORT_TRY(check_ids(s, ids, false));
    if (!(temperature > 0)) return Error{Errc::invalid_argument, "temperature must be positive"};
    if (ids.size() == 1) return Scores{};
    const auto inputs = static_cast<int64_t>(ids.size()) - 1;
    PackedBatch batch = batch_of(ids.first(ids.size() - 1), inputs);
    Tensor h = hidden(s, batch, inputs + 1);
    if (temperature != 1) h = h / temperature;
    const Tensor target =
        at::tensor(at::ArrayRef<int32_t>(ids.data() + 1, ids.size() - 1), at::dtype(at::kInt));
    constexpr int64_t k_chunk_rows = 64;
    const ops::TokenLogProbs found =
        ops::token_log_probs(h, s.weights.lm_head, target, k_chunk_rows);
    Scores scores{floats(found.logp), floats(found.entropy)};
    COHORT_TRY(check_finite(scores.log_probs, "logprobs"));
    COHORT_TRY(check_finite(scores.entropy, "entropy"));
    return scores;
  });
}

Expected<std::vector<int32_t>> LanguageModel::greedy(std::span<const int32_t> ids,
                                                     int64_t count) const {
  return guarded([&]() -> Expected<std::vector<int32_t>> {
    const State& s = *state_;
    COHORT_TRY(check_ids(s, ids, false));
    std::vector<int32_t> all(ids.begin(), ids.end());
    for (int64_t i = 0; i < count; ++i) {
      const Tensor h = hidden(s, batch_of(all, 1), static_cast<int64_t>(all.size()));
      const std::vector<float> logits = floats(at::mm(h, s.weights.lm_head.t()));
      COHORT_TRY(check_finite(logits, "the logits of the next token: logits"));
      all.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    }
    return std::vector<int32_t>(all.begin() + static_cast<std::ptrdiff_t>(ids.size()), all.end());
  });
}

Expected<LanguageModel::HeadScores> LanguageModel::head_scores(std::span<const int32_t> ids) const {
  return guarded([&]() -> Expected<HeadScores> {
    const State& s = *state_;
    COHORT_TRY(check_ids(s, ids, true));
    const auto count = static_cast<int64_t>(ids.size());
    Tensor values = at::mm(hidden(s, batch_of(ids, count), count).to(at::kFloat), s.head.t());
    if (s.head_bias.defined()) values = values + s.head_bias;
    HeadScores out;
    for (int64_t row = 0; row < count; ++row) {
      out.values.push_back(floats(values[row]));
      COHORT_TRY(check_finite(out.values.back(), fmt::format("values[{}]", row)));
    }
    // As transformers pools: the last token that is not the padding's.
    size_t last = ids.size() - 1;
    while (s.file.pad_id && last > 0 && ids[last] == *s.file.pad_id) --last;
    out.pooled = out.values[last];
    return out;
  });
}

}  // namespace cohort::compute

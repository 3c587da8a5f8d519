#include "runtime/compute/generate/folder_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/compute/generate/built_in_engine.hpp"
#include "runtime/compute/train/weight_folder.hpp"
#include "runtime/model/hf_folder.hpp"

namespace cohort::compute {

struct FolderEngine::State {
  ModelConfig config;
  std::vector<std::string> notices;
  std::unique_ptr<CardMemory> card;
  std::unique_ptr<GenerationEngine> engine;  // before the card
  int64_t context_max = 0;

  // The sequence that the engine holds.
  uint64_t request_id = 0;
  std::vector<int32_t> ids;
  std::vector<int32_t> appended;  // of them, what the engine has not been given
  Draw draw;
  uint32_t sampled = 0;  // of this answer

  std::mutex mutex;
  std::condition_variable arrived;
  std::optional<TurnOutput> output;
};

namespace {

Expected<ModelConfig> model_of(const FolderEngine::Options& options,
                               std::vector<std::string>& notices) {
  COHORT_ASSIGN(const model::HfConfig file, model::read_hf_folder(options.folder));
  if (file.head != model::HfConfig::Head::language)
    return Error{
        Errc::invalid_argument,
        options.folder.string() + ": the model has a classification head: it says nothing"};
  notices = file.notices;
  ModelConfig config{file.shape, options.dtype};
  if (auto valid = validate(config); !valid)
    return valid.error().with_context(options.folder.string());
  return config;
}

}  // namespace

FolderEngine::FolderEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
FolderEngine::~FolderEngine() {
  if (state_->engine) state_->engine->stop();
}

Expected<std::unique_ptr<FolderEngine>> FolderEngine::open(const Options& options) {
  auto state = std::make_unique<State>();
  State& s = *state;
  COHORT_ASSIGN(s.config, model_of(options, s.notices));
  const ParameterLayout layout = layout_of(s.config);
  COHORT_ASSIGN(const WeightFolder weights, WeightFolder::open(options.folder));
  COHORT_ASSIGN(const std::vector<std::string> said, weights.check(s.config, layout));
  s.notices.insert(s.notices.end(), said.begin(), said.end());
  s.context_max = options.context_max > 0 ? std::min(options.context_max, s.config.max_position)
                                          : s.config.max_position;
  constexpr uint64_t k_unbounded = uint64_t{1} << 50;  // the host's memory is the bound
  s.card = std::make_unique<CardMemory>(CardId{0}, k_unbounded);
  BuiltInOptions built_in;
  built_in.model = s.config;
  built_in.card = s.card.get();
  built_in.max_running = 1;
  built_in.threads_per_lane = options.threads;
  built_in.max_context = s.context_max;
  COHORT_ASSIGN(s.engine, open_built_in(built_in));
  COHORT_TRY(s.engine->onload_params());
  COHORT_TRY(s.engine->load_weights(
      1, [&](const ParameterSpec& spec, int64_t begin, std::span<std::byte> to) {
        weights.read_as(s.config.dtype, spec.name, begin, to);
      }));
  const EngineCapacity capacity = s.engine->capacity();
  COHORT_TRY(s.engine->init_cache(static_cast<uint64_t>(s.context_max) * capacity.kv_token_bytes +
                                  capacity.kv_block_bytes));
  s.engine->start([&s](std::vector<TurnOutput> outputs) {
    std::lock_guard lock(s.mutex);
    s.output = std::move(outputs.back());
    s.arrived.notify_all();
  });
  return std::unique_ptr<FolderEngine>(new FolderEngine(std::move(state)));
}

const std::vector<std::string>& FolderEngine::notices() const { return state_->notices; }
int64_t FolderEngine::context_max() const { return state_->context_max; }
int64_t FolderEngine::vocab_size() const { return state_->config.vocab_size; }

Expected<void> FolderEngine::begin(std::span<const int32_t> ids, const Draw& draw) {
  State& s = *state_;
  if (static_cast<int64_t>(ids.size()) >= s.context_max)
    return Error{Errc::capacity, fmt::format("{} tokens leave no room in a context of {}",
                                             ids.size(), s.context_max)};
  if (ids.empty()) return Error{Errc::invalid_argument, "ids: at least one token is needed"};
  const auto [before, now] = std::ranges::mismatch(s.ids, ids);
  if (before != s.ids.end() || s.request_id == 0) {
    s.engine->finish(s.request_id++);
    s.appended.assign(ids.begin(), ids.end());
  } else {
    s.appended.assign(now, ids.end());
  }
  s.ids.assign(ids.begin(), ids.end());
  s.draw = draw;
  s.sampled = 0;
  return {};
}

Expected<int32_t> FolderEngine::next() {
  State& s = *state_;
  if (static_cast<int64_t>(s.ids.size()) >= s.context_max)
    return Error{Errc::capacity, fmt::format("the context of {} tokens is full", s.context_max)};
  TurnRequest request;
  request.request_id = s.request_id;
  request.kept_tokens = s.ids.size() - s.appended.size();
  request.append_tokens = std::exchange(s.appended, {});
  request.sampling = s.draw.sampling;
  request.rng_key = s.draw.seed;
  request.turn = s.draw.turn;
  request.first_position = s.sampled;
  s.output.reset();
  if (auto submitted = s.engine->submit(std::move(request)); !submitted) {
    s.ids.clear();  // the engine has none of them
    s.engine->finish(s.request_id);
    return submitted.error();
  }
  std::unique_lock lock(s.mutex);
  s.arrived.wait(lock, [&] { return s.output.has_value(); });
  if (s.output->tokens.size() != 1)
    return Error{Errc::compute, fmt::format("no token was sampled (the turn ended with {})",
                                            to_string(s.output->stop))};
  s.ids.push_back(s.output->tokens.front());
  ++s.sampled;
  return s.output->tokens.front();
}

}  // namespace cohort::compute

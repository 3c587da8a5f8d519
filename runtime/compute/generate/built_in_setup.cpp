// The built-in engine as the engine table opens it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/compute/generate/built_in_engine.hpp"
#include "runtime/compute/generate/engine_table.hpp"
#include "runtime/compute/generate/generation_runner.hpp"

namespace cohort::compute {
namespace {

/// One lane for all threads, or one for each? The layers of a small model stay in the CPU's caches,
/// and lanes that never wait for one another are fastest. A large one is read from memory in each
/// iteration: one lane reads it once for all sequences, and a single sequence has all threads.
bool is_one_lane(const BuiltInOptions& o) {
  constexpr uint64_t k_cached_layer_bytes = uint64_t{2} << 20;
  const auto bytes =
      static_cast<uint64_t>(layout_of(o.model).total_elements) * tensor::size_of(o.model.dtype);
  const bool has_kernels =
      o.card != nullptr && has_packed_layers(o.model) && o.card->device() == nullptr;
  return has_kernels && o.groups.empty() &&
         bytes / static_cast<uint64_t>(o.model.num_hidden_layers) > k_cached_layer_bytes;
}

}  // namespace

Expected<std::unique_ptr<GenerationEngine>> open_built_in(const EngineSetup& setup) {
  BuiltInOptions options;
  options.model = setup.model;
  options.card = setup.card;
  options.lanes = setup.threads;
  options.max_context = setup.max_context;
  options.on_group_lost = setup.on_lost;
  options.lora = setup.lora;
  options.base_folder = setup.base_folder;
  if (!setup.settings.empty())
    return Error{Errc::config, fmt::format("the built-in engine has no setting '{}'",
                                           setup.settings.begin()->first)};
  for (const GroupOptions& group : setup.groups) {
    COHORT_ASSIGN(std::shared_ptr<Collectives> joined, Collectives::join(group));
    setup.on_group(joined);
    options.groups.push_back(std::move(joined));
  }
  COHORT_TRY(validate(options.model));
  if (is_one_lane(options)) std::swap(options.lanes, options.threads_per_lane);
  options.max_running = std::max<uint32_t>(1, setup.max_running / std::max(1U, options.lanes));
  return open_built_in(options);
}

}  // namespace cohort::compute

#include "runtime/plugin/native/native_environment.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace cohort::plugin {
namespace {

void set(std::string& field, cohort_text text) { field = from_abi(text); }
World& world_of(void* host) { return *static_cast<World*>(host); }

cohort_environment_sink sink_of(World& world) {
  return {
      .size_bytes = sizeof(cohort_environment_sink),
      .host = &world,
      .observation = [](void* host, cohort_text x) { set(world_of(host).step.observation, x); },
      .stop_reason = [](void* host, cohort_text x) { set(world_of(host).step.stop_reason, x); },
      .event = [](void* host, cohort_text x) { set(world_of(host).step.event, x); },
      .instructions = [](void* host, cohort_text x) { set(world_of(host).instructions, x); },
      .metric = [](void* host, cohort_text name,
                   double value) { world_of(host).metrics.emplace_back(from_abi(name), value); },
  };
}

Expected<World> finished(World world, const cohort_step& step) {
  if (!std::isfinite(step.reward))
    return Error{Errc::protocol, fmt::format("returned {} as reward", step.reward)};
  world.step.reward = static_cast<float>(step.reward);
  world.step.is_done = step.is_done != 0;
  world.step.is_valid = step.is_valid != 0;
  world.step.is_effective = step.is_effective != 0;
  world.step.is_success = step.is_success != 0;
  if (world.step.is_done && world.step.stop_reason.empty()) world.step.stop_reason = "done";
  world.actions_left = step.actions_left;
  return world;
}

/// The world that a call of the plugin leaves, or its message.
template <class Call>
Expected<World> asked(Call call) {
  World world;
  const cohort_environment_sink sink = sink_of(world);
  cohort_step step{};
  step.size_bytes = sizeof step;
  step.actions_left = -1;
  NativeMessage message;
  if (call(step, sink, message.abi) != 0) return Error{Errc::compute, message.words()};
  return finished(std::move(world), step);
}

}  // namespace

NativeWorld::NativeWorld(std::shared_ptr<const NativeLibrary> library,
                         const cohort_environment_v1* table, void* self)
    : library_(std::move(library)), table_(table), self_(self) {}

NativeWorld::~NativeWorld() { table_->destroy(self_); }

Expected<World> NativeWorld::reset(uint64_t seed) {
  return asked([&](cohort_step& step, const cohort_environment_sink& sink, cohort_message& why) {
    int status = table_->reset(self_, seed, &step, &sink, &why);
    return status != 0 ? status : table_->instructions(self_, &sink, &why);
  });
}

Expected<World> NativeWorld::step(std::string_view answer) {
  return asked([&](cohort_step& step, const cohort_environment_sink& sink, cohort_message& why) {
    return table_->step(self_, to_abi(answer), &step, &sink, &why);
  });
}

NativeEnvironments::NativeEnvironments(std::shared_ptr<const NativeLibrary> library,
                                       const cohort_environment_v1* table, std::string config_json)
    : library_(std::move(library)), table_(table), config_json_(std::move(config_json)) {}

Expected<std::unique_ptr<NativeEnvironments>> NativeEnvironments::load(const std::string& path,
                                                                       std::string config_json) {
  COHORT_ASSIGN(auto library, NativeLibrary::open(path));
  COHORT_ASSIGN(const void* found, library->table(COHORT_ENVIRONMENT_SYMBOL, COHORT_ENVIRONMENT_ABI,
                                                  sizeof(cohort_environment_v1)));
  const auto* table = static_cast<const cohort_environment_v1*>(found);
  if (table->create == nullptr || table->reset == nullptr || table->step == nullptr ||
      table->instructions == nullptr || table->destroy == nullptr)
    return Error{Errc::unsupported, path + ": its table lacks a function"};
  std::unique_ptr<NativeEnvironments> environments(
      new NativeEnvironments(std::move(library), table, std::move(config_json)));
  auto world = environments->make();
  if (!world) return world.error().with_context(path);
  return environments;
}

Expected<std::unique_ptr<NativeWorld>> NativeEnvironments::make() const {
  NativeMessage message;
  void* self = nullptr;
  if (table_->create(to_abi(config_json_), &self, &message.abi) != 0)
    return Error{Errc::config, message.words()};
  return std::unique_ptr<NativeWorld>(new NativeWorld(library_, table_, self));
}

}  // namespace cohort::plugin

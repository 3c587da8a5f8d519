/// C++17 over <cohort/environment.h>: write a class, name it once, build a shared object.
///
///   #include <cohort/environment.hpp>
///   struct Coin {
///     std::string reset(uint64_t seed);                       // returns the first observation
///     cohort::sdk::Step step(std::string_view answer);
///     std::string instructions() const { return "Say heads or tails."; }   // optional
///     int actions_left() const { return 1; }                               // optional
///   };
///   COHORT_ENVIRONMENT(Coin)
///
/// The constructor may take the JSON options as std::string_view. What the class throws ends here:
/// it ends the episode with the exception's text.
#ifndef COHORT_ENVIRONMENT_HPP
#define COHORT_ENVIRONMENT_HPP

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/environment.h"
#include "cohort/sdk.hpp"

namespace cohort::sdk {

struct Step {
  std::string observation;
  double reward = 0;
  bool is_done = false;
  bool is_valid = true;      // an action was found in the answer
  bool is_effective = true;  // it changed the world
  bool is_success = false;
  std::string stop_reason;  // when is_done; "" counts as "done"
  std::string event;
  std::vector<std::pair<std::string, double>> metrics;  // of the episode so far
};

namespace detail {

template <class T, class = void>
struct has_instructions : std::false_type {};
template <class T>
struct has_instructions<T, std::void_t<decltype(std::declval<const T&>().instructions())>>
    : std::true_type {};

template <class T, class = void>
struct has_actions_left : std::false_type {};
template <class T>
struct has_actions_left<T, std::void_t<decltype(std::declval<const T&>().actions_left())>>
    : std::true_type {};

template <class T>
struct EnvironmentTable {
  static int create(cohort_text config, void** self, cohort_message* message) {
    return guarded(message, [&] { *self = make<T>(config); });
  }
  static int reset(void* self, uint64_t seed, cohort_step* step,
                   const cohort_environment_sink* sink, cohort_message* message) {
    return guarded(message, [&] {
      T& world = *static_cast<T*>(self);
      const std::string observation = world.reset(seed);
      sink->observation(sink->host, text(observation));
      if constexpr (has_actions_left<T>::value) step->actions_left = world.actions_left();
    });
  }
  static int play(void* self, cohort_text answer, cohort_step* step,
                  const cohort_environment_sink* sink, cohort_message* message) {
    return guarded(message, [&] {
      T& world = *static_cast<T*>(self);
      const Step found = world.step(view(answer));
      step->is_done = found.is_done ? 1U : 0U;
      step->is_valid = found.is_valid ? 1U : 0U;
      step->is_effective = found.is_effective ? 1U : 0U;
      step->is_success = found.is_success ? 1U : 0U;
      step->reward = found.reward;
      if constexpr (has_actions_left<T>::value) step->actions_left = world.actions_left();
      sink->observation(sink->host, text(found.observation));
      sink->stop_reason(sink->host, text(found.stop_reason));
      sink->event(sink->host, text(found.event));
      for (const auto& metric : found.metrics)
        sink->metric(sink->host, text(metric.first), metric.second);
    });
  }
  static int instructions(void* self, const cohort_environment_sink* sink,
                          cohort_message* message) {
    return guarded(message, [&] {
      if constexpr (has_instructions<T>::value) {
        const std::string rules = static_cast<T*>(self)->instructions();
        sink->instructions(sink->host, text(rules));
      }
      (void)self;
      (void)sink;
    });
  }
  static void destroy(void* self) { delete static_cast<T*>(self); }
  static const cohort_environment_v1* get(const char* name) {
    static const cohort_environment_v1 table = {COHORT_ENVIRONMENT_ABI,
                                                sizeof(cohort_environment_v1),
                                                name,
                                                &create,
                                                &reset,
                                                &play,
                                                &instructions,
                                                &destroy};
    return &table;
  }
};

}  // namespace detail
}  // namespace cohort::sdk

/// Exports the class as the environment of this shared object. Once, at namespace scope.
#define COHORT_ENVIRONMENT(Class)                                                         \
  extern "C" COHORT_EXPORT const cohort_environment_v1* cohort_environment_plugin(void) { \
    return ::cohort::sdk::detail::EnvironmentTable<Class>::get(#Class);                   \
  }

#endif

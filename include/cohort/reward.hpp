/// C++17 over <cohort/reward.h>: write a class, name it once, build a shared object.
///
///   #include <cohort/reward.hpp>
///   struct Digits {
///     explicit Digits(std::string_view config_json) {}           // or a default constructor
///     cohort::sdk::Result score(const cohort::sdk::Row& row) {
///       return row.response == row.ground_truth ? 1.0 : 0.0;
///     }
///   };
///   COHORT_REWARD(Digits)
///
/// A class that judges rows together takes `std::vector<Result> score(const std::vector<Row>&)`.
/// `static constexpr unsigned cohort_concurrency = n` lets n threads into score() at once (else 1).
/// What the class throws ends here: from the constructor the plugin is refused, from score() the
/// row has an error. Texts of a Row are valid until score() returns.
#ifndef COHORT_REWARD_HPP
#define COHORT_REWARD_HPP

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/reward.h"
#include "cohort/sdk.hpp"

namespace cohort::sdk {

struct Row {
  std::string_view id, response, prompt, messages, ground_truth, data_source, columns;
  uint32_t response_tokens = 0;
  bool is_finished = true;
};

struct Result {
  Result() = default;
  Result(double value) : score(value) {}  // NOLINT: a number is a result
  static Result failed(std::string why) {
    Result result;
    result.error = std::move(why);
    return result;
  }
  double score = 0;
  std::vector<std::pair<std::string, double>> parts;
  std::string detail;
  std::string error;  // not empty: there is no score, and why
};

namespace detail {

inline Row row_of(const cohort_reward_row& row) {
  return {view(row.id),       view(row.response),     view(row.prompt),
          view(row.messages), view(row.ground_truth), view(row.data_source),
          view(row.columns),  row.response_tokens,    row.is_finished != 0};
}

inline void give(const cohort_reward_sink& sink, size_t row, const Result& result) {
  if (!result.error.empty()) return sink.error(sink.host, row, text(result.error));
  sink.score(sink.host, row, result.score);
  for (const auto& part : result.parts) sink.part(sink.host, row, text(part.first), part.second);
  if (!result.detail.empty()) sink.detail(sink.host, row, text(result.detail));
}

template <class T, class = void>
struct judges_together : std::false_type {};
template <class T>
struct judges_together<
    T, std::void_t<decltype(std::declval<T&>().score(std::declval<const std::vector<Row>&>()))>>
    : std::true_type {};

template <class T, class = void>
struct concurrency : std::integral_constant<unsigned, 1> {};
template <class T>
struct concurrency<T, std::void_t<decltype(T::cohort_concurrency)>>
    : std::integral_constant<unsigned, T::cohort_concurrency> {};

template <class T>
void score_together(T& reward, const cohort_reward_batch& batch, const cohort_reward_sink& sink) {
  std::vector<Row> rows;
  rows.reserve(batch.count);
  for (size_t i = 0; i < batch.count; ++i) rows.push_back(row_of(*cohort_reward_row_at(&batch, i)));
  const std::vector<Result> results = reward.score(static_cast<const std::vector<Row>&>(rows));
  if (results.size() != rows.size())
    throw std::length_error("returned " + std::to_string(results.size()) + " results for " +
                            std::to_string(rows.size()) + " rows");
  for (size_t i = 0; i < results.size(); ++i) give(sink, i, results[i]);
}

template <class T>
void score_each(T& reward, const cohort_reward_batch& batch, const cohort_reward_sink& sink) {
  for (size_t i = 0; i < batch.count; ++i) {
    char why[512] = "";
    cohort_message message{why, sizeof why};
    int status = guarded(&message, [&] {
      give(sink, i, Result(reward.score(row_of(*cohort_reward_row_at(&batch, i)))));
    });
    if (status != 0) sink.error(sink.host, i, text(why[0] == '\0' ? "threw" : why));
  }
}

template <class T>
struct Table {
  static int create(cohort_text config, void** self, cohort_message* message) {
    return guarded(message, [&] { *self = make<T>(config); });
  }
  static int score(void* self, const cohort_reward_batch* batch, const cohort_reward_sink* sink,
                   cohort_message* message) {
    return guarded(message, [&] {
      if constexpr (judges_together<T>::value)
        score_together(*static_cast<T*>(self), *batch, *sink);
      else
        score_each(*static_cast<T*>(self), *batch, *sink);
    });
  }
  static void destroy(void* self) { delete static_cast<T*>(self); }
  static const cohort_reward_v1* get(const char* name) {
    static const cohort_reward_v1 table = {COHORT_REWARD_ABI,
                                           sizeof(cohort_reward_v1),
                                           concurrency<T>::value,
                                           judges_together<T>::value ? 1U : 0U,
                                           name,
                                           &create,
                                           &score,
                                           &destroy};
    return &table;
  }
};

}  // namespace detail
}  // namespace cohort::sdk

/// Exports the class as the reward of this shared object. Once, at namespace scope.
#define COHORT_REWARD(Class)                                                    \
  extern "C" COHORT_EXPORT const cohort_reward_v1* cohort_reward_plugin(void) { \
    return ::cohort::sdk::detail::Table<Class>::get(#Class);                    \
  }

#endif

#include "runtime/plugin/native/native_reward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/reward.h"
#include "runtime/plugin/child/plugin_frames.hpp"
#include "runtime/plugin/native/native_library.hpp"

namespace cohort::plugin {
namespace {

/// Where a plugin's answers to one call go; the plugin is trusted with no index.
struct Sink {
  struct Row {
    tasks::RewardResult result;
    bool is_answered = false;
  };
  std::vector<Row> rows;

  static Row* at(void* host, size_t row) {
    auto& rows = static_cast<Sink*>(host)->rows;
    return row < rows.size() ? &rows[row] : nullptr;
  }
  static void score(void* host, size_t row, double value) {
    if (Row* x = at(host, row)) x->result.score = value, x->is_answered = true;
  }
  static void part(void* host, size_t row, cohort_text name, double value) {
    if (Row* x = at(host, row)) x->result.parts.emplace_back(from_abi(name), value);
  }
  static void detail(void* host, size_t row, cohort_text text) {
    if (Row* x = at(host, row)) x->result.detail = from_abi(text);
  }
  static void error(void* host, size_t row, cohort_text text) {
    Row* x = at(host, row);
    if (x == nullptr) return;
    x->result.error = text.size == 0 ? "error without a reason" : from_abi(text);
    x->is_answered = true;
  }
  cohort_reward_sink abi() {
    return {sizeof(cohort_reward_sink), this, &score, &part, &detail, &error};
  }
};

cohort_reward_row to_abi_row(const tasks::RewardRow& row) {
  return {.id = to_abi(row.id),
          .response = to_abi(row.response),
          .prompt = to_abi(row.prompt),
          .messages = to_abi(row.messages),
          .ground_truth = to_abi(row.ground_truth),
          .data_source = to_abi(row.data_source),
          .columns = to_abi(row.columns),
          .response_tokens = row.response_tokens,
          .is_finished = row.is_finished ? 1U : 0U};
}

/// The rule of a contract: a result is a finite number, or an error.
tasks::RewardResult checked(Sink::Row row) {
  if (!row.is_answered) return without_score("gave no score");
  tasks::RewardResult& result = row.result;
  if (result.error.empty() && !std::isfinite(result.score))
    return without_score(fmt::format("returned {}", result.score));
  for (const auto& [name, value] : result.parts)
    if (result.error.empty() && !std::isfinite(value))
      return without_score(fmt::format("returned {} as '{}'", value, name));
  if (!result.error.empty()) result.score = 0;
  return std::move(result);
}

class NativeReward final : public tasks::Reward {
 public:
  NativeReward(std::shared_ptr<const NativeLibrary> library, const cohort_reward_v1* table,
               void* self)
      : library_(std::move(library)), table_(table), self_(self) {}
  ~NativeReward() override { table_->destroy(self_); }

  std::vector<tasks::RewardResult> score(std::span<const tasks::RewardRow> rows) override {
    std::vector<tasks::RewardResult> results;
    if (rows.empty()) return results;
    Sink sink;
    std::string failure;
    if (call(rows, sink, failure)) {
      for (Sink::Row& row : sink.rows) results.push_back(checked(std::move(row)));
      return results;
    }
    if (rows.size() == 1) return {without_score(failure)};
    for (size_t i = 0; i < rows.size(); ++i)
      results.push_back(std::move(score(rows.subspan(i, 1)).front()));
    return results;
  }

  uint32_t concurrency() const override { return std::max(table_->concurrency, uint32_t{1}); }

 private:
  bool call(std::span<const tasks::RewardRow> rows, Sink& sink, std::string& failure) {
    std::vector<cohort_reward_row> asked;
    asked.reserve(rows.size());
    for (const tasks::RewardRow& row : rows) asked.push_back(to_abi_row(row));
    sink.rows.resize(rows.size());
    const cohort_reward_batch batch{sizeof(cohort_reward_batch), sizeof(cohort_reward_row),
                                    asked.size(), asked.data()};
    const cohort_reward_sink answers = sink.abi();
    NativeMessage message;
    if (table_->score(self_, &batch, &answers, &message.abi) == 0) return true;
    failure = message.words();
    return false;
  }

  std::shared_ptr<const NativeLibrary> library_;
  const cohort_reward_v1* table_;
  void* self_;
};

Expected<const cohort_reward_v1*> table_of(const NativeLibrary& library) {
  COHORT_ASSIGN(const void* found,
                library.table(COHORT_REWARD_SYMBOL, COHORT_REWARD_ABI, sizeof(cohort_reward_v1)));
  const auto* table = static_cast<const cohort_reward_v1*>(found);
  if (table->create == nullptr || table->score == nullptr || table->destroy == nullptr)
    return Error{Errc::unsupported, library.path() + ": its table lacks a function"};
  return table;
}

}  // namespace

Expected<NativeFacts> native_reward_facts(const std::string& path) {
  COHORT_ASSIGN(auto library, NativeLibrary::open(path));
  COHORT_ASSIGN(const cohort_reward_v1* table, table_of(*library));
  return NativeFacts{.name = table->name == nullptr ? "" : table->name,
                     .is_batch = table->is_batch != 0};
}

Expected<std::shared_ptr<tasks::Reward>> load_native_reward(const std::string& path,
                                                            std::string_view config_json) {
  COHORT_ASSIGN(auto library, NativeLibrary::open(path));
  COHORT_ASSIGN(const cohort_reward_v1* table, table_of(*library));
  NativeMessage message;
  void* self = nullptr;
  if (table->create(to_abi(config_json), &self, &message.abi) != 0)
    return Error{Errc::config, fmt::format("{}: {}", path, message.words("refused its options"))};
  return std::shared_ptr<tasks::Reward>(
      std::make_shared<NativeReward>(std::move(library), table, self));
}

}  // namespace cohort::plugin

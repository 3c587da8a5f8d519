#pragma once
/// The catalogue: what a run can be made of, by name. Each kind is one table in a .def file beside
/// this header: a row per entry, in order of its enum. From the row follow the enum, the names that
/// a config accepts in each dialect, what not_built refuses, `plan --explain` and the tables of
/// docs. The row's function is bound in the folder that computes it, by the same .def file, so that
/// a row without its function does not link. docs/extending.md shows how to add one. Pure: tables
/// and look-ups, no function of an algorithm.
///
/// Columns of a row: id; names (what ROLL's dialect, our own, accepts: the first is shown; none:
/// verl alone has it); verl's names; needs; one line of help. COHORT_BUILT has a function here,
/// COHORT_HOSTED runs behind one of another folder, COHORT_PLANNED is known, planned, and not run.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::catalog {

/// What an entry asks of a run, as bits.
namespace need {
inline constexpr uint32_t nothing = 0;
inline constexpr uint32_t critic = 1;              // values of the tokens
inline constexpr uint32_t reference = 2;           // log-probs under the frozen policy
inline constexpr uint32_t groups = 4;              // several trajectories of one prompt or map
inline constexpr uint32_t old_log_probs = 8;       // of the policy that began the update
inline constexpr uint32_t greedy = 16;             // one greedy answer per prompt beside the others
inline constexpr uint32_t own_baseline = 32;       // sets the scopes of reward normalisation itself
inline constexpr uint32_t constant_length = 64;    // token losses are divided by a constant
inline constexpr uint32_t process = 128;           // waits for another process
inline constexpr uint32_t server = 256;            // asks a server
inline constexpr uint32_t turns = 512;             // what each turn was paid, and what it showed
inline constexpr uint32_t parts = 1024;            // the rewards that the score is made of
inline constexpr uint32_t fresh_data = 2048;       // no trust region: nothing bounds a stale ratio
inline constexpr uint32_t first_pass = 4096;       // log-probs of the mini-batch before its update
inline constexpr uint32_t own_aggregation = 8192;  // loss_agg_mode does not count
inline constexpr uint32_t card = 16384;            // a model of its own
}  // namespace need

#define COHORT_BUILT(id, ...) id,
#define COHORT_HOSTED(id, ...) id,
#define COHORT_RULE(id, ...) id,
#define COHORT_PLANNED(id, ...) id,
enum class AdvEstimator : uint8_t {
#include "runtime/catalog/advantage_estimators.def"
};
enum class PolicyLossKind : uint8_t {
#include "runtime/catalog/policy_losses.def"
};
enum class LossAgg : uint8_t {
#include "runtime/catalog/loss_aggregations.def"
};
enum class KlKind : uint8_t {
#include "runtime/catalog/kl_estimators.def"
};
enum class NormMethod : uint8_t {
#include "runtime/catalog/reward_norms.def"
};
enum class GroupFilter : uint8_t {
#include "runtime/catalog/group_filters.def"
};
enum class EnvType : uint8_t {
#include "runtime/catalog/environments.def"
};
enum class RewardType : uint8_t {
#include "runtime/catalog/rewards.def"
};
#undef COHORT_BUILT
#undef COHORT_HOSTED
#undef COHORT_RULE
#undef COHORT_PLANNED

enum class Dialect : uint8_t { roll, verl };

/// One row. Lists of names are separated by blanks.
struct Entry {
  bool is_built;
  std::string_view id, roll, verl;
  uint32_t needs;
  std::string_view help;
  std::string_view worker_classes = {};  // rewards: pieces of ROLL's dotted worker_cls

  /// Returns the name that messages and files show.
  std::string_view name() const;
  bool has(uint32_t needs_bits) const { return (needs & needs_bits) == needs_bits; }
};

/// Returns the rows of a kind, in the order of its enum.
std::span<const Entry> entries(AdvEstimator);
std::span<const Entry> entries(PolicyLossKind);
std::span<const Entry> entries(LossAgg);
std::span<const Entry> entries(KlKind);
std::span<const Entry> entries(NormMethod);
std::span<const Entry> entries(GroupFilter);
std::span<const Entry> entries(EnvType);
std::span<const Entry> entries(RewardType);

template <class E>
concept Kind = requires(E x) {
  entries(x);
};

template <Kind E>
const Entry& entry(E x) {
  return entries(x)[static_cast<size_t>(x)];
}
template <Kind E>
std::string_view to_string(E x) {
  return entry(x).name();
}

/// Returns the words of a list that is separated by blanks.
std::vector<std::string_view> words(std::string_view list);

/// A name that a dialect accepts, and its row.
struct Name {
  std::string_view text;
  size_t row;
};
/// Returns every name that `dialect` accepts, row by row.
std::vector<Name> names(std::span<const Entry> rows, Dialect dialect);

template <Kind E>
std::optional<E> find(std::string_view text, Dialect dialect = Dialect::roll) {
  for (const Name& name : names(entries(E{}), dialect))
    if (name.text == text) return static_cast<E>(name.row);
  return std::nullopt;
}

/// Returns "kl, abs and k3": what this version runs, `last` before the last name.
std::string built_names(std::span<const Entry> rows, std::string_view last = ", ");
/// Returns "a critic, groups", or "" for nothing.
std::string needs_text(uint32_t needs);

}  // namespace cohort::catalog

#pragma once
/// Which rows a step takes: each domain has its own shuffled epochs and gives its share of every
/// step. The whole state is a small cursor, so that a resumed run goes on with exactly the rows
/// that would have come. No IO, no clock; a value, owned by one thread.
/// ORDER-1: within an epoch of a domain no row comes twice, and none is left out but the tail that
/// EpochEnd::drop says. ORDER-2: the rows of a step are a function of (options, rows, cursor)
/// alone.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

/// The fate of an epoch's rows that are too few for another step.
enum class EpochEnd : uint8_t {
  flow,  // the step takes them and goes on in the next epoch (ROLL)
  drop   // they are left out, the step begins the next epoch (verl's drop_last)
};

struct DataOrderOptions {
  uint64_t seed = 42;
  bool is_shuffled = true;  // each epoch anew, by (seed, domain, epoch); else file order
  EpochEnd epoch_end = EpochEnd::flow;
  /// domain -> share of a step's prompts, in the order in which the rows of a step stand. These
  /// domains are used, no other.
  std::vector<std::pair<std::string, double>> shares;
};

/// Returns the prompts of each domain: int(share * prompts), the last domain gets the rest (ROLL).
/// Returns Errc::config if a share is not in [0, 1] or those before the last are more than all.
Expected<std::vector<size_t>> split_prompts(
    const std::vector<std::pair<std::string, double>>& shares, size_t prompts);

/// Where a domain stands: the next row is number `position` of `epoch`.
struct DomainCursor {
  uint64_t epoch = 0;
  uint64_t position = 0;
  uint64_t rows = 0;  // of the domain when the cursor was taken: another data set is noticed
  bool operator==(const DomainCursor&) const = default;
};
using DataCursor = std::map<std::string, DomainCursor>;

/// {"math": {"epoch": 0, "position": 128, "rows": 7473}}
std::string to_json(const DataCursor& cursor);
/// Returns Errc::corrupt unless to_json wrote the text.
Expected<DataCursor> data_cursor_of(std::string_view json);

struct DrawnRow {
  size_t row = 0;  // as in rows_of_domain
  std::string domain;
  uint64_t epoch = 0;
  uint32_t lane = 0;  // number of the domain, in the order of the shares
  bool operator==(const DrawnRow&) const = default;
};

class DataOrder {
 public:
  /// `rows_of_domain`: row numbers of each domain, in file order. `prompts_per_step` is checked
  /// here and may be left out: Errc::config if a domain of the shares has no rows, or fewer than
  /// its share of a step.
  static Expected<DataOrder> create(DataOrderOptions options,
                                    std::map<std::string, std::vector<size_t>> rows_of_domain,
                                    size_t prompts_per_step = 0);

  /// Returns the rows of the next step, domain by domain in the order of the shares. Returns
  /// Errc::config, and changes nothing, if a domain has fewer rows than its share.
  Expected<std::vector<DrawnRow>> next(size_t prompts);
  /// Returns the next row of domain number `lane`, which the step takes beyond its share.
  DrawnRow next_of(uint32_t lane);
  /// Returns a row of domain number `lane`, which is a function of the seed, `step` and `number`
  /// alone, and moves no cursor: for steps that are played at once.
  DrawnRow beside(uint32_t lane, uint64_t step, uint64_t number) const;
  /// Returns the steps until the first domain has begun its second epoch: an epoch of the run.
  Expected<uint64_t> steps_per_epoch(size_t prompts) const;

  DataCursor cursor() const;
  /// Goes on from a cursor. Returns Errc::config if the domains or their numbers of rows differ
  /// from those the cursor was taken of.
  Expected<void> resume(const DataCursor& cursor);

 private:
  struct Domain {
    std::string name;
    std::vector<size_t> rows;   // file order
    std::vector<size_t> order;  // of `epoch`
    uint64_t epoch = 0;
    uint64_t position = 0;
  };
  explicit DataOrder(DataOrderOptions options) : options_(std::move(options)) {}
  void begin_epoch(Domain& domain, uint64_t epoch) const;
  Expected<std::vector<size_t>> shares_of(size_t prompts) const;

  DataOrderOptions options_;
  std::vector<Domain> domains_;  // as options_.shares
};

}  // namespace cohort::tasks

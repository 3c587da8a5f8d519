#include "runtime/tasks/data_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "runtime/base/check.hpp"
#include "runtime/base/rng.hpp"

namespace cohort::tasks {
namespace {

/// FNV-1a: std::hash differs between standard libraries, a run's order must not.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Error too_few(const std::string& domain, size_t rows, size_t wanted) {
  return {Errc::config,
          rows == 0 ? fmt::format("domain {} has no rows", domain)
                    : fmt::format("domain {} has {} rows, fewer than its {} prompts of a step: "
                                  "take a smaller batch or share, or more data",
                                  domain, rows, wanted)};
}

Error no_cursor(std::string_view what) {
  return {Errc::corrupt, fmt::format("data cursor: {}", what)};
}

std::optional<uint64_t> number_of(const nlohmann::json& object, const char* name) {
  auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<uint64_t>();
}

}  // namespace

Expected<std::vector<size_t>> split_prompts(
    const std::vector<std::pair<std::string, double>>& shares, size_t prompts) {
  if (shares.empty()) return Error{Errc::config, "no domain has a share of the prompts"};
  std::vector<size_t> split;
  size_t left = prompts;
  for (const auto& [domain, share] : shares) {
    if (!(share >= 0 && share <= 1))
      return Error{Errc::config,
                   fmt::format("the share of domain {} is {}, must be 0..1", domain, share)};
    auto wanted = static_cast<size_t>(share * static_cast<double>(prompts));
    if (split.size() + 1 == shares.size()) wanted = left;
    if (wanted > left)
      return Error{Errc::config, fmt::format("the shares up to domain {} are more than 1", domain)};
    left -= wanted;
    split.push_back(wanted);
  }
  return split;
}

std::string to_json(const DataCursor& cursor) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [domain, at] : cursor)
    json[domain] = {{"epoch", at.epoch}, {"position", at.position}, {"rows", at.rows}};
  return json.dump();
}

Expected<DataCursor> data_cursor_of(std::string_view json) {
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) return no_cursor("no JSON object");
  DataCursor cursor;
  for (const auto& [domain, at] : parsed.items()) {
    if (!at.is_object()) return no_cursor(domain + " is no object");
    std::optional<uint64_t> epoch = number_of(at, "epoch"), position = number_of(at, "position"),
                            rows = number_of(at, "rows");
    if (!epoch || !position || !rows) return no_cursor(domain + " has no epoch, position or rows");
    if (*position > *rows) return no_cursor(domain + " stands behind its last row");
    cursor[domain] = {*epoch, *position, *rows};
  }
  return cursor;
}

Expected<DataOrder> DataOrder::create(DataOrderOptions options,
                                      std::map<std::string, std::vector<size_t>> rows_of_domain,
                                      size_t prompts_per_step) {
  DataOrder order(std::move(options));
  for (const auto& [name, share] : order.options_.shares) {
    auto rows = rows_of_domain.find(name);
    if (rows == rows_of_domain.end() || rows->second.empty()) return too_few(name, 0, 0);
    Domain domain;
    domain.name = name;
    domain.rows = std::move(rows->second);
    rows_of_domain.erase(rows);  // a domain that has two shares finds no rows
    order.begin_epoch(domain, 0);
    order.domains_.push_back(std::move(domain));
  }
  COHORT_TRY(order.shares_of(prompts_per_step));
  return order;
}

void DataOrder::begin_epoch(Domain& domain, uint64_t epoch) const {
  domain.epoch = epoch;
  domain.position = 0;
  domain.order = domain.rows;
  if (!options_.is_shuffled) return;
  Rng rng = Rng(options_.seed).fork(hash_of(domain.name)).fork(epoch);
  for (size_t left = domain.order.size(); left > 1; --left)
    std::swap(domain.order[left - 1], domain.order[rng.below(left)]);
}

Expected<std::vector<size_t>> DataOrder::shares_of(size_t prompts) const {
  COHORT_ASSIGN(std::vector<size_t> split, split_prompts(options_.shares, prompts));
  for (size_t i = 0; i < domains_.size(); ++i) {
    const Domain& domain = domains_[i];
    if (domain.rows.size() < split[i]) return too_few(domain.name, domain.rows.size(), split[i]);
  }
  return split;
}

Expected<std::vector<DrawnRow>> DataOrder::next(size_t prompts) {
  COHORT_ASSIGN(std::vector<size_t> split, shares_of(prompts));
  std::vector<DrawnRow> drawn;
  drawn.reserve(prompts);
  for (size_t i = 0; i < domains_.size(); ++i) {
    Domain& domain = domains_[i];
    const bool is_short = domain.order.size() - domain.position < split[i];
    if (is_short && options_.epoch_end == EpochEnd::drop) begin_epoch(domain, domain.epoch + 1);
    for (size_t taken = 0; taken < split[i]; ++taken)
      drawn.push_back(next_of(static_cast<uint32_t>(i)));
  }
  return drawn;
}

DrawnRow DataOrder::next_of(uint32_t lane) {
  Domain& domain = domains_[lane];
  if (domain.position == domain.order.size()) begin_epoch(domain, domain.epoch + 1);
  return {domain.order[domain.position++], domain.name, domain.epoch, lane};
}

DrawnRow DataOrder::beside(uint32_t lane, uint64_t step, uint64_t number) const {
  constexpr uint64_t k_beside = 0xBE51DE;
  const Domain& domain = domains_[lane];
  Rng rng = Rng(options_.seed).fork(k_beside).fork(hash_of(domain.name)).fork(step).fork(number);
  return {domain.rows[rng.below(domain.rows.size())], domain.name, domain.epoch, lane};
}

Expected<uint64_t> DataOrder::steps_per_epoch(size_t prompts) const {
  COHORT_ASSIGN(std::vector<size_t> split, shares_of(prompts));
  uint64_t steps = UINT64_MAX;
  for (size_t i = 0; i < domains_.size(); ++i) {
    if (split[i] > 0) steps = std::min<uint64_t>(steps, domains_[i].rows.size() / split[i]);
  }
  if (steps == UINT64_MAX) return Error{Errc::config, "a step takes no prompt of any domain"};
  return steps;
}

DataCursor DataOrder::cursor() const {
  DataCursor cursor;
  for (const Domain& domain : domains_)
    cursor[domain.name] = {domain.epoch, domain.position, domain.rows.size()};
  return cursor;
}

Expected<void> DataOrder::resume(const DataCursor& cursor) {
  for (const auto& [name, at] : cursor) {
    auto domain = std::find_if(domains_.begin(), domains_.end(),
                               [&name = name](const Domain& d) { return d.name == name; });
    if (domain == domains_.end())
      return Error{Errc::config, fmt::format("the checkpoint took rows of domain {}, which has no "
                                             "share now",
                                             name)};
    if (domain->rows.size() != at.rows)
      return Error{Errc::config,
                   fmt::format("domain {} has {} rows, and had {} when the checkpoint was written: "
                               "the order of its rows cannot go on",
                               name, domain->rows.size(), at.rows)};
  }
  for (Domain& domain : domains_) {
    auto at = cursor.find(domain.name);
    if (at == cursor.end())
      return Error{Errc::config,
                   fmt::format("the checkpoint knows nothing of domain {}", domain.name)};
    begin_epoch(domain, at->second.epoch);
    domain.position = at->second.position;
  }
  return {};
}

}  // namespace cohort::tasks

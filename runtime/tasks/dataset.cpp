#include "runtime/tasks/dataset.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_set>

#include "runtime/tasks/data_row.hpp"
#include "runtime/tasks/row_lines.hpp"

namespace cohort::tasks {
namespace {

/// Role and content of each message, told apart by bytes that text does not hold.
std::string conversation_key(const Sample& sample) {
  std::string key;
  for (const ChatMessage& message : sample.messages)
    key.append(message.role).append(1, '\0').append(message.content).append(1, '\0');
  return key;
}

bool names_source(const std::vector<std::string>& tags, const std::string& source) {
  return std::find(tags.begin(), tags.end(), source) != tags.end();
}

std::string names_of(const TagsOfDomains& tags) {
  std::vector<std::string> names;
  for (const auto& [domain, list] : tags)
    names.push_back(fmt::format("{} [{}]", domain, fmt::join(list, ", ")));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Expected<std::shared_ptr<const Dataset>> Dataset::load(const DatasetOptions& options) {
  if (options.files.empty()) return Error{Errc::config, "no data file is named"};
  auto data = std::make_shared<Dataset>();
  std::unordered_set<size_t> conversations;  // hashes: the count may be one too high, at worst
  for (const std::string& path : options.files) {
    COHORT_TRY(for_each_row(path, [&](std::string_view text, std::string where) {
      auto row = read_row(text, options);
      if (!row) {
        if (++data->bad_row_count_ <= k_bad_rows_kept)
          data->bad_rows_.push_back({std::move(where), row.error().detail});
        return Expected<void>();
      }
      row->id = std::move(where);
      if (!conversations.insert(std::hash<std::string>()(conversation_key(*row))).second)
        ++data->repeated_count_;
      data->samples_.push_back(std::move(*row));
      return Expected<void>();
    }));
  }
  if (data->bad_row_count_ > 0 && !options.skips_bad_rows) {
    const BadRow& first = data->bad_rows_.front();
    const size_t more = data->bad_row_count_ - 1;
    return Error{Errc::config,
                 fmt::format("{}: {}{}", first.where, first.reason,
                             more > 0 ? fmt::format(" (and {} more bad rows)", more) : "")};
  }
  if (data->samples_.empty())
    return Error{
        Errc::config,
        fmt::format("no row in {}{}", fmt::join(options.files, ", "),
                    data->bad_row_count_ > 0 ? ": all are bad, first " + data->bad_rows_[0].where +
                                                   ": " + data->bad_rows_[0].reason
                                             : std::string())};
  return std::shared_ptr<const Dataset>(std::move(data));
}

std::shared_ptr<const Dataset> Dataset::of(std::vector<Sample> samples) {
  auto data = std::make_shared<Dataset>();
  data->samples_ = std::move(samples);
  return data;
}

Expected<std::string> domain_of(const Sample& sample, const TagsOfDomains& tags) {
  if (!sample.domain.empty() && tags.contains(sample.domain)) return sample.domain;
  const std::string *claimed = nullptr, *rest = nullptr;
  for (const auto& [domain, list] : tags) {
    if (names_source(list, sample.data_source)) {
      if (claimed)
        return Error{Errc::config,
                     fmt::format("{}: data_source \"{}\" is claimed by two domains, {} and {}",
                                 sample.id, sample.data_source, *claimed, domain)};
      claimed = &domain;
    }
    if (names_source(list, "*")) {
      if (rest)
        return Error{Errc::config, fmt::format("two domains take every other data_source (*): {} "
                                               "and {}",
                                               *rest, domain)};
      rest = &domain;
    }
  }
  if (claimed) return *claimed;
  if (rest) return *rest;
  if (auto same = tags.find(sample.data_source); same != tags.end()) return same->first;
  return Error{
      Errc::config,
      fmt::format("{}: nothing scores data_source \"{}\"{}: put it, or \"*\" for all that are "
                  "left, into the tags of a domain; there is {}",
                  sample.id, sample.data_source,
                  sample.domain.empty() ? "" : fmt::format(" (domain \"{}\")", sample.domain),
                  tags.empty() ? "none" : names_of(tags))};
}

}  // namespace cohort::tasks

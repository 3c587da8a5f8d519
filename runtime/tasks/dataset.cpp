#include "runtime/tasks/dataset.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <unordered_set>

#include "runtime/base/text.hpp"
#include "runtime/columnar/footer.hpp"
#include "runtime/columnar/mapped_file.hpp"
#include "runtime/columnar/parquet_reader.hpp"
#include "runtime/tasks/data_row.hpp"

namespace cohort::tasks {
namespace {

constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";

Expected<std::ifstream> open_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return Error{Errc::not_found, fmt::format("data file {}: is a folder", path)};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Error{Errc::not_found, fmt::format("data file {}: {}", path, std::strerror(errno))};
  return file;
}

bool begins_as_parquet(std::ifstream& file) {
  char head[4] = {};
  file.read(head, sizeof head);
  const bool is_parquet =
      file.gcount() == 4 && columnar::is_parquet(std::string_view(head, sizeof head));
  file.clear();
  file.seekg(0);
  return is_parquet;
}

/// Takes a row's JSON and its number in the file, from 1.
using TakeRow = std::function<void(std::string_view, uint64_t)>;

Expected<void> read_parquet(const std::string& path, const TakeRow& take) {
  const auto at_file = [&](const Error& error) {
    return error.with_context(fmt::format("data file {}", path));
  };
  auto file = columnar::MappedFile::open(path);
  if (!file) return at_file(file.error());
  auto reader = columnar::ParquetReader::open(file->bytes());
  if (!reader) return at_file(reader.error());
  std::string row;
  for (uint64_t number = 1;; ++number) {
    auto has_row = reader->next(row);
    if (!has_row) return has_row.error().with_context(fmt::format("{}:{}", path, number));
    if (!*has_row) return {};
    take(row, number);
  }
}

Expected<void> read_lines(const std::string& path, std::ifstream& file, const TakeRow& take) {
  uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    std::string_view text = line;
    if (++number == 1 && text.starts_with(k_byte_order_mark))
      text.remove_prefix(k_byte_order_mark.size());
    if (!trim(text).empty()) take(text, number);
  }
  if (file.bad()) return Error{Errc::io, fmt::format("data file {}: cannot be read", path)};
  return {};
}

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
    const auto take = [&](std::string_view text, uint64_t number) {
      std::string where = fmt::format("{}:{}", path, number);
      auto row = read_row(text, options);
      if (!row) {
        if (++data->bad_row_count_ <= k_bad_rows_kept)
          data->bad_rows_.push_back({std::move(where), row.error().detail});
        return;
      }
      row->id = std::move(where);
      if (!conversations.insert(std::hash<std::string>()(conversation_key(*row))).second)
        ++data->repeated_count_;
      data->samples_.push_back(std::move(*row));
    };
    COHORT_ASSIGN(std::ifstream file, open_file(path));
    if (begins_as_parquet(file))
      COHORT_TRY(read_parquet(path, take));
    else
      COHORT_TRY(read_lines(path, file, take));
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

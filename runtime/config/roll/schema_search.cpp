#include "runtime/config/roll/schema_search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/config/tree/suggest.hpp"

namespace cohort::config {
namespace {

constexpr size_t k_named_max = 8;  // keys that a message lists

/// True if the pieces of `wanted` are the last ones of `key`; a <name> of the schema takes any.
bool ends_with(const std::vector<std::string>& key, const std::vector<std::string>& wanted) {
  if (wanted.empty() || wanted.size() > key.size()) return false;
  return std::equal(wanted.rbegin(), wanted.rend(), key.rbegin(),
                    [](const std::string& want, const std::string& have) {
                      return have == "<name>" || want == have;
                    });
}

/// The keys that end in `wanted`; only those of the same length when there is one.
std::vector<const KeyInfo*> candidates(const std::vector<KeyInfo>& keys,
                                       const std::vector<std::string>& wanted) {
  std::vector<const KeyInfo*> found;
  for (const KeyInfo& key : keys) {
    std::vector<std::string> pieces = split_path(key.path);
    if (!ends_with(pieces, wanted)) continue;
    if (pieces.size() == wanted.size()) return {&key};
    // a free name alone says nothing: "x" is not custom_envs.<name>
    if (pieces[pieces.size() - wanted.size()] != "<name>") found.push_back(&key);
  }
  return found;
}

std::string list(const std::vector<const KeyInfo*>& keys) {
  std::vector<std::string> paths;
  for (const KeyInfo* key : keys)
    if (paths.size() < k_named_max) paths.push_back(key->path);
  std::string rest =
      keys.size() > k_named_max ? fmt::format(" and {} more", keys.size() - k_named_max) : "";
  return fmt::format("{}{}", fmt::join(paths, ", "), rest);
}

Error unknown(const std::vector<KeyInfo>& keys, std::string_view path) {
  std::vector<std::string> names;
  for (const KeyInfo& key : keys) {
    names.push_back(key.path);
    names.push_back(split_path(key.path).back());
  }
  return {Errc::not_found, fmt::format("there is no key '{}'{}", path, did_you_mean(path, names))};
}

}  // namespace

Expected<const KeyInfo*> find_key(const std::vector<KeyInfo>& keys, std::string_view path) {
  std::vector<std::string> wanted = split_path(path);
  std::vector<const KeyInfo*> found = candidates(keys, wanted);
  if (found.empty() && wanted.size() > 1) {  // a name inside a map of values: system_envs.X
    wanted.pop_back();
    found = candidates(keys, wanted);
    std::erase_if(found, [](const KeyInfo* key) { return !key->type.starts_with("map of"); });
  }
  if (found.empty()) return unknown(keys, path);
  if (found.size() > 1)
    return Error{Errc::config,
                 fmt::format("'{}' is the end of several keys; say which: {}", path, list(found))};
  return found.front();
}

}  // namespace cohort::config

#include "runtime/config/tree/compose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/config/tree/fragments.hpp"
#include "runtime/config/tree/merge.hpp"
#include "runtime/config/tree/utf8_text.hpp"
#include "runtime/config/tree/yaml_reader.hpp"

namespace cohort::config {
namespace {

namespace fs = std::filesystem;

constexpr size_t k_max_fragment_depth = 16;
constexpr size_t k_max_fragments = 64;

using Pieces = std::vector<std::string>;

/// One line of a defaults list.
struct Request {
  std::string shown;  // as written
  std::string path;   // without ".yaml"
  std::optional<std::string> package;
  bool is_optional = false;
  Mark mark;
};

/// The text that a request finds.
struct Source {
  std::string name;  // path, or "<shipped>/x.yaml"
  std::string text;
  fs::path folder;
};

/// Where a file lands, and where what it names is looked up.
struct Site {
  fs::path folder;
  Pieces package;
};

bool take_word(std::string& text, std::string_view word) {
  if (!text.starts_with(word) || text.size() == word.size() || text[word.size()] != ' ')
    return false;
  text.erase(0, text.find_first_not_of(' ', word.size()));
  return true;
}

std::vector<std::string> folders_of(std::string_view path) {
  std::vector<std::string> pieces;
  for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/')) {
    if (slash > 0 && path.substr(0, slash) != ".") pieces.emplace_back(path.substr(0, slash));
    path.remove_prefix(slash + 1);
  }
  return pieces;
}

/// What "# @package a.b" in the leading comments says.
std::optional<std::string> package_header(std::string_view text) {
  static constexpr std::string_view k_word = "@package";
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos) continue;
    if (line[first] != '#') return std::nullopt;
    size_t word = line.find_first_not_of(" \t", first + 1);
    if (word == line.npos || !line.substr(word).starts_with(k_word)) continue;
    std::string_view rest = line.substr(word + k_word.size());
    size_t begin = rest.find_first_not_of(" \t");
    if (begin == rest.npos || begin == 0) continue;
    rest = rest.substr(begin);
    return std::string(rest.substr(0, rest.find_last_not_of(" \t\r") + 1));
  }
  return std::nullopt;
}

/// `text`: "a.b", "_here_", "_global_.a" …; nullopt: not a package.
std::optional<Pieces> resolve_package(std::string_view text, const Request& request,
                                      const Pieces& parent) {
  Pieces pieces = parent;
  for (const std::string& piece : split_path(text)) {
    if (piece == "_here_") continue;
    if (piece == "_global_") {
      pieces.clear();
    } else if (piece == "_group_") {
      for (std::string& folder : folders_of(request.path)) pieces.push_back(std::move(folder));
    } else if (piece == "_name_") {
      pieces.push_back(request.path.substr(request.path.rfind('/') + 1));
    } else if (piece.empty() || piece.find_first_of(" @:/$") != piece.npos) {
      return std::nullopt;
    } else {
      pieces.push_back(piece);
    }
  }
  return pieces;
}

class Composer {
 public:
  explicit Composer(fs::path folder) : primary_folder_(std::move(folder)) {}

  Expected<Node> run(Node root) {
    if (root.kind != NodeKind::map || root.find("defaults") == nullptr) return root;
    composed_ = Node::make_map(root.mark);
    nodes_ = root.node_count();
    std::string name = root.mark.source == nullptr ? "" : *root.mark.source;
    chain_.push_back(fs::path(name).lexically_normal().string());
    COHORT_TRY(lay(std::move(root), {primary_folder_, {}}));
    return std::move(composed_);
  }

 private:
  /// Lays a file's defaults and the file itself, in the order of its list.
  Expected<void> lay(Node config, const Site& site) {
    Node defaults;
    if (Entry* entry = config.find("defaults")) {
      defaults = std::move(entry->node());
      config.erase("defaults");
    }
    if (defaults.kind != NodeKind::null && defaults.kind != NodeKind::sequence)
      return fault(defaults.mark, "defaults: expected a list, got {}", describe_value(defaults));
    bool has_self = false;
    for (const Node& item : defaults.items) {
      bool is_self = item.kind == NodeKind::scalar && item.scalar == "_self_";
      if (is_self && std::exchange(has_self, true))
        return fault(item.mark, "defaults: '_self_' is there twice");
      if (is_self)
        COHORT_TRY(lay_at(site.package, config));
      else
        COHORT_TRY(lay_item(item, site));
    }
    return has_self ? Expected<void>{} : lay_at(site.package, config);
  }

  Expected<void> lay_at(const Pieces& package, const Node& config) {
    Node* at = &composed_;
    for (const std::string& piece : package) {
      if (at->find(piece) == nullptr) at->set(piece, config.mark, Node::make_map(config.mark));
      at = &at->find(piece)->node();
      COHORT_TRY(merger_.expand(*at));
      if (at->kind != NodeKind::map) *at = Node::make_map(config.mark);
    }
    return merger_.lay(*at, config);
  }

  Expected<void> lay_item(const Node& item, const Site& site) {
    COHORT_ASSIGN(std::vector<Request> requests, read_item(item));
    for (const Request& request : requests) {
      COHORT_ASSIGN(std::optional<Source> source, find(request, site));
      if (source) COHORT_TRY(lay_fragment(request, std::move(*source), site));
    }
    return {};
  }

  Expected<void> lay_fragment(const Request& request, Source source, const Site& site) {
    if (std::find(chain_.begin(), chain_.end(), source.name) != chain_.end())
      return fault(request.mark, "defaults go in a circle: {} -> {}", fmt::join(chain_, " -> "),
                   source.name);
    if (chain_.size() > k_max_fragment_depth || ++fragments_ > k_max_fragments)
      return fault(request.mark,
                   "defaults: more than {} fragments, or more than {} "
                   "that name each other in a row",
                   k_max_fragments, k_max_fragment_depth);
    COHORT_ASSIGN(Node fragment, parse_yaml(source.text, source.name));
    if (fragment.kind != NodeKind::map && fragment.kind != NodeKind::null)
      return fault(fragment.mark, "expected a map of keys, got {}", describe_value(fragment));
    if (fragment.kind == NodeKind::null) fragment = Node::make_map(fragment.mark);
    nodes_ += fragment.node_count();
    if (nodes_ > k_max_nodes)
      return fault(request.mark, "defaults: more than {} values with this file", k_max_nodes);
    COHORT_ASSIGN(Pieces package, package_of(request, source, site));
    chain_.push_back(std::move(source.name));
    COHORT_TRY(lay(std::move(fragment), {std::move(source.folder), std::move(package)}));
    chain_.pop_back();
    return {};
  }

  static Expected<Pieces> package_of(const Request& request, const Source& source,
                                     const Site& site) {
    auto named = request.package ? request.package : package_header(source.text);
    Pieces folders = folders_of(request.path);
    bool is_leaving = std::find(folders.begin(), folders.end(), "..") != folders.end();
    std::string text = named ? *named : is_leaving ? "_here_" : "_group_";
    auto package = resolve_package(text, request, site.package);
    if (!package || (named && named->empty()) || (is_leaving && text.find("_group_") != text.npos))
      return fault(request.mark,
                   "defaults entry '{}': '{}' is not a place to put it "
                   "(write _here_, _global_ or keys as a.b)",
                   request.shown, shown_text(text));
    return *package;
  }

  static Expected<std::vector<Request>> read_item(const Node& item) {
    if (item.kind == NodeKind::scalar) return read_line(item.scalar, nullptr, item.mark);
    if (item.kind != NodeKind::map || item.entries.size() != 1)
      return fault(item.mark,
                   "defaults: expected 'path@_here_', 'group: option' or '_self_', got {}",
                   describe_value(item));
    const Entry& entry = item.entries.front();
    return read_line(entry.key, &entry.node(), item.mark);
  }

  /// `option`: null, or what stands behind "group:".
  static Expected<std::vector<Request>> read_line(std::string line, const Node* option,
                                                  const Mark& mark) {
    Request request;
    request.mark = mark;
    request.shown = shown_text(line);
    if (take_word(line, "override") && !line.starts_with("hydra/"))
      return fault(
          mark, "defaults entry '{}': 'override' is not known here; name the file that is wanted",
          request.shown);
    request.is_optional = take_word(line, "optional");
    if (line.starts_with("hydra/")) return std::vector<Request>{};  // of Hydra's own run
    if (size_t at = line.find('@'); at != line.npos) {
      request.package = line.substr(at + 1);
      line.erase(at);
    }
    std::vector<Node> options;
    if (option != nullptr && option->kind == NodeKind::sequence)
      options = option->items;
    else if (option != nullptr && option->kind != NodeKind::null)
      options.push_back(*option);
    std::vector<Request> requests;
    for (const Node& node : options) {
      if (node.kind != NodeKind::scalar)
        return fault(node.mark, "defaults entry '{}': expected the name of an option, got {}",
                     request.shown, describe_value(node));
      requests.push_back(request);
      requests.back().path = fmt::format("{}/{}", line, node.scalar);
      requests.back().shown = fmt::format("{}: {}", request.shown, shown_text(node.scalar));
    }
    if (option == nullptr) {
      request.path = line;
      requests.push_back(std::move(request));
    }
    for (Request& each : requests) COHORT_TRY(check_path(each));
    return requests;
  }

  static Expected<void> check_path(Request& request) {
    for (std::string_view ending : {".yaml", ".yml"}) {
      if (request.path.ends_with(ending)) request.path.resize(request.path.size() - ending.size());
    }
    bool is_bad = request.path.empty() || request.path.ends_with('/') ||
                  request.path.find("${") != std::string::npos || request.path.size() > 1024;
    if (!is_bad) return {};
    return fault(request.mark,
                 "defaults entry '{}': '{}' names no file (references are not resolved here)",
                 request.shown, shown_text(request.path));
  }

  /// Nothing: an optional file that is not there.
  Expected<std::optional<Source>> find(const Request& request, const Site& site) const {
    bool is_from_top = request.path.starts_with('/');
    fs::path base = is_from_top ? primary_folder_ : site.folder;
    std::string relative = request.path.substr(is_from_top ? 1 : 0);
    fs::path path = (base / (relative + ".yaml")).lexically_normal();
    auto text = read_text(path);
    if (text) return std::optional(Source{path.string(), std::move(*text), path.parent_path()});
    if (text.error().code != Errc::not_found)
      return fault(request.mark, "defaults entry '{}': {}", request.shown, text.error().detail);
    std::string name = request.path.substr(request.path.rfind('/') + 1);
    std::vector<std::string_view> known;
    for (const Fragment& fragment : shipped_fragments()) {
      if (fragment.name == name)
        return std::optional(Source{fmt::format("<shipped>/{}.yaml", fragment.name),
                                    std::string(fragment.text), site.folder});
      known.push_back(fragment.name);
    }
    if (request.is_optional) return std::optional<Source>{};
    return fault(request.mark,
                 "defaults entry '{}': no file {}, and no shipped fragment '{}' (shipped: {})",
                 request.shown, path.string(), shown_text(name), fmt::join(known, ", "));
  }

  fs::path primary_folder_;
  Node composed_;
  Merger merger_{composed_};
  std::vector<std::string> chain_;  // files that are being laid, the primary one first
  size_t fragments_ = 0;
  size_t nodes_ = 0;
};

}  // namespace

void merge(Node& base, const Node& over) {
  if (base.kind != NodeKind::map || over.kind != NodeKind::map) {
    base = over;
    return;
  }
  for (const Entry& entry : over.entries) {
    if (Entry* present = base.find(entry.key)) {
      present->mark = entry.mark;
      merge(present->node(), entry.node());
    } else {
      base.entries.push_back(entry);
    }
  }
}

Expected<Node> compose(Node root, const fs::path& folder) {
  return Composer(folder).run(std::move(root));
}

}  // namespace cohort::config

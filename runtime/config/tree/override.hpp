#pragma once
/// The words of a command line that change a config, as Hydra's grammar reads them: "a.b=c" (set),
/// "+a.b=c" (add), "++a.b=c" (set either way), "~a.b" and "~a.b=c" (remove). Values: numbers, true,
/// false, null, 'quoted' or "quoted" texts, plain texts, [lists], {maps: of, values}. Beyond Hydra:
/// `~` is null too, and a text may hold characters that Hydra asks to quote (card expressions such
/// as list(range(0,4)), patterns), as long as it has one reading. Sweeps are refused. Pure.
/// Bounds: k_max_override_bytes, k_max_depth, k_max_nodes.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

inline constexpr size_t k_max_override_bytes = size_t{128} << 10;  // Linux: one argument's most
inline constexpr size_t k_max_override_pieces = 16;                // of a key path

struct Override {
  enum class Kind { set, add, force, remove };
  Kind kind = Kind::set;
  std::vector<std::string> path;  // pieces of "a.b"
  std::optional<Node> value;      // none: a removal that asks for no value
  Mark mark;                      // source "override '…'"
};

/// Returns Errc::config "override 'a.b=c': at character N: …".
Expected<Override> parse_override(std::string_view text);

/// Parses what stands behind '='; every mark in it is `mark`. Returns Errc::config with the
/// character, counted from `offset` + 1.
Expected<Node> parse_override_value(std::string_view text, const Mark& mark, size_t offset = 0);

}  // namespace cohort::config

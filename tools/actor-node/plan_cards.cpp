// Cards drawn per node: bands of neighbouring cards that have the same roles.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/actor-node/plan_text.hpp"

namespace cohort {
namespace {

/// How role names are written, the longest that fits the terminal.
enum class Naming { whole, brief, letter };

std::string name_as(const std::string& role, Naming naming) {
  if (naming == Naming::whole) return role;
  std::string brief = role;
  for (const auto& [name, text] :
       {std::pair("actor_train", "train"), std::pair("actor_infer", "infer"),
        std::pair("reference", "ref"), std::pair("reward_model", "judge")})
    if (role == name) brief = text;
  if (brief.starts_with("rewards.")) brief = brief.substr(8);
  if (naming == Naming::brief) return brief;
  brief.resize(1);
  brief[0] = static_cast<char>(brief[0] >= 'a' && brief[0] <= 'z' ? brief[0] - 32 : brief[0]);
  return brief;
}

struct Band {
  uint32_t first = 0, count = 0;   // local cards
  std::vector<std::string> roles;  // empty: free
};

/// Nodes with the same bands.
struct NodeGroup {
  uint32_t first = 0, last = 0;
  std::vector<Band> bands;
  std::string label() const {
    return first == last ? fmt::format("node {}", first) : fmt::format("nodes {}-{}", first, last);
  }
};

bool same_bands(const std::vector<Band>& a, const std::vector<Band>& b) {
  return std::ranges::equal(a, b, [](const Band& x, const Band& y) {
    return x.first == y.first && x.count == y.count && x.roles == y.roles;
  });
}

std::vector<NodeGroup> group_nodes(const PlannedJob& job) {
  std::map<uint32_t, std::vector<std::string>> roles_on;
  for (const plan::RolePlan& role : job.plan.roles)
    for (CardId card : role.cards) roles_on[card.value].push_back(role.role);
  if (roles_on.empty()) return {};
  const plan::JobSpec& spec = job.job.spec;
  uint32_t used = roles_on.rbegin()->first + 1;
  uint32_t per_node = spec.cards_per_node > 0 ? spec.cards_per_node : spec.card.cards_per_node;
  // Cards of the cpu platform exist as far as they are used.
  if (per_node == 0 || (spec.card.name == "cpu" && used < per_node)) per_node = used;
  std::vector<NodeGroup> groups;
  for (uint32_t node = 0; node * per_node < used; ++node) {
    NodeGroup group{node, node, {}};
    for (uint32_t local = 0; local < per_node; ++local) {
      auto at = roles_on.find(node * per_node + local);
      std::vector<std::string> roles =
          at == roles_on.end() ? std::vector<std::string>() : at->second;
      if (group.bands.empty() || group.bands.back().roles != roles)
        group.bands.push_back({local, 0, std::move(roles)});
      ++group.bands.back().count;
    }
    if (!groups.empty() && same_bands(groups.back().bands, group.bands))
      groups.back().last = node;
    else
      groups.push_back(std::move(group));
  }
  return groups;
}

std::string centred(std::string_view text, size_t width, std::string_view fill) {
  size_t gap = width - std::min(width, text_width(text)), left = gap / 2;
  std::string out;
  for (size_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (size_t i = left; i < gap; ++i) out += fill;
  return out;
}

std::vector<std::string> names_in(const Band& band, Naming naming) {
  std::vector<std::string> names;
  for (const std::string& role : band.roles) names.push_back(name_as(role, naming));
  if (names.empty()) names.push_back(naming == Naming::letter ? "" : "free");
  return names;
}

/// Columns per card so that every name fits its band; at least `least`.
size_t cell_width(const std::vector<NodeGroup>& groups, Naming naming, size_t least) {
  size_t cell = least;
  for (const NodeGroup& group : groups)
    for (const Band& band : group.bands)
      for (const std::string& name : names_in(band, naming))
        cell = std::max(cell, (name.size() + 2 + band.count - 1) / band.count);
  return cell;
}

/// The bands of cards [begin, end) of a node.
std::vector<Band> bands_between(const std::vector<Band>& bands, uint32_t begin, uint32_t end) {
  std::vector<Band> out;
  for (const Band& band : bands) {
    uint32_t first = std::max(band.first, begin);
    uint32_t last = std::min(band.first + band.count, end);
    if (first < last) out.push_back({first, last - first, band.roles});
  }
  return out;
}

struct Drawing {
  Naming naming = Naming::whole;
  size_t label = 0, cell = 0;
  uint32_t cards_per_line = 0;
};

Drawing choose_drawing(const std::vector<NodeGroup>& groups, size_t id_width, size_t width) {
  Drawing drawing;
  uint32_t cards = 0;
  size_t bands = 0;
  for (const NodeGroup& group : groups) {
    drawing.label = std::max(drawing.label, group.label().size() + 4);
    cards = std::max(cards, group.bands.back().first + group.bands.back().count);
    bands = std::max(bands, group.bands.size());
  }
  size_t room = width > drawing.label + 2 ? width - drawing.label - 2 : 1;
  for (Naming naming : {Naming::whole, Naming::brief, Naming::letter})
    for (size_t space : {3, 2}) {
      drawing.naming = naming;
      drawing.cell = cell_width(groups, naming, id_width + space);
      drawing.cards_per_line = cards;
      if (drawing.cell * cards + bands <= room) return drawing;
    }
  // At worst every card is a band of its own.
  drawing.cards_per_line = std::max<uint32_t>(static_cast<uint32_t>(room / (drawing.cell + 1)), 1);
  return drawing;
}

void draw_line(Page& page, const NodeGroup& group, const std::vector<Band>& bands,
               const Drawing& drawing, uint32_t first_id, bool is_first) {
  size_t height = 1;
  for (const Band& band : bands) height = std::max(height, band.roles.size());
  std::string top(drawing.label, ' '), bottom = top;
  for (size_t i = 0; i < bands.size(); ++i) {
    top += i == 0 ? "┌" : "┬";
    bottom += i == 0 ? "└" : "┴";
    for (uint32_t k = 0; k < bands[i].count; ++k) {
      std::string id = std::to_string(first_id + bands[i].first + k);
      if (id.size() + 3 <= drawing.cell) id = " " + id + " ";
      top += centred(id, drawing.cell, "─");
    }
    bottom += centred("", drawing.cell * bands[i].count, "─");
  }
  page.line(top + "┐", Tone::faint);
  for (size_t k = 0; k < height; ++k) {
    std::string text = k == 0 && is_first ? "  " + group.label() : "";
    text.resize(drawing.label, ' ');
    for (const Band& band : bands) {
      std::vector<std::string> names = names_in(band, drawing.naming);
      text += "│" + centred(k < names.size() ? names[k] : "", drawing.cell * band.count, " ");
    }
    page.line(text + "│");
  }
  page.line(bottom + "┘", Tone::faint);
}

}  // namespace

void add_cards(Page& page, const PlannedJob& job) {
  std::vector<NodeGroup> groups = group_nodes(job);
  if (groups.empty()) return;
  page.heading("CARDS");
  uint32_t cards = groups.front().bands.back().first + groups.front().bands.back().count;
  uint32_t id_max = 0;
  for (const NodeGroup& group : groups)
    id_max =
        std::max(id_max, group.first == group.last ? (group.first + 1) * cards - 1 : cards - 1);
  Drawing drawing = choose_drawing(groups, std::to_string(id_max).size(), page.width());
  for (const NodeGroup& group : groups)
    for (uint32_t begin = 0; begin < cards; begin += drawing.cards_per_line) {
      uint32_t end = std::min(cards, begin + drawing.cards_per_line);
      // Of nodes alike the local numbers, else the config's.
      uint32_t first_id = group.first == group.last ? group.first * cards : 0;
      draw_line(page, group, bands_between(group.bands, begin, end), drawing, first_id, begin == 0);
    }
  bool has_groups = std::ranges::any_of(groups, [](const auto& x) { return x.first != x.last; });
  if (has_groups)
    page.wrapped("  ",
                 fmt::format("Nodes drawn together show local numbers; a card's id in the "
                             "config is node * {} + local.",
                             cards),
                 Tone::faint);
  if (drawing.naming == Naming::letter) {
    std::string legend;
    for (const plan::RolePlan& role : job.plan.roles)
      legend += fmt::format("{}{} {}", legend.empty() ? "" : " · ",
                            name_as(role.role, Naming::letter), role.role);
    page.wrapped("  ", legend, Tone::faint);
  }
}

}  // namespace cohort

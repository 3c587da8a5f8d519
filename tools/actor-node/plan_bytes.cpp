#include "tools/actor-node/plan_bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace cohort {
namespace {

std::string three_figures(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  return value >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

/// Cells that `part` of `whole` fills; anything above 0 is seen.
size_t cells(uint64_t part, uint64_t whole, size_t width) {
  if (whole == 0 || part == 0) return 0;
  double share = static_cast<double>(part) / static_cast<double>(whole);
  auto count = static_cast<size_t>(std::lround(std::min(share, 1.0) * static_cast<double>(width)));
  return std::clamp<size_t>(count, 1, width);
}

std::string repeat(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

/// The cards of "[0, 1, 5]"; none for any other text.
std::vector<CardId> listed_cards(std::string_view list) {
  std::vector<CardId> cards;
  list = list.substr(1, list.size() - 2);
  while (!list.empty()) {
    uint32_t id = 0;
    auto [end, failed] = std::from_chars(list.data(), list.data() + list.size(), id);
    if (failed != std::errc{}) return {};
    cards.push_back({id});
    list.remove_prefix(static_cast<size_t>(end - list.data()));
    if (list.empty()) break;
    if (!list.starts_with(", ")) return {};
    list.remove_prefix(2);
  }
  return cards;
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  constexpr std::array k_units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return bytes == 0 ? "0" : fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.6 of a unit would be written as 1024.
  while (value >= 1023.5 && unit + 1 < k_units.size()) {
    value /= 1024;
    ++unit;
  }
  return three_figures(value) + " " + k_units[unit];
}

std::string seconds_text(double seconds) {
  if (!(seconds > 0)) return "";
  if (seconds >= 99.5) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds >= 0.9995) return fmt::format("{} s", three_figures(seconds));
  if (seconds >= 0.9995e-3) return fmt::format("{} ms", three_figures(seconds * 1e3));
  return "< 1 ms";
}

std::string cards_text(const std::vector<CardId>& cards) {
  constexpr size_t k_runs_max = 6;
  std::string out;
  size_t runs = 0;
  for (size_t i = 0; i < cards.size(); ++runs) {
    size_t end = i + 1;
    while (end < cards.size() && cards[end].value == cards[end - 1].value + 1) ++end;
    if (runs == k_runs_max) return out + fmt::format(", … ({})", cards.size());
    if (!out.empty()) out += ", ";
    out += std::to_string(cards[i].value);
    if (end - i > 1) out += fmt::format("-{}", cards[end - 1].value);
    i = end;
  }
  return out;
}

std::string counted_cards_text(const std::vector<CardId>& cards) {
  if (cards.size() == 1) return "card " + cards_text(cards);
  return fmt::format("{} cards {}", cards.size(), cards_text(cards));
}

std::string with_short_lists(std::string_view text) {
  constexpr size_t k_short = 8;  // cards: read at a glance
  std::string out;
  while (!text.empty()) {
    size_t open = text.find('[');
    size_t close = open == text.npos ? text.npos : text.find(']', open);
    if (close == text.npos) break;
    out += text.substr(0, open);
    std::string_view list = text.substr(open, close + 1 - open);
    std::vector<CardId> cards = listed_cards(list);
    out += cards.size() > k_short ? "[" + cards_text(cards) + "]" : std::string(list);
    text.remove_prefix(close + 1);
  }
  return out + std::string(text);
}

std::string percent_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (percent >= 999.5) return "over";
  // What does not fit must not read as 100 %.
  if (part > whole) percent = std::max(std::ceil(percent), 101.0);
  return fmt::format("{:.0f} %", part <= whole ? std::floor(percent) : percent);
}

std::string bar_text(uint64_t full, uint64_t light, uint64_t whole, size_t width) {
  bool is_over = whole > 0 && full + light > whole;
  size_t solid = cells(full, whole, width);
  size_t both = std::max(cells(full + light, whole, width), solid);
  if (light > 0 && both == solid && solid > 1) --solid;  // both parts are seen
  if (!is_over) return repeat("█", solid) + repeat("▒", both - solid) + repeat("░", width - both);
  if (both == solid) return repeat("█", width - 1) + "»";
  return repeat("█", solid) + repeat("▒", both - solid - 1) + "»";
}

}  // namespace cohort

#include "tools/traj/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cohort::traj {
namespace {

bool is_number(const std::string& cell) {
  return cell.find_first_not_of("0123456789.+-e%") == std::string::npos || cell.ends_with("iB") ||
         cell.ends_with(" B");
}

}  // namespace

Table::Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void Table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

std::string Table::render() const {
  size_t columns = rows_.front().size();
  std::vector<size_t> width(columns, 0);
  std::vector<char> is_right(columns, rows_.size() > 1);
  for (size_t row = 0; row < rows_.size(); ++row)
    for (size_t c = 0; c < columns; ++c) {
      width[c] = std::max(width[c], rows_[row][c].size());
      if (row > 0 && !is_number(rows_[row][c])) is_right[c] = false;
    }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < columns; ++c)
      line += is_right[c] != 0 ? fmt::format("{:>{}}  ", row[c], width[c])
                               : fmt::format("{:<{}}  ", row[c], width[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string format_bytes(double bytes) {
  constexpr std::array<const char*, 5> k_units = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < k_units.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.1f} {}", bytes, k_units[unit]);
}

}  // namespace cohort::traj

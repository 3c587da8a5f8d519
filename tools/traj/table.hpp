#pragma once
/// A plain aligned table: numbers to the right, text to the left, two blanks between columns.
#include <string>
#include <vector>

namespace cohort::traj {

class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add(std::vector<std::string> row);
  /// Returns header and rows, one line each. A column is flush right if all its cells are numbers.
  std::string render() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Returns e.g. "4.2 MiB".
std::string format_bytes(double bytes);

}  // namespace cohort::traj

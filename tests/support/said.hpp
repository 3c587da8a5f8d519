#pragma once
/// What a program said: its exit code and output.
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/child_process.hpp"

namespace cohort::test {

struct Said {
  int code = -1;
  std::string out, err;

  bool has(const std::string& text) const { return out.find(text) != std::string::npos; }
  std::string last_line() const {
    const size_t end = out.find_last_not_of('\n');
    return out.substr(out.rfind('\n', end) + 1, end - out.rfind('\n', end));
  }
  /// Output of one JSON value a line.
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> found;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }
};

/// Runs `traj` with these words.
inline Said said_by_traj(std::vector<std::string> words, const TempFolder& folder) {
  words.insert(words.begin(), binary("traj"));
  Process process(words, folder);
  const int code = process.wait();
  return {code, process.out(), process.err()};
}

}  // namespace cohort::test

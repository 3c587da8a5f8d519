#pragma once
/// What the tests of pages ask of HTML: tags that are closed in order, texts that occur so often.
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::observe::sample {

/// Returns "" if every tag is closed in order, else what is wrong first.
inline std::string tag_fault(const std::string& page) {
  const std::set<std::string> k_void = {"meta", "link", "br", "hr", "img", "input"};
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
    size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    std::string tag = page.substr(at + 1, end - at - 1);
    at = end;
    if (tag.starts_with("!")) continue;
    std::string name = tag.substr(0, tag.find_first_of(" /\n", tag.starts_with("/") ? 1 : 0));
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != name.substr(1))
        return "<" + tag + "> closes " + (open.empty() ? "nothing" : open.back());
      open.pop_back();
    } else if (!tag.ends_with("/") && !k_void.contains(name)) {
      open.push_back(name);
    }
    if (name == "script" || name == "style") at = page.find("</" + name, at);
  }
  return open.empty() ? "" : "left open: " + open.back();
}

inline size_t count_of(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace cohort::observe::sample

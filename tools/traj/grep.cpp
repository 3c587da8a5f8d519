#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/proto/trajectory_head.hpp"
#include "runtime/query/expression.hpp"
#include "runtime/stream/stream_file.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/parallel_scan.hpp"
#include "tools/traj/required_literal.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

/// [bytes] into a text.
struct Place {
  size_t begin = 0, end = 0;
};

/// Finds a literal or an expression; without either, the beginning of every text.
class Finder {
 public:
  static Expected<Finder> make(const GrepOptions& options) {
    Finder finder;
    finder.literal_ = options.pattern;
    if (!options.is_regex) return finder;
    finder.literal_ = required_literal(options.pattern);
    auto pattern = tasks::Pattern::compile(options.pattern);
    if (!pattern)
      return Error{Errc::invalid_argument,
                   fmt::format("--regex '{}': {}", options.pattern, pattern.error().detail)};
    finder.pattern_ = std::move(*pattern);
    return finder;
  }

  /// Texts are bytes of the header as they are: without the literal there is no match.
  bool may_match(std::string_view header) const {
    return literal_.empty() ||
           ::memmem(header.data(), header.size(), literal_.data(), literal_.size()) != nullptr;
  }

  std::optional<Place> find(std::string_view text) const {
    if (pattern_) {
      const auto match = pattern_->search(text);
      if (!match) return std::nullopt;
      const auto begin = static_cast<size_t>(match->front()->data() - text.data());
      return Place{begin, begin + match->front()->size()};
    }
    const size_t begin = text.find(literal_);
    if (begin == std::string_view::npos) return std::nullopt;
    return Place{begin, begin + literal_.size()};
  }

 private:
  std::string literal_;  // of an expression: what each match has
  std::optional<tasks::Pattern> pattern_;
};

/// Returns the line in which the place begins, cut to what a terminal shows.
std::string line_around(std::string_view text, Place place) {
  constexpr size_t k_before = 40, k_most = 120;
  size_t begin = place.begin == 0 ? 0 : text.rfind('\n', place.begin - 1) + 1;  // npos + 1 = 0
  if (place.begin - begin > k_before) begin = place.begin - k_before;
  const size_t end = std::min({text.find('\n', place.begin), text.size(), begin + k_most});
  return printable(text.substr(begin, std::max(end, begin) - begin));
}

class Search {
 public:
  Search(const GrepOptions& options, Finder finder, query::Expression where)
      : options_(options), finder_(std::move(finder)), where_(std::move(where)) {}

  bool may_match(std::string_view header) const {
    if (!finder_.may_match(header)) return false;
    if (where_.needs_body()) return true;
    const auto head = proto::decode_head(std::as_bytes(std::span(header)));
    return !head || where_.holds(*head);  // what does not parse is told by who decodes it
  }

  /// Returns a line for the first match of each text; nothing if there is none.
  std::optional<std::string> match(const proto::Trajectory& x) const {
    if (!where_.holds(x)) return std::nullopt;
    std::string lines;
    bool is_found = false;
    for (size_t turn = 0; turn < x.turns.size(); ++turn)
      for (const bool is_answer : {false, true}) {
        const std::string& text = is_answer ? x.turns[turn].response : x.turns[turn].observation;
        const auto place = finder_.find(text);
        if (!place) continue;
        is_found = true;
        if (!options_.is_count) lines += line_of(x, turn, is_answer, text, *place);
      }
    return is_found ? std::optional(std::move(lines)) : std::nullopt;
  }

 private:
  std::string line_of(const proto::Trajectory& x, size_t turn, bool is_answer,
                      std::string_view text, Place place) const {
    const std::string_view part = is_answer ? "answer" : "observation";
    if (!options_.is_json)
      return fmt::format("{} {}/{}/{} turn {} {}: {}\n", proto::to_string(x.key.kind), x.key.step,
                         x.key.group, x.key.index, turn, part, line_around(text, place));
    return nlohmann::ordered_json{{"kind", proto::to_string(x.key.kind)},
                                  {"step", x.key.step},
                                  {"group", x.key.group},
                                  {"index", x.key.index},
                                  {"turn", turn},
                                  {"part", part},
                                  {"begin", place.begin},
                                  {"end", place.end},
                                  {"line", line_around(text, place)}}
               .dump() +
           "\n";
  }

  const GrepOptions& options_;
  Finder finder_;
  query::Expression where_;
};

}  // namespace

Expected<void> grep(const GrepOptions& options) {
  COHORT_ASSIGN(Finder finder, Finder::make(options));
  COHORT_ASSIGN(
      query::Expression where,
      query::Expression::parse(options.where.empty() ? "true" : options.where, query::Type::truth));
  COHORT_ASSIGN(const std::filesystem::path folder, stream::folder_of(options.run));
  const Search search(options, std::move(finder), std::move(where));
  COHORT_ASSIGN(
      const ScanAnswer answer,
      scan_newest(folder, {options.step, options.kind,
                           [&](std::string_view header) { return search.may_match(header); },
                           [&](const proto::Trajectory& x) { return search.match(x); }}));
  const size_t shown = options.limit > 0 ? std::min<size_t>(options.limit, answer.matches.size())
                                         : answer.matches.size();
  for (size_t i = 0; i < shown; ++i) fmt::print("{}", answer.matches[i]);
  if (options.is_count) fmt::print("{} of {} trajectories\n", shown, answer.trajectories);
  for (const std::string& damage : answer.damages)
    fmt::print(stderr, "traj: left out: {}\n", damage);
  if (!answer.damages.empty())
    return Error{Errc::corrupt, fmt::format("{} damaged records left out", answer.damages.size())};
  return {};
}

}  // namespace cohort::traj

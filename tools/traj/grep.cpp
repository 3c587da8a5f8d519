#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/query/expression.hpp"
#include "tools/traj/open_run.hpp"
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
    auto pattern = tasks::Pattern::compile(options.pattern);
    if (!pattern)
      return Error{Errc::invalid_argument,
                   fmt::format("--regex '{}': {}", options.pattern, pattern.error().detail)};
    finder.pattern_ = std::move(*pattern);
    return finder;
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
  std::string literal_;
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

class Printer {
 public:
  explicit Printer(const GrepOptions& options) : options_(options) {}

  void found(const proto::Trajectory& x, size_t turn, bool is_answer, std::string_view text,
             Place place) const {
    const std::string_view part = is_answer ? "answer" : "observation";
    if (options_.is_count) return;
    if (!options_.is_json)
      return fmt::print("{} {}/{}/{} turn {} {}: {}\n", proto::to_string(x.key.kind), x.key.step,
                        x.key.group, x.key.index, turn, part, line_around(text, place));
    fmt::print("{}\n", nlohmann::ordered_json{{"kind", proto::to_string(x.key.kind)},
                                              {"step", x.key.step},
                                              {"group", x.key.group},
                                              {"index", x.key.index},
                                              {"turn", turn},
                                              {"part", part},
                                              {"begin", place.begin},
                                              {"end", place.end},
                                              {"line", line_around(text, place)}}
                           .dump());
  }

 private:
  const GrepOptions& options_;
};

/// Returns whether the trajectory has a match; prints the first of each text.
bool search(const proto::Trajectory& x, const Finder& finder, const Printer& printer) {
  bool is_found = false;
  for (size_t turn = 0; turn < x.turns.size(); ++turn)
    for (bool is_answer : {false, true}) {
      const std::string& text = is_answer ? x.turns[turn].response : x.turns[turn].observation;
      const auto place = finder.find(text);
      if (!place) continue;
      is_found = true;
      printer.found(x, turn, is_answer, text, *place);
    }
  return is_found;
}

}  // namespace

Expected<void> grep(const GrepOptions& options) {
  COHORT_ASSIGN(Finder finder, Finder::make(options));
  COHORT_ASSIGN(
      query::Expression where,
      query::Expression::parse(options.where.empty() ? "true" : options.where, query::Type::truth));
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  const Printer printer(options);
  uint64_t read = 0, found = 0;
  auto result = for_each_trajectory(reader, {options.step, options.kind, 0},
                                    [&](const stream::RecordInfo&, const proto::Trajectory& x) {
                                      ++read;
                                      if (options.limit > 0 && found >= options.limit) return;
                                      if (where.holds(x) && search(x, finder, printer)) ++found;
                                    });
  if (options.is_count) fmt::print("{} of {} trajectories\n", found, read);
  return result;
}

}  // namespace cohort::traj

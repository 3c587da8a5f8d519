/// Functions that every template has: Jinja's, and those of transformers.
#include <fmt/format.h>

#include "runtime/text/template/printing.hpp"
#include "runtime/text/template/runtime.hpp"

namespace cohort::text::jinja {
namespace {

constexpr Integer k_max_range = 100'000;  // Jinja's sandbox has the same

Value make_range(Runtime&, const Value&, const Arguments& arguments) {
  const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
  const bool has_stop = bound.has(1);
  const auto part = [&](size_t i, Integer otherwise) {
    const Integer x = bound.whole(i, otherwise);
    if (x > Integer{1} << 62 || x < -(Integer{1} << 62)) fail("OverflowError", "Range too big.");
    return x;
  };
  const Integer step = part(2, 1);
  if (step == 0) fail("ValueError", "range() arg 3 must not be zero");
  const auto range =
      std::make_shared<Range>(has_stop ? part(0, 0) : 0, has_stop ? part(1, 0) : part(0, 0), step);
  if (range->size() > k_max_range)
    fail("OverflowError", fmt::format("Range too big. A template's ranges have at most {} items.",
                                      integer_text(k_max_range)));
  return Value::of(Kind::range, range);
}

/// The entries of dict(mapping or pairs, **names).
Dict::Entries dict_entries(Runtime& run, std::string_view function, const Arguments& arguments) {
  Dict::Entries entries;
  if (arguments.positional.size() > 1)
    fail("TypeError", fmt::format("{} expected at most 1 argument, got {}", function,
                                  arguments.positional.size()));
  if (!arguments.positional.empty()) {
    const Value& first = arguments.positional[0];
    check_defined(first);
    if (first.is(Kind::dict)) {
      entries = first.dict().entries;
    } else {
      for (const auto& item : items_of(run, first)) {
        const auto pair = items_of(run, item);
        if (pair.size() != 2)
          fail("ValueError", fmt::format("dictionary update sequence element has length {}; 2 is "
                                         "required",
                                         pair.size()));
        entries.emplace_back(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named)
    entries.emplace_back(make_text(run.budget, name), value);
  run.budget.step(entries.size());
  return entries;
}

Value make_dict_value(Runtime& run, const Value&, const Arguments& arguments) {
  return make_dict(run.budget, dict_entries(run, "dict", arguments));
}

Value make_namespace(Runtime& run, const Value&, const Arguments& arguments) {
  const Value dict = make_dict(run.budget, dict_entries(run, "namespace", arguments));
  const auto names = std::make_shared<Namespace>(&run.budget);
  Namespace::check_size(dict.dict().entries.size());
  names->entries = dict.dict().entries;
  run.keep(names);
  return Value::of(Kind::name_space, names);
}

Value make_joiner(Runtime& run, const Value&, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  const auto joiner =
      std::make_shared<Joiner>(&run.budget, bound.has(0) ? bound[0] : make_text(run.budget, ", "));
  run.keep(joiner);
  return Value::of(Kind::joiner, joiner);
}

Value make_cycler(Runtime& run, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("RuntimeError", "at least one item has to be provided");
  if (!arguments.named.empty()) fail("TypeError", "cycler() takes no keyword arguments");
  const auto cycler = std::make_shared<Cycler>(&run.budget, arguments.positional);
  run.keep(cycler);
  return Value::of(Kind::cycler, cycler);
}

Value refuse_lipsum(Runtime&, const Value&, const Arguments&) {
  fail("TemplateError", "lipsum() is not supported: its text is random");
}

Value raise_exception(Runtime& run, const Value&, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  fail("TemplateError", to_text(run.budget, bound[0]));
}

Value refuse_self(Runtime&, const Value&, const Arguments&) {
  fail("TypeError", "'TemplateReference' object is not callable");
}

Value strftime_now(Runtime& run, const Value&, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  return make_text(run.budget, format_time(run, bound.text(0)));
}

}  // namespace

Value find_global(std::string_view name) {
  constexpr std::pair<std::string_view, Native> globals[] = {{"range", make_range},
                                                             {"dict", make_dict_value},
                                                             {"namespace", make_namespace},
                                                             {"joiner", make_joiner},
                                                             {"cycler", make_cycler},
                                                             {"lipsum", refuse_lipsum},
                                                             {"self", refuse_self},
                                                             {"strftime_now", strftime_now},
                                                             {"raise_exception", raise_exception}};
  for (const auto& [known, native] : globals)
    if (known == name) return make_function(std::string(name), {}, native);
  return {};
}

}  // namespace cohort::text::jinja

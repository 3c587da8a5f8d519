#include "runtime/text/template/budget.hpp"

#include <fmt/format.h>

namespace cohort::text::jinja {

void fail(std::string kind, std::string what, int line) {
  throw Failure{std::move(kind), std::move(what), line};
}

void Budget::out_of_steps() const {
  fail("LimitError", fmt::format("the template takes more than {} steps", limits_.steps));
}
void Budget::out_of_memory() const {
  fail("LimitError",
       fmt::format("the template's values take more than {} MiB", limits_.live_bytes >> 20));
}
void Budget::text_too_long() const {
  fail("LimitError",
       fmt::format("the template makes a text of more than {} MiB", limits_.output_bytes >> 20));
}
void Budget::too_deep() const {
  fail("LimitError", fmt::format("the template nests or recurs more than {} deep", limits_.depth));
}

}  // namespace cohort::text::jinja

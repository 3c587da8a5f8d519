#include "tools/actor-node/evaluate_command.hpp"

#include <cmath>
#include <cstdio>

#include "tools/actor-node/evaluate/case_file.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort {
namespace {

using evaluate::Json;

void write(const Json& value, std::string& out) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const double x = value.get<double>();
    out += std::isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
  } else if (value.is_structured()) {
    out += value.is_array() ? '[' : '{';
    bool is_first = true;
    for (const auto& [name, part] : value.items()) {
      if (!is_first) out += ", ";
      is_first = false;
      if (value.is_object()) out += Json(name).dump() + ": ";
      write(part, out);
    }
    out += value.is_array() ? ']' : '}';
  } else {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

}  // namespace

CLI::App* add_evaluate_command(CLI::App& app, EvaluateCommand& command) {
  CLI::App* sub = app.add_subcommand(
      "evaluate", "outputs of advantages, losses and other formulas for given inputs");
  sub->add_option("cases", command.files,
                  "JSON: a list of {\"id\", \"kind\", \"params\", \"inputs\"}, or {\"cases\": […]}")
      ->required();
  sub->add_option("--dtype", command.dtype, "what the cases are computed in; a run takes f32")
      ->check(CLI::IsMember({"f64", "f32"}))
      ->capture_default_str();
  sub->footer(
      "Prints {\"id\", \"outputs\"} a line; a case without an id has its index. Exit codes: 0, 1 "
      "some cases have an error, 2 a file cannot be read.");
  return sub;
}

int evaluate_command(const EvaluateCommand& command) {
  const auto precision =
      command.dtype == "f32" ? evaluate::Precision::f32 : evaluate::Precision::f64;
  bool has_error = false;
  for (const std::string& path : command.files) {
    const Expected<Json> cases = evaluate::read_cases(path);
    if (!cases) {
      std::fprintf(stderr, "error: %s\n", cases.error().detail.c_str());
      return 2;
    }
    for (size_t index = 0; index < cases->size(); ++index) {
      evaluate::Case in((*cases)[index], precision);
      const std::string id = in.id().empty() ? std::to_string(index) : in.id();
      const Expected<Json> outputs = evaluate::outputs_of(in);
      has_error = has_error || !outputs;
      const Json line = outputs ? Json{{"id", id}, {"outputs", *outputs}}
                                : Json{{"id", id}, {"error", outputs.error().detail}};
      std::string text;
      write(line, text);
      std::printf("%s\n", text.c_str());
      std::fflush(stdout);
    }
  }
  return has_error ? 1 : 0;
}

}  // namespace cohort

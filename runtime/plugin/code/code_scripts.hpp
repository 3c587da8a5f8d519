#pragma once
/// The Python programs inside the sandboxes (runtime/plugin/python/*.py); the build puts their
/// texts into the library (tools/cmake/embed_python.cmake), so that a copied binary needs no
/// folder.
#include <string_view>

namespace cohort::plugin {

std::string_view sample_script();  // process 1 of an answer's sandbox
std::string_view judge_script();   // process 1 of a judge
std::string_view worker_script();  // a child of a Python plugin

}  // namespace cohort::plugin

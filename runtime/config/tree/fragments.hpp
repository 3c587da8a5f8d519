#pragma once
/// The config fragments that come with Cohort (configs/config/*.yaml): the build puts their texts
/// into the library (tools/cmake/embed_fragments.cmake), so a copied binary needs no folder.
#include <span>
#include <string_view>

namespace cohort::config {

struct Fragment {
  std::string_view name;  // "deepspeed_zero3"; in marks "<shipped>/deepspeed_zero3.yaml"
  std::string_view text;
};

/// All of them, by name.
std::span<const Fragment> shipped_fragments();

}  // namespace cohort::config

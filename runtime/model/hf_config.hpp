#pragma once
/// Hugging Face's config.json, as text. The one reader and the one writer; pure functions.
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/model/shape.hpp"

namespace cohort::model {

/// Reads both spellings, transformers 4's and 5's. What config.json leaves out is the family's
/// (families.hpp). Returns Errc::config, naming `name` and the key, for text that is not JSON, a
/// missing or mistyped key, a model_type that is no family, or layers that no family has.
Expected<ModelShape> read_hf_config(std::string_view json_text, std::string_view name);

/// Returns the text in transformers 4's spelling, which 5 reads too.
std::string write_hf_config(const ModelShape& shape, std::string_view torch_dtype);

}  // namespace cohort::model

#pragma once
/// What the library without CUDA answers. Private to no_cuda/. Pure.
#include <string>

#include "runtime/base/error.hpp"

namespace cohort::compute {

/// Errc::unsupported: what was asked for, what this build's torch lacks, how to build with it.
Error no_cuda_error(const std::string& what);

}  // namespace cohort::compute

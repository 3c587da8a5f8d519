#pragma once
/// The only way libtorch comes into Cohort. <ATen/core/ivalue.h> must be first: clang 14 in C++20
/// cannot compile ATen otherwise (docs/style.md, Compilers). ATen and the autograd core only:
/// torch/torch.h costs three times the compile time and nothing here needs modules or data loaders.
/// In ATen compositions autograd records what it sees; at::NoGradGuard switches that off per
/// thread.
#include <ATen/core/ivalue.h>
// clang-format off: ivalue.h stays first
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
// clang-format on

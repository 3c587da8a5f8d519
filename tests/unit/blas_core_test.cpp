// OpenBLAS's kernels fit the CPU, also one that is younger than the library.
#include "runtime/base/blas_core.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/compute/device/cpu_setup.hpp"

namespace cohort {
namespace {

constexpr CpuFeatures k_old{false, false}, k_avx2{true, false}, k_avx512{true, true};

TEST(BlasCore, ACpuThatCanMoreGetsItsKernels) {
  EXPECT_EQ(better_blas_core("Prescott", k_avx512), "SkylakeX");
  EXPECT_EQ(better_blas_core("Prescott", k_avx2), "Haswell");
  EXPECT_EQ(better_blas_core("Barcelona", k_avx2), "Haswell");
}

TEST(BlasCore, WhatFitsStays) {
  for (const char* core : {"SkylakeX", "Cooperlake", "SapphireRapids", "Haswell", "Zen", "unknown"})
    EXPECT_EQ(better_blas_core(core, k_avx512), std::nullopt) << core;
  EXPECT_EQ(better_blas_core("Prescott", k_old), std::nullopt);
}

// This program computes, so it has begun again if it had to.
TEST(BlasCore, AProgramThatComputesHasKernelsThatFit) {
  compute::use_single_threaded_math();
  using CoreName = const char* (*)();
  const auto core_name = reinterpret_cast<CoreName>(::dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (core_name == nullptr) GTEST_SKIP() << "another BLAS than OpenBLAS";
  const char* asked = std::getenv("OPENBLAS_CORETYPE");
  if (asked != nullptr && std::string(asked) == "Prescott") GTEST_SKIP() << "somebody wants it so";
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "a CPU without AVX2";
  EXPECT_EQ(better_blas_core(core_name(), k_avx2), std::nullopt) << core_name();
#endif
}

}  // namespace
}  // namespace cohort

#pragma once
/// One thread per engine thread: matrix products must not open thread pools of their own, both for
/// speed at small sizes and because a split product gives other bits (docs/architecture.md,
/// Determinism). Process-wide; idempotent; thread-safe.
namespace cohort::compute {

/// Sets ATen to one intra-op thread (calling thread and later ones) and OpenBLAS to one thread; has
/// oneDNN keep 128 compiled products, unless ONEDNN_PRIMITIVE_CACHE_CAPACITY says how many.
void use_single_threaded_math();

/// Tells malloc to keep blocks of up to 32 MiB for reuse, and up to 256 MiB of free heap top per
/// arena.
void keep_activations_in_heap();

/// Returns the measured GFLOP/s of an f32 product [m, k] x [n, k]^T (a linear layer's) on this
/// thread, best of several in about 20 ms. Of 512^3, below k_gemm_gflops_expected, the machine has
/// the reference BLAS: install libopenblas0-pthread.
double measured_gemm_gflops(int m = 512, int n = 512, int k = 512);

inline constexpr double k_gemm_gflops_expected = 20;

}  // namespace cohort::compute

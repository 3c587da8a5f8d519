#include "runtime/compute/device/cpu_setup.hpp"

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "runtime/base/blas_core.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {

void keep_activations_in_heap() {
#if defined(__GLIBC__)
  // A micro-batch's tensors come and go thousands of times a second; by default glibc maps each
  // large one anew and pays for it in page faults (8 % of a step). Card storage is mapped apart and
  // unaffected.
  // Once: beside another malloc (jemalloc) the first call sets glibc's up, and two threads that do
  // so at the same time break its count of threads, which aborts the process when they end.
  static std::once_flag is_done;
  std::call_once(is_done, [] {
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  });
#endif
}

namespace {

/// oneDNN keeps the compiled kernel of each shape of a bf16 product, by default the last 1,024: the
/// rows of micro-batches differ, so that they grow to a gigabyte and hardly one comes back. A
/// micro-batch has some twenty shapes.
void bound_primitive_cache() {
  constexpr int k_kernels = 128;
  for (const char* asked : {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY"})
    if (std::getenv(asked) != nullptr) return;
  using SetCapacity = int (*)(int);
  // absent where libtorch was built without oneDNN, or hides it
  if (auto set =
          reinterpret_cast<SetCapacity>(::dlsym(RTLD_DEFAULT, "dnnl_set_primitive_cache_capacity")))
    set(k_kernels);
}

#if defined(__GLIBC__)
/// Before main, in every program that computes: OpenBLAS has chosen its kernels while it was
/// loaded, and can be told others by the environment alone. So the program begins again, once, with
/// the same arguments and files. `actor-node` and `traj` choose before they become such a program.
[[gnu::constructor]] void begin_with_fit_blas(int, char** arguments, char**) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || program.filename().string().starts_with("ld-") || !choose_blas_core(false)) return;
  ::execv(program.c_str(), arguments);
}
#endif

}  // namespace

void use_single_threaded_math() {
  at::set_num_threads(1);  // per thread with OpenMP
  static const bool is_done = [] {
    using SetThreads = void (*)(int);
    // absent when another BLAS is installed: then its own environment variable decides
    if (auto set = reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
      set(1);
    bound_primitive_cache();
    return true;
  }();
  static_cast<void>(is_done);
}

double measured_gemm_gflops(int m, int n, int k) {
  use_single_threaded_math();
  at::NoGradGuard no_grad;
  at::Tensor x = at::ones({m, k}), weight = at::ones({n, k}), y = at::empty({m, n});
  at::mm_out(y, x, weight.t());
  const double flops = 2.0 * m * n * k;
  const int repeats = std::max(1, static_cast<int>(1e8 / flops));
  double best = 0, end = now_seconds() + 0.02;
  do {
    const double begin = now_seconds();
    for (int i = 0; i < repeats; ++i) at::mm_out(y, x, weight.t());
    best = std::max(best, flops * repeats / (now_seconds() - begin) * 1e-9);
  } while (now_seconds() < end);
  return best;
}

}  // namespace cohort::compute

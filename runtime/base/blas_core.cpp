#include "runtime/base/blas_core.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

namespace cohort {
namespace {

CpuFeatures cpu_features() {
  CpuFeatures cpu;
#if defined(__x86_64__)
  __builtin_cpu_init();  // before main nobody has called it
  cpu.has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  cpu.has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return cpu;
}

}  // namespace

std::optional<std::string_view> better_blas_core(std::string_view core, CpuFeatures cpu) {
  // OpenBLAS's names of CPUs before AVX (its TargetList.txt).
  static constexpr std::array<std::string_view, 16> k_before_avx = {
      "Katmai", "Coppermine", "Northwood", "Prescott",    "Banias", "Core2",
      "Penryn", "Dunnington", "Nehalem",   "Atom",        "Athlon", "Opteron",
      "Nano",   "Barcelona",  "Bobcat",    "Opteron_SSE3"};
  if (std::ranges::find(k_before_avx, core) == k_before_avx.end()) return std::nullopt;
  if (cpu.has_avx512) return "SkylakeX";
  if (cpu.has_avx2) return "Haswell";
  return std::nullopt;
}

bool choose_blas_core(bool loads) {
  constexpr const char* k_variable = "OPENBLAS_CORETYPE";
  if (std::getenv(k_variable) != nullptr) return false;
  void* library = ::dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL | (loads ? 0 : RTLD_NOLOAD));
  if (library == nullptr) return false;  // another BLAS
  using CoreName = const char* (*)();
  const auto core_name = reinterpret_cast<CoreName>(::dlsym(library, "openblas_get_corename"));
  const auto better =
      core_name == nullptr ? std::nullopt : better_blas_core(core_name(), cpu_features());
  return better && ::setenv(k_variable, std::string(*better).c_str(), 1) == 0;
}

}  // namespace cohort

# cohort::torch: ATen, autograd and c10d of the libtorch that CMAKE_PREFIX_PATH names (what
# torch.utils.cmake_prefix_path prints), else the system's.
# cohort::torch_cuda: that libtorch's CUDA half with the CUDA and NCCL headers it needs. Exists only if COHORT_CUDA
# ends up ON; else COHORT_CUDA_ABSENT says what is missing, and goes into the error text of runtime/compute/no_cuda.
option(COHORT_CUDA "build the CUDA backend when libtorch has CUDA" ON)

foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
  if(EXISTS ${prefix}/Torch/TorchConfig.cmake)  # <torch>/share/cmake
    get_filename_component(COHORT_TORCH_ROOT ${prefix}/../.. ABSOLUTE)
    break()
  endif()
endforeach()
find_path(TORCH_INCLUDE_DIR ATen/ATen.h HINTS ${COHORT_TORCH_ROOT}/include REQUIRED)
find_library(TORCH_CPU_LIBRARY torch_cpu HINTS ${COHORT_TORCH_ROOT}/lib REQUIRED)
find_library(TORCH_C10_LIBRARY c10 HINTS ${COHORT_TORCH_ROOT}/lib REQUIRED)
get_filename_component(TORCH_LIBRARY_DIR ${TORCH_CPU_LIBRARY} DIRECTORY)
set(version_header ${TORCH_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h)
if(EXISTS ${TORCH_INCLUDE_DIR}/torch/headeronly/version.h)
  set(version_header ${TORCH_INCLUDE_DIR}/torch/headeronly/version.h)
endif()
file(STRINGS ${version_header} version_lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" COHORT_TORCH_VERSION "${version_lines}")
string(REPLACE ";" "." COHORT_TORCH_VERSION "${COHORT_TORCH_VERSION}")

if(COHORT_TORCH_ROOT)
  file(STRINGS ${COHORT_TORCH_ROOT}/share/cmake/Torch/TorchConfig.cmake old_abi REGEX "GLIBCXX_USE_CXX11_ABI=0")
  if(old_abi)
    message(FATAL_ERROR "${COHORT_TORCH_ROOT} is built with the C++ ABI of before 2015 (_GLIBCXX_USE_CXX11_ABI=0): "
      "take torch 2.7 or newer from PyPI, or a cxx11-abi libtorch")
  endif()
endif()

add_library(cohort_torch INTERFACE)
add_library(cohort::torch ALIAS cohort_torch)
target_include_directories(cohort_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIR})
target_include_directories(cohort_torch INTERFACE ${PROJECT_SOURCE_DIR})
target_link_libraries(cohort_torch INTERFACE ${TORCH_CPU_LIBRARY} ${TORCH_C10_LIBRARY})

# c10d's Gloo: the class is in libtorch, Gloo's headers are not (Debian: libgloo-dev).
find_path(GLOO_INCLUDE_DIR gloo/algorithm.h)

# The CUDA half. pip's torch has no toolkit beside it, but its nvidia-* wheels bring the headers.
set(COHORT_CUDA_ABSENT "")
if(COHORT_CUDA)
  find_library(TORCH_CUDA_LIBRARY torch_cuda HINTS ${TORCH_LIBRARY_DIR} NO_DEFAULT_PATH)
  find_library(TORCH_C10_CUDA_LIBRARY c10_cuda HINTS ${TORCH_LIBRARY_DIR} NO_DEFAULT_PATH)
  file(GLOB pip_nvidia ${COHORT_TORCH_ROOT}/../nvidia/*/include ${COHORT_TORCH_ROOT}/../nvidia/cu*/include)
  # The wheels first: they are of the CUDA version that torch was built with.
  set(cuda_hints ${CUDAToolkit_ROOT}/include ${pip_nvidia} $ENV{CUDA_HOME}/include /usr/local/cuda/include)
  find_path(CUDA_RUNTIME_INCLUDE_DIR cuda_runtime_api.h HINTS ${cuda_hints})
  find_path(CUDA_CUBLAS_INCLUDE_DIR cublas_v2.h HINTS ${cuda_hints})
  find_path(CUDA_CUSPARSE_INCLUDE_DIR cusparse.h HINTS ${cuda_hints})
  find_path(CUDA_CUSOLVER_INCLUDE_DIR cusolverDn.h HINTS ${cuda_hints})
  find_path(CUDA_NCCL_INCLUDE_DIR nccl.h HINTS ${cuda_hints})
  find_library(CUDA_RUNTIME_LIBRARY NAMES cudart libcudart.so.13 libcudart.so.12 libcudart.so.11.0 NAMES_PER_DIR
    HINTS ${CUDAToolkit_ROOT}/lib64 ${COHORT_TORCH_ROOT}/../nvidia/cuda_runtime/lib
    ${COHORT_TORCH_ROOT}/../nvidia/cu13/lib $ENV{CUDA_HOME}/lib64 /usr/local/cuda/lib64)
  if(NOT TORCH_CUDA_LIBRARY OR NOT TORCH_C10_CUDA_LIBRARY)
    set(COHORT_CUDA_ABSENT "its libtorch ${COHORT_TORCH_VERSION} (${TORCH_LIBRARY_DIR}) has none")
  else()
    foreach(need CUDA_RUNTIME_INCLUDE_DIR CUDA_CUBLAS_INCLUDE_DIR CUDA_CUSPARSE_INCLUDE_DIR CUDA_CUSOLVER_INCLUDE_DIR
        CUDA_NCCL_INCLUDE_DIR CUDA_RUNTIME_LIBRARY)
      if(NOT ${need})
        set(COHORT_CUDA_ABSENT "its libtorch ${COHORT_TORCH_VERSION} has it, but ${need} was not found: install the CUDA toolkit and \
libnccl-dev, or pip's nvidia-* wheels")
        break()
      endif()
    endforeach()
  endif()
else()
  set(COHORT_CUDA_ABSENT "it was configured with COHORT_CUDA=OFF")
endif()
if(COHORT_CUDA_ABSENT)
  message(STATUS "CUDA backend: off, ${COHORT_CUDA_ABSENT}")
else()
  message(STATUS "CUDA backend: on (${TORCH_CUDA_LIBRARY}, ${CUDA_RUNTIME_INCLUDE_DIR})")
  add_library(cohort_torch_cuda INTERFACE)
  add_library(cohort::torch_cuda ALIAS cohort_torch_cuda)
  # csrc/api: ProcessGroupNCCL.hpp includes torch/types.h
  target_include_directories(cohort_torch_cuda SYSTEM INTERFACE ${TORCH_INCLUDE_DIR}/torch/csrc/api/include
    ${CUDA_RUNTIME_INCLUDE_DIR}
    ${CUDA_CUBLAS_INCLUDE_DIR} ${CUDA_CUSPARSE_INCLUDE_DIR} ${CUDA_CUSOLVER_INCLUDE_DIR} ${CUDA_NCCL_INCLUDE_DIR})
  # Nothing of ours names a symbol that makes the linker keep libtorch_cuda: its registrations are what is wanted.
  target_link_libraries(cohort_torch_cuda INTERFACE cohort::torch -Wl,--no-as-needed ${TORCH_CUDA_LIBRARY}
    ${TORCH_C10_CUDA_LIBRARY} ${CUDA_RUNTIME_LIBRARY} -Wl,--as-needed)
endif()
# Read by the folders that this file is not included in.
set(COHORT_TORCH_VERSION "${COHORT_TORCH_VERSION}" CACHE INTERNAL "")
set(COHORT_CUDA_ABSENT "${COHORT_CUDA_ABSENT}" CACHE INTERNAL "")

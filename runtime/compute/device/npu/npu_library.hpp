#pragma once
/// torch_npu and the CANN libraries behind it, loaded when the npu platform is first asked for.
/// Nothing of torch_npu or CANN is needed to build: its registrations do the work, and what is
/// called by name is listed here and, with fallbacks and messages, in docs/npu.md. Private to
/// the folder; torch-free.
///
/// Owner: the process; a library that was loaded stays. Thread-safe.
/// Environment: COHORT_TORCH_NPU (libtorch_npu.so, or a folder with it), COHORT_TORCH_NPU_PRELOAD
/// (libraries to load before it, separated by colons), CONDA_PREFIX, VIRTUAL_ENV, PYTHONPATH
/// (where site-packages is looked for).
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::compute {

/// Files that may be torch_npu, the likeliest first. Empty: none is where the environment points.
std::vector<std::string> find_torch_npu();

/// Errc::unsupported if torch_npu's version.py beside the library names another torch than this
/// build's ("2.1.0.post6" is for torch 2.1). No version.py: nothing is said.
Expected<void> check_npu_version(const std::string& library, const std::string& torch_version);

/// Turns what dlopen says into what is wrong and what to do.
std::string explain_load_error(const std::string& text, const std::string& torch_version);

/// CANN's C interface, as far as it is used. A null call is one that the installed CANN lacks.
struct NpuCalls {
  using Status = int;  // 0: done
  Status (*get_mem_info)(int attribute, size_t* free_bytes, size_t* total_bytes) = nullptr;
  const char* (*get_soc_name)() = nullptr;
  Status (*set_device)(int32_t device) = nullptr;
  Status (*create_stream)(void** stream) = nullptr;
  Status (*destroy_stream)(void* stream) = nullptr;
  Status (*create_event)(void** event) = nullptr;
  Status (*destroy_event)(void* event) = nullptr;
  Status (*record_event)(void* event, void* stream) = nullptr;
  Status (*query_event_status)(void* event, int* status) = nullptr;
  /// torch_npu's own start of a device; only its builds without Python export it.
  void (*init_npu)(signed char device) = nullptr;

  Status (*hccl_get_root_info)(void* info) = nullptr;
  Status (*hccl_comm_init_root_info)(uint32_t ranks, const void* info, uint32_t rank,
                                     void** comm) = nullptr;
  Status (*hccl_batch_send_recv)(void* items, uint32_t count, void* comm, void* stream) = nullptr;
  Status (*hccl_comm_destroy)(void* comm) = nullptr;
  const char* (*hccl_get_error_string)(Status code) = nullptr;
};

struct NpuLibrary {
  std::string path;
  NpuCalls calls;
};

/// Loads torch_npu once; a failure is tried again at the next call. Errc::unsupported names the
/// file, or where one was looked for, and what to do.
Expected<NpuLibrary> load_torch_npu();

}  // namespace cohort::compute

#include "runtime/platform/process_memory.hpp"

#include <unistd.h>

#include <fstream>

namespace cohort::platform {

uint64_t anonymous_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, resident = 0, shared = 0;  // [pages]
  if (!(file >> size >> resident >> shared) || shared > resident) return 0;
  return (resident - shared) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace cohort::platform

// A profiler, as NVTX loads it from NVTX_INJECTION64_PATH: appends a line "DOMAIN NUMBER NAME" to the file named by
// TEST_PROFILER_FILE when a range ends.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::string domain_name;  // this test's programs have one
std::map<nvtxRangeId_t, std::string> open_ranges;
nvtxRangeId_t last = 0;

nvtxDomainHandle_t create_domain(const char* name) {
  const std::lock_guard lock(mutex);
  domain_name = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain_name);
}

nvtxRangeId_t start_range(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  const std::lock_guard lock(mutex);
  open_ranges[++last] = std::to_string(event->payload.ullValue) + " " + event->message.ascii;
  return last;
}

void end_range(nvtxDomainHandle_t, nvtxRangeId_t range) {
  const std::lock_guard lock(mutex);
  const auto found = open_ranges.find(range);
  FILE* const file = std::fopen(std::getenv("TEST_PROFILER_FILE"), "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s %s\n", domain_name.c_str(), found == open_ranges.end() ? "?" : found->second.c_str());
  std::fclose(file);
  if (found != open_ranges.end()) open_ranges.erase(found);
}

template <class Function>
void listen(NvtxFunctionTable table, unsigned at, Function* function) {
  *table[at] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  listen(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  listen(table, NVTX_CBID_CORE2_DomainRangeStartEx, start_range);
  listen(table, NVTX_CBID_CORE2_DomainRangeEnd, end_range);
  return 1;
}

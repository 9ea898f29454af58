// The functions that Tutti refuses: symbols.def says which, and why.
#include "compat/nccl/handles.hpp"

namespace tutti::nccl {
namespace {

ncclResult_t say(const char* name, const char* reason) {
  return guarded(nullptr, [&]() -> ncclResult_t { refuse(ncclInvalidUsage, name, ": ", reason); });
}

}  // namespace
}  // namespace tutti::nccl

// Their arguments are not looked at, and the caller removes them, so one signature serves all. nccl.h, which declares
// some of them otherwise, names the same symbols: the functions here have names of their own, and theirs as labels.
#define TUTTI_NCCL_WORKS(name, note)
#define TUTTI_NCCL_REFUSED(name, reason)                                                                         \
  extern "C" __attribute__((visibility("default"))) ncclResult_t tutti_refused_##name(void) __asm__(#name);      \
  extern "C" __attribute__((visibility("default"))) ncclResult_t tutti_refused_p##name(void) __asm__("p" #name); \
  ncclResult_t tutti_refused_##name(void) { return tutti::nccl::say(#name, reason); }                            \
  ncclResult_t tutti_refused_p##name(void) { return tutti::nccl::say(#name, reason); }
#include "compat/nccl/symbols.def"

extern "C" __attribute__((visibility("default"))) int tutti_slots(int, int) __asm__("ncclLLA2ACalcSlots");
extern "C" __attribute__((visibility("default"))) int tutti_pslots(int, int) __asm__("pncclLLA2ACalcSlots");
int tutti_slots(int, int) {
  tutti::nccl::say("ncclLLA2ACalcSlots", "Tutti has no device API; there are 0 slots");
  return 0;
}
int tutti_pslots(int a, int b) { return tutti_slots(a, b); }

// It writes parameters to the log, of which Tutti has none.
TUTTI_NCCL_API(void, ncclParamDumpAll) {}

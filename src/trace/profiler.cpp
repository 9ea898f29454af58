#include "trace/profiler.hpp"

#ifdef TUTTI_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace tutti::trace {

#ifdef TUTTI_NVTX

namespace {

/// Null without a profiler: NVTX then has no functions to call.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kDomain = nvtxDomainCreateA("tutti");
  return kDomain;
}

}  // namespace

bool profiler_is_attached() { return domain() != nullptr; }

ProfilerRange::ProfilerRange(const std::string& name, uint64_t number) {
  if (!profiler_is_attached()) return;
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = number;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name.c_str();
  id_ = nvtxDomainRangeStartEx(domain(), &event);
  open_ = true;
}

void ProfilerRange::end() {
  if (open_) nvtxDomainRangeEnd(domain(), id_);
  open_ = false;
}

#else

bool profiler_is_attached() { return false; }
ProfilerRange::ProfilerRange(const std::string&, uint64_t) {}
void ProfilerRange::end() {}

#endif

ProfilerRange& ProfilerRange::operator=(ProfilerRange&& other) noexcept {
  if (this == &other) return *this;
  end();
  id_ = other.id_;
  open_ = other.open_;
  other.open_ = false;
  return *this;
}

}  // namespace tutti::trace

#include "compat/nccl/config.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace tutti::nccl {
namespace {

/// What all of them begin with.
struct Header {
  size_t size;
  unsigned magic;
  unsigned version;
};

/// Copies what the caller's structure has of `known`, which holds the defaults. The caller's may be longer: what this
/// library does not know must not be set, since it could not be honoured.
template <class Config>
void read(Config& known, size_t fields_end, const Config* config, const char* type, const char* initializer) {
  check_header(config, type, initializer);
  const auto* const bytes = reinterpret_cast<const char*>(config);
  // A newer header has a field where this one has padding, which an older program leaves as it is.
  for (size_t at = config->version > NCCL_VERSION_CODE ? fields_end : sizeof known; at + sizeof(int) <= config->size;
       at += sizeof(int)) {
    int value = 0;
    std::memcpy(&value, bytes + at, sizeof value);
    if (value == 0 || value == NCCL_CONFIG_UNDEF_INT) continue;
    refuse_argument(std::string(type) + " has " + std::to_string(config->size) + " bytes, of which Tutti knows " +
                    std::to_string(sizeof known) + "; the newer field at byte " + std::to_string(at) + " is " +
                    std::to_string(value) + ": leave it at its default");
  }
  std::memcpy(&known, config, std::min(config->size, sizeof known));
}

/// Unset, or between two bounds.
void check_range(const char* type, const char* field, int value, int low, int high) {
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= low && value <= high)) return;
  refuse_argument(std::string(type) + "." + field + " is " + std::to_string(value) + ": it is from " +
                  std::to_string(low) + " to " + std::to_string(high) + ", or NCCL_CONFIG_UNDEF_INT");
}

void check_blocks(const char* type, int low, int high, int cluster) {
  check_range(type, "minCTAs", low, 1, INT_MAX);
  check_range(type, "maxCTAs", high, 1, INT_MAX);
  check_range(type, "cgaClusterSize", cluster, 0, 8);
  if (low != NCCL_CONFIG_UNDEF_INT && high != NCCL_CONFIG_UNDEF_INT && low > high) {
    refuse_argument(std::string(type) + ".minCTAs is " + std::to_string(low) + ", more than maxCTAs, " +
                    std::to_string(high));
  }
}

}  // namespace

void check_header(const void* config, unsigned magic, const char* type, const char* initializer) {
  if (config == nullptr) refuse_argument(std::string("the ") + type + " is NULL");
  Header header;
  std::memcpy(&header, config, sizeof header);
  if (header.magic == magic && header.size >= sizeof header && header.size <= kMostConfigBytes) return;
  refuse_argument(std::string("the ") + type + " has a wrong size or magic number: begin with " + initializer);
}

tuttiConfig_t converted(const ncclConfig_t* config, bool blocking) {
  tuttiConfig_t result = TUTTI_CONFIG_INITIALIZER;
  result.blocking = blocking ? 1 : 0;
  if (config == nullptr) return result;
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  read(known, offsetof(ncclConfig_t, nvlsHostMode) + sizeof known.nvlsHostMode, config, "ncclConfig_t",
       "NCCL_CONFIG_INITIALIZER");
  check_range("ncclConfig_t", "blocking", known.blocking, 0, 1);
  check_range("ncclConfig_t", "splitShare", known.splitShare, 0, 1);
  check_range("ncclConfig_t", "shrinkShare", known.shrinkShare, 0, 1);
  check_range("ncclConfig_t", "trafficClass", known.trafficClass, 0, INT_MAX);
  check_blocks("ncclConfig_t", known.minCTAs, known.maxCTAs, known.cgaClusterSize);
  if (known.blocking != NCCL_CONFIG_UNDEF_INT) result.blocking = known.blocking;
  if (known.commName != nullptr) result.name = known.commName;
  return result;
}

void check_call_config(const ncclCollConfig_t* config) {
  if (config == nullptr) return;
  ncclCollConfig_t known = NCCL_COLLCONFIG_INITIALIZER;
  read(known, sizeof known, config, "ncclCollConfig_t", "NCCL_COLLCONFIG_INITIALIZER");
  check_blocks("ncclCollConfig_t", known.minCTAs, known.maxCTAs, known.cgaClusterSize);
  if (known.algSelection != nullptr && *known.algSelection != '\0' && known.forceAlgSelection != 0) {
    refuse(ncclInvalidUsage, std::string("ncclCollConfig_t.algSelection is \"") + known.algSelection +
                                 "\": Tutti cannot force an algorithm for one call. Set forceAlgSelection to 0, or "
                                 "TUTTI_ALGO for all calls");
  }
  if (known.launchCompletionEvent != nullptr) {
    refuse(ncclInvalidUsage,
           "ncclCollConfig_t.launchCompletionEvent is set: Tutti does not record events at launches. Leave it NULL");
  }
}

}  // namespace tutti::nccl

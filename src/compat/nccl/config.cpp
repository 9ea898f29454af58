#include "compat/nccl/config.hpp"

#include <strings.h>

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
    refuse_argument(type, " has ", config->size, " bytes, of which Tutti knows ", sizeof known,
                    "; the newer field at byte ", at, " is ", value, ": leave it at its default");
  }
  std::memcpy(&known, config, std::min(config->size, sizeof known));
}

/// Unset, or between two bounds.
void check_range(const char* type, const char* field, int value, int low, int high) {
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= low && value <= high)) return;
  refuse_argument(type, ".", field, " is ", value, ": it is from ", low, " to ", high, ", or NCCL_CONFIG_UNDEF_INT");
}

void check_blocks(const char* type, int low, int high, int cluster) {
  check_range(type, "minCTAs", low, 1, INT_MAX);
  check_range(type, "maxCTAs", high, 1, INT_MAX);
  check_range(type, "cgaClusterSize", cluster, 0, 8);
  if (low != NCCL_CONFIG_UNDEF_INT && high != NCCL_CONFIG_UNDEF_INT && low > high) {
    refuse_argument(type, ".minCTAs is ", low, ", more than maxCTAs, ", high);
  }
}

/// NCCL's networks by the names that it gives them.
void check_network(const char* name) {
  if (name == nullptr || *name == '\0') return;
  const auto is = [&](const char* known) { return strcasecmp(name, known) == 0; };
  if (is("Socket") || is("IB")) return;
  refuse_argument("ncclConfig_t.netName is \"", name, "\": there are Socket and IB; plugins are not loaded");
}

/// Fields with a meaning for NCCL alone are ignored, but what NCCL would not accept is refused.
void check_fields(const ncclConfig_t& config) {
  struct Field {
    const char* name;
    int value, low, high;
  };
  constexpr int kMaxMode = 15;  // NCCL's manual has no list of these modes; they are small numbers
  const Field fields[] = {{"blocking", config.blocking, 0, 1},
                          {"splitShare", config.splitShare, 0, 1},
                          {"trafficClass", config.trafficClass, 0, INT_MAX},
                          {"collnetEnable", config.collnetEnable, 0, 1},
                          {"CTAPolicy", config.CTAPolicy, 0, 3},
                          {"shrinkShare", config.shrinkShare, 0, 1},
                          {"nvlsCTAs", config.nvlsCTAs, 0, INT_MAX},
                          {"nChannelsPerNetPeer", config.nChannelsPerNetPeer, 1, INT_MAX},
                          {"nvlinkCentricSched", config.nvlinkCentricSched, 0, 1},
                          {"graphUsageMode", config.graphUsageMode, 0, 2},
                          {"numRmaCtx", config.numRmaCtx, 0, INT_MAX},
                          {"maxP2pPeers", config.maxP2pPeers, 0, INT_MAX},
                          {"graphStreamOrdering", config.graphStreamOrdering, 0, 1},
                          {"launchOrderImplicit", config.launchOrderImplicit, 0, 1},
                          {"numRmaSig", config.numRmaSig, 0, INT_MAX},
                          {"rmaEagerInit", config.rmaEagerInit, 0, 1},
                          {"hostCftMode", config.hostCftMode, 0, kMaxMode},
                          {"nvlsHostMode", config.nvlsHostMode, 0, kMaxMode}};
  for (const Field& field : fields) check_range("ncclConfig_t", field.name, field.value, field.low, field.high);
  check_network(config.netName);
}

}  // namespace

void check_header(const void* config, unsigned magic, const char* type, const char* initializer) {
  if (config == nullptr) refuse_argument("the ", type, " is NULL");
  Header header;
  std::memcpy(&header, config, sizeof header);
  const bool has_valid_size = header.size >= sizeof header && header.size <= kMaxConfigBytes;
  if (header.magic == magic && has_valid_size && header.version > 0) return;
  refuse_argument("the ", type, " has a wrong size, magic number or version: begin with ", initializer);
}

tuttiConfig_t converted(const ncclConfig_t* config) {
  tuttiConfig_t result = TUTTI_CONFIG_INITIALIZER;
  if (config == nullptr) return result;
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  read(known, offsetof(ncclConfig_t, nvlsHostMode) + sizeof known.nvlsHostMode, config, "ncclConfig_t",
       "NCCL_CONFIG_INITIALIZER");
  check_fields(known);
  check_blocks("ncclConfig_t", known.minCTAs, known.maxCTAs, known.cgaClusterSize);
  if (known.blocking != NCCL_CONFIG_UNDEF_INT) result.blocking = known.blocking;
  if (known.commName != nullptr) result.name = known.commName;
  return result;
}

void set_signals(ncclComm& comm, const ncclConfig_t* config) {
  if (config == nullptr) return;
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&known, config, std::min(config->size, sizeof known));
  if (known.numRmaCtx != NCCL_CONFIG_UNDEF_INT) comm.contexts = known.numRmaCtx;
  if (known.numRmaSig != NCCL_CONFIG_UNDEF_INT) comm.signals_of_each = known.numRmaSig;
}

void check_call_config(const ncclCollConfig_t* config) {
  if (config == nullptr) return;
  ncclCollConfig_t known = NCCL_COLLCONFIG_INITIALIZER;
  read(known, sizeof known, config, "ncclCollConfig_t", "NCCL_COLLCONFIG_INITIALIZER");
  check_blocks("ncclCollConfig_t", known.minCTAs, known.maxCTAs, known.cgaClusterSize);
  if (known.algSelection != nullptr && *known.algSelection != '\0' && known.forceAlgSelection != 0) {
    refuse(ncclInvalidUsage, "ncclCollConfig_t.algSelection is \"", known.algSelection,
           "\": Tutti cannot force an algorithm for one call. Set forceAlgSelection to 0, or TUTTI_ALGO for all calls");
  }
  if (known.launchCompletionEvent != nullptr) {
    refuse(ncclInvalidUsage,
           "ncclCollConfig_t.launchCompletionEvent is set: Tutti does not record events at launches. Leave it NULL");
  }
}

}  // namespace tutti::nccl

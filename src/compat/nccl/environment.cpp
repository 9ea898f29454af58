#include "compat/nccl/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "compat/nccl/handles.hpp"

namespace tutti::nccl {
namespace {

constexpr const char* kHonoured[] = {
    "NCCL_DEBUG",          "NCCL_DEBUG_FILE",     "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA",
    "NCCL_IB_DISABLE",     "NCCL_P2P_DISABLE",    "NCCL_SHM_DISABLE",   "NCCL_ALGO",
    "NCCL_BUFFSIZE",       "NCCL_COMM_ID",        "NCCL_TOPO_FILE",     "NCCL_NVLS_ENABLE",
    "NCCL_LOCAL_REGISTER", "NCCL_GRAPH_REGISTER", "NCCL_RAS_ENABLE",    "NCCL_RAS_ADDR"};

std::optional<std::string> variable(const char* name) {
  const char* value = nullptr;
  if (tuttiGetVariable(name, &value) != tuttiSuccess) refuse_argument(tuttiGetLastError());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void warn(const std::string& text) { tuttiLog("warn", text.c_str()); }

/// Tutti's own variable gets a value; one that Tutti does not accept is reported and ignored.
void pass_on(const char* from, const char* name, const std::string& value) {
  if (tuttiSetDefault(name, value.c_str()) == tuttiSuccess) return;
  warn(std::string(from) + " is ignored: " + tuttiGetLastError());
}

bool is_on(const char* name) {
  const auto value = variable(name);
  return value && *value != "0";
}
bool is_off(const char* name) {
  const auto value = variable(name);
  return value && *value == "0";
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void pass_on_log() {
  if (const auto file = variable("NCCL_DEBUG_FILE")) pass_on("NCCL_DEBUG_FILE", "TUTTI_LOG_FILE", *file);
  const auto level = variable("NCCL_DEBUG");
  if (!level) return;
  const std::string word = lower(*level);
  if (word == "info" || word == "trace") {
    pass_on("NCCL_DEBUG", "TUTTI_LOG", word);
  } else if (word == "version" || word == "warn" || word == "abort") {
    pass_on("NCCL_DEBUG", "TUTTI_LOG", "warn");
  } else {
    warn("NCCL_DEBUG=" + *level + " is ignored: it is VERSION, WARN, INFO or TRACE");
  }
}

void pass_on_algorithm() {
  const auto wanted = variable("NCCL_ALGO");
  if (!wanted) return;
  const std::string word = lower(*wanted);
  if (word == "ring") {
    pass_on("NCCL_ALGO", "TUTTI_ALGO", "all_reduce:ring,all_gather:ring,reduce_scatter:ring");
  } else if (word == "tree") {
    pass_on("NCCL_ALGO", "TUTTI_ALGO", "all_reduce:double_tree");
  } else {
    warn("NCCL_ALGO=" + *wanted + " is ignored: Tutti follows Ring and Tree; TUTTI_ALGO has all its algorithms");
  }
}

void pass_on_transports() {
  if (const auto names = variable("NCCL_SOCKET_IFNAME")) pass_on("NCCL_SOCKET_IFNAME", "TUTTI_INTERFACE", *names);
  if (is_on("NCCL_IB_DISABLE")) {
    pass_on("NCCL_IB_DISABLE", "TUTTI_VERBS_HCA", "none");  // excludes all devices
  } else if (const auto devices = variable("NCCL_IB_HCA")) {
    if (devices->find_first_of("^=") == std::string::npos) {
      pass_on("NCCL_IB_HCA", "TUTTI_VERBS_HCA", *devices);
    } else {
      warn("NCCL_IB_HCA=" + *devices + " is ignored: Tutti takes a list of devices, without ^ and =");
    }
  }
  if (is_on("NCCL_P2P_DISABLE")) {
    pass_on("NCCL_P2P_DISABLE", "TUTTI_CMA", "off");
    pass_on("NCCL_P2P_DISABLE", "TUTTI_CUDA_MEMORY", "host");
  }
  if (const auto file = variable("NCCL_TOPO_FILE")) {
    warn("NCCL_TOPO_FILE=" + *file +
         " is not read: communicators measure their links. `tutti topo --import FILE` shows what the file says");
  }
  if (is_on("NCCL_SHM_DISABLE")) pass_on("NCCL_SHM_DISABLE", "TUTTI_TRANSPORT", "tcp");
  if (is_off("NCCL_NVLS_ENABLE")) pass_on("NCCL_NVLS_ENABLE", "TUTTI_NVLS", "0");
  if (is_off("NCCL_GRAPH_REGISTER")) pass_on("NCCL_GRAPH_REGISTER", "TUTTI_GRAPH_REGISTER", "0");
  if (const auto bytes = variable("NCCL_BUFFSIZE")) {
    constexpr uint64_t kSteps = 8;  // into which NCCL divides the buffer
    uint64_t number = 0;
    for (const char digit : *bytes)
      number = digit >= '0' && digit <= '9' ? number * 10 + (digit - '0') : UINT64_MAX / 16;
    pass_on("NCCL_BUFFSIZE", "TUTTI_MESSAGE", std::to_string(number / kSteps));
  }
}

/// As with NCCL, clients of its RAS protocol are answered unless that is switched off; a job runs without it, too.
void pass_on_ras() {
  if (variable("NCCL_RAS_ENABLE").value_or("1") != "1") return;
  const std::string address = variable("NCCL_RAS_ADDR").value_or("localhost:28028");
  const std::string port = address.substr(address.rfind(':') + 1);
  const bool good = address.find(':') != std::string::npos && !port.empty() && port.size() <= 5 &&
                    port.find_first_not_of("0123456789") == std::string::npos;
  if (!good) return warn("NCCL_RAS_ADDR=" + address + " is not HOST:PORT: clients of RAS are not answered");
  pass_on("NCCL_RAS_ADDR", "TUTTI_RAS_ADDR", address);
}

void report_ignored() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const std::string name(line.substr(0, line.find('=')));
    if (name.rfind("NCCL_", 0) != 0) continue;
    const bool honoured =
        std::any_of(std::begin(kHonoured), std::end(kHonoured), [&](auto known) { return name == known; });
    if (!honoured) warn("environment variable " + name + " is set and ignored: it has no meaning in Tutti");
  }
}

}  // namespace

bool local_registration() {
  static const bool kYes = !is_off("NCCL_LOCAL_REGISTER");
  return kYes;
}

void read_environment() {
  static auto* const kOnce = new std::once_flag;
  std::call_once(*kOnce, [] {
    pass_on_log();  // first, since the others may log
    pass_on_transports();
    pass_on_algorithm();
    pass_on_ras();
    report_ignored();
    const auto level = variable("NCCL_DEBUG");
    if (!level) return;
    const std::string text =
        std::string("Tutti ") + tuttiGetVersion() + " answers as NCCL " + variable("TUTTI_NCCL_VERSION").value_or("");
    tuttiLog(lower(*level) == "version" ? "warn" : "info", text.c_str());
  });
}

}  // namespace tutti::nccl

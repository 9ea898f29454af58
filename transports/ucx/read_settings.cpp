// Reads UCX's settings, as UCX has them: of its variables, and of its file.
#include <ucp/api/ucp.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "transports/ucx/settings.hpp"

namespace tutti::transports::ucx {
namespace {

/// Lines of NAME=VALUE, each after a line's end; "" if UCX does not tell.
std::string all_settings() {
  ucp_config_t* config = nullptr;
  if (ucp_config_read(nullptr, nullptr, &config) != UCS_OK) return "";
  char* text = nullptr;
  size_t bytes = 0;
  if (FILE* const stream = ::open_memstream(&text, &bytes); stream != nullptr) {
    std::fputc('\n', stream);  // before the first line, too
    ucp_config_print(config, stream, nullptr, UCS_CONFIG_PRINT_CONFIG);
    std::fclose(stream);
  }
  ucp_config_release(config);
  const std::unique_ptr<char, decltype(&std::free)> owner(text, std::free);
  return text == nullptr ? "" : std::string(text, bytes);
}

std::string value_of(const std::string& settings, const std::string& name) {
  const size_t line = settings.find("\n" + name + "=");
  if (line == std::string::npos) return "all";
  const size_t begin = line + name.size() + 2;
  return settings.substr(begin, settings.find('\n', begin) - begin);
}

std::vector<std::string> rdma_devices() {
  std::vector<std::string> all;
  std::error_code failure;  // there is no such folder: no devices
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", failure)) {
    all.push_back(entry.path().filename().string());
  }
  return all;
}

}  // namespace

std::string why_no_rdma() {
  const std::string settings = all_settings();
  return why_no_rdma(value_of(settings, "UCX_TLS"), value_of(settings, "UCX_NET_DEVICES"), rdma_devices());
}

}  // namespace tutti::transports::ucx

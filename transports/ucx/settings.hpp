// What a user's settings of UCX say about RDMA.
#pragma once

#include <string>
#include <vector>

namespace tutti::transports::ucx {

/// Which of UCX's settings takes RDMA from it: windows then do without, too. "": none does.
std::string why_no_rdma();

/// The same for these values of UCX_TLS and UCX_NET_DEVICES, on a host with these RDMA devices.
std::string why_no_rdma(const std::string& transports, const std::string& devices,
                        const std::vector<std::string>& rdma_devices);

}  // namespace tutti::transports::ucx

// Which settings of UCX take RDMA from it.
#include "transports/ucx/settings.hpp"

#include <gtest/gtest.h>

namespace tutti::transports::ucx {
namespace {

const std::vector<std::string> kDevices = {"mlx5_0", "rxe0"};

TEST(UcxSettings, TransportsWithReliableConnectionsPermitRdma) {
  for (const char* list : {"all", "ib", "rc", "tcp,rc_x", "self,rc_verbs", "ud", "dc_mlx5,sm", "\\rc", "^tcp", "^ud"}) {
    EXPECT_EQ(why_no_rdma(list, "all", kDevices), "") << list;
  }
  for (const char* list : {"tcp", "tcp,self", "sm,self", "tcp,ud:aux", "", "rcx", "^ib", "^rc", "^sm,ib", "^all"}) {
    EXPECT_EQ(why_no_rdma(list, "all", kDevices), std::string("UCX_TLS is ") + list + ", without RDMA");
  }
}

TEST(UcxSettings, ADeviceOfTheHostPermitsRdma) {
  for (const char* list : {"all", "mlx5_0:1", "eth0,rxe0", "^eth0", "^mlx5_0"}) {
    EXPECT_EQ(why_no_rdma("all", list, kDevices), "") << list;
  }
  for (const char* list : {"eth0", "mlx5_01:1", "mlx5", "", "^mlx5_0:1,rxe0", "^all"}) {
    EXPECT_EQ(why_no_rdma("all", list, kDevices),
              std::string("UCX_NET_DEVICES is ") + list + ", without an RDMA device");
  }
  EXPECT_EQ(why_no_rdma("all", "eth0", {}), "") << "that the host has no device, verbs says";
}

}  // namespace
}  // namespace tutti::transports::ucx

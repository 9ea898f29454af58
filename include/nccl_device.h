/* NCCL's device API, which Tutti does not have. This file stands in the place of NCCL's own, which would compile with
 * nccl.h, and whose kernels would then find no communicator. */
/* clang-format off */
#error "Tutti has no device API (nccl_device.h): kernels cannot call it. Compile programs that can do without it with \
-DTUTTI_NCCL_HEADER_VERSION=22707, as with the header of NCCL 2.27.7: see docs/nccl.md"

// What PyTorch's libraries ask of the runtime besides: each call is refused. Their parameters do not matter.
namespace {
constexpr int kNotSupported = 801;  // cudaErrorNotSupported
}  // namespace

#define FAKE_UNSUPPORTED(name) \
  extern "C" int name() { return kNotSupported; }

FAKE_UNSUPPORTED(cudaDeviceGetDefaultMemPool)
FAKE_UNSUPPORTED(cudaDeviceGetGraphMemAttribute)
FAKE_UNSUPPORTED(cudaDeviceSetGraphMemAttribute)
FAKE_UNSUPPORTED(cudaFreeAsync)
FAKE_UNSUPPORTED(cudaGetSymbolAddress)
FAKE_UNSUPPORTED(cudaGraphAddNode)
FAKE_UNSUPPORTED(cudaGraphConditionalHandleCreate)
FAKE_UNSUPPORTED(cudaGraphNodeGetDependencies)
FAKE_UNSUPPORTED(cudaIpcCloseMemHandle)
FAKE_UNSUPPORTED(cudaIpcGetEventHandle)
FAKE_UNSUPPORTED(cudaIpcGetMemHandle)
FAKE_UNSUPPORTED(cudaIpcOpenEventHandle)
FAKE_UNSUPPORTED(cudaIpcOpenMemHandle)
FAKE_UNSUPPORTED(cudaKernelSetAttributeForDevice)
FAKE_UNSUPPORTED(cudaLibraryGetGlobal)
FAKE_UNSUPPORTED(cudaLibraryGetKernel)
FAKE_UNSUPPORTED(cudaLibraryGetKernelCount)
FAKE_UNSUPPORTED(cudaLibraryGetManaged)
FAKE_UNSUPPORTED(cudaLibraryGetUnifiedFunction)
FAKE_UNSUPPORTED(cudaLibraryLoadData)
FAKE_UNSUPPORTED(cudaLibraryLoadFromFile)
FAKE_UNSUPPORTED(cudaLibraryUnload)
FAKE_UNSUPPORTED(cudaMallocAsync)
FAKE_UNSUPPORTED(cudaMallocManaged)
FAKE_UNSUPPORTED(cudaMemPoolGetAttribute)
FAKE_UNSUPPORTED(cudaMemPoolSetAccess)
FAKE_UNSUPPORTED(cudaMemPoolSetAttribute)
FAKE_UNSUPPORTED(cudaMemPoolTrimTo)
FAKE_UNSUPPORTED(cudaMemcpy2DAsync)
FAKE_UNSUPPORTED(cudaMemcpyPeerAsync)
FAKE_UNSUPPORTED(cudaMemcpyToSymbol)
FAKE_UNSUPPORTED(cudaStreamAddCallback)
FAKE_UNSUPPORTED(cudaStreamBeginCaptureToGraph)
FAKE_UNSUPPORTED(cudaStreamUpdateCaptureDependencies)

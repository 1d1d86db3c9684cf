// libcudart, third part: streams, events and kernels. Nothing waits, and no kernel runs.
#include "runtime.h"

static void *handle(void) { return calloc(1, 16); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  open_context();
  *stream = handle();
  return OK;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return OK; }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return OK; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return OK; }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) { return OK; }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
  *priority = 0;
  return OK;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  *status = cudaStreamCaptureStatusNone;
  return OK;
}
// More arguments follow, other ones in each version of CUDA; no graph is being made, so none of them is set.
#define CALLED(name) __asm__(name)
static cudaError_t no_capture(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id) {
  *status = cudaStreamCaptureStatusNone;
  if (id)
    *id = 0;
  return OK;
}
cudaError_t capture_info(cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *) CALLED("cudaStreamGetCaptureInfo");
cudaError_t capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id) {
  return no_capture(stream, status, id);
}
cudaError_t capture_info_2(cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *) CALLED("cudaStreamGetCaptureInfo_v2");
cudaError_t capture_info_2(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id) {
  return no_capture(stream, status, id);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void *with, unsigned flags) {
  call(stream, OK, with);
  return OK;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *with) {
  call(with);
  return OK;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) { return OK; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  *event = handle();
  return OK;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return OK;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return OK; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) { return OK; }
cudaError_t cudaEventQuery(cudaEvent_t event) { return OK; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return OK; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = 0.1f;
  return OK;
}

// -- kernels: what they need is part of the context; what they compute is the operators' (operators.py)

static cudaError_t launched(void) {
  open_context();
  return OK;
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream) {
  return launched();
}
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream) {
  return launched();
}
cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream) {
  return launched();
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **args) { return launched(); }
cudaError_t __cudaGetKernel(void **kernel, const void *symbol) {
  *kernel = (void *)symbol;
  return OK;
}

static __thread struct {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} call_;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) {
  call_.grid = grid, call_.block = block, call_.shared = shared, call_.stream = stream;
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  *grid = call_.grid, *block = call_.block, *shared = call_.shared;
  *(cudaStream_t *)stream = call_.stream;
  return OK;
}
void **__cudaRegisterFatBinary(void *binary) { return handle(); }
void __cudaRegisterFatBinaryEnd(void **binary) {}
void __cudaUnregisterFatBinary(void **binary) {}
void __cudaRegisterFunction(void **b, const char *f, char *d, const char *n, int t, void *i, void *j, void *k, void *l, int *w) {}
void __cudaRegisterVar(void **b, char *v, char *a, const char *n, int external, size_t bytes, int constant, int global) {}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *found, const void *kernel) {
  memset(found, 0, sizeof *found);
  found->maxThreadsPerBlock = 1024, found->numRegs = 32;
  found->ptxVersion = found->binaryVersion = (int)listed("PRETENDED_BINARY", 0, 90);
  found->maxDynamicSharedSizeBytes = 49152;
  return OK;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) { return OK; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared) {
  int fit = 2048 / (threads > 0 ? threads : 1);
  *blocks = fit > 32 ? 32 : fit ? fit : 1;
  return OK;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads, size_t shared,
                                                                   unsigned flags) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}
cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
  static char nothing[1 << 16];
  *address = nothing;
  return OK;
}

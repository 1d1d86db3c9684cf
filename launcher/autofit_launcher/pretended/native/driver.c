// libcudart, last part: the driver's functions that PyTorch asks for by name. Expandable segments are made of them.
#include "runtime.h"

typedef struct {
  size_t bytes;
  int card;
} Physical;

static void *nowhere(void *at, size_t bytes, int fixed) {
  int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (fixed ? MAP_FIXED : 0);
  return mmap(at, bytes, PROT_NONE, how, -1, 0);
}
static CUresult reserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr near, unsigned long long flags) {
  void *at = nowhere(0, bytes, 0);
  *out = (CUdeviceptr)at;
  return at == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
static CUresult unreserve(CUdeviceptr at, size_t bytes) {
  munmap((void *)at, bytes);
  return CUDA_SUCCESS;
}
static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *wanted, unsigned long long flags) {
  open_context();
  int c = card_of(wanted->location.id);
  if (!take(c, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  Physical *physical = malloc(sizeof *physical);
  *physical = (Physical){bytes, c};
  *out = (CUmemGenericAllocationHandle)(uintptr_t)physical;
  return CUDA_SUCCESS;
}
static CUresult release(CUmemGenericAllocationHandle handle) {
  Physical *physical = (Physical *)(uintptr_t)handle;
  give(physical->card, physical->bytes);
  free(physical);
  return CUDA_SUCCESS;
}
static CUresult map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  pthread_mutex_lock(&allocations_lock);
  remember(at, bytes, ((Physical *)(uintptr_t)handle)->card);
  pthread_mutex_unlock(&allocations_lock);
  return CUDA_SUCCESS;
}
static CUresult unmap(CUdeviceptr at, size_t bytes) {
  int c;
  pthread_mutex_lock(&allocations_lock);
  forget(at, &c);
  pthread_mutex_unlock(&allocations_lock);
  nowhere((void *)at, bytes, 1);
  return CUDA_SUCCESS;
}
static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *who, size_t count) {
  mprotect((void *)at, bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}
static CUresult granularity(size_t *bytes, const CUmemAllocationProp *wanted, CUmemAllocationGranularity_flags which) {
  *bytes = 2 << 20;
  return CUDA_SUCCESS;
}
static CUresult device(CUdevice *out, int ordinal) {
  *out = ordinal;
  return ordinal < 0 || ordinal >= visible_cards() ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
static CUresult attribute(int *value, CUdevice_attribute which, CUdevice ordinal) {
  *value = which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED || which == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED;
  return CUDA_SUCCESS;
}
#define FIRST_CONTEXT 16
static CUresult current(CUcontext *out) {
  int ordinal;
  cudaGetDevice(&ordinal);
  *out = context_is_open(card_of(ordinal)) ? (CUcontext)(uintptr_t)(FIRST_CONTEXT + ordinal) : 0;
  return CUDA_SUCCESS;
}
static CUresult set_current(CUcontext context) {
  if (context)
    cudaSetDevice((int)(uintptr_t)context - FIRST_CONTEXT);
  return CUDA_SUCCESS;
}
static CUresult error_words(CUresult error, const char **words) {
  *words = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "not played";
  return CUDA_SUCCESS;
}
static CUresult primary_state(CUdevice ordinal, unsigned *flags, int *active) {
  *flags = 0, *active = context_is_open(card_of(ordinal));
  return CUDA_SUCCESS;
}
static CUresult not_played(void) { return CUDA_ERROR_NOT_SUPPORTED; }

void *driver_function(const char *name) {
  static const struct {
    const char *name;
    void *function;
  } played[] = {
      {"cuMemAddressReserve", reserve},
      {"cuMemAddressFree", unreserve},
      {"cuMemCreate", create},
      {"cuMemRelease", release},
      {"cuMemMap", map},
      {"cuMemUnmap", unmap},
      {"cuMemSetAccess", set_access},
      {"cuMemGetAllocationGranularity", granularity},
      {"cuDeviceGet", device},
      {"cuDeviceGetAttribute", attribute},
      {"cuCtxGetCurrent", current},
      {"cuCtxSetCurrent", set_current},
      {"cuGetErrorString", error_words},
      {"cuDevicePrimaryCtxGetState", primary_state},
  };
  for (unsigned i = 0; i < sizeof played / sizeof *played; i++)
    if (!strcmp(played[i].name, name))
      return played[i].function;
  return not_played;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
  *function = driver_function(name);
  if (status)
    *status = cudaDriverEntryPointSuccess;
  return OK;
}
#undef cudaGetDriverEntryPoint
cudaError_t cudaGetDriverEntryPoint( // before CUDA 12.5
    const char *name, void **function, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, status);
}

// libcuda: its symbols are looked for when torch is loaded; PyTorch's memory goes by the runtime's. The rest of them is generated.
#define _GNU_SOURCE
#include "cards.h"
#include <dlfcn.h>

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) {
  *version = 13020;
  return 0;
}
int cuDeviceGetCount(int *count) {
  *count = (int)machine()->count;
  return 0;
}
int cuGetExportTable(const void **table, const void *id) { // NVRTC asks, and does without as on a machine that has no driver
  *table = 0;
  return 500; // CUDA_ERROR_NOT_FOUND
}
int cuCtxGetCurrent(void **context) { // PyTorch looks whether there is one before it calls cuBLAS
  *context = (void *)16;
  return 0;
}

// Before 2.5 PyTorch finds what expandable segments are made of here, by name: driver.c's, which lie in libcudart. All arguments are whole
// numbers and pointers.
static int (*of_the_runtime(const char *name))(long, long, long, long, long) {
  int (*find)(const char *, void **, unsigned long long, int *) = dlsym(RTLD_DEFAULT, "cudaGetDriverEntryPoint");
  void *found = 0;
  if (find)
    find(name, &found, 0, 0);
  return found;
}
#define OF_THE_RUNTIME(name)                                                                                                               \
  int name(long a, long b, long c, long d, long e) {                                                                                       \
    int (*found)(long, long, long, long, long) = of_the_runtime(#name);                                                                    \
    return found ? found(a, b, c, d, e) : 801; /* CUDA_ERROR_NOT_SUPPORTED */                                                              \
  }
OF_THE_RUNTIME(cuMemAddressReserve)
OF_THE_RUNTIME(cuMemAddressFree)
OF_THE_RUNTIME(cuMemCreate)
OF_THE_RUNTIME(cuMemRelease)
OF_THE_RUNTIME(cuMemMap)
OF_THE_RUNTIME(cuMemUnmap)
OF_THE_RUNTIME(cuMemSetAccess)
OF_THE_RUNTIME(cuMemGetAllocationGranularity)
OF_THE_RUNTIME(cuGetErrorString)
OF_THE_RUNTIME(cuDevicePrimaryCtxGetState)

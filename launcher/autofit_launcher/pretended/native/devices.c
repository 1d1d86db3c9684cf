// libcudart, first part: which cards there are, which is this thread's, and what a program can ask about them.
#include "runtime.h"

static __thread cudaError_t last_error_;
static __thread int ordinal_;
static int context_[MOST_CARDS], visible_[MOST_CARDS], visible_count_ = -1;

static void forked(void) {
  forget_process();
  memset(context_, 0, sizeof context_);
}
__attribute__((constructor)) static void loaded(void) { pthread_atfork(0, 0, forked); }

cudaError_t failed(cudaError_t error) {
  if (error)
    last_error_ = error;
  return error;
}

static int named(const char *word) {
  int all = (int)machine()->count;
  if (!strncasecmp(word, "GPU-", 4)) {
    for (int c = 0; c < all; c++)
      if (!strncasecmp(word, card(c)->uuid, strlen(word)))
        return c;
    return -1;
  }
  char *end;
  long number = strtol(word, &end, 10);
  return end != word && number >= 0 && number < all ? (int)number : -1;
}

// Read once. The first word that names no card ends the list; a card named twice leaves none (CUDA programming guide,
// CUDA_VISIBLE_DEVICES).
int visible_cards(void) {
  if (visible_count_ >= 0)
    return visible_count_;
  const char *said = getenv("CUDA_VISIBLE_DEVICES");
  int count = 0;
  if (!said) {
    for (; count < machine()->count; count++)
      visible_[count] = count;
    return visible_count_ = count;
  }
  char words[1024], *rest = 0;
  snprintf(words, sizeof words, "%s", said);
  for (char *word = strtok_r(words, ", ", &rest); word && count < MOST_CARDS; word = strtok_r(0, ", ", &rest)) {
    int c = named(word);
    if (c < 0)
      break;
    for (int i = 0; i < count; i++)
      if (visible_[i] == c)
        return visible_count_ = 0;
    visible_[count++] = c;
  }
  return visible_count_ = count;
}

int card_of(int ordinal) { return ordinal >= 0 && ordinal < visible_cards() ? visible_[ordinal] : 0; }

int ordinal_of(int c) {
  for (int i = 0; i < visible_cards(); i++)
    if (visible_[i] == c)
      return i;
  return -1;
}

int open_context(void) {
  int c = card_of(ordinal_);
  if (!context_[c]) {
    context_[c] = 1;
    take(c, mib("PRETENDED_CONTEXT_MIB", 0, 450));
  }
  return c;
}

int context_is_open(int c) { return context_[c]; }

cudaError_t cudaGetDeviceCount(int *count) {
  *count = visible_cards();
  return *count ? OK : failed(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int *ordinal) {
  *ordinal = ordinal_;
  return OK;
}
cudaError_t cudaSetDevice(int ordinal) {
  if (ordinal < 0 || ordinal >= visible_cards())
    return failed(cudaErrorInvalidDevice);
  ordinal_ = ordinal;
  open_context();
  return OK;
}
cudaError_t cudaDeviceSynchronize(void) {
  open_context();
  return OK;
}
cudaError_t cudaGetLastError(void) {
  cudaError_t last = last_error_;
  last_error_ = OK;
  return last;
}
cudaError_t cudaPeekAtLastError(void) { return last_error_; }

const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaSuccess: return "no error";
  case cudaErrorMemoryAllocation: return "out of memory";
  case cudaErrorNoDevice: return "no CUDA-capable device is detected";
  case cudaErrorInvalidDevice: return "invalid device ordinal";
  case cudaErrorInvalidValue: return "invalid argument";
  case cudaErrorInvalidDeviceFunction: return "invalid device function";
  default: return "not played";
  }
}
const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
  case cudaSuccess: return "cudaSuccess";
  case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
  case cudaErrorNoDevice: return "cudaErrorNoDevice";
  case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
  case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
  case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
  default: return "cudaErrorUnknown";
  }
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return OK;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return OK;
}

static int capability(void) { return (int)listed("PRETENDED_SM", 0, 90); }

static void uuid_bytes(const char *text, char *bytes) {
  int count = 0;
  for (const char *at = text + strlen("GPU-"); *at && count < 16; at += 2) {
    at += *at == '-';
    sscanf(at, "%2hhx", (unsigned char *)&bytes[count++]);
  }
}

// Those of an H100, apart from name, memory, UUID and compute capability.
static cudaError_t properties(struct cudaDeviceProp *p, int ordinal) {
  memset(p, 0, sizeof *p);
  if (ordinal < 0 || ordinal >= visible_cards())
    return failed(cudaErrorInvalidDevice);
  int c = card_of(ordinal);
  snprintf(p->name, sizeof p->name, "%s", card(c)->name);
  uuid_bytes(card(c)->uuid, p->uuid.bytes);
  p->totalGlobalMem = usable(c);
  p->major = capability() / 10, p->minor = capability() % 10;
  p->pciBusID = 1 + c;
  p->warpSize = 32, p->multiProcessorCount = 132;
  p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = 2048, p->maxBlocksPerMultiProcessor = 32;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->sharedMemPerBlock = 49152, p->sharedMemPerBlockOptin = 232448, p->sharedMemPerMultiprocessor = 233472;
  p->reservedSharedMemPerBlock = 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->totalConstMem = 65536, p->memPitch = 2147483647, p->textureAlignment = 512;
  p->l2CacheSize = 50 << 20, p->memoryBusWidth = 5120, p->asyncEngineCount = 3;
  p->canMapHostMemory = p->concurrentKernels = p->ECCEnabled = p->unifiedAddressing = p->streamPrioritiesSupported = 1;
  p->globalL1CacheSupported = p->localL1CacheSupported = p->managedMemory = p->concurrentManagedAccess = 1;
  p->cooperativeLaunch = p->memoryPoolsSupported = 1;
  return OK;
}
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int ordinal) { return properties(p, ordinal); }
#if CUDART_VERSION < 13000
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int ordinal) { return properties(p, ordinal); }
#endif

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int ordinal) {
  switch (attribute) {
  case cudaDevAttrMaxThreadsPerBlock:
  case cudaDevAttrMaxBlockDimX:
  case cudaDevAttrMaxBlockDimY: *value = 1024; break;
  case cudaDevAttrMaxBlockDimZ: *value = 64; break;
  case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
  case cudaDevAttrMaxGridDimY:
  case cudaDevAttrMaxGridDimZ: *value = 65535; break;
  case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 233472; break;
  case cudaDevAttrReservedSharedMemoryPerBlock: *value = 1024; break;
  case cudaDevAttrMaxRegistersPerBlock: *value = 65536; break;
  case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
  case cudaDevAttrMaxBlocksPerMultiprocessor:
  case cudaDevAttrWarpSize: *value = 32; break;
  case cudaDevAttrMultiProcessorCount: *value = 132; break;
  case cudaDevAttrClockRate: *value = 1980000; break;
  case cudaDevAttrL2CacheSize: *value = 50 << 20; break;
  case cudaDevAttrTextureAlignment: *value = 512; break;
  case cudaDevAttrComputeCapabilityMajor: *value = capability() / 10; break;
  case cudaDevAttrComputeCapabilityMinor: *value = capability() % 10; break;
  case cudaDevAttrPciBusId: *value = 1 + card_of(ordinal); break;
  case cudaDevAttrMemoryPoolsSupported:
  case cudaDevAttrUnifiedAddressing:
  case cudaDevAttrCooperativeLaunch: *value = 1; break;
  default: *value = 0;
  }
  return OK;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int most, int ordinal) {
  snprintf(text, most, "0000:%02x:00.0", 1 + card_of(ordinal));
  return OK;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0, *greatest = -5;
  return OK;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int one, int other) {
  *can = one != other && listed("PRETENDED_PEER", 0, 1);
  return OK;
}
cudaError_t cudaDeviceEnablePeerAccess(int ordinal, unsigned flags) { return OK; }

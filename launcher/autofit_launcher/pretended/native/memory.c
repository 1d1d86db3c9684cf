// libcudart, second part: memory. A card's memory is address space of the host that nobody has touched; what counts is the card's file.
#include "runtime.h"

pthread_mutex_t allocations_lock = PTHREAD_MUTEX_INITIALIZER;
#define GRANULE ((size_t)2 << 20)

// -- what was allocated: address -> bytes and card, by open addressing

typedef struct {
  uintptr_t at;
  size_t bytes;
  int card;
} Allocation;
#define GONE 1
static Allocation *table_;
static size_t places_, taken_;

static size_t place_of(uintptr_t at) { return (at >> 9) * 11400714819323198485ull % places_; }

static void larger(void) {
  Allocation *former = table_;
  size_t count = places_;
  places_ = count ? count * 2 : 1024, taken_ = 0;
  table_ = calloc(places_, sizeof *table_);
  for (size_t i = 0; i < count; i++)
    if (former[i].at > GONE)
      remember(former[i].at, former[i].bytes, former[i].card);
  free(former);
}

void remember(uintptr_t at, size_t bytes, int c) {
  if (taken_ * 2 >= places_)
    larger();
  size_t i = place_of(at);
  while (table_[i].at > GONE)
    i = (i + 1) % places_;
  table_[i] = (Allocation){at, bytes, c};
  taken_++;
}

size_t forget(uintptr_t at, int *c) {
  if (!places_)
    return 0;
  for (size_t i = place_of(at); table_[i].at; i = (i + 1) % places_)
    if (table_[i].at == at) {
      table_[i].at = GONE;
      *c = table_[i].card;
      return table_[i].bytes;
    }
  return 0;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *found, const void *pointer) {
  memset(found, 0, sizeof *found);
  found->type = cudaMemoryTypeUnregistered;
  found->hostPointer = (void *)pointer;
  pthread_mutex_lock(&allocations_lock);
  for (Allocation *one = table_; one < table_ + places_; one++) {
    if (one->at <= GONE || (uintptr_t)pointer < one->at || (uintptr_t)pointer >= one->at + one->bytes)
      continue;
    found->devicePointer = (void *)pointer;
    found->type = one->card == PINNED ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    if (one->card != PINNED)
      found->device = ordinal_of(one->card), found->hostPointer = 0;
    break;
  }
  pthread_mutex_unlock(&allocations_lock);
  return OK;
}

// -- taking and giving back

cudaError_t cudaMalloc(void **out, size_t bytes) {
  pthread_mutex_lock(&allocations_lock);
  int c = open_context();
  cudaError_t error = OK;
  size_t whole = (bytes + GRANULE - 1) / GRANULE * GRANULE;
  whole = whole ? whole : GRANULE;
  if (take(c, whole)) {
    *out = mmap(0, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*out == MAP_FAILED)
      give(c, whole), error = cudaErrorMemoryAllocation;
    else
      remember((uintptr_t)*out, whole, c);
  } else
    error = cudaErrorMemoryAllocation;
  pthread_mutex_unlock(&allocations_lock);
  return failed(error);
}

cudaError_t cudaFree(void *pointer) {
  if (!pointer) {
    open_context();
    return OK;
  }
  int c;
  pthread_mutex_lock(&allocations_lock);
  size_t bytes = forget((uintptr_t)pointer, &c);
  if (bytes)
    munmap(pointer, bytes), give(c, bytes);
  pthread_mutex_unlock(&allocations_lock);
  return bytes ? OK : failed(cudaErrorInvalidValue);
}
cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream) { return cudaMalloc(out, bytes); }
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) { return cudaFree(pointer); }

cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned flags) {
  *out = mmap(0, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return *out == MAP_FAILED ? failed(cudaErrorMemoryAllocation) : OK;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  int c = open_context();
  *free_bytes = free_now(c), *total_bytes = usable(c);
  return OK;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
  if (posix_memalign(out, 4096, bytes ? bytes : 1))
    return failed(cudaErrorMemoryAllocation);
  pthread_mutex_lock(&allocations_lock);
  remember((uintptr_t)*out, bytes ? bytes : 1, PINNED);
  pthread_mutex_unlock(&allocations_lock);
  return OK;
}
cudaError_t cudaMallocHost(void **out, size_t bytes) { return cudaHostAlloc(out, bytes, 0); }
cudaError_t cudaFreeHost(void *pointer) {
  int c;
  pthread_mutex_lock(&allocations_lock);
  forget((uintptr_t)pointer, &c);
  pthread_mutex_unlock(&allocations_lock);
  free(pointer);
  return OK;
}
cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags) { return OK; }
cudaError_t cudaHostUnregister(void *pointer) { return OK; }

// -- copies: real up to PRETENDED_COPY_BYTES (values that Python reads); what is larger is left out, and read as zeros by the host.
// Without that variable everything is copied.

static size_t most(void) {
  static size_t bytes;
  if (!bytes)
    bytes = (size_t)listed("PRETENDED_COPY_BYTES", 0, INT64_MAX);
  return bytes;
}

static cudaError_t copied(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  open_context();
  if (bytes <= most() || kind == cudaMemcpyHostToHost)
    memmove(to, from, bytes);
  else if (kind == cudaMemcpyDeviceToHost)
    memset(to, 0, bytes);
  return OK;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) { return copied(to, from, bytes, kind); }
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  return copied(to, from, bytes, kind);
}
cudaError_t cudaMemcpyPeerAsync(void *to, int there, const void *from, int here, size_t bytes, cudaStream_t stream) {
  return copied(to, from, bytes, cudaMemcpyDeviceToDevice);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream) {
  for (size_t row = 0; row < height; row++)
    copied((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, cudaMemcpyDeviceToDevice);
  return OK;
}
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind) { return OK; }
cudaError_t cudaMemset(void *to, int value, size_t bytes) {
  if (bytes <= most())
    memset(to, value, bytes);
  return OK;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) { return cudaMemset(to, value, bytes); }

// -- the driver's pools, which PyTorch asks about and doesn't use by itself

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int ordinal) {
  *pool = (cudaMemPool_t)8;
  return OK;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
  *(uint64_t *)value = 0;
  return OK;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) { return OK; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *who, size_t count) { return OK; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) { return OK; }
cudaError_t cudaDeviceGetGraphMemAttribute(int ordinal, enum cudaGraphMemAttributeType attribute, void *value) {
  *(uint64_t *)value = 0;
  return OK;
}
cudaError_t cudaDeviceSetGraphMemAttribute(int ordinal, enum cudaGraphMemAttributeType attribute, void *value) { return OK; }

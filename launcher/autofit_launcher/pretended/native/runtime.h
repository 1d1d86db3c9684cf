// What the parts of the pretended libcudart share.
#pragma once
#include "cards.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#undef cudaEventRecordWithFlags
#define OK cudaSuccess

#pragma GCC visibility push(hidden)
int visible_cards(void);  // as CUDA_VISIBLE_DEVICES has it
int card_of(int ordinal); // ordinal as the program counts -> card of the machine
int ordinal_of(int card); // back; -1 where it isn't visible
int open_context(void);   // the card of this thread; its context is opened, and costs memory, at the first call
int context_is_open(int card);
cudaError_t failed(cudaError_t error);               // remembers it for cudaGetLastError
void remember(uintptr_t at, size_t bytes, int card); // what was allocated; PINNED for host memory
size_t forget(uintptr_t at, int *card);
#define PINNED -1
extern pthread_mutex_t allocations_lock;
void *driver_function(const char *name); // an entry of the driver's; never NULL
#pragma GCC visibility pop

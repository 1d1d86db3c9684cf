// libnccl: its functions over ranks.c. What is asked between ncclGroupStart and ncclGroupEnd happens at the end. Not there:
// windows, device communicators, growing and shrinking; they are refused as invalid usage.
#define _GNU_SOURCE
#include "ranks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_ASKED 1024

typedef struct {
  char internal[128];
} Id; // ncclUniqueId
typedef void *Stream;
extern int cudaMalloc(void **, size_t);
extern int cudaFree(void *);
extern int cudaGetDevice(int *);

static __thread int depth, asked;
static __thread Exchange queue[MOST_ASKED];

static int ask(Exchange one) {
  if (!one.group || one.group->ended)
    return INVALID_USAGE;
  if (!depth)
    return exchange(&one);
  if (asked == MOST_ASKED)
    return INVALID_USAGE;
  queue[asked++] = one;
  return DONE;
}

static void *begun(void *one) {
  ((Exchange *)one)->status = exchange(one);
  return 0;
}

static int is_letter(Exchange *one) { return one->kind == SENT || one->kind == RECEIVED; }

// Whether the second must wait for the first: of one group all but letters that go other ways.
static int waits(Exchange *first, Exchange *second) {
  int apart = is_letter(first) && is_letter(second) && (first->kind != second->kind || first->peer != second->peer);
  return first->group == second->group && !apart;
}

// All that was asked, each in a thread of its own as soon as what it waits for is done: several communicators of a process, letters both ways.
static int all_asked(int count) {
  int done[MOST_ASKED] = {0}, status = DONE;
  for (int left = count; left > 0;) {
    pthread_t threads[MOST_ASKED];
    int at[MOST_ASKED], together = 0;
    for (int i = 0; i < count; i++) {
      int busy = done[i];
      for (int j = 0; j < i && !busy; j++)
        busy = !done[j] && waits(&queue[j], &queue[i]);
      if (!busy)
        at[together++] = i;
    }
    Exchange *own = queue; // of this thread
    for (int j = 0; j < together; j++)
      pthread_create(&threads[j], 0, begun, &own[at[j]]);
    for (int j = 0; j < together; j++) {
      pthread_join(threads[j], 0);
      done[at[j]] = 1, left--;
      status = own[at[j]].status ? own[at[j]].status : status;
    }
  }
  return status;
}

int ncclGroupStart(void) {
  depth++;
  return DONE;
}
int ncclGroupEnd(void) {
  if (--depth > 0)
    return DONE;
  int count = asked, simple = 1, status = DONE;
  asked = 0;
  for (int i = 0; i < count; i++)
    simple &= !is_letter(&queue[i]) && queue[i].group == queue[0].group;
  if (!simple)
    return all_asked(count);
  for (int i = 0; i < count && !status; i++)
    status = exchange(&queue[i]);
  return status;
}
int ncclGroupSimulateEnd(void *info) { return ncclGroupEnd(); }

int ncclAllReduce(const void *in, void *out, size_t count, int type, int how, Group *of, Stream s) {
  return ask((Exchange){of, REDUCED, type, how, EVERYONE, in, out, count});
}
int ncclReduce(const void *in, void *out, size_t count, int type, int how, int root, Group *of, Stream s) {
  return ask((Exchange){of, REDUCED, type, how, root, in, out, count});
}
int ncclReduceScatter(const void *in, void *out, size_t count, int type, int how, Group *of, Stream s) {
  return ask((Exchange){of, REDUCED, type, how, BY_TURNS, in, out, count, count * width(type)});
}
int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, Group *of, Stream s) {
  return ask((Exchange){of, GATHERED, type, 0, root, in, out, count});
}
int ncclBcast(void *both, size_t count, int type, int root, Group *of, Stream s) {
  return ncclBroadcast(both, both, count, type, root, of, s);
}
int ncclAllGather(const void *in, void *out, size_t count, int type, Group *of, Stream s) {
  return ask((Exchange){of, GATHERED, type, 0, EVERYONE, in, out, count, 0, count * width(type)});
}
int ncclAlltoAll(const void *in, void *out, size_t count, int type, Group *of, Stream s) {
  return ask((Exchange){of, GATHERED, type, 0, BY_TURNS, in, out, count, count * width(type), count * width(type)});
}
int ncclSend(const void *in, size_t count, int type, int peer, Group *of, Stream s) {
  return ask((Exchange){of, SENT, type, 0, peer, in, 0, count});
}
int ncclRecv(void *out, size_t count, int type, int peer, Group *of, Stream s) {
  return ask((Exchange){of, RECEIVED, type, 0, peer, 0, out, count});
}
int ncclRedOpCreatePreMulSum(int *how, void *by, int type, int where, Group *of) {
  *how = multiplied(type == 8 ? *(double *)by : type == 7 ? *(float *)by : type == 6 ? (double)*(_Float16 *)by : 1);
  return DONE;
}
int ncclRedOpDestroy(int how, Group *of) { return DONE; }

// -- communicators

static int joined(Group **out, int ranks, const char *name, int rank) {
  Group *of = join(name, ranks, rank);
  if (!of)
    return SYSTEM;
  cudaGetDevice(&of->device);
  *out = of;
  return DONE;
}
int ncclGetUniqueId(Id *id) {
  static int count;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  memset(id, 0, sizeof *id);
  long long moment = (long long)now.tv_sec * 1000000000 + now.tv_nsec;
  snprintf(id->internal, sizeof id->internal, "%d-%d-%lld", getpid(), __sync_add_and_fetch(&count, 1), moment);
  return DONE;
}
int ncclCommGetUniqueId(Group *of, Id *id) { return ncclGetUniqueId(id); }
int ncclCommInitRank(Group **out, int ranks, Id id, int rank) { return joined(out, ranks, id.internal, rank); }
int ncclCommInitRankConfig(Group **out, int ranks, Id id, int rank, void *config) { return joined(out, ranks, id.internal, rank); }
int ncclCommInitRankScalable(Group **out, int ranks, int rank, int ids, Id *id, void *config) {
  return joined(out, ranks, id->internal, rank);
}
int ncclCommInitAll(Group **out, int ranks, const int *devices) {
  Id id;
  int status = ncclGetUniqueId(&id);
  for (int i = 0; i < ranks && !status; i++)
    if (!(status = joined(&out[i], ranks, id.internal, i)))
      out[i]->device = devices ? devices[i] : i;
  return status;
}
int ncclCommSplit(Group *of, int colour, int key, Group **out, void *config) {
  int mine[] = {colour, key}, ranks = 0, rank = 0;
  memcpy(slot(of, of->rank), mine, sizeof mine);
  if (meet(of))
    return REMOTE_GONE;
  for (int r = 0; r < of->ranks; r++) {
    int *other = (int *)slot(of, r);
    ranks += other[0] == colour;
    rank += other[0] == colour && (other[1] < key || (other[1] == key && r < of->rank));
  }
  if (meet(of))
    return REMOTE_GONE;
  of->splits++;
  *out = 0;
  char name[sizeof of->name];
  snprintf(name, sizeof name, "%.90s.%d.%d", of->name, of->splits, colour);
  return colour < 0 ? DONE : joined(out, ranks, name, rank);
}
int ncclCommFinalize(Group *of) { return DONE; }
int ncclCommDestroy(Group *of) {
  if (of)
    of->ended = 1;
  return DONE;
}
int ncclCommAbort(Group *of) { return ncclCommDestroy(of); } // this rank's alone: the others wait on, as there
int ncclCommGetAsyncError(Group *of, int *error) { return *error = DONE; }
int ncclCommCount(Group *of, int *count) {
  *count = of->ranks;
  return DONE;
}
int ncclCommUserRank(Group *of, int *rank) {
  *rank = of->rank;
  return DONE;
}
int ncclCommCuDevice(Group *of, int *device) {
  *device = of->device;
  return DONE;
}
int ncclCommRegister(Group *of, void *buffer, size_t bytes, void **handle) {
  *handle = buffer;
  return DONE;
}
int ncclCommDeregister(Group *of, void *handle) { return DONE; }
int ncclMemAlloc(void **out, size_t bytes) { return cudaMalloc(out, bytes); }
int ncclMemFree(void *pointer) { return cudaFree(pointer); }
int ncclGetVersion(int *version) {
  *version = 23007;
  return DONE;
}
static const char *WORDS[] = {
    "no error", "unhandled cuda error (run with NCCL_DEBUG=INFO for details)", "unhandled system error (run with NCCL_DEBUG=INFO for details)",
    "internal error - please report this issue to the NCCL developers", "invalid argument", "invalid usage",
    "remote process exited or there was a network error", "NCCL operation in progress"};
const char *ncclGetErrorString(int status) { return status >= 0 && status < 8 ? WORDS[status] : "unknown result code"; }
const char *ncclGetLastError(Group *of) { return ""; }

// libnccl over shared memory: "device memory" is host memory, so every collective really happens, at the call (or at ncclGroupEnd), through
// a file in /dev/shm: each rank puts a chunk into its slot, all wait for each other, each reads what it needs, all wait again.
// As the other copies, data above PRETENDED_COPY_BYTES is left out (all ranks alike). PRETENDED_NCCL_MIB: taken on the card by each
// communicator.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>
#include <fcntl.h>
#include <limits.h>
#include <time.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
typedef int R;
typedef struct {
  char internal[128];
} Id;
typedef void *Stream;
extern int cudaMalloc(void **, size_t);
extern int cudaFree(void *);
extern int cudaGetDevice(int *);
#define RANKS 64
#define CHUNK ((size_t)1 << 20)
typedef struct {
  volatile int joined, waiting, round, aborted;
  volatile int full[RANKS][RANKS];
} Head; // full: a letter from a rank to a rank waits
typedef struct Comm {
  Head *h;
  char *slots, *mail;
  size_t size;
  int n, rank, device, splits;
  char name[128];
  void *taken;
  volatile int aborted;
} Comm;
static char *slot(Comm *c, int r) { return c->slots + (size_t)r * CHUNK; }
static int width(int t) {
  static const int w[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return w[t];
}
static size_t most(void) {
  static size_t m;
  if (!m) {
    const char *v = getenv("PRETENDED_COPY_BYTES");
    m = (size_t)(v ? atoll(v) : getenv("FAKECUDA_COMPUTE") && !getenv("FAKECUDA_MOST_BYTES") ? 1ll << 40 : 1024) << 10;
  }
  return m;
}
static int pause_(Comm *c, int i) {
  if (i < 200)
    sched_yield();
  else {
    struct timespec t = {0, 50000};
    nanosleep(&t, 0);
  }
  return c->aborted || c->h->aborted;
}
static int all(Comm *c) { // a barrier
  int r = c->h->round;
  if (c->h->aborted)
    return 1;
  if (__sync_add_and_fetch(&c->h->waiting, 1) == c->n) {
    c->h->waiting = 0;
    __sync_synchronize();
    c->h->round = r + 1;
    return 0;
  }
  for (int i = 0; c->h->round == r; i++)
    if (pause_(c, i))
      return 1;
  return 0;
}
// ---- sums
static struct {
  double by;
} scaled_[256];
static int nscaled_;
static float bf(uint16_t v) {
  union {
    uint32_t u;
    float f;
  } x = {(uint32_t)v << 16};
  return x.f;
}
static uint16_t fb(float f) {
  union {
    float f;
    uint32_t u;
  } x = {f};
  return f != f ? 0x7fc0 : (uint16_t)((x.u + 0x7fff + (x.u >> 16 & 1)) >> 16);
}
#define FOLD(T, A, GET, PUT)                                                                                                               \
  for (size_t i = 0; i < m; i++) {                                                                                                         \
    A s = GET(((T *)slot(c, 0))[i]) * (A)k;                                                                                                \
    for (int r = 1; r < c->n; r++) {                                                                                                       \
      A v = GET(((T *)slot(c, r))[i]);                                                                                                     \
      switch (op) {                                                                                                                        \
      case 1: s *= v; break;                                                                                                               \
      case 2: s = v > s ? v : s; break;                                                                                                    \
      case 3: s = v < s ? v : s; break;                                                                                                    \
      default: s += v * (A)k;                                                                                                              \
      }                                                                                                                                    \
    }                                                                                                                                      \
    if (op == 4)                                                                                                                           \
      s /= c->n;                                                                                                                           \
    ((T *)out)[i] = PUT(s);                                                                                                                \
  }
static void fold(Comm *c, void *out, size_t m, int t, int op) {
  double k = op > 4 ? scaled_[op & 255].by : 1;
  switch (t) {
  case 0: FOLD(int8_t, int64_t, , ) break;
  case 1: FOLD(uint8_t, uint64_t, , ) break;
  case 2: FOLD(int32_t, int64_t, , ) break;
  case 3: FOLD(uint32_t, uint64_t, , ) break;
  case 4: FOLD(int64_t, int64_t, , ) break;
  case 5: FOLD(uint64_t, uint64_t, , ) break;
  case 6: FOLD(_Float16, float, , ) break;
  case 7: FOLD(float, float, , ) break;
  case 8: FOLD(double, double, , ) break;
  case 9: FOLD(uint16_t, float, bf, fb) break;
  }
}
// ---- what can be asked for
enum { REDUCE, COPY, SEND, RECV };
typedef struct {
  Comm *c;
  int kind, t, op, peer;
  const char *in;
  char *out;
  size_t n;
  size_t in_step, out_step;
  int rounds;
  R r;
} Op;
// REDUCE: `rounds` times, in from in + i * in_step, the result to whoever wants it (peer -1: all, -2: rank i). COPY: everyone's in to
// everyone's out + rank * out_step; peer >= 0: only its.
static R run(Op *o) {
  Comm *c = o->c;
  size_t w = width(o->t), bytes = o->n * w;
  if (bytes > most())
    bytes = 0; // left out; the waiting is not
  if (o->kind == SEND || o->kind == RECV) {
    int s = o->kind == SEND ? c->rank : o->peer, d = o->kind == SEND ? o->peer : c->rank;
    volatile int *full = &c->h->full[s][d];
    char *box = c->mail + ((size_t)s * c->n + d) * CHUNK;
    for (size_t at = 0; at == 0 || at < bytes; at += CHUNK) {
      size_t m = bytes - at < CHUNK ? bytes - at : CHUNK;
      for (int i = 0; *full == (o->kind == SEND); i++)
        if (pause_(c, i))
          return 6;
      if (o->kind == SEND)
        memcpy(box, o->in + at, m);
      else
        memcpy(o->out + at, box, m);
      __sync_synchronize();
      *full = o->kind == SEND;
    }
    return 0;
  }
  for (int i = 0; i < o->rounds; i++)
    for (size_t at = 0; at == 0 || at < bytes; at += CHUNK) {
      size_t m = bytes - at < CHUNK ? bytes - at : CHUNK;
      int to = o->peer == -2 ? i : o->peer;
      if (o->kind == REDUCE || o->peer < 0 || o->peer == c->rank)
        memcpy(slot(c, c->rank), o->in + i * o->in_step + at, m);
      if (all(c))
        return 6;
      if (o->kind == REDUCE) {
        if (to < 0 || to == c->rank)
          fold(c, o->out + at, m / w, o->t, o->op);
      } else
        for (int r = 0; r < c->n; r++)
          if (o->peer == -2 ? i == c->rank : o->peer < 0 || o->peer == r)
            memmove(o->out + r * o->out_step + at, slot(c, r), m);
      if (all(c))
        return 6;
    }
  return 0;
}
static void *thread(void *o) {
  ((Op *)o)->r = run(o);
  return 0;
}
static __thread int depth_, queued_;
static __thread Op queue_[1024];
static R ask(Op o) {
  if (!o.c || o.c->aborted)
    return 5;
  if (!depth_)
    return run(&o);
  if (queued_ >= 1024)
    return 3;
  queue_[queued_++] = o;
  return 0;
}
R ncclGroupStart(void) {
  depth_++;
  return 0;
}
R ncclGroupEnd(void) {
  if (--depth_ > 0)
    return 0;
  int n = queued_, many = 0;
  queued_ = 0;
  R r = 0; // several communicators of one process, or letters both ways: each on a thread of its own
  for (int i = 0; i < n; i++)
    many |= queue_[i].kind >= SEND || queue_[i].c != queue_[0].c;
  if (!many) {
    for (int i = 0; i < n && !r; i++)
      r = run(&queue_[i]);
    return r;
  }
  int done[1024] = {0};
  for (int left = n; left > 0;) {
    pthread_t th[1024];
    int at[1024], k = 0; // one of each communicator (or pair) at a time, in their order
    for (int i = 0; i < n; i++) {
      int busy = done[i];
      for (int j = 0; j < k && !busy; j++) {
        Op *a = &queue_[at[j]], *b = &queue_[i];
        busy = a->c == b->c && (a->kind < SEND || b->kind < SEND || (a->kind == b->kind && a->peer == b->peer));
      }
      if (!busy)
        at[k++] = i;
    }
    for (int j = 0; j < k; j++)
      pthread_create(&th[j], 0, thread, &queue_[at[j]]);
    for (int j = 0; j < k; j++) {
      pthread_join(th[j], 0);
      done[at[j]] = 1;
      left--;
      if (queue_[at[j]].r)
        r = queue_[at[j]].r;
    }
  }
  return r;
}
R ncclGroupSimulateEnd(void *i) { return ncclGroupEnd(); }
R ncclAllReduce(const void *s, void *d, size_t n, int t, int op, Comm *c, Stream x) {
  return ask((Op){c, REDUCE, t, op, -1, s, d, n, 0, 0, 1});
}
R ncclReduce(const void *s, void *d, size_t n, int t, int op, int root, Comm *c, Stream x) {
  return ask((Op){c, REDUCE, t, op, root, s, d, n, 0, 0, 1});
}
R ncclReduceScatter(const void *s, void *d, size_t n, int t, int op, Comm *c, Stream x) {
  return ask((Op){c, REDUCE, t, op, -2, s, d, n, n * width(t), 0, c->n});
}
R ncclBroadcast(const void *s, void *d, size_t n, int t, int root, Comm *c, Stream x) {
  return ask((Op){c, COPY, t, 0, root, s, d, n, 0, 0, 1});
}
R ncclBcast(void *d, size_t n, int t, int root, Comm *c, Stream x) { return ncclBroadcast(d, d, n, t, root, c, x); }
R ncclAllGather(const void *s, void *d, size_t n, int t, Comm *c, Stream x) {
  return ask((Op){c, COPY, t, 0, -1, s, d, n, 0, n * width(t), 1});
}
R ncclAlltoAll(const void *s, void *d, size_t n, int t, Comm *c, Stream x) {
  return ask((Op){c, COPY, t, 0, -2, s, d, n, n * width(t), n * width(t), c->n});
}
R ncclSend(const void *s, size_t n, int t, int p, Comm *c, Stream x) { return ask((Op){c, SEND, t, 0, p, s, 0, n}); }
R ncclRecv(void *d, size_t n, int t, int p, Comm *c, Stream x) { return ask((Op){c, RECV, t, 0, p, 0, d, n}); }
R ncclRedOpCreatePreMulSum(int *op, void *by, int t, int where, Comm *c) {
  int i = 5 + nscaled_++ % 251;
  scaled_[i].by = t == 8 ? *(double *)by : t == 7 ? *(float *)by : t == 9 ? bf(*(uint16_t *)by) : t == 6 ? (double)*(_Float16 *)by : 1;
  *op = i;
  return 0;
}
R ncclRedOpDestroy(int op, Comm *c) { return 0; }
// ---- communicators
static R make(Comm **out, int n, const char *name, int rank) {
  if (n > RANKS || rank < 0 || rank >= n)
    return 4;
  Comm *c = calloc(1, sizeof *c);
  size_t head = (sizeof(Head) + 4095) & ~4095ul;
  c->size = head + (n + (size_t)n * n) * CHUNK;
  snprintf(c->name, 128, "%s", name);
  char path[200];
  snprintf(path, 200, "/dev/shm/pretended-nccl-%s", name);
  int fd = open(path, O_RDWR | O_CREAT, 0666);
  if (fd < 0 || ftruncate(fd, c->size))
    return 2;
  c->h = mmap(0, c->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (c->h == MAP_FAILED)
    return 2;
  c->slots = (char *)c->h + head;
  c->mail = c->slots + n * CHUNK;
  c->n = n;
  c->rank = rank;
  cudaGetDevice(&c->device);
  if (__sync_add_and_fetch(&c->h->joined, 1) == n)
    unlink(path); // all are in: nothing is left behind
  const char *v = getenv("PRETENDED_NCCL_MIB");
  if (v && cudaMalloc(&c->taken, (size_t)atoll(v) << 20))
    return 1;
  *out = c;
  return 0;
}
R ncclGetUniqueId(Id *id) {
  static int k;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  memset(id, 0, sizeof *id);
  snprintf(id->internal, 128, "%d-%d-%lld", getpid(), __sync_add_and_fetch(&k, 1), (long long)t.tv_sec * 1000000000 + t.tv_nsec);
  return 0;
}
R ncclCommGetUniqueId(Comm *c, Id *id) { return ncclGetUniqueId(id); }
R ncclCommInitRankConfig(Comm **c, int n, Id id, int rank, void *cfg) { return make(c, n, id.internal, rank); }
R ncclCommInitRank(Comm **c, int n, Id id, int rank) { return make(c, n, id.internal, rank); }
R ncclCommInitRankScalable(Comm **c, int n, int rank, int k, Id *id, void *cfg) { return make(c, n, id->internal, rank); }
R ncclCommInitAll(Comm **c, int n, const int *devices) {
  Id id;
  ncclGetUniqueId(&id);
  R r = 0;
  for (int i = 0; i < n && !r; i++)
    if (!(r = make(&c[i], n, id.internal, i)))
      c[i]->device = devices ? devices[i] : i;
  return r;
}
R ncclCommSplit(Comm *c, int color, int key, Comm **out, void *cfg) {
  int mine[2] = {color, key}, n = 0, rank = 0;
  memcpy(slot(c, c->rank), mine, 8);
  if (all(c))
    return 6;
  for (int r = 0; r < c->n; r++) {
    int *o = (int *)slot(c, r);
    if (o[0] == color) {
      n++;
      rank += o[1] < key || (o[1] == key && r < c->rank);
    }
  }
  if (all(c))
    return 6;
  c->splits++;
  *out = 0;
  if (color < 0)
    return 0;
  char name[128];
  snprintf(name, 128, "%.90s.%d.%d", c->name, c->splits, color);
  return make(out, n, name, rank);
}
R ncclCommFinalize(Comm *c) { return 0; }
R ncclCommDestroy(Comm *c) {
  if (c) {
    if (c->taken)
      cudaFree(c->taken);
    c->taken = 0;
    c->aborted = 1;
  }
  return 0;
}
R ncclCommAbort(Comm *c) { return ncclCommDestroy(c); } // this rank's only, as there: the others wait on
R ncclCommGetAsyncError(Comm *c, R *r) {
  *r = 0;
  return 0;
}
R ncclCommCount(Comm *c, int *n) {
  *n = c->n;
  return 0;
}
R ncclCommUserRank(Comm *c, int *n) {
  *n = c->rank;
  return 0;
}
R ncclCommCuDevice(Comm *c, int *n) {
  *n = c->device;
  return 0;
}
R ncclCommRegister(Comm *c, void *b, size_t n, void **h) {
  *h = b;
  return 0;
}
R ncclCommDeregister(Comm *c, void *h) { return 0; }
R ncclMemAlloc(void **p, size_t n) { return cudaMalloc(p, n); }
R ncclMemFree(void *p) { return cudaFree(p); }
R ncclGetVersion(int *v) {
  const char *e = getenv("PRETENDED_NCCL_VERSION");
  *v = e ? atoi(e) : 23007;
  return 0;
}
static const char *words_[] = {"no error",
                               "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                               "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                               "internal error - please report this issue to the NCCL developers",
                               "invalid argument",
                               "invalid usage",
                               "remote process exited or there was a network error",
                               "NCCL operation in progress"};
const char *ncclGetErrorString(R r) { return r >= 0 && r < 8 ? words_[r] : "unknown result code"; }
const char *ncclGetLastError(Comm *c) { return ""; }

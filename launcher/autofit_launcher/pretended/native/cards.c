// The file of the cards: reading it, making it, taking memory and giving it back.
#include "cards.h"

static Machine *machine_;
static Process *mine_;

int64_t listed(const char *variable, int i, int64_t otherwise) {
  const char *at = getenv(variable);
  if (!at || !*at)
    return otherwise;
  for (const char *comma; i > 0 && (comma = strchr(at, ',')); i--)
    at = comma + 1;
  return atoll(at);
}

int64_t mib(const char *variable, int i, int64_t otherwise) { return listed(variable, i, otherwise) << 20; }

static void make_cards(Machine *m) {
  int count = (int)listed("PRETENDED_CARDS", 0, 1);
  count = count > MOST_CARDS ? MOST_CARDS : count;
  const char *name = getenv("PRETENDED_NAME");
  for (int i = 0; i < count; i++) {
    Card *card = &m->cards[i];
    snprintf(card->uuid, sizeof card->uuid, "GPU-%08x-%04d-4000-8000-%012d", (unsigned)listed("PRETENDED_ID", 0, 1), i + 1, i + 1);
    snprintf(card->name, sizeof card->name, "%s", name ? name : "NVIDIA H100 80GB HBM3");
    card->reserved = mib("PRETENDED_RESERVED_MIB", i, 479);
    card->total = mib("PRETENDED_TOTAL_MIB", i, 81559);
  }
  m->count = count;
}

Machine *machine(void) {
  if (machine_)
    return machine_;
  const char *path = getenv("PRETENDED_FILE");
  int file = open(path ? path : "/dev/shm/pretended-cards", O_RDWR | O_CREAT, 0600);
  if (file < 0)
    abort();
  flock(file, LOCK_EX);
  struct stat is;
  fstat(file, &is);
  if (is.st_size != (off_t)sizeof(Machine) && (ftruncate(file, 0) || ftruncate(file, sizeof(Machine))))
    abort();
  Machine *m = mmap(0, sizeof(Machine), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (m == MAP_FAILED)
    abort();
  if (!m->count)
    make_cards(m);
  flock(file, LOCK_UN);
  close(file);
  return machine_ = m;
}

Card *card(int c) { return &machine()->cards[c]; }
int64_t usable(int c) { return card(c)->total - card(c)->reserved; }
static int alive(int pid) { return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM); }

int64_t used_by_all(int c) {
  Machine *m = machine();
  int64_t sum = 0;
  for (Process *p = m->processes; p < m->processes + MOST_PROCESSES; p++) {
    int pid = p->pid;
    if (!pid)
      continue;
    if (alive(pid))
      sum += p->used[c];
    else if (__sync_bool_compare_and_swap(&p->pid, pid, -1)) {
      memset((void *)p->used, 0, sizeof p->used);
      p->pid = 0;
    }
  }
  return sum;
}

int64_t free_now(int c) {
  int64_t left = usable(c) - used_by_all(c);
  return left < 0 ? 0 : left;
}

static Process *mine(void) {
  if (mine_)
    return mine_;
  Machine *m = machine();
  used_by_all(0);
  for (Process *p = m->processes; p < m->processes + MOST_PROCESSES; p++)
    if (__sync_bool_compare_and_swap(&p->pid, 0, getpid())) {
      memset((void *)p->used, 0, sizeof p->used);
      return mine_ = p;
    }
  abort();
}

// Adds first and looks after it, so that two processes can't both have the last bytes.
int take(int c, int64_t bytes) {
  __sync_fetch_and_add(&mine()->used[c], bytes);
  if (used_by_all(c) <= usable(c))
    return 1;
  __sync_fetch_and_sub(&mine()->used[c], bytes);
  return 0;
}

void give(int c, int64_t bytes) { __sync_fetch_and_sub(&mine()->used[c], bytes); }

void forget_process(void) { mine_ = 0; }

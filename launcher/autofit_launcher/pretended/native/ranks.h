// Ranks that exchange bytes: a file of shared memory with a slot for each rank, a mailbox for each pair, and a barrier.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define MOST_RANKS 64
#define CHUNK ((size_t)1 << 20)

typedef struct {
  volatile int joined, waiting, round;
  volatile int full[MOST_RANKS][MOST_RANKS]; // a letter from a rank to a rank waits to be read
} Meeting;

typedef struct {
  Meeting *meeting;
  char *slots, *letters;
  size_t bytes; // of the file
  int ranks, rank, device, splits;
  char name[128];
  volatile int ended;
} Group;

enum { REDUCED, GATHERED, SENT, RECEIVED };
enum { EVERYONE = -1, BY_TURNS = -2 };

// What one rank gives and gets. REDUCED: the sum (or another `how`) of what all have at `in`. GATHERED: what each has at `in` lies in order
// of ranks, `out_step` apart. `peer`: who gets it, or whose it is; EVERYONE; BY_TURNS: once for each rank, which gets it then, `in_step`
// further on each time. SENT and RECEIVED: to and from `peer`.
typedef struct {
  Group *group;
  int kind, type, how, peer;
  const char *in;
  char *out;
  size_t count, in_step, out_step;
  int status;
} Exchange;

#pragma GCC visibility push(hidden)
enum { DONE = 0, SYSTEM = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_GONE = 6 }; // NCCL's numbers
Group *join(const char *name, int ranks, int rank); // NULL where the file can't be made
int meet(Group *of);                                // all have come here; REMOTE_GONE where the group has ended
int exchange(Exchange *one);
size_t width(int type);
char *slot(Group *of, int rank);
int multiplied(double by); // a `how`: the sum of what all have, times that
#pragma GCC visibility pop

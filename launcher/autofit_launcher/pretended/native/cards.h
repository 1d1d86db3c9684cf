// The cards of a pretended machine: one file that all its processes map. A section a card, a slot a process, in it the bytes it uses of
// each. Whoever makes the file reads PRETENDED_CARDS, _ID, _TOTAL_MIB, _RESERVED_MIB and _NAME; later processes find in it what the first has
// read.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_CARDS 16
#define MOST_PROCESSES 512

typedef struct {
  volatile int32_t pid;
  volatile int64_t used[MOST_CARDS];
} Process;

typedef struct {
  int64_t total, reserved; // bytes; the driver keeps `reserved` for itself
  char uuid[64], name[96];
} Card;

typedef struct {
  int64_t count;
  Card cards[MOST_CARDS];
  Process processes[MOST_PROCESSES];
} Machine;

#pragma GCC visibility push(hidden) // no library of a program meets these names
Machine *machine(void);
Card *card(int c);
int64_t usable(int c); // bytes that programs can have
int64_t free_now(int c);
int64_t used_by_all(int c);     // what dead processes held is given back, as a driver does
int take(int c, int64_t bytes); // whether there was so much
void give(int c, int64_t bytes);
void forget_process(void); // in a forked child: it is another process
int64_t listed(const char *variable, int i,
               int64_t otherwise); // the i-th number of a list with commas; the last one stands for all that follow
int64_t mib(const char *variable, int i, int64_t otherwise);
#pragma GCC visibility pop

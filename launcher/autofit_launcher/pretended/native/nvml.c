// libnvidia-ml: the same cards as the runtime's, with who uses them. PRETENDED_HIDE_PIDS: as in a container of another pid namespace.
#include "cards.h"

typedef struct {
  unsigned long long total, free, used;
} Memory;
typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} Memory2;
typedef struct {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
} User;
typedef struct {
  unsigned pid;
  unsigned long long used;
} User1;
typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
} Pci;

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
#define FIRST_HANDLE 0x1000
static void *handle_of(unsigned c) { return (void *)(uintptr_t)(FIRST_HANDLE + c); }
static int card_of(void *handle) { return (int)((uintptr_t)handle - FIRST_HANDLE); }

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlInit(void) { return SUCCESS; }
int nvmlInitWithFlags(unsigned flags) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int error) {
  switch (error) {
  case SUCCESS: return "Success";
  case NOT_SUPPORTED: return "Not Supported";
  case NO_PERMISSION: return "Insufficient Permissions";
  case NOT_FOUND: return "Not Found";
  default: return "Unknown Error";
  }
}
static int text(char *out, unsigned most, const char *said) {
  snprintf(out, most, "%s", said);
  return SUCCESS;
}
static int number(unsigned *out, unsigned value) {
  *out = value;
  return SUCCESS;
}
int nvmlSystemGetDriverVersion(char *out, unsigned most) {
  const char *said = getenv("PRETENDED_DRIVER");
  return text(out, most, said ? said : "580.159.04");
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return number((unsigned *)version, 13020); }

int nvmlDeviceGetCount_v2(unsigned *count) { return number(count, (unsigned)machine()->count); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) {
  *out = handle_of(i);
  return i < machine()->count ? SUCCESS : INVALID_ARGUMENT;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
  for (int c = 0; c < machine()->count; c++)
    if (!strcmp(uuid, card(c)->uuid)) {
      *out = handle_of(c);
      return SUCCESS;
    }
  return NOT_FOUND;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *said, void **out) {
  unsigned domain, bus = 0;
  if (sscanf(said, "%x:%x", &domain, &bus) != 2 || !bus || bus > machine()->count)
    return NOT_FOUND;
  *out = handle_of(bus - 1);
  return getenv("PRETENDED_NVML_NO_HANDLE") ? NO_PERMISSION : SUCCESS;
}
int nvmlDeviceGetUUID(void *of, char *out, unsigned most) { return text(out, most, card(card_of(of))->uuid); }
int nvmlDeviceGetName(void *of, char *out, unsigned most) { return text(out, most, card(card_of(of))->name); }
int nvmlDeviceGetIndex(void *of, unsigned *out) { return number(out, card_of(of)); }
int nvmlDeviceGetMinorNumber(void *of, unsigned *out) { return number(out, card_of(of)); }
int nvmlDeviceGetPciInfo_v3(void *of, Pci *out) {
  memset(out, 0, sizeof *out);
  out->bus = 1 + card_of(of);
  snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
  snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
  return SUCCESS;
}
int nvmlDeviceGetMigMode(void *of, unsigned *now, unsigned *later) {
  *now = *later = 0;
  return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(void *of, unsigned *count) { return number(count, 0); }
int nvmlDeviceGetMigDeviceHandleByIndex(void *of, unsigned i, void **out) { return NOT_SUPPORTED; }
int nvmlDeviceGetPersistenceMode(void *of, unsigned *on) { return number(on, 1); }
int nvmlDeviceGetEccMode(void *of, unsigned *now, unsigned *later) {
  *now = *later = 0;
  return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(void *of, int *major, int *minor) {
  int capability = (int)listed("PRETENDED_SM", 0, 90);
  *major = capability / 10, *minor = capability % 10;
  return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(void *of, unsigned *rates) {
  rates[0] = 90, rates[1] = 50;
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *of, Memory *out) {
  int c = card_of(of);
  out->total = card(c)->total, out->free = free_now(c), out->used = out->total - out->free;
  return SUCCESS;
}
int nvmlDeviceGetMemoryInfo_v2(void *of, Memory2 *out) {
  int c = card_of(of);
  out->total = card(c)->total, out->reserved = card(c)->reserved, out->free = free_now(c);
  out->used = out->total - out->reserved - out->free;
  return SUCCESS;
}

static int users(int c, unsigned *count, User *out) {
  unsigned room = *count, found = 0;
  used_by_all(c); // dead ones go
  Process *all = machine()->processes;
  for (Process *p = all; p < all + MOST_PROCESSES && !getenv("PRETENDED_HIDE_PIDS"); p++) {
    if (p->pid <= 0 || !p->used[c])
      continue;
    if (found < room && out)
      out[found] = (User){p->pid, p->used[c], ~0u, ~0u};
    found++;
  }
  *count = found;
  return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *of, unsigned *count, User *out) { return users(card_of(of), count, out); }
int nvmlDeviceGetComputeRunningProcesses_v2(void *of, unsigned *count, User *out) { return users(card_of(of), count, out); }
int nvmlDeviceGetComputeRunningProcesses(void *of, unsigned *count, User1 *out) {
  User found[MOST_PROCESSES];
  unsigned room = *count;
  *count = MOST_PROCESSES;
  users(card_of(of), count, found);
  for (unsigned i = 0; i < *count && i < room && out; i++)
    out[i] = (User1){found[i].pid, found[i].used};
  return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *of, unsigned *count, User *out) { return number(count, 0); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(void *of, unsigned *count, User *out) { return number(count, 0); }
int nvmlDeviceGetGraphicsRunningProcesses(void *of, unsigned *count, User1 *out) { return number(count, 0); }
int nvmlDeviceGetGpuFabricInfoV(void *of, void *out) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void *of, unsigned link, void *out) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *of, unsigned link, void *out) { return NOT_SUPPORTED; }

// Read bandwidth of N threads, for scripts/bench: what decoding could reach if memory were the only limit.
// Streaming read bandwidth: each of T threads sums its own buffer of M MiB, R passes; the best pass counts.
// cc -O3 -march=native -pthread membw.c -o membw && ./membw 2 512 7
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static size_t bytes;
static int passes, threads;
static pthread_barrier_t bar;
static double *begin_s, *end_s;
static uint64_t sink[256];
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
typedef uint64_t v8 __attribute__((vector_size(64)));
static void *work(void *p) {
  long id = (long)p;
  v8 *b = aligned_alloc(1 << 21, bytes);
  memset(b, (int)id + 1, bytes);
  for (int r = 0; r < passes; r++) {
    pthread_barrier_wait(&bar);
    double t0 = now();
    v8 a0 = {0}, a1 = a0, a2 = a0, a3 = a0;
    size_t n = bytes / sizeof(v8);
    for (size_t i = 0; i < n; i += 4) { a0 += b[i]; a1 += b[i + 1]; a2 += b[i + 2]; a3 += b[i + 3]; }
    v8 s = a0 + a1 + a2 + a3;
    sink[id] += s[0] + s[7];
    double t1 = now();
    begin_s[r * threads + id] = t0; end_s[r * threads + id] = t1;
    pthread_barrier_wait(&bar);
  }
  free(b);
  return 0;
}
int main(int c, char **v) {
  threads = c > 1 ? atoi(v[1]) : 2;
  bytes = (size_t)(c > 2 ? atoi(v[2]) : 512) << 20;
  passes = c > 3 ? atoi(v[3]) : 7;
  if (threads < 1 || threads > 256 || passes < 1) return 2;
  begin_s = calloc((size_t)passes * threads, 8); end_s = calloc((size_t)passes * threads, 8);
  pthread_barrier_init(&bar, 0, threads);
  pthread_t t[256];
  for (long i = 0; i < threads; i++) pthread_create(&t[i], 0, work, (void *)i);
  for (int i = 0; i < threads; i++) pthread_join(t[i], 0);
  double best = 0, sum = 0;
  for (int r = 0; r < passes; r++) {
    double lo = 1e300, hi = 0;
    for (int i = 0; i < threads; i++) { if (begin_s[r*threads+i] < lo) lo = begin_s[r*threads+i]; if (end_s[r*threads+i] > hi) hi = end_s[r*threads+i]; }
    double g = (double)bytes * threads / (hi - lo) / 1e9;
    sum += g; if (g > best) best = g;
  }
  printf("read bandwidth: %d threads x %zu MiB, %d passes: best %.1f GB/s, mean %.1f GB/s\n", threads, bytes >> 20, passes, best, sum / passes);
  return (int)(sink[0] & 0);
}

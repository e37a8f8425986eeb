#pragma once
// Timing for the benchmarks: one core, several rounds, p50 and p99 (of few rounds: the worst) in MB/s (10^6
// bytes).

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace hitchrail::bench {

inline void pin_to_one_core() {
  cpu_set_t all;
  CPU_ZERO(&all);
  ::sched_getaffinity(0, sizeof(all), &all);
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
    if (CPU_ISSET(cpu, &all)) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ::sched_setaffinity(0, sizeof(one), &one);
      return;
    }
  }
}

// Wall time, and the CPU time of every process that took part: on an idle machine with one core the second is
// the first less what was waited for the disk; on a busy one only the second says anything about the program.
struct Spent {
  double wall = 0;
  double cpu = 0;
};
struct Rate {
  double p50 = 0;
  double worst = 0;
  double cpu = 0;
};

// `round` does the work once and says what it cost.
inline Rate rate(std::size_t bytes, int rounds, const std::function<Spent()>& round) {
  std::vector<double> rates;
  std::vector<double> cpus;
  for (int i = 0; i < rounds; ++i) {
    const Spent spent = round();
    rates.push_back(static_cast<double>(bytes) / 1e6 / spent.wall);
    cpus.push_back(static_cast<double>(bytes) / 1e6 / spent.cpu);
  }
  std::sort(rates.begin(), rates.end());
  std::sort(cpus.begin(), cpus.end());
  return {rates[rates.size() / 2], rates.front(), cpus[cpus.size() / 2]};
}

inline double cpu_now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}
// Of children that were waited for.
inline double children_cpu() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Of this process and the children that `body` waits for.
inline Spent spent_by(const std::function<void()>& body) {
  const double cpu = cpu_now(CLOCK_PROCESS_CPUTIME_ID) + children_cpu();
  const auto begin = std::chrono::steady_clock::now();
  body();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          cpu_now(CLOCK_PROCESS_CPUTIME_ID) + children_cpu() - cpu};
}

inline void print(const std::string& name, const Rate& ours, const std::string& peer_name = "",
                  const Rate& peer = {}) {
  std::printf("%-38s p50 %7.1f MB/s, worst %7.1f, a CPU second %7.1f MB", name.c_str(), ours.p50, ours.worst,
              ours.cpu);
  if (!peer_name.empty()) {
    std::printf("; %.2f x `%s` (CPU %.2f x)", ours.p50 / peer.p50, peer_name.c_str(), ours.cpu / peer.cpu);
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace hitchrail::bench

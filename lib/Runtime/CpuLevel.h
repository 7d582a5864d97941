//===- CpuLevel.h - What the processor can execute --------------*- C++ -*-===//

#ifndef FUSION_LIB_RUNTIME_CPULEVEL_H
#define FUSION_LIB_RUNTIME_CPULEVEL_H

namespace fusion {

/// The levels of the x86-64 psABI that artifacts hold code for.
enum class CpuLevel { BelowV3, V3, V4 };

inline CpuLevel cpuLevel() {
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
            __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
            __builtin_cpu_supports("movbe");
  bool v4 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return v3 && v4 ? CpuLevel::V4 : v3 ? CpuLevel::V3 : CpuLevel::BelowV3;
}

} // namespace fusion

#endif // FUSION_LIB_RUNTIME_CPULEVEL_H
